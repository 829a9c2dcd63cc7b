// Expands rules with operators into lists of alternatives, as Lark's loader does. In: trees of rules. Out: the names
// and the alternatives of all rules, in order, including the rules that implement repetitions.
//
//     a: b (c | d)? e+        a: b c __a_plus_0 | b d __a_plus_0 | b __a_plus_0        __a_plus_0: e | __a_plus_0 e
//
// How: `x+` and `x*` become a separate rule, which all repetitions of the same item share. Choices inside a sequence
// are multiplied out, the first choice varying slowest, and duplicates are dropped. Names are numbered in the order in
// which Lark walks a tree: the deepest level first, from left to right.
//
// Source: lark/load_grammar.py, `EBNF_to_BNF` and `SimplifyRule_Visitor`. Cost: linear in the trees and in the result.
// Not done: this file leaves repetitions of 50 and more, and all errors, to Lark itself (`NotHandled`).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "not_handled.hpp"

namespace guided::lark {

class Ebnf {
 public:
  enum class Kind : uint8_t { kSymbol, kSequence, kChoice, kAlias, kMaybe, kOptional, kStar, kPlus, kTimes };
  struct Node {
    Kind kind;
    int32_t symbol = 0;            // the symbol; of an alias: its name
    bool is_filtered_out = false;  // a terminal that Lark's parser filters out of its trees
    int32_t low = 0, high = 0;
    std::vector<int32_t> parts = {};
  };
  using Alternatives = std::vector<std::vector<int32_t>>;
  struct Rule {
    int32_t name;
    Alternatives alternatives;
  };

  // `max_symbols`: a bound on the symbols of all alternatives, including dropped ones.
  explicit Ebnf(size_t max_symbols = SIZE_MAX) : symbols_left_(max_symbols) {}

  int32_t intern_symbol(const std::string& name, bool is_terminal);
  const std::pair<std::string, bool>& symbol_info(int32_t symbol) const { return names_[symbol]; }
  int32_t add_node(Node node);
  const Node& node(int32_t node) const { return nodes_[node]; }
  // Replaces a node by a symbol.
  void set_symbol(int32_t node, int32_t symbol, bool is_filtered_out);
  // The nodes of a tree in Lark's order (see the top of this file), the root last.
  std::vector<int32_t> nodes_in_order(int32_t root) const;
  // Adds the next rule, whose tree has this root. `keeps_all`: no symbol is filtered out.
  void add_rule(int32_t name, int32_t root, bool keeps_all);
  // Expands all rules that can be used, in Lark's order.
  std::vector<Rule> expand_rules(int32_t start);

 private:
  struct Root {
    int32_t name, node;
  };
  struct Alternative {
    std::vector<int32_t> symbols;
    int32_t alias = -1;
    auto operator<=>(const Alternative&) const = default;
  };

  int32_t replace_operator(int32_t node, const std::string& prefix, bool keeps_all);
  int32_t repeat_item(int32_t item, const char* kind, const std::string& prefix);
  int32_t max_children(int32_t node, bool keeps_all) const;
  void spend(size_t symbols);
  void append_key(int32_t node, std::vector<int32_t>& key) const;
  const std::vector<Alternative>& expand_node(int32_t node);
  Alternatives expand_root(const Root& root);

  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, bool>> names_;
  std::map<std::pair<std::string, bool>, int32_t> numbers_;
  std::vector<Root> roots_, repetition_roots_;
  std::map<std::vector<int32_t>, int32_t> repetitions_;  // repeated item -> the node of the rule's name
  std::map<int32_t, std::vector<Alternative>> expansions_;
  int32_t repetition_count_ = 0;
  size_t symbols_left_;
};

}  // namespace guided::lark
