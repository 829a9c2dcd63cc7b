#include "notation.hpp"

#include <algorithm>

#include "ascii.hpp"

namespace guided::lark {
namespace {

constexpr int32_t kMaxBrackets = 100;
constexpr int32_t kMaxRepetitions = 10'000;

class Parser {
 public:
  Parser(std::u32string_view text, int32_t most_depth)
      : tokens_(text), most_depth_(std::min(most_depth, kMaxBrackets)) {}

  std::vector<Statement> statements() {
    std::vector<Statement> out;
    while (tokens_.kind() != Token::kEnd)
      if (!take(Token::kNewline)) out.push_back(statement());
    return out;
  }

 private:
  using Kind = Notation::Kind;

  bool take(Token kind) {
    if (tokens_.kind() != kind) return false;
    tokens_.advance();
    return true;
  }
  void need(Token kind) {
    if (!take(kind)) throw Unusual{};
  }
  std::string name() {
    const Token kind = tokens_.kind();
    if (kind != Token::kRule && kind != Token::kTerminal) throw Unusual{};
    const auto written = tokens_.text();
    if (tokens_.is_followed_by('[')) throw Unusual{};  // attributes, in another dialect
    std::string out(written.begin(), written.end());
    tokens_.advance();
    return out;
  }
  std::string rule_name() {
    if (tokens_.kind() != Token::kRule) throw Unusual{};
    return name();
  }
  int32_t number() {
    if (tokens_.kind() != Token::kNumber) throw Unusual{};
    const auto written = tokens_.text();
    if (written.size() > 9) throw Unusual{};
    const bool is_negative = written[0] == '-';
    int32_t out = 0;
    for (const char32_t c : written)
      if (is_digit(c)) out = 10 * out + static_cast<int32_t>(c - '0');
    tokens_.advance();
    return is_negative ? -out : out;
  }

  Statement statement() {
    const Token kind = tokens_.kind();
    if (kind == Token::kModifiers || kind == Token::kRule) return rule();
    if (kind == Token::kTerminal) return terminal();
    if (take(Token::kIgnore)) {
      Statement out{.kind = Statement::Kind::kIgnore};
      first_token_ = {};
      out.tree = choice(0);
      out.span = first_token_;
      need(Token::kNewline);
      return out;
    }
    if (take(Token::kDeclare)) {
      Statement out{.kind = Statement::Kind::kDeclare};
      do {
        out.names.push_back(name());
      } while (!take(Token::kNewline));
      return out;
    }
    if (take(Token::kImport)) return import();
    throw Unusual{};
  }

  Statement rule() {
    Statement out{.kind = Statement::Kind::kRule};
    bool is_inlined = false;
    if (tokens_.kind() == Token::kModifiers) {
      is_inlined = tokens_.text().find('?') != std::u32string_view::npos;
      out.keeps_all = tokens_.text().find('!') != std::u32string_view::npos;
      tokens_.advance();
    }
    out.span = tokens_.span();
    out.name = rule_name();
    if (is_inlined && out.name[0] == '_') throw Unusual{};
    if (take(Token::kOpenBrace)) {
      do {
        out.names.push_back(rule_name());
      } while (take(Token::kComma));
      need(Token::kCloseBrace);
    }
    if (take(Token::kDot)) number();  // the priority of a rule does not change its texts
    need(Token::kColon);
    out.tree = choice(0);
    need(Token::kNewline);
    return out;
  }

  Statement terminal() {
    Statement out{.kind = Statement::Kind::kTerminal, .span = tokens_.span()};
    out.name = name();
    if (take(Token::kDot)) out.priority = number();
    need(Token::kColon);
    out.tree = choice(0);
    need(Token::kNewline);
    return out;
  }

  Statement import() {
    Statement out{.kind = Statement::Kind::kImport};
    out.is_relative = take(Token::kDot);
    do {
      out.names.push_back(name());
    } while (take(Token::kDot));
    if (take(Token::kOpen)) {
      do {
        const std::string each = name();
        out.aliases.emplace_back(each, each);
      } while (take(Token::kComma));
      need(Token::kClose);
    } else {
      const std::string last = out.names.back();
      out.names.pop_back();
      out.aliases.emplace_back(last, take(Token::kTo) ? name() : last);
    }
    if (out.names.empty()) throw Unusual{};
    need(Token::kNewline);
    return out;
  }

