// A text for each terminal that can be written wherever the parser takes the terminal, whatever was written before.
//
// Problem. Whether an output can still be completed, and within how many tokens, is a question about the parser *and*
// the lexer: after `a` the name `b` cannot follow at once, since `ab` is one name. To search for completions in every
// state costs too much.
//
// How: one text t(T) is fixed for terminals T, and some separators w, texts of ignored terminals. They are *sure* if,
// whatever terminals are tried,
//
//     (1) t(T) is read as T, and w as something that is ignored;
//     (2) terminals that could have matched more than t(T) match no more while the text of any terminal is read that can
//         follow T (followers.hpp), and none is left after it; or the same holds of a separator, which is then written
//         first;
//     (3) terminals that could have matched more than w match no more while any t(T) is read, and none is left.
//
// Rivals of lexemes that were written before may be left as long as they do not match (enduring_rivals.hpp).
//
// Then any sequence of such terminals that the parser takes can be written, t(T1) w t(T2) ..., so nothing is dead, and
// the number of tokens is bounded by the weights of the terminals (terminal_rests.hpp). Conditions are checked for
// the automata of the terminals alone, all of them at once, so they hold in each context.
//
// With indentation, the text of a newline is a line feed and spaces, any number of them. It is sure if all automata are in
// the same states after each number of spaces but none, and rules open and close their blocks in pairs. Which terminals
// may come after it is a question for sequence_costs.hpp. If newlines are not sure, no terminal is.
//
// Of a terminal without a sure text nothing is said, and where it is needed, or rivals are pending that no separator
// ends, completions are searched for (lexed_rests.hpp). So `=` may be one terminal in assignments and another one, tried
// first, among the operators of expressions.
//
// Cost: a shortest text for each terminal; a step for each pair of terminals that begin with the same byte.
#pragma once

#include <string>

#include "lexer/enduring_rivals.hpp"
#include "lexer/followers.hpp"
#include "lexer/sequence_costs.hpp"

namespace guided {

class SureTexts {
 public:
  SureTexts(Lexemes& lexemes, Rivals& rivals, const TokenVocabulary& vocabulary, const std::vector<int32_t>& control,
            const std::vector<uint8_t>& used, Followers followers, bool balanced, size_t symbols);
  // Whether all terminals that rules use have a sure text.
  bool all() const { return all_; }
  // Whether anything is sure at all.
  bool any() const { return !lexemes_.indentation().given || lines_.sure; }
  const SureLines& lines() const { return lines_; }
  // Whether these are rivals that the text of a newline leaves.
  bool is_line(int32_t rivals);
  // The tokens that spell `text` and so many spaces, from each byte of `text` on; the last value is that of the spaces.
  std::vector<int64_t> tokens_of_line(std::string_view text, int32_t spaces) const;
  // By terminal: the tokens of its text, and of a separator after it where one may be needed; kNever where it has no sure
  // text.
  const std::vector<int64_t>& weights() const { return weights_; }
  // The same, with a guess for terminals without a sure text.
  const std::vector<int64_t>& guesses() const { return guesses_; }
  // The tokens that must be written before any text can follow, or before that of one of `next`; kNever where that is not
  // known.
  int64_t charge(int32_t rivals);
  int64_t charge(int32_t rivals, const std::vector<int32_t>& next);
  // Whether a terminal has a sure text that can be written at once, and is then no hindrance to what follows.
  bool can_follow(int32_t rivals, int32_t terminal);
  // The fewest tokens that spell the end of a text, from each of its bytes on; kNever where none do.
  static std::vector<int64_t> tokens_of(std::string_view text, const TokenVocabulary& vocabulary);

 private:
  std::vector<std::string> texts_of(int32_t terminal, size_t most);
  bool is_read_as(std::string_view text, int32_t terminal);
  bool can_separate(const std::string& text);
  int64_t gap_after(int32_t terminal);
  bool finds_newline();
  void find_lines(size_t symbols);
  bool meet(int32_t terminal, int32_t next);
  bool leaves_nothing(int32_t of, int32_t state, std::string_view text);
  std::vector<std::pair<int32_t, int32_t>> open_after(std::string_view text);

  Lexemes& lexemes_;
  Rivals& rivals_;
  const TokenVocabulary& vocabulary_;
  const std::vector<int32_t>& control_;
  const Followers followers_;
  std::unordered_map<uint64_t, bool> meet_;
  EnduringRivals enduring_;
  bool all_ = true;
  std::vector<std::string> texts_;  // by terminal; empty: those without a sure text, and control tokens
  std::vector<std::pair<int64_t, std::string>> separators_;  // with their tokens, fewest first
  std::vector<int64_t> weights_, guesses_, charges_;
  SureLines lines_;
  std::vector<std::pair<int32_t, int32_t>> open_in_line_;  // terminals that a newline's text leaves, with their states
  std::vector<int64_t> spaces_;                            // the tokens of so many spaces
  std::vector<int8_t> is_line_;                            // by rivals; -1: not known
};

}  // namespace guided
