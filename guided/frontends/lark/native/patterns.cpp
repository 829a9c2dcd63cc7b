#include "patterns.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <tuple>

#include "ascii.hpp"

namespace guided::lark {
namespace {

constexpr size_t kMaxPattern = 1'000'000;

// Python's `re.escape`.
std::u32string escaped(const std::u32string& text) {
  constexpr std::u32string_view kSpecial = U"()[]{}?*+-|^$\\.&~# \t\n\r\v\f";
  std::u32string out;
  for (const char32_t c : text) {
    if (kSpecial.find(c) != kSpecial.npos) out += U'\\';
    out += c;
  }
  return out;
}

void replace_all(std::u32string& text, std::u32string_view from, std::u32string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::u32string joined(std::initializer_list<std::u32string_view> parts) {
  std::u32string out;
  for (const auto part : parts) out += part;
  return out;
}

std::u32string counts(const Notation& tree) {
  const auto digits = [](int32_t count) {
    const std::string written = std::to_string(count);
    return std::u32string(written.begin(), written.end());
  };
  return joined({U"{", digits(tree.low), tree.has_range ? U"," : U"", tree.has_range ? digits(tree.high) : U"", U"}"});
}

// The value of a Python string literal with this text.
std::u32string python_value(const std::u32string& text) {
  std::u32string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r' || text[at] == 0) throw Unusual{};
    if (text[at] != '\\') {
      out += text[at];
      continue;
    }
    if (++at == text.size()) throw Unusual{};
    const char32_t c = text[at];
    constexpr std::u32string_view kNames = U"nftr\\'\"", kValues = U"\n\f\t\r\\'\"";
    if (const size_t known = kNames.find(c); known != kNames.npos) {
      out += kValues[known];
      continue;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0 || at + digits >= text.size()) throw Unusual{};
    int64_t value = 0;
    for (size_t digit = 1; digit <= digits; ++digit) value = 16 * value + hex_value(text[at + digit]);
    at += digits;
    if (value > kLastChar || (value >= 0xD800 && value <= 0xDFFF)) throw Unusual{};
    out += static_cast<char32_t>(value);
  }
  return out;
}

// Lark's `eval_escaping`.
std::u32string unescaped(std::u32string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    if (text[at] != '\\') continue;
    if (++at == text.size()) throw Unusual{};
    const char32_t c = text[at];
    if (c == '\\')
      out += U"\\\\";
    else if (std::u32string_view(U"Uuxnftr").find(c) == std::u32string_view::npos)
      out += U'\\';
    out += c;
  }
  replace_all(out, U"\\\"", U"\"");
  replace_all(out, U"'", U"\\'");
  return python_value(out);
}

}  // namespace

std::u32string TerminalPattern::regexp() const {
  std::u32string out = is_text ? escaped(value) : value;
  if (flag == 0) return out;
  const std::u32string letter(1, static_cast<char32_t>(flag));
  return joined({U"(?", letter, U":", out, U")"});
}

TerminalPattern Patterns::of_literal(const Notation& literal) const {
  if (literal.kind == Notation::Kind::kRange) {
    const auto ends = {std::u32string_view(literal.literal), std::u32string_view(literal.last)};
    std::u32string inner, values;
    for (const auto each : ends) {
      if (each.back() != '"') throw Unusual{};
      const auto written = each.substr(1, each.size() - 2);
      const auto value = unescaped(written);
      if (value.size() != 1) throw Unusual{};
      values += value;
      inner += inner.empty() ? U"[" : U"-";
      inner += written;
    }
    if (values[0] > values[1]) throw Unusual{};
    return {.value = joined({inner, U"]"})};
  }
  const std::u32string& written = literal.literal;
  const size_t end = written.find_last_of(U"/\"");
  TerminalPattern out{.is_text = written[0] == '"', .raw = written};
  for (const char32_t c : std::u32string_view(written).substr(end + 1)) {
    if (out.flag != 0 && out.flag != static_cast<char>(c)) throw Unusual{};
    out.flag = static_cast<char>(c);
  }
  out.value = unescaped(std::u32string_view(written).substr(1, end - 1));
  if (out.value.empty()) throw Unusual{};
  if (out.is_text) replace_all(out.value, U"\\\\", U"\\");
  return out;
}

TerminalPattern Patterns::of(const Notation& tree, const OfTerminal& terminal) const {
  using Kind = Notation::Kind;
  switch (tree.kind) {
    case Kind::kChoice:
      return choice(tree, terminal);
    case Kind::kSequence:
      return sequence(tree, terminal);
    case Kind::kName:
      return terminal(tree.name);
    case Kind::kLiteral:
    case Kind::kRange:
      return of_literal(tree);
    case Kind::kOperator:
    case Kind::kTimes:
    case Kind::kMaybe: {
      const TerminalPattern inner = of(tree.parts[0], terminal);
      TerminalPattern out{.value = joined({U"(?:", inner.regexp(), U")"}), .flag = inner.flag};
      if (tree.kind == Kind::kTimes)
        out.value += counts(tree);
      else
        out.value += tree.kind == Kind::kMaybe ? U'?' : static_cast<char32_t>(tree.sign);
      return out;
    }
    default:
      throw Unusual{};
  }
}

TerminalPattern Patterns::sequence(const Notation& tree, const OfTerminal& terminal) const {
  if (tree.parts.empty()) return {.is_text = true};
  if (tree.parts.size() == 1) return of(tree.parts[0], terminal);
  TerminalPattern out;
  for (const Notation& part : tree.parts) out.value += of(part, terminal).regexp();
  if (out.value.size() > kMaxPattern) throw Unusual{};
  return out;
}

// Lark tries the longest option first.
TerminalPattern Patterns::choice(const Notation& tree, const OfTerminal& terminal) const {
  if (tree.parts.size() == 1) return of(tree.parts[0], terminal);
  struct Option {
    TerminalPattern pattern;
    Width width;
    bool is_unbounded() const { return width.high == kUnbounded; }
    auto key() const { return std::tuple(is_unbounded(), width.high, width.low, pattern.value.size()); }
  };
  std::vector<Option> options;
  for (const Notation& part : tree.parts) {
    TerminalPattern pattern = of(part, terminal);
    const Width found = width(pattern);
    options.push_back({std::move(pattern), found});
  }
  std::stable_sort(options.begin(), options.end(), [](const Option& a, const Option& b) { return a.key() > b.key(); });
  TerminalPattern out{.value = U"(?:"};
  for (const Option& each : options) {
    if (&each != options.data()) out.value += U'|';
    out.value += each.pattern.regexp();
  }
  out.value += U')';
  if (out.value.size() > kMaxPattern) throw Unusual{};
  return out;
}

std::optional<Width> Patterns::width_if_known(const TerminalPattern& pattern) const {
  const auto length = static_cast<int64_t>(pattern.value.size());
  if (pattern.is_text) return Width{length, length};
  try {
    return read_regex(pattern.regexp(), alphabet_, limits_).width;
  } catch (const Unusual&) {
    return std::nullopt;
  }
}

Width Patterns::width(const TerminalPattern& pattern) const {
  const auto known = width_if_known(pattern);
  return known ? *known : width_of_(pattern.regexp());
}

}  // namespace guided::lark
