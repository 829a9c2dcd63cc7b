// How many strings an entry (uniqueness.hpp) can be where these are few, and how many of them were there.
//
// In: a grammar; a position from which the rest of a string is read, or where an entry that is a string begins. Out:
// the number of strings, exactly, and how many of those in a set (persistent_trie.hpp) are among them; nothing where
// the entry may be something else, where the strings are without end, or where it is hard to tell.
//
// How: strings are counted as the ways to spell them plainly, up to the quotation mark. That is exact where each escape
// leads to where the character that it stands for leads to; a character that cannot be spelled plainly is hard to tell.
// A set is walked side by side with the automaton.
// Cost: once for a position, its edges; of a set, the strings that both have.
#pragma once

#include <optional>
#include <unordered_map>

#include "base/pair_map.hpp"
#include "base/persistent_trie.hpp"
#include "compile/grammar.hpp"
#include "values/syntax.hpp"

namespace guided {

class FewStrings {
 public:
  explicit FewStrings(const Grammar& grammar) : grammar_(grammar) {}
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
