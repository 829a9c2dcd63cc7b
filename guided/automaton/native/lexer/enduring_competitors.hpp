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
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lexer/competing_terminals.hpp"

namespace guided {

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
