// Strings that can always end with an unseen value.
//
// Problem: whether an entry can still end with an unseen value takes a search (new_entry.hpp), and member names need
// the answer at each token. But most of these strings are like `[a-z]*`: longer and longer values are always possible,
// and no finite seen set contains them all.
//
// How: a position has this property if every position that is reached from it, along bytes other than the closing
// quotation mark, lies on a cycle or leads to one, and none of them ends the frame. Each round of a cycle makes the
// text longer, and no character takes more than twelve bytes, so the values grow with the text.
//
// In: a grammar. Out: whether a position inside of a string has the property.
// Cost: linear in a rule's automaton, once for each rule that is examined.
#pragma once

#include <vector>

#include "compile/grammar.hpp"

namespace guided {

class UnboundedStrings {
 public:
  explicit UnboundedStrings(const Grammar& grammar) : grammar_(grammar) {}
  // `position` must be inside of a string.
  bool goes_on(int32_t position) {
    if (known_.empty()) known_.assign(grammar_.positions.size(), kUnknownYet);
    if (known_[position] == kUnknownYet) find(grammar_.rule_at(position));
    return known_[position] == kYes;
  }
  // Whether an entry that begins at the position is such a string.
  bool begins_string(int32_t position);
  // Whether all entries of the grammar (uniqueness.hpp) are such strings.
  bool all_entries();

 private:
  enum Answer : int8_t { kUnknownYet, kNo, kYes };
  void find(const Rule& rule);

  const Grammar& grammar_;
  std::vector<Answer> known_;
  Answer entries_ = kUnknownYet;
};

}  // namespace guided
