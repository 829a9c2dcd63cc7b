// Compares the texts of terminals. In: deterministic automata. Out: the longest match in a text, and whether two
// terminals match prefixes of the same text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "leftmost.hpp"

namespace guided::lark {

class Texts {
 public:
  Texts(Automaton automaton, int32_t start);

  // The length of the longest prefix of a text that the automaton accepts; 0 if there is none.
  size_t longest_match(std::u32string_view text) const;
  // Whether some text begins with a text of this automaton and with a text of the other one. True if this is undecided
  // after `max_pairs` pairs of states.
  bool share_a_text(const Texts& other, size_t max_pairs) const;

 private:
  Automaton automaton_;
  int32_t start_;
  std::vector<bool> is_live_;  // whether a text can be completed from the state
};

}  // namespace guided::lark
