#include "notation.hpp"

#include <algorithm>

#include "ascii.hpp"

namespace guided::lark {
namespace {

constexpr int32_t kMaxBrackets = 100;
constexpr int32_t kMaxRepetitions = 10'000;

class Parser {
 public:
  Parser(std::u32string_view text, int32_t max_depth) : tokens_(text), max_depth_(std::min(max_depth, kMaxBrackets)) {}

  std::vector<Statement> parse_statements() {
    std::vector<Statement> out;
    while (tokens_.kind() != Token::kEnd)
      if (!take(Token::kNewline)) out.push_back(parse_statement());
    return out;
  }

 private:
  using Kind = SyntaxTree::Kind;

  bool take(Token kind) {
    if (tokens_.kind() != kind) return false;
    tokens_.advance();
    return true;
  }
  void expect(Token kind) {
    if (!take(kind)) throw NotHandled{};
  }
  std::string parse_name() {
    const Token kind = tokens_.kind();
    if (kind != Token::kRule && kind != Token::kTerminal) throw NotHandled{};
    const auto token_text = tokens_.text();
    if (tokens_.is_followed_by('[')) throw NotHandled{};  // attributes, in another dialect
    std::string out(token_text.begin(), token_text.end());
    tokens_.advance();
    return out;
  }
  std::string parse_rule_name() {
    if (tokens_.kind() != Token::kRule) throw NotHandled{};
    return parse_name();
  }
  int32_t parse_number() {
    if (tokens_.kind() != Token::kNumber) throw NotHandled{};
    const auto token_text = tokens_.text();
    if (token_text.size() > 9) throw NotHandled{};
    const bool is_negative = token_text[0] == '-';
    int32_t out = 0;
    for (const char32_t c : token_text)
      if (is_digit(c)) out = 10 * out + static_cast<int32_t>(c - '0');
    tokens_.advance();
    return is_negative ? -out : out;
  }

  Statement parse_statement() {
    const Token kind = tokens_.kind();
    if (kind == Token::kModifiers || kind == Token::kRule) return parse_rule();
    if (kind == Token::kTerminal) return parse_terminal();
    if (take(Token::kIgnore)) {
      Statement out{.kind = Statement::Kind::kIgnore};
      first_token_ = {};
      out.tree = parse_choice(0);
      out.span = first_token_;
      expect(Token::kNewline);
      return out;
    }
    if (take(Token::kDeclare)) {
      Statement out{.kind = Statement::Kind::kDeclare};
      do {
        out.names.push_back(parse_name());
      } while (!take(Token::kNewline));
      return out;
    }
    if (take(Token::kImport)) return parse_import();
    throw NotHandled{};
  }

  Statement parse_rule() {
    Statement out{.kind = Statement::Kind::kRule};
    bool is_inlined = false;
    if (tokens_.kind() == Token::kModifiers) {
      is_inlined = tokens_.text().find('?') != std::u32string_view::npos;
      out.keeps_all = tokens_.text().find('!') != std::u32string_view::npos;
      tokens_.advance();
    }
    out.span = tokens_.span();
    out.name = parse_rule_name();
    if (is_inlined && out.name[0] == '_') throw NotHandled{};
    if (take(Token::kOpenBrace)) {
      do {
        out.names.push_back(parse_rule_name());
      } while (take(Token::kComma));
      expect(Token::kCloseBrace);
    }
    if (take(Token::kDot)) parse_number();  // the priority of a rule does not change its texts
    expect(Token::kColon);
    out.tree = parse_choice(0);
    expect(Token::kNewline);
    return out;
  }

  Statement parse_terminal() {
    Statement out{.kind = Statement::Kind::kTerminal, .span = tokens_.span()};
    out.name = parse_name();
    if (take(Token::kDot)) out.priority = parse_number();
    expect(Token::kColon);
    out.tree = parse_choice(0);
    expect(Token::kNewline);
    return out;
  }

  Statement parse_import() {
    Statement out{.kind = Statement::Kind::kImport};
    out.is_relative = take(Token::kDot);
    do {
      out.names.push_back(parse_name());
    } while (take(Token::kDot));
    if (take(Token::kOpen)) {
      do {
        const std::string each = parse_name();
        out.aliases.emplace_back(each, each);
      } while (take(Token::kComma));
      expect(Token::kClose);
    } else {
      const std::string last = out.names.back();
      out.names.pop_back();
      out.aliases.emplace_back(last, take(Token::kArrow) ? parse_name() : last);
    }
    if (out.names.empty()) throw NotHandled{};
    expect(Token::kNewline);
    return out;
  }

