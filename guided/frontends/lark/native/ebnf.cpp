#include "ebnf.hpp"

#include <algorithm>
#include <set>

namespace guided::lark {
namespace {

constexpr int32_t kOmitted = -1;          // the symbol in an alternative for an omitted `[x]`
constexpr int32_t kRepeatThreshold = 50;  // lark's REPEAT_BREAK_THRESHOLD
constexpr size_t kMaxExpansion = 100'000;

}  // namespace

int32_t Ebnf::intern_symbol(const std::string& name, bool is_terminal) {
  const auto [it, is_new] = numbers_.try_emplace({name, is_terminal}, static_cast<int32_t>(names_.size()));
  if (is_new) names_.emplace_back(name, is_terminal);
  return it->second;
}

int32_t Ebnf::add_node(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<int32_t>(nodes_.size()) - 1;
}

void Ebnf::set_symbol(int32_t node, int32_t symbol, bool is_filtered_out) {
  nodes_[node] = {.kind = Kind::kSymbol, .symbol = symbol, .is_filtered_out = is_filtered_out};
}

std::vector<int32_t> Ebnf::nodes_in_order(int32_t root) const {
  std::vector<int32_t> order{root};
  for (size_t i = 0; i < order.size(); ++i) {  // by levels, each from right to left
    const auto& parts = nodes_[order[i]].parts;
    order.insert(order.end(), parts.rbegin(), parts.rend());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

void Ebnf::add_rule(int32_t name, int32_t root, bool keeps_all) {
  const std::string prefix = names_[name].first;
  for (const int32_t node : nodes_in_order(root))
    for (size_t part = 0; part < nodes_[node].parts.size(); ++part) {
      const int32_t replacement = replace_operator(nodes_[node].parts[part], prefix, keeps_all);
      nodes_[node].parts[part] = replacement;
    }
  roots_.push_back({name, root});
}

int32_t Ebnf::replace_operator(int32_t node, const std::string& prefix, bool keeps_all) {
  const Node current = nodes_[node];
  const auto choice = [&](std::vector<int32_t> parts) {
    return add_node({.kind = Kind::kChoice, .parts = std::move(parts)});
  };
  const auto sequence = [&](size_t count, int32_t part) {
    return add_node({.kind = Kind::kSequence, .parts = std::vector<int32_t>(count, part)});
  };
  switch (current.kind) {
    case Kind::kOptional:
      return choice({current.parts[0], sequence(0, 0)});
    case Kind::kPlus:
      return repeat_item(current.parts[0], "plus", prefix);
    case Kind::kStar: {
      const int32_t repetition = repeat_item(current.parts[0], "star", prefix);
      return choice({repetition, sequence(0, 0)});
    }
    case Kind::kTimes: {
      if (current.low < 0 || current.high < current.low || current.high >= kRepeatThreshold) throw NotHandled{};
      std::vector<int32_t> counts;
      for (int32_t count = current.low; count <= current.high; ++count)
        counts.push_back(sequence(count, current.parts[0]));
      return choice(std::move(counts));
    }
    case Kind::kMaybe: {
      const int32_t count = max_children(current.parts[0], keeps_all);
      const int32_t omitted = add_node({.kind = Kind::kSymbol, .symbol = kOmitted});
      return choice({current.parts[0], sequence(count, omitted)});
    }
    default:
      return node;
  }
}

int32_t Ebnf::repeat_item(int32_t item, const char* kind, const std::string& prefix) {
  std::vector<int32_t> key;
  append_key(item, key);
  const auto [it, is_new] = repetitions_.try_emplace(std::move(key), 0);
  if (!is_new) return it->second;
  const int32_t name = intern_symbol("__" + prefix + "_" + kind + "_" + std::to_string(repetition_count_++), false);
  const int32_t rule_symbol = add_node({.kind = Kind::kSymbol, .symbol = name});
  const int32_t one_item = add_node({.kind = Kind::kSequence, .parts = {item}});
  const int32_t more_items = add_node({.kind = Kind::kSequence, .parts = {rule_symbol, item}});
  repetition_roots_.push_back({name, add_node({.kind = Kind::kChoice, .parts = {one_item, more_items}})});
  return it->second = rule_symbol;
}

// The most children that a node adds to a parse tree; lark's `FindRuleSize`.
int32_t Ebnf::max_children(int32_t node, bool keeps_all) const {
  const Node& current = nodes_[node];
  int32_t out = 0;
  switch (current.kind) {
    case Kind::kSymbol:
      if (current.symbol == kOmitted) return 0;
      return names_[current.symbol].second ? keeps_all || !current.is_filtered_out
                                           : !names_[current.symbol].first.starts_with('_');
    case Kind::kSequence:
      for (const int32_t part : current.parts) out += max_children(part, keeps_all);
      return std::min(out, kRepeatThreshold * kRepeatThreshold);
    case Kind::kChoice:
      for (const int32_t part : current.parts) out = std::max(out, max_children(part, keeps_all));
      return out;
    default:
      throw NotHandled{};
  }
}

void Ebnf::append_key(int32_t node, std::vector<int32_t>& key) const {
  const Node& current = nodes_[node];
  key.insert(key.end(),
             {static_cast<int32_t>(current.kind), current.symbol, static_cast<int32_t>(current.parts.size())});
  if (key.size() > kMaxExpansion) throw NotHandled{};
  for (const int32_t part : current.parts) append_key(part, key);
}

void Ebnf::spend(size_t symbols) {
  if (symbols > symbols_left_) throw NotHandled{};
  symbols_left_ -= symbols;
}

const std::vector<Ebnf::Alternative>& Ebnf::expand_node(int32_t node) {
  const auto it = expansions_.find(node);
  if (it != expansions_.end()) return it->second;
  const Node& current = nodes_[node];
  std::vector<Alternative> out;
  switch (current.kind) {
    case Kind::kSymbol:
      out.push_back({{current.symbol}});
      break;
    case Kind::kAlias:
      out = expand_node(current.parts[0]);
      for (Alternative& each : out) each.alias = current.symbol;
      break;
    case Kind::kSequence:
      out.emplace_back();
      for (const int32_t part : current.parts) {
        const auto& expansions = expand_node(part);
        std::vector<Alternative> longer_alternatives;
        std::set<Alternative> seen;  // `a* a*` has three different alternatives, not four
        if (out.size() * expansions.size() > kMaxExpansion) throw NotHandled{};
        for (const Alternative& prefix : out)
          for (const Alternative& expansion : expansions) {
            if (expansion.alias >= 0) throw NotHandled{};
            Alternative combined = prefix;
            combined.symbols.insert(combined.symbols.end(), expansion.symbols.begin(), expansion.symbols.end());
            spend(combined.symbols.size() + 1);
            if (expansions.size() == 1 || seen.insert(combined).second)
              longer_alternatives.push_back(std::move(combined));
          }
        out = std::move(longer_alternatives);
      }
      break;
    case Kind::kChoice: {
      std::set<Alternative> seen;
      for (const int32_t part : current.parts)
        for (const Alternative& each : expand_node(part))
          if (seen.insert(each).second) out.push_back(each);
      break;
    }
    default:
      throw NotHandled{};
  }
  return expansions_[node] = std::move(out);
}

Ebnf::Alternatives Ebnf::expand_root(const Root& root) {
  Alternatives out;
  std::set<std::vector<int32_t>> seen;
  for (const auto& [symbols, alias] : expand_node(root.node)) {
    if (alias >= 0 && names_[root.name].first.starts_with('_')) throw NotHandled{};
    std::vector<int32_t> kept_symbols;
    for (const int32_t symbol : symbols)
      if (symbol != kOmitted) kept_symbols.push_back(symbol);
    if (seen.insert(kept_symbols).second)
      out.push_back(std::move(kept_symbols));
    else if (!kept_symbols.empty())
      throw NotHandled{};  // an error: the alternative occurs twice, with different trees
  }
  return out;
}

std::vector<Ebnf::Rule> Ebnf::expand_rules(int32_t start) {
  std::vector<Rule> out;
  std::set<int32_t> names;
  for (const auto* roots : {&roots_, &repetition_roots_})
    for (const Root& root : *roots) {
      if (!names.insert(root.name).second) throw NotHandled{};
      out.push_back({root.name, expand_root(root)});
    }
  std::map<int32_t, std::set<int32_t>> referring_rules;  // a rule -> the other rules that use it
  for (const Rule& rule : out)
    for (const auto& symbols : rule.alternatives)
      for (const int32_t symbol : symbols)
        if (symbol != rule.name && !names_[symbol].second) referring_rules[symbol].insert(rule.name);
  std::map<int32_t, const Rule*> by_name;
  for (const Rule& rule : out) by_name[rule.name] = &rule;
  std::vector<int32_t> unused;
  for (const Rule& rule : out)
    if (rule.name != start && referring_rules[rule.name].empty()) unused.push_back(rule.name);
  std::set<int32_t> removed_rules;
  while (!unused.empty()) {
    const int32_t name = unused.back();
    unused.pop_back();
    if (!removed_rules.insert(name).second) continue;
    for (const auto& symbols : by_name[name]->alternatives)
      for (const int32_t symbol : symbols)
        if (!names_[symbol].second && symbol != start && by_name.contains(symbol) &&
            referring_rules[symbol].erase(name) > 0 && referring_rules[symbol].empty())
          unused.push_back(symbol);
  }
  std::erase_if(out, [&](const Rule& rule) { return removed_rules.contains(rule.name); });
  return out;
}

}  // namespace guided::lark
