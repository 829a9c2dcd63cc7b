#include "json/json_number.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>

namespace guided {

namespace {

struct Decimal {
  bool is_negative = false, is_in_exponent = false, is_valid = true;
  std::string digits;         // all digits before the exponent, without leading zeros
  int64_t exponent = 0;       // the exponent of the last digit, including the written exponent
  size_t trailing_zeros = 0;  // the number of zeros at the end of `digits`
};

Decimal parse_decimal(std::string_view text) {
  Decimal d;
  size_t i = 0;
  if (i < text.size() && text[i] == '-') {
    d.is_negative = true;
    ++i;
  }
  bool has_point = false;
  for (; i < text.size() && (std::isdigit(static_cast<unsigned char>(text[i])) || text[i] == '.'); ++i) {
    if (text[i] == '.') {
      has_point = true;
      continue;
    }
    if (!d.digits.empty() || text[i] != '0') d.digits += text[i];
    if (has_point) --d.exponent;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    d.is_in_exponent = true;
    ++i;
    bool is_minus = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    while (i + 1 < text.size() && text[i] == '0') ++i;
    std::string_view exponent_digits = text.substr(i);
    if (exponent_digits.size() > 15) d.is_valid = false;
    int64_t exponent = 0;
    for (char ch : exponent_digits.substr(0, 15)) {
      if (!std::isdigit(static_cast<unsigned char>(ch))) d.is_valid = false;
      exponent = exponent * 10 + (ch - '0');
    }
    d.exponent += is_minus ? -exponent : exponent;
  } else if (i < text.size()) {
    d.is_valid = false;
  }
  while (d.trailing_zeros < d.digits.size() && d.digits[d.digits.size() - 1 - d.trailing_zeros] == '0')
    ++d.trailing_zeros;
  return d;
}

// An unfinished number: its digits, their scale, and the exponent so far.
struct NumberPrefix {
  std::string digits;            // without zeros at either end
  int64_t scale = 0, zeros = 0;  // the exponent of the last of these digits; the number of zeros after it
  bool is_negative = false, has_point = false, is_in_exponent = false;
  char exponent_sign = 0;
  std::string exponent_digits;  // without leading zeros
};

NumberPrefix parse_prefix(std::string_view text) {
  const size_t e = text.find_first_of("eE");
  const Decimal d = parse_decimal(text.substr(0, e));
  NumberPrefix out{d.digits.substr(0, d.digits.size() - d.trailing_zeros),
                   d.exponent + static_cast<int64_t>(d.trailing_zeros),
                   d.digits.empty() ? -d.exponent : static_cast<int64_t>(d.trailing_zeros),
                   d.is_negative,
                   text.substr(0, e).find('.') != std::string_view::npos,
                   e != std::string_view::npos,
                   0,
                   ""};
  for (char ch : out.is_in_exponent ? text.substr(e + 1) : std::string_view()) {
    if (ch == '-' || ch == '+')
      out.exponent_sign = ch;
    else if (ch != '0' || !out.exponent_digits.empty())
      out.exponent_digits += ch;
    if (std::isdigit(static_cast<unsigned char>(ch)) && out.exponent_sign == 0) out.exponent_sign = '+';
  }
  return out;
}

}  // namespace

bool is_number(std::string_view text) {
  size_t i = 0;
  auto skip_digits = [&] {
    const size_t start = i;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) ++i;
    return i - start;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const bool has_leading_zero = i < text.size() && text[i] == '0';
  const size_t integer_digits = skip_digits();
  if (integer_digits == 0 || (has_leading_zero && integer_digits > 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (skip_digits() == 0) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (skip_digits() == 0) return false;
  }
  return i == text.size();
}

std::string number_stem(std::string_view text) {
  const Decimal d = parse_decimal(text.substr(0, text.find_first_of("eE")));
  if (d.digits.empty()) return "n";
  return (d.is_negative ? "n-" : "n") + d.digits.substr(0, d.digits.size() - d.trailing_zeros);
}

std::string canonical_number(std::string_view text) {
  Decimal d = parse_decimal(text);
  if (!d.is_valid && !d.digits.empty()) return std::string(1, 'r').append(text);
  std::string digits = d.digits.substr(0, d.digits.size() - d.trailing_zeros);
  if (digits.empty()) return "n0";
  std::string out(d.is_negative ? "n-" : "n");
  out.append(digits).append("e").append(std::to_string(d.exponent + static_cast<int64_t>(d.trailing_zeros)));
  return out;
}

std::string number_prefix_key(std::string_view text) {
  constexpr int64_t kMaxCountedZeros = 4;
  const NumberPrefix s = parse_prefix(text);
  std::string out(s.is_negative ? "-" : "+");
  out += s.digits + (s.is_in_exponent ? 'e' : s.has_point ? '.' : ' ');
  if (s.digits.empty() && s.is_in_exponent) return out;  // zero
  if (s.is_in_exponent || (s.has_point && !s.digits.empty())) out += std::to_string(s.scale);
  out += s.is_in_exponent ? std::string(1, s.exponent_sign) + s.exponent_digits
                          : '/' + std::to_string(std::min(s.zeros, kMaxCountedZeros));
  return out;
}

bool may_become_number(std::string_view text, std::string_view content) {
  if (content[0] == 'r') return true;
  Decimal d = parse_decimal(text);
  if (content == "n0") return d.digits.empty();
  const bool is_negative = content[1] == '-';
  if (text.empty()) return true;
  if (is_negative != d.is_negative) return false;
  std::string_view target_digits = content.substr(is_negative ? 2 : 1);
  target_digits = target_digits.substr(0, target_digits.find('e'));
  if (d.is_in_exponent) {
    const NumberPrefix s = parse_prefix(text);
    if (s.digits != target_digits) return false;
    const int64_t missing_exponent = std::stoll(std::string(content.substr(content.find('e') + 1))) - s.scale;
    if (s.exponent_digits.empty() && (s.exponent_sign == 0 || missing_exponent == 0)) return true;
    if (s.exponent_digits.empty()) return (missing_exponent < 0) == (s.exponent_sign == '-');
    return missing_exponent != 0 && (missing_exponent < 0) == (s.exponent_sign == '-') &&
           std::to_string(std::abs(missing_exponent)).starts_with(s.exponent_digits);
  }
  size_t common_length = std::min(d.digits.size(), target_digits.size());
  if (std::string_view(d.digits).substr(0, common_length) != target_digits.substr(0, common_length)) return false;
  return d.digits.size() <= target_digits.size() || d.digits.size() - d.trailing_zeros <= target_digits.size();
}

}  // namespace guided
