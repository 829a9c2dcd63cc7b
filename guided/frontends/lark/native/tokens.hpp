// Splits a text in Lark's notation into tokens, in the order of the rules of Lark's lexer. Comments and blanks are
// skipped. A character that cannot begin a token, and escapes of JSON in strings, are `Unusual`.
#pragma once

#include <cstdint>
#include <string_view>

#include "unusual.hpp"

namespace guided::lark {

struct Span {
  int32_t begin = 0, end = 0;
};

enum class Token : uint8_t {
  kEnd,
  kNewline,
  kOrLine,
  kOr,
  kOpen,
  kClose,
  kOpenSquare,
  kCloseSquare,
  kOpenBrace,
  kCloseBrace,
  kOperator,
  kColon,
  kComma,
  kDot,
  kDots,
  kTilde,
  kModifiers,
  kRule,
  kTerminal,
  kString,
  kRegex,
  kNumber,
  kTo,
  kIgnore,
  kDeclare,
  kImport,
};

class Tokens {
 public:
  explicit Tokens(std::u32string_view text) : text_(text) { advance(); }

  Token kind() const { return kind_; }
  Span span() const { return {static_cast<int32_t>(begin_), static_cast<int32_t>(end_)}; }
  std::u32string_view text() const { return text_.substr(begin_, end_ - begin_); }
  bool is_followed_by(char32_t c) const { return end_ < text_.size() && text_[end_] == c; }

  void advance() {
    do {
      begin_ = end_;
    } while (skip());
    kind_ = begin_ >= text_.size() ? finish() : read();
  }

 private:
  char32_t at(size_t place) const { return place < text_.size() ? text_[place] : 0; }

  // Lark adds a line end to the text.
  Token finish();

  // Steps past blanks, a comment with all white space before it, or an escaped line end.
  bool skip();

  Token single(Token kind, size_t length = 1) {
    end_ = begin_ + length;
    return kind;
  }
  Token read();
  Token newline();
  Token modifiers();
  Token number();
  Token string();
  bool is_json_escape(size_t place) const;
  Token regex();
  Token directive();
  Token name();

  std::u32string_view text_;
  size_t begin_ = 0, end_ = 0;
  Token kind_ = Token::kEnd;
  bool is_finished_ = false;
};

}  // namespace guided::lark
