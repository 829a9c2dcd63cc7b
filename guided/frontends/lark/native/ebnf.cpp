#include "ebnf.hpp"

#include <algorithm>
#include <set>

namespace guided::lark {
namespace {

constexpr int32_t kNothing = -1;  // the symbol in an alternative for an omitted `[x]`
constexpr int32_t kLong = 50;     // lark's REPEAT_BREAK_THRESHOLD
constexpr size_t kMaxExpansion = 100'000;

}  // namespace

int32_t Ebnf::symbol(const std::string& name, bool is_terminal) {
  const auto [at, is_new] = numbers_.try_emplace({name, is_terminal}, static_cast<int32_t>(names_.size()));
  if (is_new) names_.emplace_back(name, is_terminal);
  return at->second;
}

int32_t Ebnf::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<int32_t>(nodes_.size()) - 1;
}

void Ebnf::name(int32_t node, int32_t symbol, bool is_left_out) {
  nodes_[node] = {.kind = Kind::kSymbol, .symbol = symbol, .is_left_out = is_left_out};
}

std::vector<int32_t> Ebnf::walk(int32_t root) const {
  std::vector<int32_t> order{root};
  for (size_t at = 0; at < order.size(); ++at) {  // by levels, each from right to left
    const auto& parts = nodes_[order[at]].parts;
    order.insert(order.end(), parts.rbegin(), parts.rend());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

void Ebnf::add_rule(int32_t name, int32_t root, bool keeps_all) {
  const std::string prefix = names_[name].first;
  for (const int32_t at : walk(root))
    for (size_t part = 0; part < nodes_[at].parts.size(); ++part) {
      const int32_t with = replaced(nodes_[at].parts[part], prefix, keeps_all);
      nodes_[at].parts[part] = with;
    }
  roots_.push_back({name, root});
}

int32_t Ebnf::replaced(int32_t node, const std::string& prefix, bool keeps_all) {
  const Node at = nodes_[node];
  const auto choice = [&](std::vector<int32_t> parts) {
    return add({.kind = Kind::kChoice, .parts = std::move(parts)});
  };
  const auto sequence = [&](size_t count, int32_t part) {
    return add({.kind = Kind::kSequence, .parts = std::vector<int32_t>(count, part)});
  };
  switch (at.kind) {
    case Kind::kOptional:
      return choice({at.parts[0], sequence(0, 0)});
    case Kind::kPlus:
      return repeated(at.parts[0], "plus", prefix);
    case Kind::kStar: {
      const int32_t some = repeated(at.parts[0], "star", prefix);
      return choice({some, sequence(0, 0)});
    }
    case Kind::kTimes: {
      if (at.low < 0 || at.high < at.low || at.high >= kLong) throw Unusual{};
      std::vector<int32_t> counts;
      for (int32_t count = at.low; count <= at.high; ++count) counts.push_back(sequence(count, at.parts[0]));
      return choice(std::move(counts));
    }
    case Kind::kMaybe: {
      const int32_t count = size(at.parts[0], keeps_all);
      const int32_t nothing = add({.kind = Kind::kSymbol, .symbol = kNothing});
      return choice({at.parts[0], sequence(count, nothing)});
    }
    default:
      return node;
  }
}

int32_t Ebnf::repeated(int32_t item, const char* kind, const std::string& prefix) {
  std::vector<int32_t> key;
  append_key(item, key);
  const auto [at, is_new] = repetitions_.try_emplace(std::move(key), 0);
  if (!is_new) return at->second;
  const int32_t name = symbol("__" + prefix + "_" + kind + "_" + std::to_string(counted_++), false);
  const int32_t itself = add({.kind = Kind::kSymbol, .symbol = name});
  const int32_t once = add({.kind = Kind::kSequence, .parts = {item}});
  const int32_t more = add({.kind = Kind::kSequence, .parts = {itself, item}});
  made_.push_back({name, add({.kind = Kind::kChoice, .parts = {once, more}})});
  return at->second = itself;
}

// The most children that a node adds to a parse tree; lark's `FindRuleSize`.
int32_t Ebnf::size(int32_t node, bool keeps_all) const {
  const Node& at = nodes_[node];
  int32_t out = 0;
  switch (at.kind) {
    case Kind::kSymbol:
      if (at.symbol == kNothing) return 0;
      return names_[at.symbol].second ? keeps_all || !at.is_left_out : !names_[at.symbol].first.starts_with('_');
    case Kind::kSequence:
      for (const int32_t part : at.parts) out += size(part, keeps_all);
      return std::min(out, kLong * kLong);
    case Kind::kChoice:
      for (const int32_t part : at.parts) out = std::max(out, size(part, keeps_all));
      return out;
    default:
      throw Unusual{};
  }
}

void Ebnf::append_key(int32_t node, std::vector<int32_t>& key) const {
  const Node& at = nodes_[node];
  key.insert(key.end(), {static_cast<int32_t>(at.kind), at.symbol, static_cast<int32_t>(at.parts.size())});
  if (key.size() > kMaxExpansion) throw Unusual{};
  for (const int32_t part : at.parts) append_key(part, key);
}

void Ebnf::spend(size_t symbols) {
  if (symbols > symbols_left_) throw Unusual{};
  symbols_left_ -= symbols;
}

const std::vector<Ebnf::Written>& Ebnf::written(int32_t node) {
  const auto found = written_.find(node);
  if (found != written_.end()) return found->second;
  const Node& at = nodes_[node];
  std::vector<Written> out;
  switch (at.kind) {
    case Kind::kSymbol:
      out.push_back({{at.symbol}});
      break;
    case Kind::kAlias:
      out = written(at.parts[0]);
      for (Written& each : out) each.alias = at.symbol;
      break;
    case Kind::kSequence:
      out.emplace_back();
      for (const int32_t part : at.parts) {
        const auto& ways = written(part);
        std::vector<Written> longer;
        std::set<Written> seen;  // `a* a*` has three different alternatives, not four
        if (out.size() * ways.size() > kMaxExpansion) throw Unusual{};
        for (const Written& begin : out)
          for (const Written& way : ways) {
            if (way.alias >= 0) throw Unusual{};
            Written both = begin;
            both.symbols.insert(both.symbols.end(), way.symbols.begin(), way.symbols.end());
            spend(both.symbols.size() + 1);
            if (ways.size() == 1 || seen.insert(both).second) longer.push_back(std::move(both));
          }
        out = std::move(longer);
      }
      break;
    case Kind::kChoice: {
      std::set<Written> seen;
      for (const int32_t part : at.parts)
        for (const Written& each : written(part))
          if (seen.insert(each).second) out.push_back(each);
      break;
    }
    default:
      throw Unusual{};
  }
  return written_[node] = std::move(out);
}

Ebnf::Alternatives Ebnf::alternatives(const Root& root) {
  Alternatives out;
  std::set<std::vector<int32_t>> seen;
  for (const auto& [symbols, alias] : written(root.node)) {
    if (alias >= 0 && names_[root.name].first.starts_with('_')) throw Unusual{};
    std::vector<int32_t> kept;
    for (const int32_t symbol : symbols)
      if (symbol != kNothing) kept.push_back(symbol);
    if (seen.insert(kept).second)
      out.push_back(std::move(kept));
    else if (!kept.empty())
      throw Unusual{};  // an error: the alternative occurs twice, with different trees
  }
  return out;
}

std::vector<Ebnf::Rule> Ebnf::rules(int32_t start) {
  std::vector<Rule> out;
  std::set<int32_t> names;
  for (const auto* roots : {&roots_, &made_})
    for (const Root& root : *roots) {
      if (!names.insert(root.name).second) throw Unusual{};
      out.push_back({root.name, alternatives(root)});
    }
  std::map<int32_t, std::set<int32_t>> users;  // a rule -> the other rules that use it
  for (const Rule& rule : out)
    for (const auto& symbols : rule.alternatives)
      for (const int32_t symbol : symbols)
        if (symbol != rule.name && !names_[symbol].second) users[symbol].insert(rule.name);
  std::map<int32_t, const Rule*> by_name;
  for (const Rule& rule : out) by_name[rule.name] = &rule;
  std::vector<int32_t> unused;
  for (const Rule& rule : out)
    if (rule.name != start && users[rule.name].empty()) unused.push_back(rule.name);
  std::set<int32_t> gone;
  while (!unused.empty()) {
    const int32_t name = unused.back();
    unused.pop_back();
    if (!gone.insert(name).second) continue;
    for (const auto& symbols : by_name[name]->alternatives)
      for (const int32_t symbol : symbols)
        if (!names_[symbol].second && symbol != start && by_name.contains(symbol) && users[symbol].erase(name) > 0 &&
            users[symbol].empty())
          unused.push_back(symbol);
  }
  std::erase_if(out, [&](const Rule& rule) { return gone.contains(rule.name); });
  return out;
}

}  // namespace guided::lark
