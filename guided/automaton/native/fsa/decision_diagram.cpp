#include "fsa/decision_diagram.hpp"

#include <algorithm>
#include <unordered_map>

namespace guided {

DiagramBuilder::DiagramBuilder(std::vector<int32_t> values, size_t max_edges, Meter& meter)
    : values_(std::move(values)), edges_left_(max_edges), meter_(meter) {
  const auto levels = static_cast<int32_t>(values_.size());
  nodes_ = {{levels, 0}, {levels, 0}};  // false and true
}

void DiagramBuilder::spend(size_t edges) {
  if (edges > edges_left_) throw DiagramTooLarge();
  edges_left_ -= edges;
  meter_.work(kLookup + static_cast<int64_t>(edges));
}

int32_t DiagramBuilder::make_node(int32_t level, const std::vector<int32_t>& children) {
  if (std::ranges::all_of(children, [&](int32_t child_node) { return child_node == children[0]; })) return children[0];
  uint64_t hash = static_cast<uint64_t>(level);
  for (int32_t child_node : children) hash = guided::combine(hash, static_cast<uint64_t>(child_node));
  const int32_t existing = numbers_.find(hash, [&](int32_t node) {
    return nodes_[node].level == level &&
           std::equal(children.begin(), children.end(), edges_.begin() + static_cast<ptrdiff_t>(nodes_[node].edges));
  });
  if (existing >= 0) return existing;
  spend(children.size());
  const auto node = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({level, edges_.size()});
  edges_.insert(edges_.end(), children.begin(), children.end());
  numbers_.add(hash, node);
  return node;
}

int32_t DiagramBuilder::any_of(const std::vector<std::pair<int32_t, uint64_t>>& options) {
  int32_t out = kFalse;
  for (size_t i = options.size(); i-- > 0;) {
    const auto [level, bits] = options[i];
    std::vector<int32_t> children(static_cast<size_t>(values_[level]), out);
    for (size_t value = 0; value < children.size(); ++value)
      if (bits >> value & 1) children[value] = kTrue;
    out = make_node(level, children);
  }
  return out;
}

int32_t DiagramBuilder::combine(int32_t a, int32_t b, int32_t dominant) {
  struct Pair {
    int32_t a, b, level, result;
    size_t children;  // the index of its first child in `children`
  };
  std::vector<Pair> pairs;
  std::vector<int32_t> children;  // the number of a pair, or -1 - the resulting node
  std::unordered_map<uint64_t, int32_t> numbers;
  auto number = [&](int32_t one, int32_t other) {
    if (one == dominant || other == dominant) return -1 - dominant;
    if (one == other || other == kTrue + kFalse - dominant) return -1 - one;
    if (one == kTrue + kFalse - dominant) return -1 - other;
    if (one > other) std::swap(one, other);
    const auto [it, inserted] = numbers.try_emplace(pair_key(one, other), static_cast<int32_t>(pairs.size()));
    if (inserted) pairs.push_back({one, other, std::min(level(one), level(other)), kFalse, 0});
    return it->second;
  };
  const int32_t root_pair = number(a, b);
  if (root_pair < 0) return -1 - root_pair;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Pair pair = pairs[i];
    spend(static_cast<size_t>(values_[pair.level]));
    pairs[i].children = children.size();
    for (int32_t value = 0; value < values_[pair.level]; ++value)
      children.push_back(number(child(pair.a, pair.level, value), child(pair.b, pair.level, value)));
  }
  std::vector<int32_t> order(pairs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::ranges::sort(order, std::greater<>(), [&](int32_t i) { return pairs[i].level; });
  std::vector<int32_t> results;
  for (int32_t i : order) {
    results.clear();
    for (int32_t value = 0; value < values_[pairs[i].level]; ++value) {
      const int32_t child_node = children[pairs[i].children + static_cast<size_t>(value)];
      results.push_back(child_node < 0 ? -1 - child_node : pairs[child_node].result);
    }
    pairs[i].result = make_node(pairs[i].level, results);
  }
  return pairs[root_pair].result;
}

int32_t DiagramBuilder::negate(int32_t a) {
  std::vector<int32_t> todo{a}, nodes;
  std::unordered_map<int32_t, int32_t> negations{{kFalse, kTrue}, {kTrue, kFalse}};
  while (!todo.empty()) {
    const int32_t node = todo.back();
    todo.pop_back();
    if (!negations.try_emplace(node, kFalse).second) continue;
    nodes.push_back(node);
    for (int32_t value = 0; value < values_[level(node)]; ++value) todo.push_back(child(node, level(node), value));
    spend(static_cast<size_t>(values_[level(node)]));
  }
  std::ranges::sort(nodes);  // edges lead to lower numbers
  std::vector<int32_t> children;
  for (int32_t node : nodes) {
    children.clear();
    for (int32_t value = 0; value < values_[level(node)]; ++value)
      children.push_back(negations.at(child(node, level(node), value)));
    negations[node] = make_node(level(node), children);
  }
  return negations.at(a);
}

DecisionDiagram DiagramBuilder::build_diagram(int32_t root) {
  DecisionDiagram out;
  if (root == kFalse) return out;
  std::vector<int32_t> level_nodes{root}, next_nodes;
  for (int32_t level = 0; level < static_cast<int32_t>(values_.size()); ++level) {
    spend(level_nodes.size() * static_cast<size_t>(values_[level]));
    out.levels.push_back({values_[level], out.nodes, out.edges.size()});
    out.nodes += static_cast<int32_t>(level_nodes.size());
    std::unordered_map<int32_t, int32_t> numbers;
    next_nodes.clear();
    for (int32_t node : level_nodes)
      for (int32_t value = 0; value < values_[level]; ++value) {
        const int32_t child_node = child(node, level, value);
        if (child_node == kFalse) {
          out.edges.push_back(kDead);
          continue;
        }
        const auto [it, inserted] =
            numbers.try_emplace(child_node, out.nodes + static_cast<int32_t>(next_nodes.size()));
        if (inserted) next_nodes.push_back(child_node);
        out.edges.push_back(it->second);
      }
    std::swap(level_nodes, next_nodes);
  }
  ++out.nodes;  // "true"
  return out;
}

}  // namespace guided
