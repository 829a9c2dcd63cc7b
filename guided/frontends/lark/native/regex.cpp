#include "regex.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "ascii.hpp"

namespace guided::lark {

Ranges normalised(Ranges ranges) {
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
  return normalised(std::move(out));
}

namespace {

constexpr int32_t kMaxGroups = 100, kMaxRounds = 1000;
constexpr int64_t kMaxWidth = int64_t{1} << 31;
constexpr int kIgnoreCase = 1, kDotAll = 2;

Width operator+(const Width& a, const Width& b) {
  const bool is_bounded = a.high != kUnbounded && b.high != kUnbounded;
  return {a.low + b.low, is_bounded ? a.high + b.high : kUnbounded};
}

Width either(const Width& a, const Width& b) {
  const bool is_bounded = a.high != kUnbounded && b.high != kUnbounded;
  return {std::min(a.low, b.low), is_bounded ? std::max(a.high, b.high) : kUnbounded};
}

class RegexReader {
 public:
  RegexReader(std::u32string_view text, Alphabet& alphabet, const RegexLimits& limits)
      : text_(text), alphabet_(alphabet), most_depth_(std::min(limits.depth, kMaxGroups)), nodes_left_(limits.nodes) {}

  Pattern read() {
    Pattern out = choice(0, 0);
    if (at_ != text_.size()) throw Unusual{};
    return out;
  }

 private:
  using Kind = Regex::Kind;
  struct Counts {
    int32_t low, high;
  };

