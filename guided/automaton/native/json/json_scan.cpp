#include "json/json_scan.hpp"

#include <cctype>

#include "json/json_string.hpp"

namespace guided {

namespace {

bool is_digit(uint8_t b) { return b >= '0' && b <= '9'; }
bool is_word_byte(uint8_t b) { return std::isalnum(b) || b == '-' || b == '+' || b == '.'; }

JsonScan::Mode compute_next(JsonScan::Mode mode, uint8_t b) {
  using enum JsonScan::Mode;
  if (mode == String) return b == JsonString::kQuote ? Between : b == JsonString::kEscape ? Escape : String;
  if (mode == Escape) return b == JsonString::kUnit ? Digits4 : String;
  if (mode >= Digits4) return mode == Digits1 ? String : static_cast<JsonScan::Mode>(mode + 1);
  if (b == JsonString::kQuote) return String;
  if (!is_word_byte(b)) return Between;
  switch (mode) {
    case Between:
      return is_digit(b) || b == '-' ? Whole : Word;
    case Whole:
      return is_digit(b) ? Whole : b == '.' ? Fraction : b == 'e' || b == 'E' ? Power : Word;
    case Fraction:
      return is_digit(b) ? Fraction : b == 'e' || b == 'E' ? Power : Word;
    case Power:
      return Power;
    default:
      return Word;
  }
}

}  // namespace

JsonScan::JsonScan() {
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    for (int mode = 0; mode < kModes; ++mode) next_modes_[mode][b] = compute_next(static_cast<Mode>(mode), byte);
    ends_word_[b] = !is_word_byte(byte);
    is_structural_[b] = ends_word_[b] && byte != JsonString::kQuote && std::isspace(byte) == 0;
  }
}

const JsonScan& JsonScan::table() {
  static const JsonScan scan;
  return scan;
}

}  // namespace guided
