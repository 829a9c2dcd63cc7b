// Rivals that never match while sure texts are written.
//
// Problem. After `a / * b`, written without the space, nobody knows whether a comment has begun: if no `*/` follows, the
// lexer finds none, and `/` and `*` were two lexemes. The comment stays a rival of them as long as the text goes on, and
// no separator ends it. Still a completion exists: one in which `*/` never occurs.
//
// In: a rival, and the texts and separators that completions are made of (sure_texts.hpp). Out: whether it matches nowhere
// in any sequence of these texts, in an order in which terminals can follow each other (followers.hpp), and separators
// between them. Such a rival is no hindrance.
//
// How: the states that the rival can be in after each text are visited, until one matches or there are no more.
// Cost: once for each rival; at most kMost states.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "lexer/followers.hpp"
#include "lexer/rivals.hpp"

namespace guided {

class EnduringRivals {
 public:
  // `newline`: the terminal after whose text spaces may be written, or kNoTerminal.
  EnduringRivals(Rivals& rivals, Followers followers, int32_t newline)
      : rivals_(rivals), followers_(std::move(followers)), newline_(newline) {}
  const Followers& followers() const { return followers_; }
  // Completions are made of the texts of terminals, where these are not empty, and of separators.
  void add_text(int32_t terminal, std::string text) { texts_.emplace_back(terminal, std::move(text)); }
  void add_separator(const std::string& text) {
    if (std::ranges::find(separators_, text) == separators_.end()) separators_.push_back(text);
  }
  // Of a set of rivals, those that may match.
  int32_t hindering(int32_t rivals);

 private:
  bool endures(int32_t rival);

  Rivals& rivals_;
  const Followers followers_;
  const int32_t newline_;
  std::vector<std::pair<int32_t, std::string>> texts_;
  std::vector<std::string> separators_;
  std::unordered_map<int32_t, bool> endures_;       // by state of a lexeme
  std::unordered_map<int32_t, int32_t> hindering_;  // by set
};

}  // namespace guided
