// Counts the strings that an entry (uniqueness.hpp) can become, if few, and how many of them a scope has seen.
//
// Problem: with `{"enum": ["no", "yes"]}` and both seen, no further item may begin. Each of the strings has many
// spellings, so the paths of the automaton cannot be counted as values.
//
// How: only plain spellings are counted, as paths up to the quotation mark. That is exact if each escape leads to the
// same position as the character that it spells; otherwise the answer is "not known". The seen strings among them are
// counted by walking the automaton and the trie of seen strings side by side.
//
// In: a grammar; a position from which the rest of a string is read, or where an entry that is a string begins; a set
// (persistent_trie.hpp). Out: whether one of the strings is not in the set; nullopt if the entry may be something other
// than a string, if there are too many strings, or if some character has no plain spelling.
// Cost: the edges of the rest of the string, once per position; for a set, the strings that both have in common.
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
  // Whether a string that continues at a position, between two of its characters, can end outside of the set. `node`:
  // the node of the set's trie to which the string so far leads.
  std::optional<bool> any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node);
  // The same, possibly inside of an escape.
  std::optional<bool> any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node,
                                     const StringProgress& read);
  // Whether an entry that begins at a position is one of few strings.
  bool begins_few(int32_t begin);
  // The same before the quotation mark; `node`: the node of the empty string.
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
