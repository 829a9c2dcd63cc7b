// Token tables: which tokens a frame allows, found by one walk of the vocabulary's trie (table_walk.hpp).
//
// Problem: inside a rule, a token does the same wherever the rule is called, except for what comes after the end of the
// rule, which only the caller knows. A table for each pair of a position and a caller would be a table for each stack.
//
// How: a table is built for one thread (position, register) with an unknown caller. It has the tokens that stay inside
// of the frame and, for those that leave it, their *remainder*: the bytes after the exit, as a small trie that the
// caller walks. Example, inside of a string of letters: `abc` stays; `b",` leaves with the remainder `,`; `"` leaves
// with none. The table depends on the caller only through the set of bytes that may follow: other remainders are not
// stored.
//
// Counters: in a rule whose guards examine nothing but the count, a table is built once without bounds, and each token
// is labelled with how far it counts. A look-up selects the labels that fit (label.hpp). Tokens that leave and have a
// remainder are labelled in the same way. Tokens that can also stay matter only near a bound, if they count beyond it.
// Their remainders are stored separately, sorted by how far they count: after white space, any word may be the next
// word of a list, or may follow the list.
//
// Members: a walk that stays in the bytes of a name reads no register, so its table is valid for all sets of members.
//
// Cost: a look-up is O(1); in a relative table, O(labels * words of a row); near a bound, the trie of the tokens that
// count beyond it, once for each set of them.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/token_set.hpp"
#include "run/label.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

// Tokens that lead to the same state; `one` represents all of them.
struct TokenGroup {
  int32_t one;
  TokenSet tokens;
};
using TokenGroups = std::vector<TokenGroup>;

struct Remainder {  // payload of the remainder trie
  int32_t token;
  int32_t count;    // how far the frame had counted at the exit (relative tables; otherwise 0)
  int32_t touched;  // before the exit, see Uniqueness::touched
  int32_t depth;    // bytes of the token before the exit
  auto operator<=>(const Remainder&) const = default;
};

struct TokenTable {
  bool relative = false;
  bool overflow = false;                           // too many remainders: walk the vocabulary instead
  TokenSet all;                                    // plain tables: the tokens that stay
  std::vector<std::pair<Label, TokenSet>> labels;  // relative tables
  int32_t furthest = 0;                            // the largest count in any label or remainder
  bool within_bytes = false;                       // the walk met no call, effect or end, so it read no register
  bool touches_entries = false;  // some token begins or ends an entry of a scope with an unknown seen set
  std::vector<int32_t> unsure;   // tokens that touch several such entries
  TokenTrie remainders;
  std::vector<Remainder> entries;
  std::vector<int32_t> both;  // plain tables: tokens that stay, but could also leave
  // Relative tables: likewise. Those that count furthest come first; `stays` has the counts, descending, and for each
  // the number of entries up to it.
  std::vector<Remainder> staying_entries;
  std::vector<std::pair<int32_t, size_t>> stays;
  // The tokens that stay, by the state to which they lead (see budgets.hpp). Grammars share tables, so this is set
  // once, under the lock.
  std::shared_ptr<const TokenGroups> groups;
  std::mutex groups_lock;
  size_t bytes() const;
  // Whether a nearly equal table can be derived from this one.
  bool is_plain() const {
    return !relative && !overflow && !touches_entries && unsure.empty() && both.empty() && !all.dense.empty();
  }
  // For a relative table: how many remainders there are of tokens that could stay only in a frame that may count more
  // than `room` further.
  size_t staying_beyond(int64_t room) const;
  // A table with the first so many of them, and nothing else.
  const TokenTable& remainders_of_staying(size_t count, const std::vector<std::string>& tokens) const;
  void build_remainders(const std::vector<std::string>& tokens);  // of `entries`
  // For a relative table: the allowed tokens if the upper bound is `room` counts away and the lower one `missing`.
  TokenSet allowed(int64_t room, int64_t missing, int32_t words) const;

 private:
  mutable std::mutex staying_lock_;
  mutable std::map<size_t, std::unique_ptr<TokenTable>> staying_;  // by number of entries; under the lock
};

// The table of a position of the same rule, with the same register, memory and following bytes. If characters lead to
// the same point from both positions, the tokens below are the same, so only the others are walked.
struct OtherTable {
  int32_t pos;
  const TokenTable* table;
};

}  // namespace guided
