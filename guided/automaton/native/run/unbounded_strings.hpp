// Strings that can always end in a new way.
//
// In: a grammar. Out, for positions inside of a string of JSON: whether, wherever the string goes from here, there is
// no end to the values that it may still take. Then whatever finite set of values was there before, some end is new,
// and nobody has to look for it (new_entry.hpp).
//
// How: along bytes other than the closing quotation mark, every position that is reached lies on a cycle or leads to
// one, and none ends the frame. Each round of a cycle makes the text longer, and no character takes more than twelve
// bytes.
// Cost: linear in a rule's automaton, once for each rule that is asked about.
#pragma once

#include <vector>

#include "compile/grammar.hpp"

namespace guided {

class UnboundedStrings {
 public:
  explicit UnboundedStrings(const Grammar& grammar) : grammar_(grammar) {}
  // `position`: inside of a string.
  bool goes_on(int32_t position) {
    if (known_.empty()) known_.assign(grammar_.positions.size(), kUnknownYet);
    if (known_[position] == kUnknownYet) find(grammar_.rules[grammar_.positions[position].rule]);
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