  SyntaxTree parse_choice(int32_t depth) {
    if (depth > max_depth_) throw NotHandled{};
    SyntaxTree out{.kind = Kind::kChoice};
    do {
      SyntaxTree branch = parse_sequence(depth);
      if (tokens_.kind() == Token::kArrow) {
        if (depth > 0) throw NotHandled{};  // Lark mistakes a nested alias for the name of a rule
        tokens_.advance();
        SyntaxTree alias{.kind = Kind::kAlias, .name = parse_rule_name()};
        alias.parts.push_back(std::move(branch));
        branch = std::move(alias);
      }
      out.parts.push_back(std::move(branch));
    } while (take(Token::kOr) || take(Token::kOrLine));
    return out;
  }

  SyntaxTree parse_sequence(int32_t depth) {
    SyntaxTree out{.kind = Kind::kSequence};
    while (true) switch (tokens_.kind()) {
        case Token::kOpen:
        case Token::kOpenSquare:
        case Token::kRule:
        case Token::kTerminal:
        case Token::kString:
        case Token::kRegex:
          out.parts.push_back(parse_repeated(depth));
          break;
        default:
          return out;
      }
  }

  SyntaxTree parse_repeated(int32_t depth) {
    SyntaxTree item = parse_atom(depth);
    SyntaxTree out{.kind = Kind::kOperator};
    if (tokens_.kind() == Token::kOperator) {
      record_first_token();
      out.sign = static_cast<char>(tokens_.text()[0]);
      out.length = 1;
      tokens_.advance();
    } else if (tokens_.kind() == Token::kTilde) {
      record_first_token();
      tokens_.advance();
      out.kind = Kind::kTimes;
      out.length = 24;  // an upper bound of `~` and two counts, which have at most 9 digits each
      out.low = out.high = parse_count();
      if (take(Token::kDots)) {
        out.has_range = true;
        out.high = parse_count();
      }
      if (out.low > out.high) throw NotHandled{};
    } else {
      return item;
    }
    out.parts.push_back(std::move(item));
    return out;
  }

  int32_t parse_count() {
    const int32_t out = parse_number();
    if (out < 0 || out > kMaxRepetitions) throw NotHandled{};
    return out;
  }

  SyntaxTree parse_atom(int32_t depth) {
    if (take(Token::kOpen)) {
      SyntaxTree out = parse_choice(depth + 1);
      expect(Token::kClose);
      return out;
    }
    if (take(Token::kOpenSquare)) {
      SyntaxTree out{.kind = Kind::kMaybe};
      out.parts.push_back(parse_choice(depth + 1));
      expect(Token::kCloseSquare);
      return out;
    }
    return parse_value(depth);
  }

  SyntaxTree parse_value(int32_t depth) {
    if (depth > max_depth_) throw NotHandled{};
    const Token kind = tokens_.kind();
    if (kind == Token::kString || kind == Token::kRegex) return parse_literal();
    SyntaxTree out{.kind = Kind::kName, .name = parse_name()};
    out.is_terminal = kind == Token::kTerminal;
    out.is_filtered_out = out.is_terminal && out.name[0] == '_';
    if (kind == Token::kRule && take(Token::kOpenBrace)) {
      out.kind = Kind::kTemplate;
      do {
        out.parts.push_back(parse_value(depth + 1));
      } while (take(Token::kComma));
      expect(Token::kCloseBrace);
    }
    return out;
  }

  SyntaxTree parse_literal() {
    record_first_token();
    const bool is_string = tokens_.kind() == Token::kString;
    SyntaxTree out{.kind = Kind::kLiteral, .literal = std::u32string(tokens_.text())};
    tokens_.advance();
    if (is_string && take(Token::kDots)) {
      if (tokens_.kind() != Token::kString) throw NotHandled{};
      out.kind = Kind::kRange;
      out.range_end = tokens_.text();
      tokens_.advance();
    }
    out.length = static_cast<int32_t>(out.literal.size() + out.range_end.size());
    return out;
  }

  void record_first_token() {
    if (first_token_.end == 0) first_token_ = tokens_.span();
  }

  Tokens tokens_;
  int32_t max_depth_;
  Span first_token_;
};

}  // namespace

bool is_terminal(std::string_view name) { return is_upper(static_cast<char32_t>(name[name[0] == '_' ? 1 : 0])); }

std::vector<Statement> parse_statements(std::u32string_view text, int32_t max_depth) {
  return Parser(text, max_depth).parse_statements();
}

}  // namespace guided::lark
