// Token tables: which tokens a frame allows, found by one walk of the vocabulary's trie (table_walk.hpp).
//
// Problem: inside a rule, a token has the same effect wherever the rule is called. Only the caller knows what comes
// after the end of the rule. One table for each pair of a position and a caller would mean one table for each stack.
//
// How: a table is built for one thread (position, register) with an unknown caller. It contains the tokens that stay
// inside the frame. For tokens that leave the frame, it contains their *remainders*: the bytes after the exit, as a
// small trie that the caller walks. Example, inside a string of letters: `abc` stays; `b",` leaves with the remainder
// `,`; `"` leaves with an empty remainder. The table depends on the caller only through the set of bytes that may
// follow; remainders that begin with other bytes are not stored.
//
// Counters: for a rule whose guards only examine the count, a table is built once without bounds (a *relative* table),
// and each token is labelled with how far it counts. A look-up selects the labels that fit (label.hpp). Tokens that
// leave with a remainder are labelled in the same way. If a token can stay as well as leave, its remainder matters only
// near a bound, when staying would count beyond it. Such remainders are stored separately, sorted by how far the tokens
// count. Example: after whitespace, any word may be the next word of a list, or may follow the list.
//
// Members: a walk that only reads the bytes of a name reads no register, so its table is valid for all sets of members.
//
// Cost: a look-up is O(1), or O(labels * words of a row) in a relative table. Near a bound, a trie of the tokens that
// count beyond it is built, once for each set of such tokens.
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

// Tokens that lead to the same state; `representative` is one of them.
struct TokenGroup {
  int32_t representative;
  TokenSet tokens;
};
using TokenGroups = std::vector<TokenGroup>;

struct Remainder {  // payload of the remainder trie
  int32_t token;
  int32_t count;            // how far the frame has counted at the exit (relative tables; otherwise 0)
  int32_t touched_entries;  // before the exit, see Uniqueness::touched_entries
  int32_t depth;            // bytes of the token before the exit
  auto operator<=>(const Remainder&) const = default;
};

struct TokenTable {
  bool is_relative = false;
  bool overflow = false;                           // too many remainders: walk the vocabulary instead
  TokenSet staying;                                // plain tables: the tokens that stay
  std::vector<std::pair<Label, TokenSet>> labels;  // relative tables
  int32_t max_count = 0;                           // the largest count in any label or remainder
  bool reads_only_bytes = false;                   // the walk found no call, effect or end, so it read no register
  bool touches_entries = false;  // some token begins or ends an entry of a scope with an unknown seen set
  std::vector<int32_t> unsure;   // tokens that begin or end several entries of these scopes
  TokenTrie remainders;
  std::vector<Remainder> entries;
  std::vector<int32_t> staying_or_leaving;  // plain tables: tokens that stay but could also leave
  // Relative tables: the remainders of tokens that can both stay and leave. The tokens that count furthest come first.
  // `stay_counts` contains (count, number of entries that count at least this far), in descending order of the count.
  std::vector<Remainder> staying_entries;
  std::vector<std::pair<int32_t, size_t>> stay_counts;
  // The tokens that stay, grouped by the state to which they lead (budgets.hpp). Grammars share tables, so this is set
  // once, under the lock.
  std::shared_ptr<const TokenGroups> groups;
  std::mutex groups_mutex;
  size_t bytes() const;
  // Whether a table that is nearly equal can be derived from this one.
  bool is_plain() const {
    return !is_relative && !overflow && !touches_entries && unsure.empty() && staying_or_leaving.empty() &&
           !staying.dense.empty();
  }
  // For a relative table: the number of remainders of tokens that could stay only if the frame could count more than
  // `counts_left` further.
  size_t count_staying_beyond(int64_t counts_left) const;
  // A table that contains only the first `count` of `staying_entries`.
  const TokenTable& remainders_of_staying(size_t count, const std::vector<std::string>& tokens) const;
  void build_remainders(const std::vector<std::string>& tokens);  // builds `remainders` from `entries`
  // For a relative table: the allowed tokens if the upper bound is `counts_left` away and the lower bound
  // `counts_missing`.
  TokenSet allowed_tokens(int64_t counts_left, int64_t counts_missing, int32_t words) const;

 private:
  mutable std::mutex staying_mutex_;
  // By number of entries; guarded by staying_mutex_.
  mutable std::map<size_t, std::unique_ptr<TokenTable>> staying_tables_;
};

// The table of another position of the same rule, with the same register, memory and following bytes. Where characters
// lead to the same point from both positions, the tokens below are the same, so only the other tokens are walked.
struct SiblingTable {
  int32_t pos;
  const TokenTable* table;
};

}  // namespace guided
