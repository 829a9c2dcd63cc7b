// Reads a Lark grammar. In: its text and its start rule. Out: terminals as patterns, and rules as lists of
// alternatives, with the order and the names that Lark's loader gives them.
//
// How: imported files are read first, and their definitions get the names that Lark gives them. Then the definitions
// are checked as in Lark. A literal in a rule becomes a terminal when it is first used. A template becomes a rule for
// each list of arguments with which it is used. `Ebnf` expands the rules.
//
// Source: lark/load_grammar.py, `GrammarBuilder` and `Grammar.compile`. Cost: linear in the texts and in the result.
// Not done: this file leaves all errors, and grammars near the bounds of ../bounds.py, to the Python code
// (`NotHandled`).
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
  bool is_named;  // the grammar defines or declares it; otherwise, it is a literal in a rule
};

// The location of the first definition of a name, in the text with the number `text_number`. `written_name`: the name
// in that text.
struct DefinedName {
  std::string name, written_name;
  int32_t text_number;
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
  int32_t importer;  // the number of the importing text
};

struct Loader {
  const Patterns& patterns;
  int32_t max_depth;
  std::function<std::string(const std::u32string&)> terminal_name;  // the name that Lark prefers for a string, or ""
  std::function<ImportedText(const Import&)> open_import;
};

class Grammar {
 public:
  Grammar(const Loader& loader, std::u32string_view text, const std::string& start);

  std::vector<Terminal> terminals;
  std::vector<Ebnf::Rule> rules;
  std::vector<std::string> ignored;
  std::vector<DefinedName> defined_names;
  Ebnf ebnf;  // the expander of the rules; it also holds the names of the symbols in `rules`

 private:
  using Mangle = std::function<std::string(const std::string&)>;
  struct Definition;
  using Scope = std::unordered_map<std::string, Definition*>;
  struct Definition {
    std::string name;
    bool is_terminal = false, is_declared = false, keeps_all = false;
    int32_t priority = 0;
    std::vector<std::string> parameters = {};
    SyntaxTree tree = {.kind = SyntaxTree::Kind::kChoice};
    const Scope* scope = nullptr;
    int32_t level = 0;  // of a terminal: how deeply it nests terminals; -1 while this is computed
    int64_t length = 0;
    std::optional<TerminalPattern> pattern = {};
  };
  struct File {  // the definitions of the grammar or of an imported file, in order
    Scope scope;
    std::vector<Definition*> order;
  };
  struct Symbol {
    int32_t number;
    bool is_filtered_out;
  };
  using Arguments = std::map<std::string, Symbol>;
  struct Instance {
    int32_t name;
    const Definition* definition;
    Arguments arguments;
  };

  File& read_file(std::u32string_view text, int32_t number, const Mangle& mangle, int32_t depth);
  void import_into(File& out, const std::vector<Statement>& statements, int32_t number, const Mangle& mangle,
                   int32_t depth);
  void add_definition(File& out, Statement& statement, int32_t number, const Mangle& mangle);
  Definition& new_definition(File& out, std::string name, bool is_terminal);
  void add_ignored(File& out, Statement& statement, int32_t number);
  static void remove_unused(File& file, std::vector<std::string> used_names);
  void check_terminal(Definition& terminal, int32_t depth);
  void check_terminal_tree(Definition& terminal, const SyntaxTree& tree, int32_t depth);
  void check_rules(const File& file) const;
  void check_rule(const File& file, const Definition& rule, const SyntaxTree& tree) const;
  const TerminalPattern& pattern_of(Definition& terminal);
  void add_terminals(const File& file);
  void add_rules(const File& file, const std::string& start);
  int32_t build_node(const SyntaxTree& tree, const Arguments& arguments);
  void name_literals(int32_t root, bool keeps_all);
  Symbol literal_symbol(const SyntaxTree& literal);
  std::string literal_name(const TerminalPattern& pattern);
  void apply_templates(int32_t root, const File& file);

  const Loader& loader_;
  std::deque<File> files_;
  std::deque<Definition> definitions_;
  std::set<std::string> terminal_names_, declared_;
  std::map<std::tuple<bool, std::u32string, char>, std::string> names_by_pattern_;
  std::unordered_map<int32_t, const SyntaxTree*> literals_, usages_;  // by node of `ebnf`, for the current rule
  std::set<int32_t> created_rules_;
  std::vector<Instance> instances_;
  int64_t total_length_ = 0;
  int32_t unnamed_count_ = 0, usage_count_ = 0, node_count_ = 0;
};

}  // namespace guided::lark
