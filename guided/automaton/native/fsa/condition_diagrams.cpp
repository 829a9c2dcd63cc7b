// Builds the decision diagrams of a condition: groups conjuncts, orders slots, and limits the size.
//
// In: a condition. Out: a diagram for each group of conjuncts that share slots, directly or indirectly.
//
// How: the size of a diagram depends on the order of its slots. Related members are usually declared next to each
// other, so the first order is the order of the slots. If it makes a diagram too large, slots that occur in the same
// parts of the formula are moved together: each part moves to the average position of its slots, and each slot to the
// average position of its parts, weighted towards small parts. This is repeated (FORCE: Aloul, Markov and Sakallah,
// "FORCE: a fast and easy-to-implement variable-ordering heuristic", 2003).
// Cost: the size of the diagrams, which is limited, and the work that the meter counts for them.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "fsa/condition.hpp"

namespace guided {

namespace {

constexpr size_t kMaxEdges = size_t{1} << 20;    // of a diagram and all diagrams from which it is built
constexpr int64_t kMaxSteps = int64_t{1} << 24;  // of the walks for one mask
constexpr int kRounds = 20;                      // rounds of FORCE

// A conjunct of the formula: its nodes, parts before the nodes that contain them, and the slots that occur in it.
struct Conjunct {
  std::vector<int32_t> nodes, slots;
};

class Parts {
 public:
  Parts(const Condition& condition, ConditionDiagrams& out, Meter& meter)
      : condition_(condition), out_(out), meter_(meter) {
    value_.resize(condition.slots.size());
    for (size_t m = 0; m < condition.slots.size(); ++m) {
      auto& members = out.members[condition.slots[m]];
      members.push_back(static_cast<int32_t>(m));
      value_[m] = static_cast<int32_t>(members.size());
    }
  }

  void build() {
    if (condition_.nodes.empty()) return;
    std::vector<Conjunct> conjuncts;
    std::vector<int32_t> open{static_cast<int32_t>(condition_.nodes.size()) - 1};
    std::unordered_set<int32_t> visited;
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      if (!visited.insert(at).second) continue;
      const Condition::Node& node = condition_.nodes[at];
      if (node.kind == Condition::All)
        open.insert(open.end(), node.parts.rbegin(), node.parts.rend());
      else
        conjuncts.push_back(conjunct(at));
    }
    for (std::vector<Conjunct>& together : groups(std::move(conjuncts))) build(together);
  }

 private:
  Conjunct conjunct(int32_t root) {
    Conjunct out;
    std::vector<int32_t> open{root};
    std::unordered_set<int32_t> visited{root};
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      out.nodes.push_back(at);
      const Condition::Node& node = condition_.nodes[at];
      meter_.work(1 + static_cast<int64_t>(node.parts.size()));
      for (int32_t part : node.parts)
        if (node.kind == Condition::Written)
          out.slots.push_back(condition_.slots[part]);
        else if (visited.insert(part).second)
          open.push_back(part);
    }
    std::ranges::sort(out.nodes);  // parts have smaller numbers than the nodes that contain them
    sort_unique(out.slots);
    return out;
  }

  // Groups conjuncts by union-find over slots.
  std::vector<std::vector<Conjunct>> groups(std::vector<Conjunct>&& conjuncts) const {
    std::vector<int32_t> leader(out_.members.size() + 1);  // the last one: conjuncts without slots
    std::iota(leader.begin(), leader.end(), 0);
    auto find = [&](int32_t slot) {
      while (leader[slot] != slot) slot = leader[slot] = leader[leader[slot]];
      return slot;
    };
    auto first = [&](const Conjunct& c) {
      return c.slots.empty() ? static_cast<int32_t>(leader.size()) - 1 : c.slots[0];
    };
    for (const Conjunct& c : conjuncts)
      for (int32_t slot : c.slots) leader[find(slot)] = find(first(c));
    std::vector<std::vector<Conjunct>> out;
    std::vector<int32_t> numbers(leader.size(), -1);
    for (Conjunct& c : conjuncts) {
      int32_t& number = numbers[find(first(c))];
      if (number < 0) {
        number = static_cast<int32_t>(out.size());
        out.emplace_back();
      }
      out[number].push_back(std::move(c));
    }
    return out;
  }

  void build(const std::vector<Conjunct>& together) {
    std::vector<int32_t> slots;
    for (const Conjunct& c : together) slots.insert(slots.end(), c.slots.begin(), c.slots.end());
    sort_unique(slots);
    try {
      out_.parts.push_back({slots, diagram(together, slots)});
      return;
    } catch (const DiagramTooLarge&) {
    }
    try {
      slots = moved_together(together, slots);
      out_.parts.push_back({slots, diagram(together, slots)});
    } catch (const DiagramTooLarge&) {
      refuse();
    }
  }

