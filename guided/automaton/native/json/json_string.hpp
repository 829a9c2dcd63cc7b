// Reads JSON strings, including escapes, while they are being written.
//
// In: the bytes of a string after its opening quotation mark. Out: its characters in UTF-8, and the current escape. All
// spellings of a string, such as `\u0041` and `A`, give the same characters.
// Cost: O(1) per byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace guided {

// The syntax of JSON strings. The rest of the core knows these bytes only through this struct.
struct JsonString {
  static constexpr uint8_t kQuote = '"', kEscape = '\\';
  // After kEscape, `kShort[i]` stands for the character `kMeaning[i]`.
  static constexpr std::string_view kShort = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
  static constexpr uint8_t kUnit = 'u';  // kEscape and kUnit begin the digits of a UTF-16 code unit
  static constexpr int kDigits = 4;      // the number of hexadecimal digits of a code unit
  // Whether a byte in a string is part of a character that is written without an escape.
  static constexpr bool is_plain(uint8_t byte) { return byte >= 0x20 && byte != kQuote && byte != kEscape; }
  // The value of a hexadecimal digit; -1 for any other byte.
  static constexpr int digit(int byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    const int lower = byte | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  }

  // Calls visit(bytes after kEscape) for each escape of an ASCII character.
  template <class Visit>
  static void each_escape(uint8_t character, Visit&& visit) {
    constexpr std::string_view kLowerCase = "0123456789abcdef", kUpperCase = "0123456789ABCDEF";
    std::array<char, 5> digits{kUnit, '0', '0', kLowerCase[character >> 4], kLowerCase[character & 15]};
    visit(std::string_view(digits.data(), digits.size()));
    digits[4] = kUpperCase[character & 15];
    visit(std::string_view(digits.data(), digits.size()));
    const size_t i = kMeaning.find(static_cast<char>(character));
    if (i != std::string_view::npos) visit(kShort.substr(i, 1));
  }

  std::string text;         // UTF-8
  int32_t escape = -1;      // -1: none; 0: after the backslash; 1..4: after \u and `escape - 1` digits
  uint32_t unit = 0;        // the value of these digits
  uint32_t high = 0;        // a high surrogate that waits for its low surrogate; 0: none
  bool read(uint8_t byte);  // false: the string has ended
  bool may_become(std::string_view target) const;  // whether the string may still become `target`
  void append(uint32_t code_point);
  // Whether the last character is complete, so that no escape or surrogate pair is unfinished.
  bool between_characters() const { return escape < 0 && high == 0; }
};

// The code point of the first character of a UTF-8 string.
uint32_t code_point(std::string_view text);

}  // namespace guided
