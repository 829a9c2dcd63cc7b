// The backtracking search of condition.hpp over one part of a condition: evaluation, propagation, choice points.
#include <algorithm>

#include "fsa/condition.hpp"

namespace guided {

namespace {
constexpr int64_t kMostSteps = 100000;  // evaluations of conjuncts in one search
}  // namespace

struct ConditionSearch::Search {
  // What backtracking restores.
  struct State {
    std::vector<uint64_t> domains;  // by slot
    std::vector<uint8_t> holds;     // by root: it is true, whatever else is chosen
  };

  const ConditionSearch& on;
  const Part& part;
  int64_t count;
  State state;
  std::vector<uint8_t> fixed;    // by slot: a member of it was written before the search
  std::vector<uint8_t> values;   // by node: a Value
  std::vector<int32_t> waiting;  // roots that must be evaluated again
  std::vector<uint8_t> waits;    // by root: it is in `waiting`
  int64_t steps = 0;

  Search(const ConditionSearch& search, int32_t number, const SeenSet& seen, bool ended)
      : on(search),
        part(search.parts_[number]),
        count(seen.count),
        state{.domains = std::vector<uint64_t>(search.slots_.size(), kAbsentOption),
              .holds = std::vector<uint8_t>(search.roots_.size(), 0)},
        fixed(search.slots_.size(), 0),
        values(search.nodes_.size(), Open),
        waiting(part.roots.rbegin(), part.roots.rend()),
        waits(search.roots_.size(), 1) {
    for (int32_t slot : part.slots) {
      state.domains[slot] = on.domain(slot, seen, ended);
      fixed[slot] = !(state.domains[slot] & kAbsentOption);
    }
  }

  // The value of a Written node: true if some slot can have no value but the node's members.
  Value written(const Node& node) const {
    bool never = true;
    for (const InSlot& one : node.written) {
      if (!(state.domains[one.slot] & ~one.options)) return Yes;
      never &= !(state.domains[one.slot] & one.options);
    }
    return never ? No : Open;
  }

  // The value of a root under the present domains (three-valued logic), and of all its nodes into `values`.
  uint8_t evaluate(const Root& root) {
    for (int32_t at : root.nodes) {
      const Node& node = on.nodes_[at];
      if (node.kind == Condition::Written) {
        values[at] = written(node);
        continue;
      }
      const uint8_t decides = node.kind == Condition::All ? No : Yes;
      uint8_t value = decides == No ? Yes : No;  // if no part decides the node and none is open
      for (int32_t i : node.parts) {
        if (values[i] == decides) {
          value = decides;
          break;
        }
        if (values[i] == Open) value = Open;
      }
      if (node.kind == Condition::None && value != Open) value = value == Yes ? No : Yes;
      values[at] = value;
    }
    return values[root.nodes.back()];
  }

  // Removes values from a domain and queues the roots of the slot. False if no value is left.
  bool narrow(int32_t slot, uint64_t to) {
    uint64_t& domain = state.domains[slot];
    if ((domain & to) == domain) return true;
    domain &= to;
    for (int32_t root : on.roots_of_[slot])
      if (!state.holds[root] && !waits[root]) {
        waits[root] = 1;
        waiting.push_back(root);
      }
    return domain != 0;
  }

  // Propagation: narrows domains so that the node can have the wanted value; false if it cannot. A disjunction
  // determines something only if one part alone is still open (a unit clause); otherwise it waits for another round.
  bool require(int32_t at, bool wanted) {
    const Node& node = on.nodes_[at];
    if (values[at] != Open) return values[at] == (wanted ? Yes : No);
    if (node.kind == Condition::Written) {
      if (!wanted) {
        for (const InSlot& one : node.written)
          if (!narrow(one.slot, ~one.options)) return false;
        return true;
      }
      const InSlot* only = nullptr;
      for (const InSlot& one : node.written)
        if (state.domains[one.slot] & one.options) {
          if (only) return true;
          only = &one;
        }
      return only && narrow(only->slot, only->options);
    }
    const bool each = node.kind == Condition::Any ? !wanted : wanted;
    const bool part_is = node.kind == Condition::None ? !wanted : wanted;  // the value that each, or one, part needs
    if (each) {
      for (int32_t i : node.parts)
        if (!require(i, part_is)) return false;
      return true;
    }
    int32_t only = -1;
    for (int32_t i : node.parts) {
      if (values[i] == (part_is ? Yes : No)) return true;
      if (values[i] != Open) continue;
      if (only >= 0) return true;
      only = i;
    }
    return only >= 0 && require(only, part_is);
  }

  // Propagation of the bounds on the number of members: false if they cannot be satisfied. If the least number is
  // already the upper bound all free slots become absent; if the greatest is the lower bound all must have a member.
  bool count_members() {
    if (!on.counted_) return true;
    int64_t least = count, most = count;
    bool unbounded = false;
    for (int32_t slot : part.slots) {
      const bool must = !(state.domains[slot] & kAbsentOption), may = (state.domains[slot] & ~kAbsentOption) != 0;
      if (on.slots_[slot].repeatable) unbounded |= may;
      if (fixed[slot]) continue;
      least += must;
      most += may;
    }
    if ((on.max_ >= 0 && least > on.max_) || (!unbounded && most < on.min_)) return false;
    const bool full = on.max_ >= 0 && least == on.max_, scarce = !unbounded && most == on.min_;
    if (!full && !scarce) return true;
    for (int32_t slot : part.slots) {
      const uint64_t domain = state.domains[slot];
      if (fixed[slot] || !(domain & kAbsentOption) || domain == kAbsentOption) continue;
      if (!narrow(slot, full ? kAbsentOption : ~kAbsentOption)) return false;
    }
    return true;
  }

