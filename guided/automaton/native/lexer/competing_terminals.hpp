// Competing terminals: lexemes that were ended and might have matched more.
//
// Problem. A lexer takes the longest match. Where a lexeme is ended while its text is still being written, some terminal
// may have been able to match more of it. If it does match more, the lexer would not have ended the lexeme there.
//
//     terminals: LESS = "<", LESS_OR_EQUAL = "<="      text: <      LESS is ended; competitor: LESS_OR_EQUAL, which needs "="
//
// In: states of lexemes (lexemes.hpp). Out: sets of them, numbered, and the set after each byte: a competitor that cannot
// match any more is left out, and if one matches, whoever ended its lexeme is wrong (kDropped). Set 0 is empty; nearly
// all sets are empty after one byte.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lexer/lexemes.hpp"

namespace guided {

enum Dropped : int32_t { kDropped = -1 };  // one of the competing terminals matched

class CompetingTerminals {
 public:
  explicit CompetingTerminals(Lexemes& lexemes) : lexemes_(lexemes) { intern({}); }
  int32_t advance(int32_t competing, uint8_t byte) {  // or kDropped
    if (competing == 0) return 0;
    int32_t& known = (*rows_[competing])[byte];
    return known != kUnknown ? known : find_advance(competing, byte);
  }
  int32_t advance(int32_t competing, std::string_view text);
  const ByteSet& survived(int32_t competing);  // the bytes with which none of them matches
  int32_t add(int32_t competing, int32_t lexeme);
  const std::vector<int32_t>& of(int32_t competing) const { return sets_[competing]; }  // states of lexemes
  int32_t size() const { return static_cast<int32_t>(sets_.size()); }

 private:
  int32_t intern(std::vector<int32_t>&& competing);
  int32_t find_advance(int32_t competing, uint8_t byte);

  Lexemes& lexemes_;
  std::vector<std::vector<int32_t>> sets_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> ids_;
  std::vector<std::unique_ptr<ByteSet>> survived_;
  std::vector<std::unique_ptr<std::array<int32_t, 256>>> rows_;  // by set: that after each byte, kUnknown
  std::unordered_map<uint64_t, int32_t> added_;                  // by set and lexeme
};

// Competing terminals that never match while sure texts are written.
//
// Problem. After `a / * b`, written without the space, nobody knows whether a comment has begun: if no `*/` follows, the
// lexer finds none, and `/` and `*` were two lexemes. The comment stays a competitor of them as long as the text goes on,
// and no separator ends it. Still a completion exists: one in which `*/` never occurs.
//
// In: a competitor, and the texts and separators that completions are made of (safe_witnesses.hpp). Out: whether it matches
// nowhere in any sequence of these texts, in an order in which terminals can follow each other (followers.hpp), with
// separators between them, at least where one is needed. Such a competitor is no hindrance.
//
// How: the states that the competitor can be in after each text are visited, until one matches or there are no more.
// Cost: once for each competitor; at most kMost states.
class EnduringCompetitors {
 public:
  // `newline`: the terminal after whose text spaces may be written, or kNoTerminal. `meet`: whether the text of the second
  // terminal may stand right behind that of the first.
  EnduringCompetitors(CompetingTerminals& competing, int32_t newline, std::function<bool(int32_t, int32_t)> meet)
      : competing_(competing), newline_(newline), meet_(std::move(meet)) {}
  // What completions are made of.
  void add_text(int32_t terminal, std::string text) { texts_.emplace_back(terminal, std::move(text)); }
  void add_separator(const std::string& text) {
    if (std::ranges::find(separators_, text) == separators_.end()) separators_.push_back(text);
  }
  // Of a set of competing terminals, those that may match after the text of a terminal, or where any text may follow.
  int32_t hindering(int32_t competing, int32_t last = kNoTerminal);

 private:
  bool endures(int32_t competitor, int32_t last);

  CompetingTerminals& competing_;
  const int32_t newline_;
  const std::function<bool(int32_t, int32_t)> meet_;
  std::vector<std::pair<int32_t, std::string>> texts_;
  std::vector<std::string> separators_;
  std::unordered_map<uint64_t, bool> endures_;       // by state of a lexeme, and what was last
  std::unordered_map<uint64_t, int32_t> hindering_;  // by set, and what was last
};

}  // namespace guided