  char32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool is_end() const { return at_ >= text_.size(); }
  bool take(char32_t c) {
    if (is_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char32_t next() {
    if (is_end()) throw Unusual{};
    return text_[at_++];
  }
  void spend(size_t nodes) {
    nodes_left_ -= static_cast<int64_t>(nodes);
    if (nodes_left_ < 0) throw Unusual{};
  }

  Pattern choice(int flags, int32_t depth) {
    if (depth > most_depth_) throw Unusual{};
    Pattern out = sequence(flags, depth);
    if (is_end() || peek() != '|') return out;
    Regex tree{.kind = Kind::kChoice};
    tree.parts.push_back(std::move(out.tree));
    while (take('|')) {
      Pattern branch = sequence(flags, depth);
      out.width = either(out.width, branch.width);
      tree.parts.push_back(std::move(branch.tree));
    }
    out.tree = std::move(tree);
    return out;
  }

  Pattern sequence(int flags, int32_t depth) {
    Pattern out;
    bool is_nothing = false;
    while (!is_end() && peek() != '|' && peek() != ')') {
      Pattern piece = atom(flags, depth);
      spend(1);
      if (const auto counts = quantifier()) piece = repeated(std::move(piece), *counts);
      out.width = out.width + piece.width;
      if (out.width.low > kMaxWidth || out.width.high > kMaxWidth) throw Unusual{};
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

  Pattern atom(int flags, int32_t depth) {
    const char32_t c = peek();
    if (c == '(') return group(flags, depth);
    if (c == '[') return one_of(set(flags));
    if (c == '\\') return escape(flags);
    if (c == '.') {
      ++at_;
      return one_of(complement(flags & kDotAll ? Ranges{} : Ranges{{'\n', '\n'}}));
    }
    if (c == '^' || c == '$' || c == '*' || c == '+' || c == '?' || (c == '{' && counts())) throw Unusual{};
    ++at_;
    return literal(c, flags);
  }

  Pattern one_of(Ranges chars) {
    spend(chars.size());
    Regex tree{.kind = chars.empty() ? Kind::kNothing : Kind::kChars, .chars = std::move(chars)};
    return {std::move(tree), {1, 1}};
  }

  Pattern literal(char32_t c, int flags) {
    if (c >= 0xD800 && c <= 0xDFFF) throw Unusual{};
    const auto character = static_cast<int32_t>(c);
    if ((flags & kIgnoreCase) == 0) return one_of({{character, character}});
    return one_of(alphabet_.either_case(character));
  }

  Pattern group(int flags, int32_t depth) {
    ++at_;
    if (take('?') && !take(':')) {
      for (char32_t c = next(); c != ':'; c = next()) {
        if (c == 'i')
          flags |= kIgnoreCase;
        else if (c == 's')
          flags |= kDotAll;
        else if (c != 'm' && c != 'u')
          throw Unusual{};
      }
    }
    Pattern out = choice(flags, depth + 1);
    if (!take(')')) throw Unusual{};
    return out;
  }

  // The counts in braces at the cursor, which moves past them.
  std::optional<Counts> counts() {
    const size_t start = at_;
    ++at_;
    const auto number = [&]() -> std::optional<int32_t> {
      const size_t begin = at_;
      int32_t out = 0;
      while (is_digit(peek())) {
        out = std::min(10 * out + static_cast<int32_t>(text_[at_] - '0'), 10 * kMaxRounds);
        ++at_;
      }
      return at_ == begin ? std::nullopt : std::optional(out);
    };
    const auto low = number();
    const bool has_comma = take(',');
    const auto high = has_comma ? number() : low;
    if ((!low && !has_comma) || !take('}')) {
      at_ = start;
      return std::nullopt;
    }
    return Counts{low.value_or(0), high.value_or(kUnbounded)};
  }

  std::optional<Counts> quantifier() {
    auto out = mark();
    if (!out) return out;
    if (out->low >= kMaxRounds || out->high >= kMaxRounds || (out->high != kUnbounded && out->high < out->low))
      throw Unusual{};
    is_lazy_ = take('?');
    const size_t here = at_;
    if (mark()) throw Unusual{};  // a possessive quantifier, or an error
    at_ = here;
    return out;
  }

  std::optional<Counts> mark() {
    if (take('*')) return Counts{0, kUnbounded};
    if (take('+')) return Counts{1, kUnbounded};
    if (take('?')) return Counts{0, 1};
    return !is_end() && peek() == '{' ? counts() : std::nullopt;
  }

  Pattern repeated(Pattern piece, const Counts& counts) {
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

  Pattern escape(int flags) {
    const char32_t c = peek(1);
    if (auto chars = class_at_cursor()) return one_of(std::move(*chars));
    if (c >= '1' && c <= '9') throw Unusual{};
    if (c == 'b') throw Unusual{};
    ++at_;
    return literal(character(), flags);
  }

  // \d, \s, \w or an opposite at the cursor, which moves past it.
  std::optional<Ranges> class_at_cursor() {
    const char32_t c = peek(1);
    const char32_t small = c | 32;
    if (peek() != '\\' || (small != 'd' && small != 's' && small != 'w')) return std::nullopt;
    at_ += 2;
    const Ranges& chars = alphabet_.of_class(static_cast<char>(small));
    return c == small ? chars : complement(chars);
  }

  // The character of an escape; the cursor is after the backslash.
  char32_t character() {
    const char32_t c = next();
    constexpr std::u32string_view kNames = U"abfnrtv", kValues = U"\a\b\f\n\r\t\v";
    if (const size_t at = kNames.find(c); at != kNames.npos) return kValues[at];
    if (c == 'x' || c == 'u' || c == 'U') {
      int64_t out = 0;
      for (int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8; digits > 0; --digits) out = 16 * out + hex_value(next());
      if (out > kLastChar) throw Unusual{};
      return static_cast<char32_t>(out);
    }
    if (is_octal(c)) {
      char32_t out = c - '0';
      for (int digits = 0; digits < 2 && is_octal(peek()); ++digits) out = 8 * out + (next() - '0');
      if (out > 0xFF) throw Unusual{};
      return out;
    }
    if (is_digit(c) || is_small(c) || is_capital(c)) throw Unusual{};
    return c;
  }

  Ranges set(int flags) {
    ++at_;
    const bool is_negated = take('^');
    Ranges members;
    bool has_class = false;
    if (peek() == '[') throw Unusual{};  // Python warns of it
    for (bool is_first = true; is_first || peek() != ']'; is_first = false) {
      const char32_t here = peek();
      if (peek(1) == here && (here == '-' || here == '&' || here == '~' || here == '|')) throw Unusual{};  // the same
      if (const auto chars = class_at_cursor()) {
        if (peek() == '-' && peek(1) != ']') throw Unusual{};
        members.insert(members.end(), chars->begin(), chars->end());
        has_class = true;
        continue;
      }
      const auto low = static_cast<int32_t>(member());
      int32_t high = low;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        if (peek() == '-' || class_at_cursor()) throw Unusual{};
        high = static_cast<int32_t>(member());
        if (high < low) throw Unusual{};
      }
      members.emplace_back(low, high);
    }
    ++at_;
    if (flags & kIgnoreCase) {
      if (has_class) throw Unusual{};
      members = either_case(members);
    }
    Ranges out = normalised(std::move(members));
    return is_negated ? complement(out) : out;
  }

  char32_t member() {
    const char32_t c = next();
    return c == '\\' ? character() : c;
  }

  Ranges either_case(const Ranges& members) {
    Ranges out;
    for (const auto& [low, high] : members) {
      if (high > 0x7F) throw Unusual{};
      for (int32_t c = low; c <= high; ++c) {
        const Ranges& chars = alphabet_.either_case(c);
        out.insert(out.end(), chars.begin(), chars.end());
      }
    }
    return out;
  }

  std::u32string_view text_;
  Alphabet& alphabet_;
  int32_t most_depth_;
  int64_t nodes_left_;
  size_t at_ = 0;
  bool is_lazy_ = false;
};

}  // namespace

Pattern read_regex(std::u32string_view pattern, Alphabet& alphabet, const RegexLimits& limits) {
  return RegexReader(pattern, alphabet, limits).read();
}

}  // namespace guided::lark
