// Competitors: terminals that could have matched more text when a lexeme ended.
//
// Problem. A lexer takes the longest match. When a reading ends a lexeme while text is still being written, some
// terminal may be able to match more text. If it does match more, the lexer would not have ended the lexeme there.
//
//     terminals: LESS = "<", LESS_OR_EQUAL = "<="     text: <     LESS has ended; competitor: LESS_OR_EQUAL, needs "="
//
// In: lexer states (lexemes.hpp). Out: numbered sets of lexer states, and the set after each byte. A competitor that
// can no longer match is removed. If a competitor matches, ending the lexeme was wrong (kDropped). Set 0 is empty, and
// nearly all sets become empty after one byte.
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

enum Dropped : int32_t { kDropped = -1 };  // one of the competitors matched

class Competitors {
 public:
  explicit Competitors(Lexemes& lexemes) : lexemes_(lexemes) { intern({}); }
  int32_t advance(int32_t competitors, uint8_t byte) {  // or kDropped
    if (competitors == 0) return 0;
    const int32_t next = (*rows_[competitors])[byte];
    return next != kUnknown ? next : compute_advance(competitors, byte);
  }
  int32_t advance(int32_t competitors, std::string_view text);
  const ByteSet& surviving_bytes(int32_t competitors);  // the bytes with which no competitor matches
  // Calls visit(byte, lexeme, competitors) for the pairs that follow a lexer state and a set: at least once for each
  // pair, in the order of the bytes, and always for a line feed.
  template <class Visit>
  void each_step(int32_t lexeme, int32_t competitors, Visit&& visit) {
    if (competitors == 0) {
      for (const LexemeState::Step& step : lexemes_.steps(lexeme)) visit(step.byte, step.state, 0);
      return;
    }
    std::pair<int32_t, int32_t> last{kNoLexeme, kDropped};
    const ByteSet bytes = lexemes_.state(lexeme).bytes;
    bytes.each([&](uint8_t byte) {
      const std::pair<int32_t, int32_t> next{lexemes_.step(lexeme, byte), advance(competitors, byte)};
      if (next.first == kNoLexeme || next.second == kDropped || (next == last && byte != '\n')) return;
      last = next;
      visit(byte, next.first, next.second);
    });
  }
  // Adds the competitor of a lexeme that ends in this lexer state.
  int32_t add(int32_t competitors, int32_t lexeme);
  const std::vector<int32_t>& members(int32_t competitors) const { return sets_[competitors]; }  // lexer states
  int32_t size() const { return static_cast<int32_t>(sets_.size()); }
  size_t memory() const { return memory_; }

 private:
  int32_t intern(std::vector<int32_t>&& competitors);
  int32_t compute_advance(int32_t competitors, uint8_t byte);

  Lexemes& lexemes_;
  size_t memory_ = 0;
  std::vector<std::vector<int32_t>> sets_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> ids_;
  std::vector<std::unique_ptr<ByteSet>> surviving_bytes_;
  std::vector<std::unique_ptr<std::array<int32_t, 256>>> rows_;  // by set: the set after each byte, or kUnknown
  std::unordered_map<uint64_t, int32_t> extended_sets_;          // by set and competitor: the set that has both
};

// Finds the competitors that never match while sure texts are written.
//
// Problem. After `a / * b`, written without the space, a comment may have begun. If no `*/` follows, the lexer finds no
// comment, and `/` and `*` were two lexemes. The comment remains a competitor as long as the text continues, and no
// separator ends it. Yet there are completions: all texts without `*/`.
//
// In: a competitor, and the texts and separators of which completions consist (sure_texts.hpp). Out: whether the
// competitor matches in no sequence of these texts. Only terminals that can follow each other are adjacent
// (followers.hpp). A separator may be between any two texts, and must be wherever one is needed. A competitor that
// never matches is harmless.
//
// How: a search over the states of the competitor after each text and separator, until it matches or no new state is
// found.
// Cost: one search for each competitor and last terminal, over at most kMaxVisited states.
class HarmlessCompetitors {
 public:
  // `newline`: the terminal after whose text spaces may be written, or kNoTerminal. `can_follow`: whether the text of
  // the second terminal may directly follow the text of the first.
  HarmlessCompetitors(Competitors& competitors, int32_t newline, std::function<bool(int32_t, int32_t)> can_follow)
      : competitors_(competitors), newline_(newline), can_follow_(std::move(can_follow)) {}
  // The texts and separators of which completions consist.
  void add_text(int32_t terminal, std::string text) { texts_.emplace_back(terminal, std::move(text)); }
  void add_separator(const std::string& text) {
    if (std::ranges::find(separators_, text) == separators_.end()) separators_.push_back(text);
  }
  // Returns the set of the competitors that may match in a completion after the text of terminal `last`; kNoTerminal:
  // in any completion.
  int32_t find_hindering(int32_t competitors, int32_t last = kNoTerminal);

 private:
  bool never_matches(int32_t competitor, int32_t last);

  Competitors& competitors_;
  const int32_t newline_;
  const std::function<bool(int32_t, int32_t)> can_follow_;
  std::vector<std::pair<int32_t, std::string>> texts_;
  std::vector<std::string> separators_;
  std::unordered_map<uint64_t, bool> never_matches_;  // by lexer state and last terminal
  std::unordered_map<uint64_t, int32_t> hindering_;   // by set and last terminal
};

}  // namespace guided
