#include "fsa/decision_diagram.hpp"

#include <algorithm>
#include <unordered_map>

namespace guided {

DiagramBuilder::DiagramBuilder(std::vector<int32_t> values, size_t most, Meter& meter)
    : values_(std::move(values)), left_(most), meter_(meter) {
  const auto levels = static_cast<int32_t>(values_.size());
  nodes_ = {{levels, 0}, {levels, 0}};  // false and true
}

void DiagramBuilder::spend(size_t edges) {
  if (edges > left_) throw DiagramTooLarge();
  left_ -= edges;
  meter_.work(kLookup + static_cast<int64_t>(edges));
}

int32_t DiagramBuilder::make_node(int32_t level, const std::vector<int32_t>& kids) {
  if (std::ranges::all_of(kids, [&](int32_t kid) { return kid == kids[0]; })) return kids[0];
  uint64_t hash = static_cast<uint64_t>(level);
  for (int32_t kid : kids) hash = combine(hash, static_cast<uint64_t>(kid));
  const int32_t known = numbers_.find(hash, [&](int32_t node) {
    return nodes_[node].level == level &&
           std::equal(kids.begin(), kids.end(), edges_.begin() + static_cast<ptrdiff_t>(nodes_[node].edges));
  });
  if (known >= 0) return known;
  spend(kids.size());
  const auto node = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({level, edges_.size()});
  edges_.insert(edges_.end(), kids.begin(), kids.end());
  numbers_.add(hash, node);
  return node;
}

int32_t DiagramBuilder::some(const std::vector<std::pair<int32_t, uint64_t>>& options) {
  int32_t out = kFalse;
  for (size_t i = options.size(); i-- > 0;) {
    const auto [level, bits] = options[i];
    std::vector<int32_t> kids(static_cast<size_t>(values_[level]), out);
    for (size_t value = 0; value < kids.size(); ++value)
      if (bits >> value & 1) kids[value] = kTrue;
    out = make_node(level, kids);
  }
  return out;
}

int32_t DiagramBuilder::combined(int32_t a, int32_t b, int32_t decides) {
  struct Pair {
    int32_t a, b, level, result;
    size_t kids;  // the index of its first kid in `kids`
  };
  std::vector<Pair> pairs;
  std::vector<int32_t> kids;  // the number of a pair, or -1 - the resulting node
  std::unordered_map<uint64_t, int32_t> numbers;
  auto number = [&](int32_t one, int32_t other) {
    if (one == decides || other == decides) return -1 - decides;
    if (one == other || other == kTrue + kFalse - decides) return -1 - one;
    if (one == kTrue + kFalse - decides) return -1 - other;
    if (one > other) std::swap(one, other);
    const auto [it, inserted] = numbers.try_emplace(pair_key(one, other), static_cast<int32_t>(pairs.size()));
    if (inserted) pairs.push_back({one, other, std::min(level(one), level(other)), kFalse, 0});
    return it->second;
  };
  const int32_t whole = number(a, b);
  if (whole < 0) return -1 - whole;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Pair at = pairs[i];
    spend(static_cast<size_t>(values_[at.level]));
    pairs[i].kids = kids.size();
    for (int32_t value = 0; value < values_[at.level]; ++value)
      kids.push_back(number(below(at.a, at.level, value), below(at.b, at.level, value)));
  }
  std::vector<int32_t> order(pairs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::ranges::sort(order, std::greater<>(), [&](int32_t i) { return pairs[i].level; });
  std::vector<int32_t> results;
  for (int32_t i : order) {
    results.clear();
    for (int32_t value = 0; value < values_[pairs[i].level]; ++value) {
      const int32_t kid = kids[pairs[i].kids + static_cast<size_t>(value)];
      results.push_back(kid < 0 ? -1 - kid : pairs[kid].result);
    }
    pairs[i].result = make_node(pairs[i].level, results);
  }
  return pairs[whole].result;
}

int32_t DiagramBuilder::negated(int32_t a) {
  std::vector<int32_t> open{a}, nodes;
  std::unordered_map<int32_t, int32_t> negations{{kFalse, kTrue}, {kTrue, kFalse}};
  while (!open.empty()) {
    const int32_t node = open.back();
    open.pop_back();
    if (!negations.try_emplace(node, kFalse).second) continue;
    nodes.push_back(node);
    for (int32_t value = 0; value < values_[level(node)]; ++value) open.push_back(below(node, level(node), value));
    spend(static_cast<size_t>(values_[level(node)]));
  }
  std::ranges::sort(nodes);  // edges lead to lower numbers
  std::vector<int32_t> kids;
  for (int32_t node : nodes) {
    kids.clear();
    for (int32_t value = 0; value < values_[level(node)]; ++value)
      kids.push_back(negations.at(below(node, level(node), value)));
    negations[node] = make_node(level(node), kids);
  }
  return negations.at(a);
}

DecisionDiagram DiagramBuilder::diagram(int32_t root) {
  DecisionDiagram out;
  if (root == kFalse) return out;
  std::vector<int32_t> here{root}, next;
  for (int32_t level = 0; level < static_cast<int32_t>(values_.size()); ++level) {
    spend(here.size() * static_cast<size_t>(values_[level]));
    out.levels.push_back({values_[level], out.nodes, out.edges.size()});
    out.nodes += static_cast<int32_t>(here.size());
    std::unordered_map<int32_t, int32_t> numbers;
    next.clear();
    for (int32_t node : here)
      for (int32_t value = 0; value < values_[level]; ++value) {
        const int32_t kid = below(node, level, value);
        if (kid == kFalse) {
          out.edges.push_back(kDead);
          continue;
        }
        const auto [it, inserted] = numbers.try_emplace(kid, out.nodes + static_cast<int32_t>(next.size()));
        if (inserted) next.push_back(kid);
        out.edges.push_back(it->second);
      }
    std::swap(here, next);
  }
  ++out.nodes;  // "true"
  return out;
}

}  // namespace guided
