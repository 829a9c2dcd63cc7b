// The parser of a grammar with a lexer: which terminals can be taken.
//
// The rules are a compiled grammar over terminals, each of which is one of its control tokens: its states, its stack and
// its left recursion are those of the core (run/arena.hpp).
#pragma once

#include <map>

#include "lexer/lexemes.hpp"

namespace guided {

// The terminals that are tried where the parser could take just these marks, besides those that it can take. Marks are
// control tokens of the rules with numbers past those of the terminals; no text has one. Where Lark's table has resolved a
// conflict, an exact parser may stand in several of its states at once. Its marks are then those of all of them, and the
// largest sets that are among these tell what is tried.
struct LexerContexts {
  std::unordered_map<std::vector<int32_t>, std::vector<int32_t>, IntsHash> by_marks;
  bool all = false;                                                     // all terminals are tried everywhere
  std::vector<int32_t> tried(const std::vector<int32_t>& marks) const;  // sorted
};

class TerminalParser {
 public:
  // `control`: by terminal, the control token that it is in the text, or kNoTerminal.
  TerminalParser(std::shared_ptr<const Grammar> rules, const TokenVocabulary& terminals, CallLimits limits,
                 const std::vector<int32_t>& control, const LexerContexts& contexts, Lexemes& lexemes);
  int32_t initial() const { return work_.arena.initial(); }
  bool accepting(int32_t state) const { return work_.arena.config(state).accepting; }
  const std::vector<int32_t>& taken(int32_t state) { return of(state).taken; }
  int32_t start(int32_t state, bool in_brackets = false);  // of a lexeme that begins there
  int32_t after(int32_t state, int32_t symbol);            // or kDead
  int32_t top(int32_t state);                              // of its stack; see run/top_of_stack.cpp
  bool leaves_top(int32_t state) const { return work_.arena.leaves_top(state); }
  void open_rules(int32_t state, std::vector<std::string>& out) const { work_.open_rules(state, out); }
  Arena& arena() { return work_.arena; }

 private:
  struct State {
    std::vector<int32_t> taken, marks;
    int32_t start[2] = {kUnknown, kUnknown};  // outside of brackets, and between them
    int32_t top = kUnknown;
    std::vector<int32_t> after;  // by symbol; kUnknown
  };
  State& of(int32_t state);
  const std::vector<int32_t>& tried_at(const std::vector<int32_t>& marks);

  Workspace work_;
  const std::vector<int32_t>& control_;
  const LexerContexts& contexts_;
  std::vector<int32_t> all_;
  std::map<std::vector<int32_t>, std::vector<int32_t>> tried_at_;  // by marks
  Lexemes& lexemes_;
  std::vector<std::unique_ptr<State>> states_;
};

}  // namespace guided
