// Splits a grammar in Lark's notation into tokens. Tries the rules of Lark's lexer in their order, and skips comments
// and blanks. Throws `NotHandled` for a character that cannot begin a token, and for escapes that only JSON strings have.
#pragma once

#include <cstdint>
#include <string_view>

#include "not_handled.hpp"

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
  kArrow,
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
    kind_ = begin_ >= text_.size() ? read_end() : read_token();
  }

 private:
  char32_t char_at(size_t pos) const { return pos < text_.size() ? text_[pos] : 0; }

  // Reads the end of the text: first kNewline, since Lark adds a line end, then kEnd.
  Token read_end();

  // Skips blanks, a comment with all whitespace before it, or an escaped line end. Returns whether it skipped any.
  bool skip();

  Token make_token(Token kind, size_t length = 1) {
    end_ = begin_ + length;
    return kind;
  }
  Token read_token();
  Token read_newline();
  Token read_modifiers();
  Token read_number();
  Token read_string();
  bool is_json_escape(size_t pos) const;
  Token read_regex_literal();
  Token read_directive();
  Token read_name();

  std::u32string_view text_;
  size_t begin_ = 0, end_ = 0;
  Token kind_ = Token::kEnd;
  bool is_finished_ = false;
};

}  // namespace guided::lark