  // Propagates until nothing changes; false on a contradiction.
  bool propagate() {
    do {
      while (!waiting.empty()) {
        if (++steps > kMostSteps) throw LimitFailure("states", static_cast<double>(steps), kMostSteps, true);
        const int32_t root = waiting.back();
        waiting.pop_back();
        waits[root] = 0;
        const uint8_t value = evaluate(on.roots_[root]);
        if (value == No) return false;
        if (value == Yes) {
          state.holds[root] = 1;
          continue;
        }
        if (!require(on.roots_[root].nodes.back(), true)) return false;
        if (!waits[root]) state.holds[root] = evaluate(on.roots_[root]) == Yes;
      }
      if (!count_members()) return false;
    } while (!waiting.empty());
    return true;
  }

  // A slot with several values left whose choice matters, or -1: one of a root that does not hold yet, or, if members
  // are counted, any.
  int32_t undecided() const {
    auto open = [&](int32_t slot) { return (state.domains[slot] & (state.domains[slot] - 1)) != 0; };
    for (int32_t root : part.roots) {
      if (state.holds[root]) continue;
      const auto& slots = on.roots_[root].slots;
      if (auto it = std::ranges::find_if(slots, open); it != slots.end()) return *it;
    }
    if (!on.counted_) return -1;
    const auto it = std::ranges::find_if(part.slots, open);
    return it == part.slots.end() ? -1 : *it;
  }

  // Depth-first search with an explicit stack of choice points. Afterwards each domain has one value, unless the result
  // is false. `order(slot)`: the values of a slot in the order in which they are tried.
  template <class Order>
  bool search(const Order& order) {
    struct Choice {
      State before;
      int32_t slot;
      std::vector<uint64_t> left;  // values that were not tried yet, the next one last
    };
    std::vector<Choice> choices;
    bool possible = propagate();
    while (true) {
      if (possible) {
        const int32_t slot = undecided();
        if (slot < 0) break;
        choices.push_back({.before = state, .slot = slot, .left = order(slot)});
        std::ranges::reverse(choices.back().left);
      }
      while (!choices.empty() && choices.back().left.empty()) choices.pop_back();
      if (choices.empty()) return false;
      Choice& at = choices.back();
      const uint64_t option = at.left.back();
      at.left.pop_back();
      state = at.before;
      for (int32_t root : waiting) waits[root] = 0;
      waiting.clear();
      possible = (state.domains[at.slot] & option) && narrow(at.slot, option) && propagate();
    }
    for (int32_t slot : part.slots)  // the slots that do not matter get their first value
      for (uint64_t option : order(slot))
        if (state.domains[slot] & option) {
          state.domains[slot] = option;
          break;
        }
    return true;
  }
};

bool ConditionSearch::generates() const {
  const SeenSet nothing{.bits = std::vector<uint64_t>((slot_of_.size() + 63) / 64, 0)};
  auto possible = [&](const SeenSet& seen, int32_t part) { return plan(part, seen, {}, 0).has_value(); };
  for (int32_t part = 0; part < parts(); ++part)
    if (!possible(nothing, part)) return false;
  for (size_t m = 0; m < slot_of_.size(); ++m) {
    const auto member = static_cast<int32_t>(m);
    if (!is_open(nothing, member)) continue;
    const SeenSet after = with(nothing, member);
    if (std::ranges::all_of(touched(nothing, member), [&](int32_t part) { return possible(after, part); })) return true;
  }
  return false;
}

bool ConditionSearch::holds(int32_t part, const SeenSet& seen) const {
  Search search(*this, part, seen, true);
  return std::ranges::all_of(parts_[part].roots, [&](int32_t root) { return search.evaluate(roots_[root]) == Yes; });
}

std::optional<std::vector<int32_t>> ConditionSearch::plan(int32_t part, const SeenSet& seen,
                                                          const std::vector<int64_t>& costs, int64_t most) const {
  Search search(*this, part, seen, false);
  for (int32_t slot : parts_[part].slots)
    for (size_t k = 0; !costs.empty() && !search.fixed[slot] && k < slots_[slot].members.size(); ++k)
      if (costs[slots_[slot].members[k]] > most) search.state.domains[slot] &= ~(uint64_t{2} << k);
  auto order = [&](int32_t slot) {
    std::vector<uint64_t> out{kAbsentOption};
    for (size_t k = 0; k < slots_[slot].members.size(); ++k) out.push_back(uint64_t{2} << k);
    auto cost = [&](uint64_t option) {
      const bool free = option == kAbsentOption || costs.empty();  // cheaper than any member
      return free ? -1 : costs[slots_[slot].members[__builtin_ctzll(option) - 1]];
    };
    std::ranges::stable_sort(out, {}, cost);
    return out;
  };
  if (!search.search(order)) return std::nullopt;
  std::vector<int32_t> out;
  for (int32_t slot : parts_[part].slots)
    if (!search.fixed[slot] && search.state.domains[slot] != kAbsentOption)
      out.push_back(slots_[slot].members[__builtin_ctzll(search.state.domains[slot]) - 1]);
  return out;
}

}  // namespace guided
