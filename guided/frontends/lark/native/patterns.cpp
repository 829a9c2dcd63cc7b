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
std::u32string escape_regex(const std::u32string& text) {
  constexpr std::u32string_view kSpecial = U"()[]{}?*+-|^$\\.&~# \t\n\r\v\f";
  std::u32string out;
  for (const char32_t c : text) {
    if (kSpecial.find(c) != kSpecial.npos) out += U'\\';
    out += c;
  }
  return out;
}

void replace_all(std::u32string& text, std::u32string_view from, std::u32string_view to) {
  for (size_t pos = text.find(from); pos != text.npos; pos = text.find(from, pos + to.size()))
    text.replace(pos, from.size(), to);
}

std::u32string concatenate(std::initializer_list<std::u32string_view> parts) {
  std::u32string out;
  for (const auto part : parts) out += part;
  return out;
}

std::u32string format_counts(const SyntaxTree& tree) {
  const auto digits = [](int32_t count) {
    const std::string written = std::to_string(count);
    return std::u32string(written.begin(), written.end());
  };
  return concatenate(
      {U"{", digits(tree.low), tree.has_range ? U"," : U"", tree.has_range ? digits(tree.high) : U"", U"}"});
}

// The value of a Python string literal with this content.
std::u32string evaluate_python_string(const std::u32string& text) {
  std::u32string out;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    if (text[pos] == '\r' || text[pos] == 0) throw NotHandled{};
    if (text[pos] != '\\') {
      out += text[pos];
      continue;
    }
    if (++pos == text.size()) throw NotHandled{};
    const char32_t c = text[pos];
    constexpr std::u32string_view kNames = U"nftr\\'\"", kValues = U"\n\f\t\r\\'\"";
    if (const size_t index = kNames.find(c); index != kNames.npos) {
      out += kValues[index];
      continue;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0 || pos + digits >= text.size()) throw NotHandled{};
    int64_t value = 0;
    for (size_t digit = 1; digit <= digits; ++digit) value = 16 * value + hex_value(text[pos + digit]);
    pos += digits;
    if (value > kLastChar || (value >= 0xD800 && value <= 0xDFFF)) throw NotHandled{};
    out += static_cast<char32_t>(value);
  }
  return out;
}

// Lark's `eval_escaping`.
std::u32string eval_escaping(std::u32string_view text) {
  std::u32string out;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    out += text[pos];
    if (text[pos] != '\\') continue;
    if (++pos == text.size()) throw NotHandled{};
    const char32_t c = text[pos];
    if (c == '\\')
      out += U"\\\\";
    else if (std::u32string_view(U"Uuxnftr").find(c) == std::u32string_view::npos)
      out += U'\\';
    out += c;
  }
  replace_all(out, U"\\\"", U"\"");
  replace_all(out, U"'", U"\\'");
  return evaluate_python_string(out);
}

}  // namespace

std::u32string TerminalPattern::regexp() const {
  std::u32string out = is_text ? escape_regex(value) : value;
  if (flag == 0) return out;
  const std::u32string letter(1, static_cast<char32_t>(flag));
  return concatenate({U"(?", letter, U":", out, U")"});
}

TerminalPattern Patterns::literal_pattern(const SyntaxTree& literal) const {
  if (literal.kind == SyntaxTree::Kind::kRange) {
    const auto ends = {std::u32string_view(literal.literal), std::u32string_view(literal.range_end)};
    std::u32string inner, values;
    for (const auto each : ends) {
      if (each.back() != '"') throw NotHandled{};
      const auto written = each.substr(1, each.size() - 2);
      const auto value = eval_escaping(written);
      if (value.size() != 1) throw NotHandled{};
      values += value;
      inner += inner.empty() ? U"[" : U"-";
      inner += written;
    }
    if (values[0] > values[1]) throw NotHandled{};
    return {.value = concatenate({inner, U"]"})};
  }
  const std::u32string& written = literal.literal;
  const size_t end = written.find_last_of(U"/\"");
  TerminalPattern out{.is_text = written[0] == '"', .raw = written};
  for (const char32_t c : std::u32string_view(written).substr(end + 1)) {
    if (out.flag != 0 && out.flag != static_cast<char>(c)) throw NotHandled{};
    out.flag = static_cast<char>(c);
  }
  out.value = eval_escaping(std::u32string_view(written).substr(1, end - 1));
  if (out.value.empty()) throw NotHandled{};
  if (out.is_text) replace_all(out.value, U"\\\\", U"\\");
  return out;
}