  Notation choice(int32_t depth) {
    if (depth > most_depth_) throw Unusual{};
    Notation out{.kind = Kind::kChoice};
    do {
      Notation branch = sequence(depth);
      if (tokens_.kind() == Token::kTo) {
        if (depth > 0) throw Unusual{};  // Lark mistakes a nested alias for the name of a rule
        tokens_.advance();
        Notation alias{.kind = Kind::kAlias, .name = rule_name()};
        alias.parts.push_back(std::move(branch));
        branch = std::move(alias);
      }
      out.parts.push_back(std::move(branch));
    } while (take(Token::kOr) || take(Token::kOrLine));
    return out;
  }

  Notation sequence(int32_t depth) {
    Notation out{.kind = Kind::kSequence};
    while (true) switch (tokens_.kind()) {
        case Token::kOpen:
        case Token::kOpenSquare:
        case Token::kRule:
        case Token::kTerminal:
        case Token::kString:
        case Token::kRegex:
          out.parts.push_back(repeated(depth));
          break;
        default:
          return out;
      }
  }

  Notation repeated(int32_t depth) {
    Notation item = atom(depth);
    Notation out{.kind = Kind::kOperator};
    if (tokens_.kind() == Token::kOperator) {
      record_first_token();
      out.sign = static_cast<char>(tokens_.text()[0]);
      out.length = 1;
      tokens_.advance();
    } else if (tokens_.kind() == Token::kTilde) {
      record_first_token();
      tokens_.advance();
      out.kind = Kind::kTimes;
      out.length = 24;
      out.low = out.high = count();
      if (take(Token::kDots)) {
        out.has_range = true;
        out.high = count();
      }
      if (out.low > out.high) throw Unusual{};
    } else {
      return item;
    }
    out.parts.push_back(std::move(item));
    return out;
  }

  int32_t count() {
    const int32_t out = number();
    if (out < 0 || out > kMaxRepetitions) throw Unusual{};
    return out;
  }

  Notation atom(int32_t depth) {
    if (take(Token::kOpen)) {
      Notation out = choice(depth + 1);
      need(Token::kClose);
      return out;
    }
    if (take(Token::kOpenSquare)) {
      Notation out{.kind = Kind::kMaybe};
      out.parts.push_back(choice(depth + 1));
      need(Token::kCloseSquare);
      return out;
    }
    return value(depth);
  }

  Notation value(int32_t depth) {
    if (depth > most_depth_) throw Unusual{};
    const Token kind = tokens_.kind();
    if (kind == Token::kString || kind == Token::kRegex) return literal();
    Notation out{.kind = Kind::kName, .name = name()};
    out.is_terminal = kind == Token::kTerminal;
    out.is_left_out = out.is_terminal && out.name[0] == '_';
    if (kind == Token::kRule && take(Token::kOpenBrace)) {
      out.kind = Kind::kTemplate;
      do {
        out.parts.push_back(value(depth + 1));
      } while (take(Token::kComma));
      need(Token::kCloseBrace);
    }
    return out;
  }

  Notation literal() {
    record_first_token();
    const bool is_string = tokens_.kind() == Token::kString;
    Notation out{.kind = Kind::kLiteral, .literal = std::u32string(tokens_.text())};
    tokens_.advance();
    if (is_string && take(Token::kDots)) {
      if (tokens_.kind() != Token::kString) throw Unusual{};
      out.kind = Kind::kRange;
      out.last = tokens_.text();
      tokens_.advance();
    }
    out.length = static_cast<int32_t>(out.literal.size() + out.last.size());
    return out;
  }

  void record_first_token() {
    if (first_token_.end == 0) first_token_ = tokens_.span();
  }

  Tokens tokens_;
  int32_t most_depth_;
  Span first_token_;
};

}  // namespace

bool is_terminal(std::string_view name) { return is_capital(static_cast<char32_t>(name[name[0] == '_' ? 1 : 0])); }

std::vector<Statement> parse_notation(std::u32string_view text, int32_t most_depth) {
  return Parser(text, most_depth).statements();
}

}  // namespace guided::lark
