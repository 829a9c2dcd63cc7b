// The parser of a grammar with a lexer (`TerminalParser`), and the states between two lexemes (`LexerPositions`).
//
// The rules are compiled as a grammar whose control tokens are the terminals. The core handles their states, stacks and
// left recursion (run/arena.hpp).
//
// In: a state and the terminal of a lexeme. Out: the next state, the terminals that it accepts, and the state of the
// lexer at the start of the next lexeme (`LexerContexts`). Cost: one look-up for a known step; other steps cost a
// closure of the rules (run/closure.cpp).
#pragma once

#include <map>

#include "base/pair_map.hpp"
#include "lexer/lexemes.hpp"

namespace guided {

// The terminals that the lexer tries in addition to those that the parser accepts, by the set of marks that the parser
// accepts. Marks are control tokens of the rules that no text contains. Their numbers follow the terminals' numbers.
// If Lark's table has resolved a conflict, an exact parser may be in several states of the table at once. It then
// accepts the marks of all these states. Of the sets in `by_marks` whose marks it all accepts, the largest ones decide
// which terminals are tried.
struct LexerContexts {
  std::unordered_map<std::vector<int32_t>, std::vector<int32_t>, IntsHash> by_marks;
  bool try_all = false;  // all terminals are tried everywhere
  // A row of Lark's table: after a terminal in `preceding`, the lexer tries the terminals in `tried` and the ignored
  // ones. If a terminal precedes several rows, the lexer is in one of them. No rows: unknown.
  struct Row {
    std::vector<int32_t> tried, preceding;
  };
  std::vector<Row> rows;
  std::vector<int32_t> find_tried(const std::vector<int32_t>& marks) const;  // sorted
};

class TerminalParser {
 public:
  // `control_tokens`: by terminal, its control token in the text, or kNoTerminal.
  TerminalParser(std::shared_ptr<const Grammar> rules, const TokenVocabulary& terminals, CallLimits limits,
                 const std::vector<int32_t>& control_tokens, const LexerContexts& contexts, Lexemes& lexemes);
  int32_t initial() const { return work_.arena.initial(); }
  bool accepting(int32_t state) const { return work_.arena.config(state).accepting; }
  const std::vector<int32_t>& accepted_terminals(int32_t state) { return data_of(state).accepted_terminals; }
  int32_t start(int32_t state, bool in_brackets = false);  // the lexer state of a lexeme that begins there
  int32_t advance(int32_t state, int32_t symbol);          // or kDead
  int32_t top(int32_t state);                              // the top of its stack; see run/top_of_stack.cpp
  bool leaves_top(int32_t state) const { return work_.arena.leaves_top(state); }
  void open_rules(int32_t state, std::vector<std::string>& out) const { work_.open_rules(state, out); }
  Arena& arena() { return work_.arena; }

 private:
  struct State {
    std::vector<int32_t> accepted_terminals, marks;
    int32_t start[2] = {kUnknown, kUnknown};  // outside and inside brackets
    int32_t top = kUnknown;
    std::vector<int32_t> next;  // by symbol, or kUnknown
  };
  State& data_of(int32_t state);
  const std::vector<int32_t>& tried_with_marks(const std::vector<int32_t>& marks);

