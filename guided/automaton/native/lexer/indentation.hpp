// Indentation: which terminals form lines and blocks, how wide lines may be, and how deep blocks may nest
// (guided/ir/indentation.py).
//
// Outside brackets, a lexeme of `newline` that contains a line feed is a *line*. Its width is the width of the text
// after its last line feed. The labels of lexemes are the terminals, followed by the lines in order of width.
//
// In: the indentation of a grammar, and its rules. Out: which labels are lines and which terminals are brackets
// (`Indentation`), and the number of open blocks at each position (`BlockLevels`, with its cost).
#pragma once

#include <cstdint>
#include <vector>

#include "compile/grammar.hpp"

namespace guided {

enum NoLabel : int32_t { kNoTerminal = -1 };  // no lexeme ends here

struct Indentation {
  bool is_given = false;
  int32_t newline = kNoTerminal;                         // a terminal
  int32_t indent = kNoTerminal, dedent = kNoTerminal;    // symbols of the rules
  std::vector<uint8_t> opens, closes;                    // by terminal: it is an opening or closing bracket
  int32_t tab = 8, most_levels = 100, most_width = 400;  // most_levels: the most widths on the stack
  int32_t terminals = 0;                                 // the number of terminals

  bool is_line(int32_t label) const { return is_given && label >= terminals; }
  int32_t line(int32_t width) const { return terminals + width; }
  int32_t width(int32_t label) const { return label - terminals; }
};

// Checks whether rules open and close blocks and brackets in pairs, and counts the open blocks at each position.
//
// In: the rules, compiled over terminals. Out: `is_balanced`, and for each position the number of blocks that its rule
// has open there. Rules are balanced if
//
//     - in each rule, all paths to a position read equally many INDENTs minus DEDENTs, and equally many opening minus
//       closing brackets; these numbers are never negative, and are 0 at the end of the rule;
//     - no newline, INDENT or DEDENT is read between brackets.
//
// Then the rules alone ensure that blocks and brackets are closed, and that a DEDENT has a line to return to. The rules
// of programming languages are balanced. For other rules, a search finds the completions (lexed_rests.hpp).
//
// Cost: linear in the positions, plus passes over them until all rules that read newlines are found.
class BlockLevels {
 public:
  BlockLevels(const Grammar& rules, const Indentation& indentation);
  bool is_balanced() const { return is_balanced_; }
  int32_t level_at(int32_t position) const { return levels_.empty() ? 0 : levels_[position]; }

 private:
  void find_rules_with_lines();
  bool is_balanced_rule(int32_t rule);
  bool is_line_symbol(int32_t symbol) const;

  const Grammar& rules_;
  const Indentation& indentation_;
  bool is_balanced_ = true;
  std::vector<int32_t> levels_, brackets_;  // by position
  std::vector<uint8_t> has_lines_;          // by rule: it, or a rule that it calls, reads a newline, INDENT or DEDENT
};

}  // namespace guided
