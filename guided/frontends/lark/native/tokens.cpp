#include "tokens.hpp"

#include <array>
#include <utility>

#include "ascii.hpp"

namespace guided::lark {
namespace {

bool is_space(char32_t c) { return c == ' ' || c == '\t' || c == '\f' || c == '\r' || c == '\n'; }

}  // namespace

Token Tokens::finish() {
  const bool is_first = !is_finished_;
  is_finished_ = true;
  return is_first ? Token::kNewline : Token::kEnd;
}

Token Tokens::read() {
  const char32_t c = text_[begin_], next = at(begin_ + 1);
  switch (c) {
    case '\n':
    case '\r':
      return newline();
    case '(':
      return single(Token::kOpen);
    case ')':
      return single(Token::kClose);
    case '[':
      return single(Token::kOpenSquare);
    case ']':
      return single(Token::kCloseSquare);
    case '{':
      return single(Token::kOpenBrace);
    case '}':
      return single(Token::kCloseBrace);
    case ':':
      return single(Token::kColon);
    case ',':
      return single(Token::kComma);
    case '|':
      return single(Token::kOr);
    case '~':
      return single(Token::kTilde);
    case '.':
      return next == '.' ? single(Token::kDots, 2) : single(Token::kDot);
    case '*':
      return single(Token::kOperator);
    case '?':
    case '!':
      return modifiers();
    case '+':
    case '-':
      if (is_digit(next)) return number();
      if (c == '+') return single(Token::kOperator);
      if (next == '>') return single(Token::kTo, 2);
      throw Unusual{};
    case '"':
      return string();
    case '/':
      return regex();
    case '%':
      return directive();
    default:
      return is_digit(c) ? number() : name();
  }
}

bool Tokens::skip() {
  size_t place = begin_;
  if (at(place) == '\\') {
    for (++place; at(place) == ' '; ++place) {
    }
    if (at(place) != '\n') throw Unusual{};
    end_ = place + 1;
    return true;
  }
  while (is_space(at(place))) ++place;
  if (at(place) == '#' || (at(place) == '/' && at(place + 1) == '/')) {
    while (place < text_.size() && text_[place] != '\n') ++place;
    end_ = place;
    return true;
  }
  place = begin_;
  while (at(place) == ' ' || at(place) == '\t') ++place;
  end_ = place;
  return place > begin_;
}

Token Tokens::newline() {
  size_t place = begin_;
  if (at(place) == '\r' && at(place + 1) != '\n') throw Unusual{};
  while (is_space(at(place))) ++place;
  end_ = place;
  if (at(place) != '|') return Token::kNewline;
  ++end_;
  return Token::kOrLine;
}

Token Tokens::modifiers() {
  const char32_t c = text_[begin_];
  size_t place = begin_ + 1;
  if (at(place) == (c == '?' ? U'!' : U'?')) ++place;
  if (is_small(at(place)) || at(place) == '_') return single(Token::kModifiers, place - begin_);
  if (c == '?' && !is_small(at(begin_ + 1)) && at(begin_ + 1) != '_') return single(Token::kOperator);
  throw Unusual{};
}

Token Tokens::number() {
  size_t place = begin_ + 1;
  while (is_digit(at(place))) ++place;
  return single(Token::kNumber, place - begin_);
}

Token Tokens::string() {
  size_t place = begin_ + 1;
  for (; at(place) != '"'; ++place) {
    const char32_t next = at(place + 1);
    if (place >= text_.size() || text_[place] == '\n') throw Unusual{};
    if (text_[place] != '\\') continue;
    if (next == 'b' || next == 'f' || next == '/') throw Unusual{};  // an escape of JSON
    if (next == 'u' && (at(place + 2) | 32) == 'd') throw Unusual{};
    if (next == '"' || next == '\\') {
      if (next == '\\' && is_json_escape(place + 1)) throw Unusual{};
      ++place;
    }
  }
  ++place;
  return single(Token::kString, place + (at(place) == 'i') - begin_);
}

bool Tokens::is_json_escape(size_t place) const {
  const char32_t next = at(place + 1);
  return next == 'b' || next == 'f' || next == '/' || (next == 'u' && (at(place + 2) | 32) == 'd');
}

Token Tokens::regex() {
  size_t place = begin_ + 1;
  for (; at(place) != '/'; ++place) {
    if (place >= text_.size() || text_[place] == '\n') throw Unusual{};
    if (text_[place] == '\\' && (at(place + 1) == '/' || at(place + 1) == '\\')) ++place;
  }
  ++place;
  while (std::u32string_view(U"imslux").find(at(place)) != std::u32string_view::npos && at(place) != 0) ++place;
  return single(Token::kRegex, place - begin_);
}

Token Tokens::directive() {
  constexpr std::array<std::pair<std::u32string_view, Token>, 3> kDirectives{{
      {U"%ignore", Token::kIgnore},
      {U"%declare", Token::kDeclare},
      {U"%import", Token::kImport},
  }};
  for (const auto& [written, kind] : kDirectives)
    if (text_.substr(begin_).starts_with(written)) return single(kind, written.size());
  throw Unusual{};
}

Token Tokens::name() {
  size_t place = begin_ + (text_[begin_] == '_');
  const bool is_rule = is_small(at(place));
  if (!is_rule && !is_capital(at(place))) throw Unusual{};
  const auto belongs = [&](char32_t c) { return c == '_' || is_digit(c) || (is_rule ? is_small(c) : is_capital(c)); };
  while (belongs(at(place))) ++place;
  return single(is_rule ? Token::kRule : Token::kTerminal, place - begin_);
}

}  // namespace guided::lark
