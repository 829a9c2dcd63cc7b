// Token tables: which tokens a frame allows, found by one walk of the vocabulary's trie (table_walk.hpp).
//
// Problem: what a token does inside of a rule is the same wherever the rule is called, except for what comes after the
// end of the rule, which only the caller knows. A table for each pair of a position and a caller would be a table for
// each stack.
//
// How: a table is made for one thread (position, register) under an unknown caller. It has the tokens that stay inside
// of the frame, and for those that leave it their *remainder*: the bytes after the exit, as a small trie that the
// caller walks. Example, inside of a string of letters: `abc` stays; `b",` leaves with the remainder `,`; `"` leaves
// with none. The table depends on the caller only by the set of bytes that may follow: other remainders are not stored.
//
// Counters: in a rule whose guards examine nothing but the count, a table is built once with the bounds off, each token
// labelled with how far it counts; a look-up selects the labels that fit (label.hpp). Tokens that leave and have a
// remainder are labelled the same way. Those that could also stay matter near a bound alone, and their remainders are
// kept apart: after white space any word may be the next of a list of words, or what follows the list.
//
// Members: a walk that stays in the bytes of a name reads no register; its table does for all sets of members.
//
// Cost: to look up, O(1); of a relative table, O(labels * words of a row); near a bound once the trie of all that
// leave.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/token_set.hpp"
#include "run/label.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

// Tokens that lead to the same state; one of them stands for all.
struct TokenGroup {
  int32_t one;
  TokenSet tokens;
};
using TokenGroups = std::vector<TokenGroup>;

struct Remainder {  // payload of the remainder trie
  int32_t token;
  int32_t count;    // how far the frame had counted at the exit (relative tables; else 0)
  int32_t touched;  // of entries of an scope whose seen set is unknown (uniqueness.hpp) before the exit
  int32_t depth;    // bytes of the token before the exit
};

struct TokenTable {
  bool relative = false;
  bool overflow = false;                           // too many remainders: walk the vocabulary instead
  TokenSet all;                                    // plain: the tokens; relative: those that stay, with no bound near
  std::vector<std::pair<Label, TokenSet>> labels;  // relative tables
  int32_t furthest = 0;                            // largest count in any label or remainder
  bool within_bytes = false;                       // the walk met no call, effect or end: no register was looked at
  bool touches_entries =
      false;  // some token begins or ends an entry of an scope whose seen set is unknown (uniqueness.hpp) in the frame
  std::vector<int32_t> unsure;  // tokens that touch two
  TokenTrie remainders;
  std::vector<Remainder> entries;
  std::vector<int32_t> both;               // plain tables: tokens that stay, but could also leave
  std::vector<Remainder> staying_entries;  // of relative ones; in no trie, but in that of with_all_remainders()
  // The tokens that stay, by the state that they lead to (see budgets.hpp). Grammars share tables: set once, under the
  // lock.
  std::shared_ptr<const TokenGroups> groups;
  std::mutex groups_lock;
  size_t bytes() const;
  // Whether a table that is nearly the same can be made of it.
  bool is_plain() const {
    return !relative && !overflow && !touches_entries && unsure.empty() && both.empty() && !all.dense.empty();
  }
  // A table with the remainders of all tokens that leave, and nothing else; this one where that is no other.
  const TokenTable& with_all_remainders(const std::vector<std::string>& tokens) const;
  void build_remainders(const std::vector<std::string>& tokens);  // of `entries`
  // Of a relative table, the tokens allowed with `room` counts left before the upper bound and `missing` to the lower.
  TokenSet allowed(int64_t room, int64_t missing, int32_t words) const;

 private:
  mutable std::mutex all_lock_;
  mutable std::unique_ptr<TokenTable> all_;  // set once, under the lock
};

// The table of a position of the same rule, with the same register, memory and bytes that follow. Where characters lead
// to the same place from both, the tokens below are the same, and only the others are walked.
struct OtherTable {
  int32_t pos;
  const TokenTable* table;
};

}  // namespace guided
