// Counts the strings that an entry (uniqueness.hpp) can become, if they are few, and how many of them a scope has seen.
//
// Problem: once both values of `{"enum": ["no", "yes"]}` have been seen, no further item may begin. Each of the strings
// has many spellings, so counting the paths of the automaton does not count values.
//
// How: only plain spellings are counted, as paths up to the quotation mark. That is exact if each escape leads to the
// same position as the character that it spells; otherwise the answer is unknown. The seen strings among them are
// counted by walking the automaton and the trie of seen strings side by side.
//
// In: a grammar; a position from which the rest of a string is read, or where an entry that is a string begins; a set
// (persistent_trie.hpp). Out: whether some of the strings are not in the set. nullopt if the entry may be something
// other than a string, if there are too many strings, or if some character has no plain spelling.
// Cost: the edges of the rest of the string, once per position; for a set, what the automaton and the set have in
// common.
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
  // Whether a string that continues at a position, between two characters, can become a string outside of the set.
  // `node`: the node of the set's trie to which the string so far leads.
  std::optional<bool> any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node);
  // Like the function above, but the position may be inside an escape. `progress`: the escape.
  std::optional<bool> any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node,
                                     const StringProgress& progress);
  // Whether every entry that begins at a position is one of a few strings.
  bool begins_one_of_few(int32_t begin);
  // As any_new_inside(), for a position before the opening quotation mark. `node`: the node of the empty string.
  std::optional<bool> any_new(int32_t begin, const PersistentTrie& trie, int32_t node);

 private:
  static constexpr int64_t kUnknownCount = -1;
  int64_t count(int32_t position, int depth);
  int64_t count_here(int32_t position, int depth);
  int64_t count_in_set(int32_t position, const PersistentTrie& trie, int32_t node) const;
  bool all_escapes_lead_alike(int32_t position) const;
  bool short_escape_leads_alike(uint8_t escape, int32_t position, int32_t to) const;
  bool unit_escapes_lead_alike(int32_t escaped, int32_t position, int digits, uint32_t unit) const;
  bool character_leads_to(int32_t position, uint32_t code_point, int32_t to) const;
  int32_t skip_calls(int32_t position) const;

  const Grammar& grammar_;
  std::unordered_map<int32_t, int64_t> counts_;
  PairMap any_new_;  // by position and node
};

}  // namespace guided
