#include "json/json_string.hpp"

namespace guided {

void JsonString::append(uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 63));
    text += static_cast<char>(0x80 | (c & 63));
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 63));
    text += static_cast<char>(0x80 | (c >> 6 & 63));
    text += static_cast<char>(0x80 | (c & 63));
  }
}

bool JsonString::read(uint8_t b) {
  if (escape < 0) {
    if (b == kQuote) return false;
    if (b == kEscape)
      escape = 0;
    else
      text += static_cast<char>(b);
    return true;
  }
  if (escape == 0) {
    if (b == kUnit) {
      escape = 1;
      unit = 0;
      return true;
    }
    const size_t i = kShort.find(static_cast<char>(b));
    text += i == std::string_view::npos ? static_cast<char>(b) : kMeaning[i];
    escape = -1;
    return true;
  }
  unit = unit * 16 + (b <= '9' ? b - '0' : (b | 0x20) - 'a' + 10);
  if (++escape <= kDigits) return true;
  escape = -1;
  if (unit >= 0xD800 && unit < 0xDC00)
    high = unit;
  else if (unit >= 0xDC00 && unit < 0xE000 && high)
    append(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00));
  else
    append(unit);
  if (unit < 0xD800 || unit >= 0xDC00) high = 0;
  return true;
}

bool JsonString::may_become(std::string_view target) const {
  if (target.substr(0, text.size()) != text) return false;
  if (between_characters()) return true;
  // Part of the next character has been read: an unfinished escape or surrogate pair.
  std::string_view remaining = target.substr(text.size());
  if (remaining.empty()) return false;
  const uint32_t c = code_point(remaining);
  uint32_t first_unit = c < 0x10000 ? c : 0xD800 + ((c - 0x10000) >> 10);
  uint32_t second_unit = c < 0x10000 ? 0 : 0xDC00 + ((c - 0x10000) & 0x3FF);
  if (high && high != first_unit) return false;
  if (escape <= 0) return true;
  uint32_t target_unit = high ? second_unit : first_unit;
  return target_unit >> (4 * (5 - escape)) == unit;
}

uint32_t code_point(std::string_view text) {
  auto low_bits = [&](size_t i) {
    return i < text.size() ? static_cast<uint32_t>(static_cast<uint8_t>(text[i])) & 63 : 0;
  };
  const uint32_t lead = static_cast<uint8_t>(text[0]);
  if (lead >= 0xF0) return (lead & 7) << 18 | low_bits(1) << 12 | low_bits(2) << 6 | low_bits(3);
  if (lead >= 0xE0) return (lead & 15) << 12 | low_bits(1) << 6 | low_bits(2);
  return lead >= 0xC0 ? (lead & 31) << 6 | low_bits(1) : lead;
}

}  // namespace guided
