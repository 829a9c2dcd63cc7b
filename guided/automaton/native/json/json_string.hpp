// JSON strings while they are being written: what a byte does, escapes included.
//
// In: the bytes of a string after its opening quotation mark. Out: its characters in UTF-8, and the escape under way.
// Two spellings of one string have equal characters: `\u0041` and `A`.
// Cost: O(1) per byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace guided {

// What the bytes of a string mean. These are the only places where the rest of the core learns of them.
struct JsonString {
  static constexpr uint8_t kQuote = '"', kEscape = '\\';
  // What may follow kEscape, besides kUnit: `kShort[i]` is another spelling of the character `kMeaning[i]`.
  static constexpr std::string_view kShort = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
  static constexpr uint8_t kUnit = 'u';  // after it come the digits of a UTF-16 unit
  static constexpr int kDigits = 4;      // so many, in base 16
  // Whether a byte in a string is part of the character that it encodes in UTF-8.
  static constexpr bool is_plain(uint8_t byte) { return byte >= 0x20 && byte != kQuote && byte != kEscape; }
  // The value of a digit of a unit; -1: it is none.
  static constexpr int digit(int byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    const int lower = byte | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  }

  // Calls visit(what follows kEscape) for each escape of a character of ASCII that is plain.
  template <class Visit>
  static void each_escape(uint8_t character, Visit&& visit) {
    constexpr std::string_view kLow = "0123456789abcdef", kHigh = "0123456789ABCDEF";
    std::array<char, 5> digits{kUnit, '0', '0', kLow[character >> 4], kLow[character & 15]};
    visit(std::string_view(digits.data(), digits.size()));
    digits[4] = kHigh[character & 15];
    visit(std::string_view(digits.data(), digits.size()));
    const size_t at = kMeaning.find(static_cast<char>(character));
    if (at != std::string_view::npos) visit(kShort.substr(at, 1));
  }

  std::string text;         // UTF-8
  int32_t escape = -1;      // -1: none; 0: after the backslash; 1..4: after \u, so many digits less one
  uint32_t unit = 0;        // what the digits say so far
  uint32_t high = 0;        // a high surrogate that waits for the low one
  bool read(uint8_t byte);  // false: the string has ended
  bool fits(std::string_view target) const;  // whether the string may still become `target`
  void put(uint32_t code_point);
  // Whether the last character is complete: no escape is under way.
  bool between_characters() const { return escape < 0 && high == 0; }
};

// Of the first character of a text in UTF-8.
uint32_t code_point(std::string_view text);

}  // namespace guided
