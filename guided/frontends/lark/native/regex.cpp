#include "regex.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "ascii.hpp"

namespace guided::lark {

Ranges normalise(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges joined;
  for (const auto& [low, high] : ranges)
    if (!joined.empty() && low <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, high);
    else
      joined.emplace_back(low, high);
  Ranges out;
  for (const auto& [low, high] : joined) {
    if (low < 0xD800) out.emplace_back(low, std::min(high, 0xD7FF));
    if (high > 0xDFFF) out.emplace_back(std::max(low, 0xE000), high);
  }
  return out;
}

Ranges complement(const Ranges& ranges) {
  Ranges out;
  int32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (next < low) out.emplace_back(next, low - 1);
    next = high + 1;
  }
  if (next <= kLastChar) out.emplace_back(next, kLastChar);
  return normalise(std::move(out));
}

namespace {

constexpr int32_t kMaxNesting = 100, kMaxCount = 1000;
constexpr int64_t kMaxWidth = int64_t{1} << 31;
constexpr int kIgnoreCase = 1, kDotAll = 2;

Width operator+(const Width& a, const Width& b) {
  const bool is_bounded = a.high != kUnbounded && b.high != kUnbounded;
  return {a.low + b.low, is_bounded ? a.high + b.high : kUnbounded};
}

Width unite(const Width& a, const Width& b) {
  const bool is_bounded = a.high != kUnbounded && b.high != kUnbounded;
  return {std::min(a.low, b.low), is_bounded ? std::max(a.high, b.high) : kUnbounded};
}

class RegexReader {
 public:
  RegexReader(std::u32string_view text, Alphabet& alphabet, const RegexLimits& limits)
      : text_(text), alphabet_(alphabet), max_depth_(std::min(limits.depth, kMaxNesting)), nodes_left_(limits.nodes) {}

  Pattern read() {
    Pattern out = parse_choice(0, 0);
    if (pos_ != text_.size()) throw NotHandled{};
    return out;
  }

 private:
  using Kind = Regex::Kind;
  struct Counts {
    int32_t low, high;
  };

