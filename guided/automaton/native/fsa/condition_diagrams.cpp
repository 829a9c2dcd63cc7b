// Builds the decision diagrams of a condition: groups conjuncts, orders slots, and limits the size.
//
// In: a condition. Out: a diagram for each group of conjuncts that share slots, directly or indirectly.
//
// How: the size of a diagram depends on the order of its slots. Related members are usually declared next to each
// other, so the order of the slots is tried first. If it makes a diagram too large, slots that occur in the same parts
// of the formula are moved together: each part moves to the average position of its slots, and each slot to the average
// position of its parts, where small parts have more weight. This is repeated (Aloul, Markov and Sakallah, "FORCE: a
// fast and easy-to-implement variable-ordering heuristic", 2003).
// Cost: linear in the size of the diagrams, which is limited. The meter counts the work.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "fsa/condition.hpp"

namespace guided {

namespace {

constexpr size_t kMaxEdges = size_t{1} << 20;    // the limit on a diagram and all diagrams from which it is built
constexpr int64_t kMaxSteps = int64_t{1} << 24;  // the limit on the walks for one mask
constexpr int kRounds = 20;                      // rounds of FORCE

// A conjunct of the formula: its nodes (parts before the nodes that contain them), and the slots that occur in it.
struct Conjunct {
  std::vector<int32_t> nodes, slots;
};

// Builds the parts of the diagrams:
//   - `build` splits the formula into conjuncts (`read_conjunct`), and groups these by slots (`group_conjuncts`);
//   - `build_diagram` combines the nodes of a group (`build_node`), in the order in which the slots are declared;
//   - `reorder_slots` computes another order (FORCE) if this diagram is too large.
class PartsBuilder {
 public:
  PartsBuilder(const Condition& condition, ConditionDiagrams& out, Meter& meter)
      : condition_(condition), out_(out), meter_(meter) {
    member_values_.resize(condition.slots.size());
    for (size_t m = 0; m < condition.slots.size(); ++m) {
      auto& members = out.members[condition.slots[m]];
      members.push_back(static_cast<int32_t>(m));
      member_values_[m] = static_cast<int32_t>(members.size());
    }
  }

  void build() {
    if (condition_.nodes.empty()) return;
    std::vector<Conjunct> conjuncts;
    std::vector<int32_t> todo{static_cast<int32_t>(condition_.nodes.size()) - 1};
    std::unordered_set<int32_t> visited;
    while (!todo.empty()) {
      const int32_t node_id = todo.back();
      todo.pop_back();
      if (!visited.insert(node_id).second) continue;
      const Condition::Node& node = condition_.nodes[node_id];
      if (node.kind == Condition::All)
        todo.insert(todo.end(), node.parts.rbegin(), node.parts.rend());
      else
        conjuncts.push_back(read_conjunct(node_id));
    }
    for (std::vector<Conjunct>& group : group_conjuncts(std::move(conjuncts))) build(group);
  }

 private:
  Conjunct read_conjunct(int32_t root) {
    Conjunct out;
    std::vector<int32_t> todo{root};
    std::unordered_set<int32_t> visited{root};
    while (!todo.empty()) {
      const int32_t node_id = todo.back();
      todo.pop_back();
      out.nodes.push_back(node_id);
      const Condition::Node& node = condition_.nodes[node_id];
      meter_.work(1 + static_cast<int64_t>(node.parts.size()));
      for (int32_t part : node.parts)
        if (node.kind == Condition::Written)
          out.slots.push_back(condition_.slots[part]);
        else if (visited.insert(part).second)
          todo.push_back(part);
    }
    std::ranges::sort(out.nodes);  // parts have smaller numbers than the nodes that contain them
    sort_unique(out.slots);
    return out;
  }