  Workspace work_;
  const std::vector<int32_t>& control_tokens_;
  const LexerContexts& contexts_;
  std::vector<int32_t> all_terminals_;  // without control tokens; empty unless all are tried everywhere
  std::map<std::vector<int32_t>, std::vector<int32_t>> tried_by_marks_;
  Lexemes& lexemes_;
  std::vector<std::unique_ptr<State>> states_;
};

// Lexer positions: the states between two lexemes.
//
// A lexer position is a state of the parser. With indentation, it also has the widths of the enclosing lines, innermost
// first, and the number of open brackets. The widths are interned linked lists, so positions in the same blocks share
// them:
//
//     if a:                  lines:  8 -> 4 -> 0
//         if b:
//             f(x            brackets: 1
//
// In: a lexer position and the label of a lexeme (lexemes.hpp). Out: the position after the lexeme. After a line that
// is wider than the innermost line, the parser reads an INDENT; after a narrower line, a DEDENT for each line that it
// leaves (guided/ir/indentation.py). A position is dead if only an INDENT could follow and the line is not wider.
//
// Cost: without indentation, positions are the parser's states, and nothing is stored.
class LexerPositions {
 public:
  LexerPositions(TerminalParser& parser, Lexemes& lexemes);
  int32_t initial() const { return initial_; }
  int32_t parser(int32_t position) const { return indentation_.is_given ? positions_[position].parser : position; }
  int32_t lines(int32_t position) const { return indentation_.is_given ? positions_[position].lines : 0; }
  bool in_brackets(int32_t position) const { return indentation_.is_given && positions_[position].brackets > 0; }
  bool accepting(int32_t position);  // whether the text may end, with a DEDENT for each open block
  const std::vector<int32_t>& accepted_terminals(int32_t position) {
    return parser_.accepted_terminals(parser(position));
  }
  int32_t start(int32_t position) { return parser_.start(parser(position), in_brackets(position)); }
  // The position after a lexeme with this label, or kDead.
  int32_t advance(int32_t position, int32_t label) {
    return indentation_.is_given ? advance_label(position, label) : parser_.advance(position, label);
  }
  // The position with only the top of the parser's stack. It takes the same steps as `position` until they leave the
  // top (run/top_of_stack.cpp). `keeps_lines`: with the same lines; otherwise, with the outermost line alone, so that
  // positions in any block share it. Callers take no steps with line labels from it.
  int32_t top(int32_t position, bool keeps_lines);
  bool leaves_top(int32_t position) const { return parser_.leaves_top(parser(position)); }
  // Calls visit(width) for the widths that the next line may have: the widths of the enclosing lines, and one width
  // that is larger than the innermost and at least `min_width`.
  template <class Visit>
  void each_width(int32_t position, int32_t min_width, Visit&& visit) const {
    const int32_t innermost = lines(position);
    for (int32_t line = innermost; line >= 0; line = lines_[line].outer) visit(lines_[line].width);
    visit(std::max(min_width, lines_[innermost].width + 1));
  }
  // For a list of enclosing lines: the list without the innermost line (or -1), the innermost width, and the length.
  int32_t outer(int32_t lines) const { return lines_[lines].outer; }
  int32_t width(int32_t lines) const { return lines_[lines].width; }
  int32_t levels(int32_t lines) const { return lines_[lines].levels; }
  const Indentation& indentation() const { return indentation_; }
  void open_rules(int32_t position, std::vector<std::string>& out) const { parser_.open_rules(parser(position), out); }
  // Copies a position of `other`; returns its number here.
  int32_t import(LexerPositions& other, int32_t position, Arena::Carried& carried);
  size_t memory() const { return positions_.size() * 96 + lines_.size() * 64; }

 private:
  struct LexerPosition {
    int32_t parser, lines, brackets;
    auto operator<=>(const LexerPosition&) const = default;
  };
  struct Lines {
    int32_t outer, width, levels;
  };
  static constexpr int32_t kOutermostLine = 0;  // of width 0, without enclosing lines
  int32_t advance_label(int32_t position, int32_t label);
  int32_t advance_line(int32_t position, int32_t width);
  int32_t intern(LexerPosition position);
  int32_t intern_line(int32_t outer, int32_t width);

  TerminalParser& parser_;
  const Indentation& indentation_;
  int32_t initial_;
  std::vector<LexerPosition> positions_;
  std::vector<Lines> lines_;
  std::vector<int8_t> accepting_;  // by position; -1: unknown
  struct Hash {
    size_t operator()(const LexerPosition& position) const {
      return static_cast<size_t>(combine(combine(0, pair_key(position.parser, position.lines)), position.brackets));
    }
  };
  std::unordered_map<LexerPosition, int32_t, Hash> ids_;
  std::unordered_map<uint64_t, int32_t> line_ids_, line_steps_;
};

}  // namespace guided