  DecisionDiagram diagram(const std::vector<Conjunct>& together, const std::vector<int32_t>& slots) {
    std::vector<int32_t> values, level(out_.members.size(), -1);
    for (int32_t slot : slots) {
      level[slot] = static_cast<int32_t>(values.size());
      values.push_back(1 + static_cast<int32_t>(out_.members[slot].size()));
    }
    DiagramBuilder builder(std::move(values), kMaxEdges, meter_);
    std::vector<int32_t> known(condition_.nodes.size(), -1), all;
    for (const Conjunct& c : together) {
      for (int32_t at : c.nodes)
        if (known[at] < 0) known[at] = of_node(builder, condition_.nodes[at], level, known);
      all.push_back(known[c.nodes.back()]);
    }
    return builder.diagram(joined(builder, all, true));
  }

  int32_t of_node(DiagramBuilder& builder, const Condition::Node& node, const std::vector<int32_t>& level,
                  const std::vector<int32_t>& known) const {
    if (node.kind == Condition::Written) {
      std::vector<std::pair<int32_t, uint64_t>> options;
      for (int32_t member : node.parts)
        options.emplace_back(level[condition_.slots[member]], uint64_t{1} << value_[member]);
      std::ranges::sort(options);
      size_t n = 0;
      for (const auto& one : options)
        if (n > 0 && options[n - 1].first == one.first)
          options[n - 1].second |= one.second;
        else
          options[n++] = one;
      options.resize(n);
      return builder.some(options);
    }
    std::vector<int32_t> parts;
    for (int32_t part : node.parts) parts.push_back(known[part]);
    const int32_t whole = joined(builder, parts, node.kind == Condition::All);
    return node.kind == Condition::None ? builder.negated(whole) : whole;
  }

  // Combines the parts from the deepest level upwards, so each operation visits few levels of the result so far.
  static int32_t joined(DiagramBuilder& builder, std::vector<int32_t>& parts, bool all) {
    std::ranges::stable_sort(parts, std::greater<>(), [&](int32_t part) { return builder.level(part); });
    int32_t out = all ? DiagramBuilder::kTrue : DiagramBuilder::kFalse;
    for (int32_t part : parts) out = all ? builder.both(out, part) : builder.either(out, part);
    return out;
  }

  std::vector<int32_t> moved_together(const std::vector<Conjunct>& together, const std::vector<int32_t>& slots) {
    std::vector<std::vector<int32_t>> edges;  // the slots of each part of the formula that has several, as indexes
    std::vector<std::vector<int32_t>> of(condition_.nodes.size());
    std::vector<int32_t> index(out_.members.size(), -1);
    for (size_t i = 0; i < slots.size(); ++i) index[slots[i]] = static_cast<int32_t>(i);
    for (const Conjunct& c : together)
      for (int32_t at : c.nodes) {
        if (!of[at].empty()) continue;
        for (int32_t part : condition_.nodes[at].parts)
          if (condition_.nodes[at].kind == Condition::Written)
            of[at].push_back(index[condition_.slots[part]]);
          else
            of[at].insert(of[at].end(), of[part].begin(), of[part].end());
        meter_.work(static_cast<int64_t>(of[at].size()));
        sort_unique(of[at]);
        if (of[at].size() > 1) edges.push_back(of[at]);
      }
    std::vector<double> position(slots.size());
    std::iota(position.begin(), position.end(), 0.0);
    std::vector<int32_t> order(slots.size());
    std::iota(order.begin(), order.end(), 0);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> sum(slots.size(), 0), weight(slots.size(), 0);
      for (const std::vector<int32_t>& edge : edges) {
        meter_.work(static_cast<int64_t>(edge.size()));
        double middle = 0;
        for (int32_t i : edge) middle += position[i];
        middle /= static_cast<double>(edge.size());
        const double pull = 1 / static_cast<double>(edge.size() - 1);
        for (int32_t i : edge) {
          sum[i] += pull * middle;
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
  [[noreturn]] static void refuse() {
    throw Unsupported("a condition that relates so many members to each other that its decision diagram is too large");
  }

 private:
  const Condition& condition_;
  ConditionDiagrams& out_;
  Meter& meter_;
  std::vector<int32_t> value_;  // member -> its value in its slot
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
  Parts(condition, *out, meter).build();
  int64_t edges = 0, levels = 0, steps = 0, tries = 1;
  for (const Part& part : out->parts) {
    int64_t members = 1;
    for (int32_t slot : part.slots) {
      members += static_cast<int64_t>(out->members[slot].size());
      if (out->members[slot].size() == 1) tries += repeatable[out->members[slot][0]] == kRepeatable;
    }
    edges += static_cast<int64_t>(part.diagram.edges.size());
    levels += static_cast<int64_t>(part.diagram.levels.size());
    steps += static_cast<int64_t>(part.diagram.edges.size()) * members;
  }
  if (min > 1 || max >= 0) {  // a walk per member, over 64 numbers of members at a time; or a plan with each number
    const int64_t numbers = std::min(max >= 0 ? max : min, levels) + 1;
    steps = edges * std::max(numbers, static_cast<int64_t>(condition.slots.size()) * (numbers / 64 + 1)) * tries;
  }
  if (steps > kMaxSteps) Parts::refuse();
  return out;
}

}  // namespace guided
