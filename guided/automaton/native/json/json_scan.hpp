// The lexical mode of a JSON text: between tokens, in a string, in a number.
//
// In: the mode before a byte, and the byte. Out: the mode after it. Unlike json_values.hpp, which reads one text, this
// can follow all texts that lead to a position of an automaton, because it stores nothing but the mode.
// Cost: one look-up per byte.
#pragma once

#include <cstdint>

namespace guided {

class JsonScan {
 public:
  // Whole, Fraction, Power: before the point of a number, after it, in the exponent; Word: in a literal; Escape: after
  // a backslash; Digits<n>: in a \u escape, n digits before its end
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
  Mode after(Mode mode, uint8_t byte) const { return after_[mode][byte]; }
  // Whether a number or a literal ends before the byte.
  bool separates(uint8_t byte) const { return separates_[byte]; }
  // Whether a byte outside of strings is a bracket, a comma or a colon.
  bool structural(uint8_t byte) const { return structural_[byte]; }
  static const JsonScan& table();

 private:
  JsonScan();
  Mode after_[kModes][256];
  bool separates_[256], structural_[256];
};

}  // namespace guided
