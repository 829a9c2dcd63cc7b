// Reads a Lark text. In: a text and its start rule. Out: terminals as patterns, and rules as lists of alternatives, in
// the order and with the names that Lark's loader gives them.
//
// How: imports come first, each file with the names that Lark gives to its definitions. Then the definitions are
// checked as in Lark. A literal in a rule becomes a terminal when it is first used. The use of a template becomes a
// rule for each list of arguments. `Ebnf` expands the rules.
//
// Source: lark/load_grammar.py, `GrammarBuilder` and `Grammar.compile`. Cost: linear in the texts and in the result.
// What it does not do: all errors, and texts near the bounds of ../bounds.py, are left to the Python code (`Unusual`).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ebnf.hpp"
#include "notation.hpp"
#include "patterns.hpp"

namespace guided::lark {

struct Terminal {
  std::string name;
  TerminalPattern pattern;
  int32_t priority;
  bool is_named;  // a text defines or declares it; otherwise, it is a literal in a rule
};

// The location of the first definition of a name, in the text with this number. `written`: the name in that text.
struct DefinedName {
  std::string name, written;
  int32_t text;
  Span span;
};

struct ImportedText {
  int32_t number;
  std::u32string text;
};

struct Import {
  std::vector<std::string> path;
  bool is_relative;
  std::map<std::string, std::string> aliases;
  int32_t outer;  // the number of the importing text
};

struct Loader {
  const Patterns& patterns;
  int32_t most_depth;
  std::function<std::string(const std::u32string&)> name_of;  // the name of a terminal for a string; "" if it has none
  std::function<ImportedText(const Import&)> open;
};

class Grammar {
 public:
  Grammar(const Loader& loader, std::u32string_view text, const std::string& start);

  std::vector<Terminal> terminals;
  std::vector<Ebnf::Rule> rules;
  std::vector<std::string> ignored;
  std::vector<DefinedName> defined;
  Ebnf ebnf;  // the names of the symbols in `rules`

 private:
  using Mangle = std::function<std::string(const std::string&)>;
  struct Definition;
  using Scope = std::unordered_map<std::string, Definition*>;
  struct Definition {
    std::string name;
    bool is_terminal = false, is_declared = false, keeps_all = false;
    int32_t priority = 0;
    std::vector<std::string> parameters = {};
    Notation tree = {.kind = Notation::Kind::kChoice};
    const Scope* scope = nullptr;
    int32_t level = 0;  // of a terminal: how deeply it nests terminals; -1 while this is computed
    int64_t length = 0;
    std::optional<TerminalPattern> pattern = {};
  };
  struct Text {  // the definitions of a text, in order
    Scope scope;
    std::vector<Definition*> order;
  };
  struct Symbol {
    int32_t number;
    bool is_left_out;
  };
  using Arguments = std::map<std::string, Symbol>;
  struct Instance {
    int32_t name;
    const Definition* definition;
    Arguments arguments;
  };

  Text& read_text(std::u32string_view text, int32_t number, const Mangle& mangle, int32_t depth);
  void import_into(Text& out, const std::vector<Statement>& statements, int32_t number, const Mangle& mangle,
                   int32_t depth);
  void define(Text& out, Statement& statement, int32_t number, const Mangle& mangle);
  Definition& add(Text& out, std::string name, bool is_terminal);
  void ignore(Text& out, Statement& statement, int32_t number);
  static void remove_unused(Text& text, std::vector<std::string> used);
  void check_terminal(Definition& terminal, int32_t depth);
  void check_terminal_tree(Definition& terminal, const Notation& tree, int32_t depth);
  void check_rules(const Text& text) const;
  void check_rule(const Text& text, const Definition& rule, const Notation& tree) const;
  const TerminalPattern& pattern_of(Definition& terminal);
  void add_terminals(const Text& text);
  void add_rules(const Text& text, const std::string& start);
  int32_t node(const Notation& tree, const Arguments& arguments);
  void name_literals(int32_t root, bool keeps_all);
  Symbol literal_symbol(const Notation& literal);
  std::string literal_name(const TerminalPattern& pattern);
  void apply_templates(int32_t root, const Text& text);

  const Loader& loader_;
  std::deque<Text> texts_;
  std::deque<Definition> definitions_;
  std::set<std::string> terminal_names_, declared_;
  std::map<std::tuple<bool, std::u32string, char>, std::string> names_by_pattern_;
  std::unordered_map<int32_t, const Notation*> literals_, usages_;  // by node of `ebnf`, of one rule
  std::set<int32_t> created_;
  std::vector<Instance> instances_;
  int64_t length_ = 0;
  int32_t unnamed_ = 0, used_templates_ = 0, nodes_ = 0;
};

}  // namespace guided::lark
