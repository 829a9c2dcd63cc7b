// Indentation: which terminals make lines and blocks, and how wide and deep these may be (guided/ir/lexer.py).
//
// A lexeme of `newline` outside of brackets that has a line feed counts as a *line* of the width of what follows its last
// line feed. Labels of lexemes are terminals, and past them lines, by their width.
#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace guided
