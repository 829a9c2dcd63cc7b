// Indentation: which terminals make lines and blocks, and how wide and deep these may be (guided/ir/indentation.py).
//
// A lexeme of `newline` outside of brackets that has a line feed counts as a *line* of the width of what follows its last
// line feed. Labels of lexemes are terminals, and past them lines, by their width.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/grammar.hpp"

namespace guided {

enum NoLabel : int32_t { kNoTerminal = -1 };  // no lexeme ends here

struct Indentation {
  bool given = false;
  int32_t newline = kNoTerminal;                         // a terminal
  int32_t indent = kNoTerminal, dedent = kNoTerminal;    // symbols of the rules
  std::vector<uint8_t> opens, closes;                    // by terminal: brackets
  int32_t tab = 8, most_levels = 100, most_width = 400;  // a level for each width of the stack, the first one counted
  int32_t terminals = 0;                                 // how many there are

  bool is_line(int32_t label) const { return given && label >= terminals; }
  int32_t line(int32_t width) const { return terminals + width; }
  int32_t width(int32_t label) const { return label - terminals; }
};

// Whether rules open and close blocks and brackets in pairs, and how many blocks are open at each position.
//
// In: the rules, compiled over terminals. Out: `balanced`, and for each position of a rule the blocks that were opened in
// it, if
//
//     - in each rule, whatever is read before a position, as many indentations more than dedentations were read, and as
//       many opening brackets more than closing ones: none in the end, and never fewer than none;
//     - no newline, indentation or dedentation is read between brackets.
//
// Then the rules alone make sure that blocks and brackets close, and that a dedentation has a line to go back to.
// Rules of programming languages are so. Of others, completions are searched for (lexed_rests.hpp).
//
// Cost: linear in the positions; a round over the rules for each step of calls to a newline.
class BlockLevels {
 public:
  BlockLevels(const Grammar& rules, const Indentation& indentation);
  bool balanced() const { return balanced_; }
  int32_t of(int32_t position) const { return levels_.empty() ? 0 : levels_[position]; }

 private:
  void find_rules_with_lines();
  bool look_at(int32_t rule);
  bool makes_lines(int32_t symbol) const;

  const Grammar& rules_;
  const Indentation& indentation_;
  bool balanced_ = true;
  std::vector<int32_t> levels_, brackets_;  // by position
  std::vector<uint8_t> has_lines_;          // by rule: it reads newlines, or calls one that does
};

}  // namespace guided
