// How many strings an entry (uniqueness.hpp) can be where these are few, and how many of them a scope has seen.
//
// Problem: with `{"enum": ["no", "yes"]}` and both seen, no further item may begin. Each of the strings has many
// spellings, so the paths of the automaton cannot be counted as values.
//
// How: only plain spellings are counted, as paths up to the quotation mark. That is exact where each escape leads to
// the same position as the character that it spells; elsewhere the answer is "not known". The seen strings among them
// are counted by a walk of the automaton and the trie of seen strings side by side.
//
// In: a grammar; a position from which the rest of a string is read, or where an entry that is a string begins. Out:
// the exact number of strings, and how many of a set (persistent_trie.hpp) are among them; nothing where the entry may
// be something else than a string, where the strings are unbounded, or where some character has no plain spelling.
// Cost: the edges of the rest of the string, once for each position; for a set, the strings that both have in common.
#pragma once

#include <optional>
#include <unordered_map>

#include "base/pair_map.hpp"
#include "base/persistent_trie.hpp"
#include "compile/grammar.hpp"
#include "values/syntax.hpp"

namespace guided {

class FiniteStringSets {
 public:
  explicit FiniteStringSets(const Grammar& grammar) : grammar_(grammar) {}
  // From inside of a string between two of its characters; `node`: of the set, where what was read leads to. Whether
  // one of the strings is not in the set.
  std::optional<bool> any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node);
  // The same where an escape may be under way.
  std::optional<bool> any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node,
                                     const StringProgress& read);
  // Whether an entry that begins at a position is one of few strings.
  bool begins_few(int32_t begin);
  // The same before the quotation mark; `node`: of the empty string.
  std::optional<bool> any_new(int32_t begin, const PersistentTrie& trie, int32_t node);

 private:
  static constexpr int64_t kNotKnown = -1;
  int64_t count(int32_t position, int depth);
  int64_t count_here(int32_t position, int depth);
  int64_t among(int32_t position, const PersistentTrie& trie, int32_t node) const;
  bool escapes_alike(int32_t position) const;
  bool stands_for(uint8_t escape, int32_t position, int32_t to) const;
  bool spelled_alike(int32_t escaped, int32_t position, int digits, uint32_t unit) const;
  bool leads_to(int32_t position, uint32_t code_point, int32_t to) const;
  int32_t callee(int32_t position) const;

  const Grammar& grammar_;
  std::unordered_map<int32_t, int64_t> known_;
  PairMap any_new_;  // by position and node
};

}  // namespace guided