  char32_t peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : 0; }
  bool is_end() const { return pos_ >= text_.size(); }
  bool take(char32_t c) {
    if (is_end() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  char32_t next() {
    if (is_end()) throw NotHandled{};
    return text_[pos_++];
  }
  void spend(size_t nodes) {
    nodes_left_ -= static_cast<int64_t>(nodes);
    if (nodes_left_ < 0) throw NotHandled{};
  }

  Pattern parse_choice(int flags, int32_t depth) {
    if (depth > max_depth_) throw NotHandled{};
    Pattern out = parse_sequence(flags, depth);
    if (is_end() || peek() != '|') return out;
    Regex tree{.kind = Kind::kChoice};
    tree.parts.push_back(std::move(out.tree));
    while (take('|')) {
      Pattern branch = parse_sequence(flags, depth);
      out.width = unite(out.width, branch.width);
      tree.parts.push_back(std::move(branch.tree));
    }
    out.tree = std::move(tree);
    return out;
  }

  Pattern parse_sequence(int flags, int32_t depth) {
    Pattern out;
    bool is_nothing = false;
    while (!is_end() && peek() != '|' && peek() != ')') {
      Pattern piece = parse_atom(flags, depth);
      spend(1);
      if (const auto counts = parse_quantifier()) piece = repeat(std::move(piece), *counts);
      out.width = out.width + piece.width;
      if (out.width.low > kMaxWidth || out.width.high > kMaxWidth) throw NotHandled{};
      is_nothing = is_nothing || piece.tree.kind == Kind::kNothing;
      out.tree.parts.push_back(std::move(piece.tree));
    }
    if (is_nothing) {
      out.tree = Regex{.kind = Kind::kNothing};
    } else if (out.tree.parts.size() == 1) {
      Regex only = std::move(out.tree.parts[0]);
      out.tree = std::move(only);
    }
    return out;
  }

  Pattern parse_atom(int flags, int32_t depth) {
    const char32_t c = peek();
    if (c == '(') return parse_group(flags, depth);
    if (c == '[') return chars_pattern(parse_set(flags));
    if (c == '\\') return parse_escape(flags);
    if (c == '.') {
      ++pos_;
      return chars_pattern(complement(flags & kDotAll ? Ranges{} : Ranges{{'\n', '\n'}}));
    }
    if (c == '^' || c == '$' || c == '*' || c == '+' || c == '?' || (c == '{' && parse_counts())) throw NotHandled{};
    ++pos_;
    return literal_pattern(c, flags);
  }

  Pattern chars_pattern(Ranges chars) {
    spend(chars.size());
    Regex tree{.kind = chars.empty() ? Kind::kNothing : Kind::kChars, .chars = std::move(chars)};
    return {std::move(tree), {1, 1}};
  }

  Pattern literal_pattern(char32_t c, int flags) {
    if (c >= 0xD800 && c <= 0xDFFF) throw NotHandled{};
    const auto character = static_cast<int32_t>(c);
    if ((flags & kIgnoreCase) == 0) return chars_pattern({{character, character}});
    return chars_pattern(alphabet_.case_variants(character));
  }

  Pattern parse_group(int flags, int32_t depth) {
    ++pos_;
    if (take('?') && !take(':')) {
      for (char32_t c = next(); c != ':'; c = next()) {
        if (c == 'i')
          flags |= kIgnoreCase;
        else if (c == 's')
          flags |= kDotAll;
        else if (c != 'm' && c != 'u')
          throw NotHandled{};
      }
    }
    Pattern out = parse_choice(flags, depth + 1);
    if (!take(')')) throw NotHandled{};
    return out;
  }

  // Reads counts in braces, such as {2,5}. If there are none at the cursor, the cursor does not move.
  std::optional<Counts> parse_counts() {
    const size_t start = pos_;
    ++pos_;
    const auto read_number = [&]() -> std::optional<int32_t> {
      const size_t begin = pos_;
      int32_t out = 0;
      while (is_digit(peek())) {
        out = std::min(10 * out + static_cast<int32_t>(text_[pos_] - '0'), 10 * kMaxCount);
        ++pos_;
      }
      return pos_ == begin ? std::nullopt : std::optional(out);
    };
    const auto low = read_number();
    const bool has_comma = take(',');
    const auto high = has_comma ? read_number() : low;
    if ((!low && !has_comma) || !take('}')) {
      pos_ = start;
      return std::nullopt;
    }
    return Counts{low.value_or(0), high.value_or(kUnbounded)};
  }

  std::optional<Counts> parse_quantifier() {
    auto out = parse_quantifier_symbol();
    if (!out) return out;
    if (out->low >= kMaxCount || out->high >= kMaxCount || (out->high != kUnbounded && out->high < out->low))
      throw NotHandled{};
    is_lazy_ = take('?');
    const size_t end = pos_;
    if (parse_quantifier_symbol()) throw NotHandled{};  // a possessive quantifier, or an error
    pos_ = end;
    return out;
  }

  std::optional<Counts> parse_quantifier_symbol() {
    if (take('*')) return Counts{0, kUnbounded};
    if (take('+')) return Counts{1, kUnbounded};
    if (take('?')) return Counts{0, 1};
    return !is_end() && peek() == '{' ? parse_counts() : std::nullopt;
  }

  Pattern repeat(Pattern piece, const Counts& counts) {
    spend(1);
    Pattern out;
    out.width.low = piece.width.low * counts.low;
    const bool is_unbounded = piece.width.high == kUnbounded || counts.high == kUnbounded;
    out.width.high = piece.width.high * counts.high;
    if (is_unbounded) out.width.high = piece.width.high == 0 || counts.high == 0 ? 0 : kUnbounded;
    if (counts.high == 0) return out;
    if (counts.low == 1 && counts.high == 1) return piece;
    out.tree = {.kind = Kind::kRepeat, .is_lazy = is_lazy_, .low = counts.low, .high = counts.high};
    out.tree.parts.push_back(std::move(piece.tree));
    return out;
  }

  Pattern parse_escape(int flags) {
    const char32_t c = peek(1);
    if (auto chars = take_class()) return chars_pattern(std::move(*chars));
    if (c >= '1' && c <= '9') throw NotHandled{};
    if (c == 'b') throw NotHandled{};
    ++pos_;
    return literal_pattern(parse_escaped_character(), flags);
  }

  // Reads \d, \s, \w, \D, \S or \W. If there is none at the cursor, the cursor does not move.
  std::optional<Ranges> take_class() {
    const char32_t c = peek(1);
    const char32_t lower = c | 32;
    if (peek() != '\\' || (lower != 'd' && lower != 's' && lower != 'w')) return std::nullopt;
    pos_ += 2;
    const Ranges& chars = alphabet_.class_chars(static_cast<char>(lower));
    return c == lower ? chars : complement(chars);
  }

  // Reads an escape for a single character, after its backslash.
  char32_t parse_escaped_character() {
    const char32_t c = next();
    constexpr std::u32string_view kNames = U"abfnrtv", kValues = U"\a\b\f\n\r\t\v";
    if (const size_t index = kNames.find(c); index != kNames.npos) return kValues[index];
    if (c == 'x' || c == 'u' || c == 'U') {
      int64_t out = 0;
      for (int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8; digits > 0; --digits) out = 16 * out + hex_value(next());
      if (out > kLastChar) throw NotHandled{};
      return static_cast<char32_t>(out);
    }
    if (is_octal(c)) {
      char32_t out = c - '0';
      for (int digits = 0; digits < 2 && is_octal(peek()); ++digits) out = 8 * out + (next() - '0');
      if (out > 0xFF) throw NotHandled{};
      return out;
    }
    if (is_digit(c) || is_lower(c) || is_upper(c)) throw NotHandled{};
    return c;
  }

  Ranges parse_set(int flags) {
    ++pos_;
    const bool is_negated = take('^');
    Ranges members;
    bool has_class = false;
    if (peek() == '[') throw NotHandled{};  // Python warns about a set in a set
    for (bool is_first = true; is_first || peek() != ']'; is_first = false) {
      const char32_t here = peek();
      if (peek(1) == here && (here == '-' || here == '&' || here == '~' || here == '|'))
        throw NotHandled{};  // and about an operator of sets
      if (const auto chars = take_class()) {
        if (peek() == '-' && peek(1) != ']') throw NotHandled{};
        members.insert(members.end(), chars->begin(), chars->end());
        has_class = true;
        continue;
      }
      const auto low = static_cast<int32_t>(parse_set_member());
      int32_t high = low;
      if (peek() == '-' && peek(1) != ']') {
        ++pos_;
        if (peek() == '-' || take_class()) throw NotHandled{};
        high = static_cast<int32_t>(parse_set_member());
        if (high < low) throw NotHandled{};
      }
      members.emplace_back(low, high);
    }
    ++pos_;
    if (flags & kIgnoreCase) {
      if (has_class) throw NotHandled{};
      members = case_variants_of_set(members);
    }
    Ranges out = normalise(std::move(members));
    return is_negated ? complement(out) : out;
  }

  char32_t parse_set_member() {
    const char32_t c = next();
    return c == '\\' ? parse_escaped_character() : c;
  }

  Ranges case_variants_of_set(const Ranges& members) {
    Ranges out;
    for (const auto& [low, high] : members) {
      if (high > 0x7F) throw NotHandled{};
      for (int32_t c = low; c <= high; ++c) {
        const Ranges& chars = alphabet_.case_variants(c);
        out.insert(out.end(), chars.begin(), chars.end());
      }
    }
    return out;
  }

  std::u32string_view text_;
  Alphabet& alphabet_;
  int32_t max_depth_;
  int64_t nodes_left_;
  size_t pos_ = 0;
  bool is_lazy_ = false;
};

}  // namespace

Pattern read_regex(std::u32string_view pattern, Alphabet& alphabet, const RegexLimits& limits) {
  return RegexReader(pattern, alphabet, limits).read();
}

}  // namespace guided::lark
