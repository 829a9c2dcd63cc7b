// Which terminals the lexer may try at one position.
//
// In: the rules, by what can stand next to each other (followers.hpp), and the contexts of the lexer. Out: for each symbol
// the terminals that may be tried right behind it, or more: callers of a rule are not told apart; and for each pair of
// terminals whether they may be tried at one position. Ignored terminals are tried everywhere.
//
// So a terminal that Lark tries at the beginning of a text only is no hindrance elsewhere.
//
// Cost: a row of bits for each symbol, and one for each terminal; past kMostTerminals all count as tried everywhere.
#pragma once

#include <algorithm>

#include "lexer/followers.hpp"
#include "lexer/terminal_parser.hpp"

namespace guided {

class TerminalSet {
 public:
  explicit TerminalSet(size_t count = 0, bool all = false) : words_((count + 63) / 64, all ? ~uint64_t{0} : 0) {}
  bool has(int32_t terminal) const { return words_[terminal / 64] >> (terminal % 64) & 1; }
  void add(int32_t terminal) { words_[terminal / 64] |= uint64_t{1} << (terminal % 64); }
  void add(const TerminalSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  bool meets(const TerminalSet& other) const { return meets(other.words_.data()); }
  bool meets(const uint64_t* row) const {
    for (size_t w = 0; w < words_.size(); ++w)
      if (words_[w] & row[w]) return true;
    return false;
  }
  bool empty() const {
    return std::ranges::all_of(words_, [](uint64_t word) { return word == 0; });
  }
  auto operator<=>(const TerminalSet&) const = default;

 private:
  std::vector<uint64_t> words_;
};

class TriedTerminals {
 public:
  TriedTerminals(const Followers& followers, const LexerContexts& contexts, const Lexemes& lexemes);
  const TerminalSet& behind(int32_t terminal) const { return all_.empty() ? behind_[terminal] : all_[0]; }
  const TerminalSet& in_the_beginning() const { return all_.empty() ? beginning_ : all_[0]; }
  const TerminalSet& beside(int32_t terminal) const { return all_.empty() ? beside_[terminal] : all_[0]; }

 private:
  std::vector<TerminalSet> behind_, beside_, all_;  // `all_`: one that stands for each of them
  TerminalSet beginning_;
};

}  // namespace guided
