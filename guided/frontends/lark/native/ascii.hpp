// Classes of ASCII characters.
#pragma once

#include <cstdint>

#include "not_handled.hpp"

namespace guided::lark {

inline bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
inline bool is_octal(char32_t c) { return c >= '0' && c <= '7'; }
inline bool is_lower(char32_t c) { return c >= 'a' && c <= 'z'; }
inline bool is_upper(char32_t c) { return c >= 'A' && c <= 'Z'; }

inline int32_t hex_value(char32_t c) {
  if (is_digit(c)) return static_cast<int32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int32_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<int32_t>(c - 'A' + 10);
  throw NotHandled{};
}

}  // namespace guided::lark
