// Parses a grammar in Lark's notation. In: its text. Out: its statements, with the same trees as in Lark's loader.
//
//     ?pair{x}: x "," x -> two | [NAME]        %ignore /\s+/        %import common.NUMBER -> DIGITS
//
// How: a tokenizer that tries the terminals of Lark's notation in the order of Lark's lexer (tokens.hpp), and a
// recursive-descent parser. A line that begins with `|` continues the rule above it.
//
// Source: lark/load_grammar.py, `TERMINALS` and `RULES`. Cost: linear in the text.
// Not done: this file leaves %override, %extend, extensions of the notation (../dialect/) and all errors to the
// Python code (`NotHandled`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "not_handled.hpp"
#include "tokens.hpp"

namespace guided::lark {

// A syntax tree. `parts` are the alternatives of a choice, the items of a sequence, the arguments of a template, or the
// item of an alias, an operator or `[x]`. Lark's `value` is a name, a literal, a range or a template.
struct SyntaxTree {
  enum class Kind : uint8_t {
    kChoice,
    kSequence,
    kAlias,
    kOperator,
    kTimes,
    kMaybe,
    kName,
    kLiteral,
    kRange,
    kTemplate
  };
  Kind kind;
  std::string name = {};                        // of a rule, terminal, template or alias
  bool is_terminal = false;                     // of a name
  bool is_filtered_out = false;                 // a terminal that Lark's parser filters out of its trees
  char sign = 0;                                // ?, * or +
  int32_t low = 0, high = 0;                    // the counts of kTimes
  bool has_range = false;                       // it has two counts
  std::u32string literal = {}, range_end = {};  // as written
  int32_t length = 0;                           // characters of its own tokens in Lark's tree, or more
  std::vector<SyntaxTree> parts = {};
};

struct Statement {
  enum class Kind : uint8_t { kRule, kTerminal, kIgnore, kDeclare, kImport };
  Kind kind;
  std::string name = {};
  Span span = {};  // of the name or, in %ignore, of the first literal or operator
  bool keeps_all = false;
  int32_t priority = 0;
  std::vector<std::string> names = {};                            // parameters; declared names; the path of an import
  std::vector<std::pair<std::string, std::string>> aliases = {};  // of an import: a name, and its new name
  bool is_relative = false;
  SyntaxTree tree = {.kind = SyntaxTree::Kind::kChoice};
};

bool is_terminal(std::string_view name);
std::vector<Statement> parse_statements(std::u32string_view text, int32_t max_depth);

}  // namespace guided::lark
