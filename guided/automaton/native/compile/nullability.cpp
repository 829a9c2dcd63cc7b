#include "compile/nullability.hpp"

#include <algorithm>

#include "base/graph.hpp"

namespace guided {

Nullability::Nullability(const IrGrammar& ir, Meter& meter) : ir_(ir), is_nullable_(ir.nodes.size(), 0) {
  size_t n = ir.rules.size();
  std::vector<std::vector<int32_t>> nodes_of_rule(n), references(n);
  std::vector<int32_t> last_rule(ir.nodes.size(), -1);
  for (size_t r = 0; r < n; ++r) {
    std::vector<int32_t>& nodes = nodes_of_rule[r];
    auto visit = [&](int32_t id) {
      if (last_rule[id] == static_cast<int32_t>(r)) return;
      last_rule[id] = static_cast<int32_t>(r);
      nodes.push_back(id);
    };
    visit(ir.rules[r]);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const IrNode& node = ir.nodes[nodes[i]];
      meter.work(1);
      if (node.kind == Kind::Ref) references[r].push_back(node.ref);
      for (int32_t c : node.items) visit(c);
      if (node.kind == Kind::Permutation) visit(node.ref);
    }
    std::sort(nodes.begin(), nodes.end());
  }
  std::vector<int32_t> component = components(references);
  std::vector<std::vector<int32_t>> members(n);
  for (size_t r = 0; r < n; ++r) members[component[r]].push_back(static_cast<int32_t>(r));
  for (const auto& rules : members) {  // callees first
    // In a component, a nullable node stays nullable, because Not never contains a recursive reference. So the loop
    // ends.
    size_t rounds = 2;
    for (int32_t r : rules) rounds += nodes_of_rule[r].size();
    for (bool has_changed = true; has_changed && rounds > 0; --rounds) {
      has_changed = false;
      for (int32_t r : rules)
        for (int32_t id : nodes_of_rule[r]) {
          meter.work(1);
          bool value = is_nullable_[id] || decide(ir.nodes[id]);
          if (ir.nodes[id].kind == Kind::Not) value = decide(ir.nodes[id]);
          has_changed |= value != (is_nullable_[id] != 0);
          is_nullable_[id] = value;
        }
    }
  }
}

bool Nullability::permutation_can_be_empty(const IrNode& n) {
  return n.min == 0 && !n.condition && std::none_of(n.required.begin(), n.required.end(), [](uint8_t r) { return r; });
}

bool Nullability::decide(const IrNode& n) const {
  auto child = [&](int32_t c) { return is_nullable_[c] != 0; };
  switch (n.kind) {
    case Kind::Chars:
    case Kind::Special:
    case Kind::Substrings:
      return false;
    case Kind::Text:
      return n.text.empty();
    case Kind::Seq:
    case Kind::And:
      return std::all_of(n.items.begin(), n.items.end(), child);
    case Kind::Alt:
      return std::any_of(n.items.begin(), n.items.end(), child);
    case Kind::Repeat:
      return !has_contradictory_bounds(n) && (n.min == 0 || child(n.items[0]));
    case Kind::Not:
      return !child(n.items[0]);
    case Kind::Length:
      return n.min == 0 && !has_contradictory_bounds(n) && child(n.items[0]);
    case Kind::Encoded:
    case Kind::Tokens:
    case Kind::Distinct:
    case Kind::Entry:
      return child(n.items[0]);
    case Kind::Ref:
      return is_nullable_rule(n.ref);
    case Kind::Automaton:
      return n.automaton->accept[0];
    case Kind::Dispatch:
      for (size_t i = 1; i < n.items.size(); ++i)
        if (n.text[i - 1] == 0 && child(n.items[i])) return true;
      return child(n.items[0]);
    case Kind::Permutation:
      return permutation_can_be_empty(n) && !has_contradictory_bounds(n);
  }
  return false;
}

}  // namespace guided