TerminalPattern Patterns::pattern_of(const SyntaxTree& tree, const TerminalLookup& look_up_terminal) const {
  using Kind = SyntaxTree::Kind;
  switch (tree.kind) {
    case Kind::kChoice:
      return choice_pattern(tree, look_up_terminal);
    case Kind::kSequence:
      return sequence_pattern(tree, look_up_terminal);
    case Kind::kName:
      return look_up_terminal(tree.name);
    case Kind::kLiteral:
    case Kind::kRange:
      return literal_pattern(tree);
    case Kind::kOperator:
    case Kind::kTimes:
    case Kind::kMaybe: {
      const TerminalPattern inner = pattern_of(tree.parts[0], look_up_terminal);
      TerminalPattern out{.value = concatenate({U"(?:", inner.regexp(), U")"}), .flag = inner.flag};
      if (tree.kind == Kind::kTimes)
        out.value += format_counts(tree);
      else
        out.value += tree.kind == Kind::kMaybe ? U'?' : static_cast<char32_t>(tree.sign);
      return out;
    }
    default:
      throw NotHandled{};
  }
}

TerminalPattern Patterns::sequence_pattern(const SyntaxTree& tree, const TerminalLookup& look_up_terminal) const {
  if (tree.parts.empty()) return {.is_text = true};
  if (tree.parts.size() == 1) return pattern_of(tree.parts[0], look_up_terminal);
  TerminalPattern out;
  for (const SyntaxTree& part : tree.parts) out.value += pattern_of(part, look_up_terminal).regexp();
  if (out.value.size() > kMaxPattern) throw NotHandled{};
  return out;
}

// Lark tries the longest option first.
TerminalPattern Patterns::choice_pattern(const SyntaxTree& tree, const TerminalLookup& look_up_terminal) const {
  if (tree.parts.size() == 1) return pattern_of(tree.parts[0], look_up_terminal);
  struct Option {
    TerminalPattern pattern;
    Width width;
    bool is_unbounded() const { return width.high == kUnbounded; }
    auto key() const { return std::tuple(is_unbounded(), width.high, width.low, pattern.value.size()); }
  };
  std::vector<Option> options;
  for (const SyntaxTree& part : tree.parts) {
    TerminalPattern pattern = pattern_of(part, look_up_terminal);
    const Width option_width = width(pattern);
    options.push_back({std::move(pattern), option_width});
  }
  std::stable_sort(options.begin(), options.end(), [](const Option& a, const Option& b) { return a.key() > b.key(); });
  TerminalPattern out{.value = U"(?:"};
  for (const Option& each : options) {
    if (&each != options.data()) out.value += U'|';
    out.value += each.pattern.regexp();
  }
  out.value += U')';
  if (out.value.size() > kMaxPattern) throw NotHandled{};
  return out;
}

std::optional<Width> Patterns::width_if_known(const TerminalPattern& pattern) const {
  const auto length = static_cast<int64_t>(pattern.value.size());
  if (pattern.is_text) return Width{length, length};
  try {
    return read_regex(pattern.regexp(), alphabet_, limits_).width;
  } catch (const NotHandled&) {
    return std::nullopt;
  }
}

Width Patterns::width(const TerminalPattern& pattern) const {
  const auto known = width_if_known(pattern);
  return known ? *known : width_of_(pattern.regexp());
}

}  // namespace guided::lark
