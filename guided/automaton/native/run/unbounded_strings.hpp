// Finds *unbounded strings*: strings that can always end with an unseen value.
//
// Problem: deciding whether an entry can still end with an unseen value takes a search (new_entry.hpp), and member
// names need the answer for each token. But most names are like `[a-z]*`: longer and longer values are always possible,
// and no finite seen set contains them all.
//
// How: consider the positions that are reachable along bytes other than the closing quotation mark. Each of them must
// lie on a cycle or lead to one. None may be an end of the frame, or have a call, an action or a control token. Each
// round of a cycle makes the text longer, and no character takes more than twelve bytes, so the values grow
// with the text.
//
// In: a grammar. Out: for a position inside a string, whether the string is unbounded from there on.
// Cost: linear in a rule's automaton, once for each rule that is examined.
#pragma once

#include <vector>

#include "compile/grammar.hpp"

namespace guided {

class UnboundedStrings {
 public:
  explicit UnboundedStrings(const Grammar& grammar) : grammar_(grammar) {}
  // `position` must be inside a string.
  bool is_unbounded(int32_t position) {
    if (answers_.empty()) answers_.assign(grammar_.positions.size(), kNotComputed);
    if (answers_[position] == kNotComputed) examine(grammar_.rule_at(position));
    return answers_[position] == kYes;
  }
  // Whether an entry that begins at the position is an unbounded string.
  bool begins_unbounded_string(int32_t position);
  // Whether all entries of the grammar (uniqueness.hpp) are unbounded strings.
  bool has_only_unbounded_entries();

 private:
  enum Answer : int8_t { kNotComputed, kNo, kYes };
  void examine(const Rule& rule);

  const Grammar& grammar_;
  std::vector<Answer> answers_;
  Answer entries_answer_ = kNotComputed;
};

}  // namespace guided
