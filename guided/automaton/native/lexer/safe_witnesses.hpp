// A text for each terminal that can be written wherever the parser takes the terminal, whatever was written before.
//
// Problem. Whether an output can still be completed, and within how many tokens, is a question about the parser *and*
// the lexer: after `a` the name `b` cannot follow at once, since `ab` is one name. To search for completions in every
// state costs too much.
//
// How: one text t(T) is fixed for terminals T, and for each of them a separator w(T) where one is needed, a text of an
// ignored terminal. They are *sure* if, whatever terminals are tried in any place where T is (followers.hpp),
//
//     (1) t(T) is read as T, and w(T), right behind a T, as something that is ignored;
//     (2) terminals that could have matched more than t(T) match no more while the text of any terminal is read that can
//         follow T (followers.hpp), and none is left after it; or the same holds of w(T), which is then written first;
//     (3) terminals that could have matched more than w(T) match no more while the text of any terminal is read that can
//         follow T, and none is left.
//
// Competing terminals of lexemes that were written before may be left as long as they do not match
// (competing_terminals.hpp).
//
// Then any sequence of such terminals that the parser takes can be written, t(T1) w(T1) t(T2) ..., so nothing is dead, and
// the number of tokens is bounded by the weights of the terminals (sequence_costs.hpp).
//
// With indentation, the text of a newline is a line feed and spaces, any number of them. It is sure if all automata are in
// the same states after each number of spaces but none, and rules open and close their blocks in pairs. Which terminals
// may come after it is a question for sequence_costs.hpp. A newline may begin with spaces, so none can follow a space that
// was ignored; no separator is written before one. If newlines are not sure, no terminal is.
//
// Of a terminal without a sure text nothing is said, and where it is needed, or competing terminals are pending that no
// separator ends, completions are searched for (lexed_rests.hpp). So `=` may be one terminal in assignments and another
// one, tried first, among the operators of expressions.
//
// Cost: a shortest text for each terminal; a step for each pair of terminals that begin with the same byte.
#pragma once

#include <string>

#include "lexer/competing_terminals.hpp"
#include "lexer/followers.hpp"
#include "lexer/lexemes.hpp"
#include "lexer/sequence_costs.hpp"

namespace guided {

// What competing terminals demand before a text: tokens of a separator that may be needed, kNever if none is known that
// does; and what can then follow.
struct Demand {
  int64_t tokens = 0;
  LastRead last = kWord;
};

class SafeWitnesses {
 public:
  SafeWitnesses(Lexemes& lexemes, CompetingTerminals& competing, const TokenVocabulary& vocabulary,
                const std::vector<int32_t>& control, const LexerContexts& contexts, const std::vector<uint8_t>& used,
                Followers followers, bool balanced, size_t symbols);
  // Whether all terminals that rules use have a sure text.
  bool all() const { return all_; }
  // Whether anything is sure at all.
  bool any() const { return !lexemes_.indentation().given || lines_.sure; }
  const SureLines& lines() const { return lines_; }
  // Whether the text of a newline leaves these competing terminals.
  bool is_line(int32_t competing);
  // The tokens that spell `text` and so many spaces, from each byte of `text` on; the last value is that of the spaces.
  std::vector<int64_t> tokens_of_line(std::string_view text, int32_t spaces) const;
  // By terminal: the tokens of its text, and of a separator after it where one may be needed; kNever where it has no sure
  // text.
  const std::vector<int64_t>& weights() const { return weights_; }
  // The same, with a guess for terminals without a sure text.
  const std::vector<int64_t>& guesses() const { return guesses_; }
  // Of competing terminals that are pending where a terminal was read last; kNoTerminal: where that is not known.
  Demand demand(int32_t competing, int32_t terminal = kNoTerminal);
  // The same in a place: the terminals that can come next, and the state before a lexeme.
  Demand demand(int32_t competing, const std::vector<int32_t>& next, int32_t start);
  // Whether a terminal has a sure text that can be written at once, and is then no hindrance to what follows.
  bool can_follow(int32_t competing, int32_t terminal);
  // The fewest tokens that spell the end of a text, from each of its bytes on; kNever where none do.
  static std::vector<int64_t> tokens_of(std::string_view text, const TokenVocabulary& vocabulary);

 private:
  using Open = TextPrefixes::Alive;  // terminals that may match more
  struct Separator {
    int64_t tokens;
    std::string text;
    TerminalSet shadows;  // terminals that match a beginning of it, and are tried first
    // Terminals that may match more, and terminals at whose texts they do not end, if there are any.
    std::vector<std::pair<int32_t, TerminalSet>> hindered;
    std::vector<uint8_t> valid;  // by terminal that was read last, and at last wherever it is written
  };
  std::vector<std::string> texts_of(int32_t terminal, size_t most);
  std::vector<std::string> texts_of(int32_t terminal, size_t most, size_t most_states, int most_of_state, bool& is_cut);
  bool is_read_as(std::string_view text, int32_t terminal);
  void find_separators();
  bool can_separate(const Separator& separator, const TerminalSet& tried, int32_t terminal) const;
  int64_t gap_after(int32_t terminal);
  bool finds_newline();
  void find_lines(size_t symbols);
  bool meet(int32_t terminal, int32_t next);
  bool leaves_nothing(int32_t of, int32_t state, std::string_view text);
  bool leave_nothing(const Open& open, std::string_view text);
  template <class Separate>
  Demand demand_of(int32_t competing, const std::vector<int32_t>& next, Separate&& separate);
  // Of those that are tried beside a terminal; kNoTerminal: of all.
  Open open_after(std::string_view text, int32_t beside = kNoTerminal);

  Lexemes& lexemes_;
  CompetingTerminals& competing_;
  const TokenVocabulary& vocabulary_;
  const std::vector<int32_t>& control_;
  const Followers followers_;
  const TriedTerminals tried_;
  TextPrefixes prefixes_;
  std::unordered_map<uint64_t, bool> meet_;
  EnduringCompetitors enduring_;
  bool all_ = true;
  std::vector<std::string> texts_;     // by terminal; empty: those without a sure text, and control tokens
  std::vector<Separator> separators_;  // fewest tokens first
  std::vector<int64_t> weights_, guesses_;
  std::unordered_map<uint64_t, Demand> demands_;
  SureLines lines_;
  Open open_in_line_;            // of a newline's text
  std::vector<int64_t> spaces_;  // the tokens of so many spaces
  std::vector<int8_t> is_line_;  // by set of competing terminals; -1: not known
};

}  // namespace guided
