// Splits a text into lexemes in all possible ways, while it is being written.
//
// Problem. A lexer takes the longest match, whatever the parser needs. While text is being written, the end of a lexeme
// is not yet known, so a state contains several readings. A reading is
//
//     ( lexer position: parser state and enclosing lines, state of the current lexeme, competitors of earlier lexemes )
//
// A reading is dropped if one of its competitors matches (competitors.hpp).
//
// In: a state, which is the number of a sorted set of readings, and a byte or a control token. Out: the next state.
#pragma once

#include <map>

#include "base/by_state.hpp"
#include "lexer/competitors.hpp"
#include "lexer/lexer_positions.hpp"

namespace guided {

struct Reading {
  int32_t position, lexeme, competitors;
  bool is_at_boundary;  // no byte of the lexeme has been read
  auto operator<=>(const Reading&) const = default;
};

class Readings {
 public:
  Readings(Lexemes& lexemes, Competitors& competitors, LexerPositions& positions,
           const std::vector<int32_t>& control_tokens);

  int32_t initial() const { return 0; }
  const std::vector<Reading>& of(int32_t state) const { return *states_[state]; }
  int32_t step(int32_t state, uint8_t byte);                               // or kDead
  int32_t step_control(int32_t state, int32_t token);                      // a control token; or kDead
  bool accepting(int32_t state) const { return accepts_.get(state) > 0; }  // needs no lock
  std::vector<int32_t> controls(int32_t state) const;                      // control tokens that can come next
  ByteSet bytes(int32_t state) const;                                      // the bytes that may come next
  // The character classes whose characters certainly lead back to the state.
  CharClasses loops(int32_t state) const;
  int32_t size() const { return static_cast<int32_t>(states_.size()); }
  size_t memory() const { return memory_; }

  Reading reading_at_boundary(int32_t position, int32_t competitors) const {
    return {
        .position = position, .lexeme = positions_.start(position), .competitors = competitors, .is_at_boundary = true};
  }
  // The position after a lexeme with this label, or after a lexeme that ended in this lexer state; or kDead.
  int32_t after_lexeme(int32_t position, int32_t label, bool is_ignored) const {
    return is_ignored ? position : positions_.advance(position, label);
  }
  int32_t after_lexeme(int32_t position, int32_t lexeme) const {
    const LexemeState& state = lexemes_.state(lexeme);
    return state.label == kNoTerminal ? static_cast<int32_t>(kDead)
                                      : after_lexeme(position, state.label, state.is_ignored);
  }
  // Whether nothing can follow at the beginning of a lexeme: no byte (a competitor matches it, or no lexeme begins with
  // it), no control token, and not the end of the text.
  bool is_dead_end(int32_t position, int32_t competitors) const;
  int32_t competitors_after(int32_t competitors, int32_t lexeme) const { return competitors_.add(competitors, lexeme); }
  // Calls visit(reading) for each reading after a byte: the lexeme continues, or it ends, or both.
  template <class Visit>
  void each_successor(const Reading& reading, uint8_t byte, Visit&& visit) const {
    const int32_t competitors = competitors_.advance(reading.competitors, byte);
    if (competitors == kDropped) return;
    const int32_t lexeme = lexemes_.step(reading.lexeme, byte);
    if (lexeme != kNoLexeme) visit_successors(reading, lexeme, competitors, visit);
  }
  // Calls visit(byte, reading) for each reading after some byte, with the first byte that leads there.
  template <class Visit>
  void each_successor(const Reading& reading, Visit&& visit) const {
    competitors_.each_step(reading.lexeme, reading.competitors, [&](uint8_t byte, int32_t lexeme, int32_t competitors) {
      visit_successors(reading, lexeme, competitors, [&](const Reading& next) { visit(byte, next); });
    });
  }
  int32_t intern(std::vector<Reading>&& readings);
  int32_t control_of(int32_t terminal) const { return control_tokens_[terminal]; }

 private:
  // Calls visit(reading) for the readings after a byte that leads to this lexer state and these competitors.
  template <class Visit>
  void visit_successors(const Reading& reading, int32_t lexeme, int32_t competitors, Visit&& visit) const {
    const LexemeState& state = lexemes_.state(lexeme);
    const int32_t label = state.label;
    const bool is_ignored = state.is_ignored;
    if (!state.open_matches.empty()) visit(Reading{reading.position, lexeme, competitors, false});
    if (label == kNoTerminal) return;
    const int32_t position = after_lexeme(reading.position, label, is_ignored);
    if (position != kDead) visit(reading_at_boundary(position, competitors_.add(competitors, lexeme)));
  }

  Lexemes& lexemes_;
  Competitors& competitors_;
  LexerPositions& positions_;
  const std::vector<int32_t>& control_tokens_;
  std::vector<std::unique_ptr<std::vector<Reading>>> states_;
  ByState<int8_t> accepts_{-1};
  std::map<std::vector<Reading>, int32_t> ids_;
  std::unordered_map<uint64_t, int32_t> steps_;
  size_t memory_ = 0;
};

}  // namespace guided
