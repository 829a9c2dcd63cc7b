// The lexical mode of a JSON text: whether it is in a string, in a number or in a literal, or between them.
//
// In: the mode before a byte, and the byte. Out: the mode after it. Unlike json_values.hpp, which reads one text, this
// class can follow all texts that lead to a position of an automaton at once, because it stores nothing but the mode.
// Cost: one look-up per byte.
#pragma once

#include <cstdint>

namespace guided {

class JsonScan {
 public:
  // Whole, Fraction, Power: before the point of a number, after it, in the exponent; Word: in a literal; Escape: after
  // a backslash; Digits<n>: n digits before the end of a \u escape.
  enum Mode : uint8_t {
    Between,
    Whole,
    Fraction,
    Power,
    Word,
    String,
    Escape,
    Digits4,
    Digits3,
    Digits2,
    Digits1,
    kModes
  };
  static constexpr uint8_t kMinus = '-';
  Mode next(Mode mode, uint8_t byte) const { return next_modes_[mode][byte]; }
  // Whether a number or a literal ends before this byte.
  bool ends_word(uint8_t byte) const { return ends_word_[byte]; }
  // Whether a byte outside of strings is a bracket, a comma or a colon.
  bool is_structural(uint8_t byte) const { return is_structural_[byte]; }
  static const JsonScan& table();

 private:
  JsonScan();
  Mode next_modes_[kModes][256];
  bool ends_word_[256], is_structural_[256];
};

}  // namespace guided
