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

#include <optional>
#include <string_view>

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

}  // namespace guided