  // Groups conjuncts by union-find over slots.
  std::vector<std::vector<Conjunct>> group_conjuncts(std::vector<Conjunct>&& conjuncts) const {
    std::vector<int32_t> leader(out_.members.size() + 1);  // the last element: conjuncts without slots
    std::iota(leader.begin(), leader.end(), 0);
    auto find = [&](int32_t slot) {
      while (leader[slot] != slot) slot = leader[slot] = leader[leader[slot]];
      return slot;
    };
    auto first_slot = [&](const Conjunct& c) {
      return c.slots.empty() ? static_cast<int32_t>(leader.size()) - 1 : c.slots[0];
    };
    for (const Conjunct& c : conjuncts)
      for (int32_t slot : c.slots) leader[find(slot)] = find(first_slot(c));
    std::vector<std::vector<Conjunct>> out;
    std::vector<int32_t> numbers(leader.size(), -1);
    for (Conjunct& c : conjuncts) {
      int32_t& number = numbers[find(first_slot(c))];
      if (number < 0) {
        number = static_cast<int32_t>(out.size());
        out.emplace_back();
      }
      out[number].push_back(std::move(c));
    }
    return out;
  }

  void build(const std::vector<Conjunct>& group) {
    std::vector<int32_t> slots;
    for (const Conjunct& c : group) slots.insert(slots.end(), c.slots.begin(), c.slots.end());
    sort_unique(slots);
    try {
      out_.parts.push_back({slots, build_diagram(group, slots)});
      return;
    } catch (const DiagramTooLarge&) {
    }
    try {
      slots = reorder_slots(group, slots);
      out_.parts.push_back({slots, build_diagram(group, slots)});
    } catch (const DiagramTooLarge&) {
      throw_too_large();
    }
  }

  DecisionDiagram build_diagram(const std::vector<Conjunct>& group, const std::vector<int32_t>& slots) {
    std::vector<int32_t> values, level(out_.members.size(), -1);
    for (int32_t slot : slots) {
      level[slot] = static_cast<int32_t>(values.size());
      values.push_back(1 + static_cast<int32_t>(out_.members[slot].size()));
    }
    DiagramBuilder builder(std::move(values), kMaxEdges, meter_);
    std::vector<int32_t> diagrams(condition_.nodes.size(), -1), all;
    for (const Conjunct& c : group) {
      for (int32_t node_id : c.nodes)
        if (diagrams[node_id] < 0) diagrams[node_id] = build_node(builder, condition_.nodes[node_id], level, diagrams);
      all.push_back(diagrams[c.nodes.back()]);
    }
    return builder.build_diagram(combine(builder, all, true));
  }

  int32_t build_node(DiagramBuilder& builder, const Condition::Node& node, const std::vector<int32_t>& level,
                     const std::vector<int32_t>& diagrams) const {
    if (node.kind == Condition::Written) {
      std::vector<std::pair<int32_t, uint64_t>> options;
      for (int32_t member : node.parts)
        options.emplace_back(level[condition_.slots[member]], uint64_t{1} << member_values_[member]);
      std::ranges::sort(options);
      size_t n = 0;
      for (const auto& option : options)
        if (n > 0 && options[n - 1].first == option.first)
          options[n - 1].second |= option.second;
        else
          options[n++] = option;
      options.resize(n);
      return builder.any_of(options);
    }
    std::vector<int32_t> parts;
    for (int32_t part : node.parts) parts.push_back(diagrams[part]);
    const int32_t combined = combine(builder, parts, node.kind == Condition::All);
    return node.kind == Condition::None ? builder.negate(combined) : combined;
  }

  // Combines the parts from the deepest level upwards, so each operation visits few levels of the intermediate result.
  static int32_t combine(DiagramBuilder& builder, std::vector<int32_t>& parts, bool is_conjunction) {
    std::ranges::stable_sort(parts, std::greater<>(), [&](int32_t part) { return builder.level(part); });
    int32_t out = is_conjunction ? DiagramBuilder::kTrue : DiagramBuilder::kFalse;
    for (int32_t part : parts) out = is_conjunction ? builder.conjoin(out, part) : builder.disjoin(out, part);
    return out;
  }

