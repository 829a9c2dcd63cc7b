#include "json/json_number.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>

namespace guided {

namespace {

struct Decimal {
  bool negative = false, in_exponent = false, valid = true;
  std::string digits;    // all digits of the text, without leading zeros
  int64_t exponent = 0;  // of the last digit, including the written exponent
  size_t trailing = 0;   // the number of zeros at the end of `digits`
};

Decimal decimal(std::string_view text) {
  Decimal d;
  size_t i = 0;
  if (i < text.size() && text[i] == '-') {
    d.negative = true;
    ++i;
  }
  bool point = false;
  for (; i < text.size() && (std::isdigit(static_cast<unsigned char>(text[i])) || text[i] == '.'); ++i) {
    if (text[i] == '.') {
      point = true;
      continue;
    }
    if (!d.digits.empty() || text[i] != '0') d.digits += text[i];
    if (point) --d.exponent;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    d.in_exponent = true;
    ++i;
    bool minus = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    while (i + 1 < text.size() && text[i] == '0') ++i;
    std::string_view rest = text.substr(i);
    if (rest.size() > 15) d.valid = false;
    int64_t exponent = 0;
    for (char ch : rest.substr(0, 15)) {
      if (!std::isdigit(static_cast<unsigned char>(ch))) d.valid = false;
      exponent = exponent * 10 + (ch - '0');
    }
    d.exponent += minus ? -exponent : exponent;
  } else if (i < text.size()) {
    d.valid = false;
  }
  while (d.trailing < d.digits.size() && d.digits[d.digits.size() - 1 - d.trailing] == '0') ++d.trailing;
  return d;
}

// A number that is being written: its digits, their scale, and the exponent so far.
struct Spelled {
  std::string digits;            // without zeros at either end
  int64_t scale = 0, zeros = 0;  // the exponent of the last of these digits; the number of zeros after it
  bool negative = false, point = false, in_exponent = false;
  char power_sign = 0;
  std::string power;  // without leading zeros
};

Spelled spelled(std::string_view text) {
  const size_t e = text.find_first_of("eE");
  const Decimal d = decimal(text.substr(0, e));
  Spelled out{d.digits.substr(0, d.digits.size() - d.trailing),
              d.exponent + static_cast<int64_t>(d.trailing),
              d.digits.empty() ? -d.exponent : static_cast<int64_t>(d.trailing),
              d.negative,
              text.substr(0, e).find('.') != std::string_view::npos,
              e != std::string_view::npos,
              0,
              ""};
  for (char ch : out.in_exponent ? text.substr(e + 1) : std::string_view()) {
    if (ch == '-' || ch == '+')
      out.power_sign = ch;
    else if (ch != '0' || !out.power.empty())
      out.power += ch;
    if (std::isdigit(static_cast<unsigned char>(ch)) && out.power_sign == 0) out.power_sign = '+';
  }
  return out;
}

}  // namespace

bool is_number(std::string_view text) {
  size_t i = 0;
  auto digits = [&] {
    const size_t from = i;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) ++i;
    return i - from;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const bool zero = i < text.size() && text[i] == '0';
  const size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

std::string number_stem(std::string_view text) {
  const Decimal d = decimal(text.substr(0, text.find_first_of("eE")));
  if (d.digits.empty()) return "n";
  return (d.negative ? "n-" : "n") + d.digits.substr(0, d.digits.size() - d.trailing);
}

std::string number_content(std::string_view text) {
  Decimal d = decimal(text);
  if (!d.valid && !d.digits.empty()) return std::string(1, 'r').append(text);
  std::string digits = d.digits.substr(0, d.digits.size() - d.trailing);
  if (digits.empty()) return "n0";
  std::string out(d.negative ? "n-" : "n");
  out.append(digits).append("e").append(std::to_string(d.exponent + static_cast<int64_t>(d.trailing)));
  return out;
}

std::string number_essence(std::string_view text) {
  constexpr int64_t kManyZeros = 4;
  const Spelled s = spelled(text);
  std::string out(s.negative ? "-" : "+");
  out += s.digits + (s.in_exponent ? 'e' : s.point ? '.' : ' ');
  if (s.digits.empty() && s.in_exponent) return out;  // zero
  if (s.in_exponent || (s.point && !s.digits.empty())) out += std::to_string(s.scale);
  out += s.in_exponent ? std::string(1, s.power_sign) + s.power : '/' + std::to_string(std::min(s.zeros, kManyZeros));
  return out;
}

bool number_fits(std::string_view text, std::string_view content) {
  if (content[0] == 'r') return true;
  Decimal d = decimal(text);
  if (content == "n0") return d.digits.empty();
  const bool negative = content[1] == '-';
  if (text.empty()) return true;
  if (negative != d.negative) return false;
  std::string_view wanted = content.substr(negative ? 2 : 1);
  wanted = wanted.substr(0, wanted.find('e'));
  if (d.in_exponent) {
    const Spelled s = spelled(text);
    if (s.digits != wanted) return false;
    const int64_t missing = std::stoll(std::string(content.substr(content.find('e') + 1))) - s.scale;
    if (s.power.empty() && (s.power_sign == 0 || missing == 0)) return true;
    if (s.power.empty()) return (missing < 0) == (s.power_sign == '-');
    return missing != 0 && (missing < 0) == (s.power_sign == '-') &&
           std::to_string(std::abs(missing)).starts_with(s.power);
  }
  size_t common = std::min(d.digits.size(), wanted.size());
  if (std::string_view(d.digits).substr(0, common) != wanted.substr(0, common)) return false;
  return d.digits.size() <= wanted.size() || d.digits.size() - d.trailing <= wanted.size();
}

}  // namespace guided
