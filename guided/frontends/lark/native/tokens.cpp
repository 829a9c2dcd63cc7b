#include "tokens.hpp"

#include <array>
#include <utility>

#include "ascii.hpp"

namespace guided::lark {
namespace {

bool is_space(char32_t c) { return c == ' ' || c == '\t' || c == '\f' || c == '\r' || c == '\n'; }

}  // namespace

Token Tokens::read_end() {
  const bool is_first = !is_finished_;
  is_finished_ = true;
  return is_first ? Token::kNewline : Token::kEnd;
}

Token Tokens::read_token() {
  const char32_t c = text_[begin_], next = char_at(begin_ + 1);
  switch (c) {
    case '\n':
    case '\r':
      return read_newline();
    case '(':
      return make_token(Token::kOpen);
    case ')':
      return make_token(Token::kClose);
    case '[':
      return make_token(Token::kOpenSquare);
    case ']':
      return make_token(Token::kCloseSquare);
    case '{':
      return make_token(Token::kOpenBrace);
    case '}':
      return make_token(Token::kCloseBrace);
    case ':':
      return make_token(Token::kColon);
    case ',':
      return make_token(Token::kComma);
    case '|':
      return make_token(Token::kOr);
    case '~':
      return make_token(Token::kTilde);
    case '.':
      return next == '.' ? make_token(Token::kDots, 2) : make_token(Token::kDot);
    case '*':
      return make_token(Token::kOperator);
    case '?':
    case '!':
      return read_modifiers();
    case '+':
    case '-':
      if (is_digit(next)) return read_number();
      if (c == '+') return make_token(Token::kOperator);
      if (next == '>') return make_token(Token::kArrow, 2);
      throw NotHandled{};
    case '"':
      return read_string();
    case '/':
      return read_regex_literal();
    case '%':
      return read_directive();
    default:
      return is_digit(c) ? read_number() : read_name();
  }
}

bool Tokens::skip() {
  size_t pos = begin_;
  if (char_at(pos) == '\\') {
    for (++pos; char_at(pos) == ' '; ++pos) {
    }
    if (char_at(pos) != '\n') throw NotHandled{};
    end_ = pos + 1;
    return true;
  }
  while (is_space(char_at(pos))) ++pos;
  if (char_at(pos) == '#' || (char_at(pos) == '/' && char_at(pos + 1) == '/')) {
    while (pos < text_.size() && text_[pos] != '\n') ++pos;
    end_ = pos;
    return true;
  }
  pos = begin_;
  while (char_at(pos) == ' ' || char_at(pos) == '\t') ++pos;
  end_ = pos;
  return pos > begin_;
}

Token Tokens::read_newline() {
  size_t pos = begin_;
  if (char_at(pos) == '\r' && char_at(pos + 1) != '\n') throw NotHandled{};
  while (is_space(char_at(pos))) ++pos;
  end_ = pos;
  if (char_at(pos) != '|') return Token::kNewline;
  ++end_;
  return Token::kOrLine;
}

Token Tokens::read_modifiers() {
  const char32_t c = text_[begin_];
  size_t pos = begin_ + 1;
  if (char_at(pos) == (c == '?' ? U'!' : U'?')) ++pos;
  if (is_lower(char_at(pos)) || char_at(pos) == '_') return make_token(Token::kModifiers, pos - begin_);
  if (c == '?' && !is_lower(char_at(begin_ + 1)) && char_at(begin_ + 1) != '_') return make_token(Token::kOperator);
  throw NotHandled{};
}

Token Tokens::read_number() {
  size_t pos = begin_ + 1;
  while (is_digit(char_at(pos))) ++pos;
  return make_token(Token::kNumber, pos - begin_);
}

Token Tokens::read_string() {
  size_t pos = begin_ + 1;
  for (; char_at(pos) != '"'; ++pos) {
    const char32_t next = char_at(pos + 1);
    if (pos >= text_.size() || text_[pos] == '\n') throw NotHandled{};
    if (text_[pos] != '\\') continue;
    if (next == 'b' || next == 'f' || next == '/') throw NotHandled{};  // an escape of JSON
    if (next == 'u' && (char_at(pos + 2) | 32) == 'd') throw NotHandled{};
    if (next == '"' || next == '\\') {
      if (next == '\\' && is_json_escape(pos + 1)) throw NotHandled{};
      ++pos;
    }
  }
  ++pos;
  return make_token(Token::kString, pos + (char_at(pos) == 'i') - begin_);
}

bool Tokens::is_json_escape(size_t pos) const {
  const char32_t next = char_at(pos + 1);
  return next == 'b' || next == 'f' || next == '/' || (next == 'u' && (char_at(pos + 2) | 32) == 'd');
}

Token Tokens::read_regex_literal() {
  size_t pos = begin_ + 1;
  for (; char_at(pos) != '/'; ++pos) {
    if (pos >= text_.size() || text_[pos] == '\n') throw NotHandled{};
    if (text_[pos] == '\\' && (char_at(pos + 1) == '/' || char_at(pos + 1) == '\\')) ++pos;
  }
  ++pos;
  while (std::u32string_view(U"imslux").find(char_at(pos)) != std::u32string_view::npos && char_at(pos) != 0) ++pos;
  return make_token(Token::kRegex, pos - begin_);
}

Token Tokens::read_directive() {
  constexpr std::array<std::pair<std::u32string_view, Token>, 3> kDirectives{{
      {U"%ignore", Token::kIgnore},
      {U"%declare", Token::kDeclare},
      {U"%import", Token::kImport},
  }};
  for (const auto& [directive_text, kind] : kDirectives)
    if (text_.substr(begin_).starts_with(directive_text)) return make_token(kind, directive_text.size());
  throw NotHandled{};
}

Token Tokens::read_name() {
  size_t pos = begin_ + (text_[begin_] == '_');
  const bool is_rule = is_lower(char_at(pos));
  if (!is_rule && !is_upper(char_at(pos))) throw NotHandled{};
  const auto is_name_char = [&](char32_t c) {
    return c == '_' || is_digit(c) || (is_rule ? is_lower(c) : is_upper(c));
  };
  while (is_name_char(char_at(pos))) ++pos;
  return make_token(is_rule ? Token::kRule : Token::kTerminal, pos - begin_);
}

}  // namespace guided::lark