  std::vector<int32_t> reorder_slots(const std::vector<Conjunct>& group, const std::vector<int32_t>& slots) {
    std::vector<std::vector<int32_t>> hyperedges;  // for each part of the formula with several slots: their indices
    std::vector<std::vector<int32_t>> slots_of_node(condition_.nodes.size());
    std::vector<int32_t> index(out_.members.size(), -1);
    for (size_t i = 0; i < slots.size(); ++i) index[slots[i]] = static_cast<int32_t>(i);
    for (const Conjunct& c : group)
      for (int32_t node_id : c.nodes) {
        if (!slots_of_node[node_id].empty()) continue;
        for (int32_t part : condition_.nodes[node_id].parts)
          if (condition_.nodes[node_id].kind == Condition::Written)
            slots_of_node[node_id].push_back(index[condition_.slots[part]]);
          else
            slots_of_node[node_id].insert(slots_of_node[node_id].end(), slots_of_node[part].begin(),
                                          slots_of_node[part].end());
        meter_.work(static_cast<int64_t>(slots_of_node[node_id].size()));
        sort_unique(slots_of_node[node_id]);
        if (slots_of_node[node_id].size() > 1) hyperedges.push_back(slots_of_node[node_id]);
      }
    std::vector<double> position(slots.size());
    std::iota(position.begin(), position.end(), 0.0);
    std::vector<int32_t> order(slots.size());
    std::iota(order.begin(), order.end(), 0);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> sum(slots.size(), 0), weight(slots.size(), 0);
      for (const std::vector<int32_t>& edge : hyperedges) {
        meter_.work(static_cast<int64_t>(edge.size()));
        double mean = 0;
        for (int32_t i : edge) mean += position[i];
        mean /= static_cast<double>(edge.size());
        const double pull = 1 / static_cast<double>(edge.size() - 1);
        for (int32_t i : edge) {
          sum[i] += pull * mean;
          weight[i] += pull;
        }
      }
      std::ranges::stable_sort(order, {}, [&](int32_t i) { return weight[i] > 0 ? sum[i] / weight[i] : position[i]; });
      for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<double>(i);
    }
    std::vector<int32_t> out;
    for (int32_t i : order) out.push_back(slots[i]);
    return out;
  }

 public:
  [[noreturn]] static void throw_too_large() {
    throw Unsupported("a condition that relates so many members to each other that its decision diagram is too large");
  }

 private:
  const Condition& condition_;
  ConditionDiagrams& out_;
  Meter& meter_;
  std::vector<int32_t> member_values_;  // member -> its value in its slot
};

}  // namespace

std::shared_ptr<const ConditionDiagrams> ConditionDiagrams::build(const Condition& condition,
                                                                  const std::vector<uint8_t>& repeatable, int64_t min,
                                                                  int64_t max, Meter& meter) {
  auto out = std::make_shared<ConditionDiagrams>();
  out->slot_of = condition.slots;
  out->ordered = condition.ordered;
  out->members.resize(condition.slots.empty() ? 0
                                              : static_cast<size_t>(*std::ranges::max_element(condition.slots)) + 1);
  PartsBuilder(condition, *out, meter).build();
  int64_t edges = 0, levels = 0, steps = 0, queries = 1;
  for (const Part& part : out->parts) {
    int64_t members = 1;
    for (int32_t slot : part.slots) {
      members += static_cast<int64_t>(out->members[slot].size());
      if (out->members[slot].size() == 1) queries += repeatable[out->members[slot][0]] == kRepeatable;
    }
    edges += static_cast<int64_t>(part.diagram.edges.size());
    levels += static_cast<int64_t>(part.diagram.levels.size());
    steps += static_cast<int64_t>(part.diagram.edges.size()) * members;
  }
  if (min > 1 || max >= 0) {  // a walk per member, over 64 member counts at a time; or a plan with each count
    const int64_t counts = std::min(max >= 0 ? max : min, levels) + 1;
    steps = edges * std::max(counts, static_cast<int64_t>(condition.slots.size()) * (counts / 64 + 1)) * queries;
  }
  if (steps > kMaxSteps) PartsBuilder::throw_too_large();
  return out;
}

}  // namespace guided
