// Walks deterministic automata of terminals.
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
  // Whether a text of one automaton equals a text of the other, or is a prefix of one; true if this is undecided after
  // `most` pairs of states.
  bool share_a_text(const Texts& other, size_t most) const;

 private:
  Automaton automaton_;
  int32_t start_;
  std::vector<bool> is_live_;  // whether a text can be completed from the state
};

}  // namespace guided::lark
