// Answers queries about a condition by walking its decision diagrams, from their ends to their roots.
//
// In: the members that were written. Out: whether the condition can still become true, and the cheapest choice of
// members that makes it true.
//
// How: an edge is open if its value is in the domain of its slot: the member that was written, or all values that are
// still possible.
// - A node has a path to the end if one of its open edges leads to a node that has one.
// - If members are counted, each node stores, as bits, the possible numbers of members on its paths. Slots without a
//   level in the diagrams only add to the number, at most one each. A repeatable member can make up for all missing
//   members. So if none was written yet, the query is repeated once for each of them, as if it had been written.
// - A plan stores the lowest cost for each of these numbers, and then follows the edges that gave the lowest cost.
#include <algorithm>

#include "base/call_meter.hpp"
#include "fsa/condition.hpp"

namespace guided {

namespace {
constexpr int64_t kImpossible = INT64_MAX / 2;  // above all costs
int64_t add_costs(int64_t a, int64_t b) {
  return a == kImpossible || b == kImpossible ? kImpossible : std::min(kImpossible - 1, a + b);
}
}  // namespace

MemberChoices::MemberChoices(std::shared_ptr<const ConditionDiagrams> diagrams, const std::vector<uint8_t>& repeatable,
                             int64_t min, int64_t max)
    : diagrams_(std::move(diagrams)),
      repeatable_(repeatable),
      repeats_(diagrams_->members.size(), 0),
      part_of_(diagrams_->members.size(), -1),
      counted_(min > 1 || max >= 0),
      min_(min),
      max_(max) {
  for (size_t m = 0; m < repeatable.size(); ++m)
    if (repeatable[m] == kRepeatable) repeats_[diagrams_->slot_of[m]] = 1;
  if (counted_) parts_.emplace_back();
  for (const ConditionDiagrams::Part& from : diagrams_->parts) {
    if (!counted_) parts_.emplace_back();
    Part& part = parts_.back();
    part.diagrams.push_back(&from);
    part.slots.insert(part.slots.end(), from.slots.begin(), from.slots.end());
    for (int32_t slot : from.slots) part_of_[slot] = parts() - 1;
  }
  for (Part& part : parts_) std::ranges::sort(part.slots);
  if (counted_) find_members_without_level();
}

void MemberChoices::find_members_without_level() {
  other_members_.assign((repeatable_.size() + 63) / 64, 0);
  for (int32_t slot = 0; slot < static_cast<int32_t>(part_of_.size()); ++slot) {
    if (part_of_[slot] >= 0) continue;
    part_of_[slot] = 0;
    bool is_possible = false;
    for (int32_t member : diagrams_->members[slot]) {
      is_possible |= repeatable_[member] == kOnce;
      if (repeatable_[member] == kRepeatable)
        repeatable_members_.push_back(member);
      else
        other_members_[member / 64] |= uint64_t{1} << (member % 64);
    }
    if (is_possible) slots_without_level_.push_back(slot);
  }
}

bool MemberChoices::is_open(const SeenSet& seen, int32_t member) const {
  if (repeatable_[member] == kAbsent) return false;
  if (repeatable_[member] == kRepeatable) return true;
  const int32_t slot = diagrams_->slot_of[member];
  if (diagrams_->ordered && slot <= seen.last) return false;
  return std::ranges::none_of(diagrams_->members[slot], [&](int32_t m) { return seen.has(static_cast<size_t>(m)); });
}

int32_t MemberChoices::reach(const SeenSet& seen) const {
  int32_t out = kEverySlot;
  if (!has_reach() || seen.last == kEverySlot) return out;  // if members are counted, the single part decides
  SeenSet skipped = seen;
  for (const Part& part : parts_) {
    std::vector<int32_t> slots;
    for (int32_t slot : part.slots)
      if (!repeats_[slot] && slot > seen.last && slot < out) slots.push_back(slot);
    auto can_skip = [&](int32_t slot) {
      skipped.last = slot;
      return has_path(*part.diagrams[0], skipped);
    };
    if (slots.empty() || can_skip(slots.back())) continue;
    out = *std::ranges::partition_point(slots, can_skip);
  }
  return out;
}

SeenSet MemberChoices::with(const SeenSet& seen, int32_t member) const {
  SeenSet out = seen;
  out.bits[member / 64] |= uint64_t{1} << (member % 64);
  ++out.count;
  if (diagrams_->ordered) out.last = std::max(out.last, rank(member));
  return out;
}

uint64_t MemberChoices::domain(int32_t slot, const SeenSet& seen) const {
  const std::vector<int32_t>& members = diagrams_->members[slot];
  uint64_t options = kAbsentOption;
  for (size_t k = 0; k < members.size(); ++k) {
    if (seen.has(static_cast<size_t>(members[k]))) return uint64_t{2} << k;
    if (repeatable_[members[k]] != kAbsent) options |= uint64_t{2} << k;
  }
  const bool is_passed = diagrams_->ordered && !repeats_[slot] && slot <= seen.last;
  return is_passed ? kAbsentOption : options;
}

std::string MemberChoices::key(int32_t part, const SeenSet& seen) const {
  std::string out(reinterpret_cast<const char*>(&part), sizeof part);
  CallMeter::work(std::ssize(parts_[part].slots));
  for (int32_t slot : parts_[part].slots) {
    const uint64_t options = domain(slot, seen);
    // 0: open; 1: must be absent; otherwise, the member that was written. The options of an open slot never change.
    const int state = options == kAbsentOption ? 1 : options & kAbsentOption ? 0 : 2 + __builtin_ctzll(options);
    out.push_back(static_cast<char>(state));
  }
  if (!counted_) return out;
  for (int64_t number : {seen.count, open_slots_without_level(seen)})
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  return out;
}

bool MemberChoices::holds(int32_t part, const SeenSet& seen) const {
  for (const ConditionDiagrams::Part* diagram_part : parts_[part].diagrams) {
    int32_t node = diagram_part->diagram.nodes > 0 ? 0 : kDead;
    CallMeter::work(std::ssize(diagram_part->slots));
    for (size_t level = 0; node != kDead && level < diagram_part->slots.size(); ++level) {
      const uint64_t options = domain(diagram_part->slots[level], seen);
      const int32_t value = options & kAbsentOption ? 0 : __builtin_ctzll(options);
      node = diagram_part->diagram.next(diagram_part->diagram.levels[level], node, value);
    }
    if (node == kDead) return false;
  }
  return true;
}

bool MemberChoices::can_hold(int32_t part, const SeenSet& seen) const {
  return counted_ ? has_counted_path(parts_[part], seen) : has_path(*parts_[part].diagrams[0], seen);
}

bool MemberChoices::generates() const {
  const SeenSet empty{.bits = std::vector<uint64_t>((repeatable_.size() + 63) / 64, 0)};
  for (int32_t part = 0; part < parts(); ++part)
    if (!can_hold(part, empty)) return false;
  const int32_t furthest = reach(empty);
  for (int32_t m = 0; m < static_cast<int32_t>(repeatable_.size()); ++m)
    if (is_open(empty, m) && rank(m) <= furthest && (part_of(m) < 0 || can_hold(part_of(m), with(empty, m))))
      return true;
  return false;
}

bool MemberChoices::has_path(const ConditionDiagrams::Part& part, const SeenSet& seen) const {
  const DecisionDiagram& diagram = part.diagram;
  if (diagram.nodes == 0) return false;
  std::vector<uint8_t> reaches_end(static_cast<size_t>(diagram.nodes), 0);
  reaches_end.back() = 1;
  for (size_t level = diagram.levels.size(); level-- > 0;) {
    CallMeter::work(1 + diagram.end(level) - diagram.levels[level].first);
    const uint64_t options = domain(part.slots[level], seen);
    for (int32_t node = diagram.levels[level].first; node < diagram.end(level); ++node)
      for (uint64_t left = options; left && !reaches_end[node]; left &= left - 1) {
        const int32_t next = diagram.next(diagram.levels[level], node, __builtin_ctzll(left));
        reaches_end[node] = next != kDead && reaches_end[next];
      }
  }
  return reaches_end[0] != 0;
}

// The numbers of further members that the bounds still allow.
struct MemberChoices::RemainingBounds {
  bool is_possible = true, is_bounded = false;
  int64_t low = 0, high = 0;    // how many more members must and (if is_bounded) may be written
  int64_t open_slots = 0;       // slots without a level in which one member may still be written, once
  bool can_repeat = false;      // some member that was written or has no level can be repeated without limit
  int32_t distinct_counts = 1;  // counts of further members with a level are distinguished up to distinct_counts - 1

  RemainingBounds(const MemberChoices& choices, const Part& part, const SeenSet& seen) {
    if (!choices.counted_) return;
    is_bounded = choices.max_ >= 0;
    low = std::max<int64_t>(0, choices.min_ - seen.count);
    high = is_bounded ? std::max<int64_t>(0, choices.max_ - seen.count) : 0;
    is_possible = !is_bounded || (seen.count <= choices.max_ && low <= high);
    open_slots = choices.open_slots_without_level(seen);
    can_repeat = !choices.repeatable_members_.empty();
    int64_t open_levels = 0;
    for (const ConditionDiagrams::Part* diagram_part : part.diagrams) {
      CallMeter::work(std::ssize(diagram_part->slots));
      for (int32_t slot : diagram_part->slots) {
        const uint64_t options = choices.domain(slot, seen);
        can_repeat |= choices.repeats_[slot] && !(options & kAbsentOption);
        open_levels += (options & kAbsentOption) && options != kAbsentOption;
      }
    }
    distinct_counts = static_cast<int32_t>(std::min(is_bounded ? high : low, open_levels)) + 1;
  }
  // Whether `number` further members with a level, and any further members without one, can satisfy the bounds.
  bool fits(int64_t number) const {
    const int64_t missing = std::max<int64_t>(0, low - number);
    return (can_repeat || missing <= open_slots) && (!is_bounded || number + missing <= high);
  }
};

int64_t MemberChoices::open_slots_without_level(const SeenSet& seen) const {
  if (diagrams_->ordered) return slots_without_level_.end() - std::ranges::upper_bound(slots_without_level_, seen.last);
  auto out = static_cast<int64_t>(slots_without_level_.size());
  for (size_t w = 0; w < seen.bits.size(); ++w) out -= __builtin_popcountll(seen.bits[w] & other_members_[w]);
  return out;
}

// If `is_needed`, calls visit(seen + member, member) for each repeatable member with a level. It is needed if none of
// them was written and the minimum may be out of reach. SeenSet::last is unchanged, because other slots may still come
// before the member.
template <class Visit>
void MemberChoices::for_each_repeated(const Part& part, const SeenSet& seen, bool is_needed, Visit&& visit) const {
  if (!is_needed) return;
  for (const ConditionDiagrams::Part* diagram_part : part.diagrams)
    for (int32_t slot : diagram_part->slots) {
      if (!repeats_[slot]) continue;
      SeenSet seen_after = with(seen, diagrams_->members[slot][0]);
      seen_after.last = seen.last;
      visit(seen_after, diagrams_->members[slot][0]);
    }
}

bool MemberChoices::has_counted_path(const Part& part, const SeenSet& seen) const {
  const RemainingBounds bounds(*this, part, seen);
  if (!bounds.is_possible) return false;
  const std::vector<uint64_t> path_counts = find_path_counts(part, seen, bounds);
  for (int64_t number = 0; number < bounds.distinct_counts; ++number)
    if ((path_counts[static_cast<size_t>(number) / 64] >> number % 64 & 1) && bounds.fits(number)) return true;
  bool out = false;
  for_each_repeated(part, seen, bounds.low > 0 && !bounds.can_repeat,
                    [&](const SeenSet& seen_after, int32_t) { out = out || has_counted_path(part, seen_after); });
  return out;
}

// Returns the numbers of further members that paths through all diagrams can write, as bits.
std::vector<uint64_t> MemberChoices::find_path_counts(const Part& part, const SeenSet& seen,
                                                      const RemainingBounds& bounds) const {
  const auto words = static_cast<size_t>(bounds.distinct_counts / 64 + 1);
  const auto top = static_cast<size_t>(bounds.distinct_counts);
  std::vector<uint64_t> out(words, 0), rows;
  out[0] = 1;
  for (size_t d = part.diagrams.size(); d-- > 0;) {
    const DecisionDiagram& diagram = part.diagrams[d]->diagram;
    if (diagram.nodes == 0) return std::vector<uint64_t>(words, 0);
    rows.assign(static_cast<size_t>(diagram.nodes) * words, 0);
    std::ranges::copy(out, rows.end() - static_cast<ptrdiff_t>(words));
    for (size_t level = diagram.levels.size(); level-- > 0;) {
      CallMeter::work(1 + (diagram.end(level) - diagram.levels[level].first) * static_cast<int64_t>(words));
      const uint64_t options = domain(part.diagrams[d]->slots[level], seen);
      for (int32_t node = diagram.levels[level].first; node < diagram.end(level); ++node) {
        uint64_t* to = &rows[static_cast<size_t>(node) * words];
        for (uint64_t left = options; left; left &= left - 1) {
          const int32_t value = __builtin_ctzll(left), next = diagram.next(diagram.levels[level], node, value);
          if (next == kDead) continue;
          const uint64_t* from = &rows[static_cast<size_t>(next) * words];
          const bool adds_member = value > 0 && (options & kAbsentOption);
          for (size_t w = 0; w < words; ++w)
            to[w] |= adds_member ? from[w] << 1 | (w > 0 ? from[w - 1] >> 63 : 0) : from[w];
        }
        if (!(to[top / 64] >> top % 64 & 1)) continue;
        to[top / 64] ^= uint64_t{1} << top % 64;
        if (!bounds.is_bounded) to[(top - 1) / 64] |= uint64_t{1} << (top - 1) % 64;  // stands for all larger numbers
      }
    }
    std::copy_n(rows.begin(), words, out.begin());
  }
  return out;
}

// The cheapest choice that makes a part true: the lowest cost by node and number of further members.
struct MemberChoices::Plan {
  const MemberChoices& choices;
  const Part& part;
  const SeenSet& seen;
  const std::vector<int64_t>& costs;
  const int64_t max_cost;
  RemainingBounds bounds;
  std::vector<std::pair<int64_t, int32_t>> cheapest_by_slot;         // (cost, member), without a level; sorted
  std::pair<int64_t, int32_t> cheapest_repeatable{kImpossible, -1};  // (cost, member)
  std::vector<std::vector<int64_t>> rows;                            // by diagram: costs, by node and number
  int64_t total = kImpossible;
  std::vector<int32_t> members;

  Plan(const MemberChoices& all_choices, const Part& planned_part, const SeenSet& seen_set,
       const std::vector<int64_t>& member_costs, int64_t cost_limit)
      : choices(all_choices),
        part(planned_part),
        seen(seen_set),
        costs(member_costs),
        max_cost(cost_limit),
        bounds(all_choices, planned_part, seen_set),
        rows(planned_part.diagrams.size()) {
    if (choices.counted_) find_members_without_level();
    for (size_t d = part.diagrams.size(); bounds.is_possible && d-- > 0;) bounds.is_possible = compute_costs(d);
    if (!bounds.is_possible) return;
    int32_t best = 0;
    for (int32_t number = 0; number < bounds.distinct_counts; ++number) {
      const int64_t sum = add_costs(rows.empty() ? 0 : rows[0][static_cast<size_t>(number)], fill_up(number, nullptr));
      if (sum >= total) continue;
      total = sum;
      best = number;
    }
    if (total == kImpossible) return;
    fill_up(best, &members);
    for (size_t d = 0; d < part.diagrams.size(); ++d) follow_path(d, best);
  }

  int64_t cost(int32_t member) const {
    return costs.empty() ? 0 : costs[member] > max_cost ? kImpossible : costs[member];
  }

  void find_members_without_level() {
    for (int32_t slot : choices.slots_without_level_) {
      std::pair<int64_t, int32_t> best{kImpossible, -1};
      for (int32_t member : choices.diagrams_->members[slot])
        if (choices.is_open(seen, member)) best = std::min(best, {cost(member), member});
      if (best.first < kImpossible) cheapest_by_slot.push_back(best);
    }
    std::ranges::sort(cheapest_by_slot);
    for (int32_t member : choices.repeatable_members_)
      cheapest_repeatable = std::min(cheapest_repeatable, {cost(member), member});
    for (const ConditionDiagrams::Part* diagram_part : part.diagrams)
      for (int32_t slot : diagram_part->slots) {
        const int32_t member = choices.diagrams_->members[slot].empty() ? -1 : choices.diagrams_->members[slot][0];
        if (choices.repeats_[slot] && seen.has(static_cast<size_t>(member)))
          cheapest_repeatable = std::min(cheapest_repeatable, {cost(member), member});
      }
    bounds.open_slots = static_cast<int64_t>(cheapest_by_slot.size());
    bounds.can_repeat = cheapest_repeatable.first < kImpossible;
  }

  // Returns the cost of the members without a level that must be added to `number` members with a level. Appends the
  // added members to `out`.
  int64_t fill_up(int64_t number, std::vector<int32_t>* out) const {
    if (!bounds.fits(number)) return kImpossible;
    int64_t sum = 0;
    for (int64_t missing = bounds.low - number, i = 0; i < missing; ++i) {
      const bool is_repeatable =
          i == bounds.open_slots || cheapest_repeatable.first <= cheapest_by_slot[static_cast<size_t>(i)].first;
      const auto [unit_cost, member] = is_repeatable ? cheapest_repeatable : cheapest_by_slot[static_cast<size_t>(i)];
      const int64_t times = is_repeatable ? missing - i : 1;
      sum = add_costs(sum, unit_cost > 0 && times > kImpossible / unit_cost ? kImpossible - 1 : unit_cost * times);
      if (out && !seen.has(static_cast<size_t>(member))) out->push_back(member);
      if (is_repeatable) break;
    }
    return sum;
  }

  int64_t& at(size_t diagram, int32_t node, int32_t number) {
    return rows[diagram]
               [static_cast<size_t>(node) * static_cast<size_t>(bounds.distinct_counts) + static_cast<size_t>(number)];
  }

  // Calls visit(next node, cost, member or -1) for each open edge.
  template <class Visit>
  void for_each_edge(const ConditionDiagrams::Part& diagram_part, size_t level, int32_t node, Visit&& visit) const {
    const int32_t slot = diagram_part.slots[level];
    const uint64_t options = choices.domain(slot, seen);
    for (uint64_t left = options; left; left &= left - 1) {
      const int32_t value = __builtin_ctzll(left),
                    next = diagram_part.diagram.next(diagram_part.diagram.levels[level], node, value);
      if (next == kDead) continue;
      const bool adds_member = value > 0 && (options & kAbsentOption);
      const int32_t member = adds_member ? choices.diagrams_->members[slot][static_cast<size_t>(value) - 1] : -1;
      if (!adds_member) visit(next, int64_t{0}, -1);
      if (adds_member && cost(member) < kImpossible) visit(next, cost(member), member);
    }
  }

  // Calls visit(number after an edge, number before the edge).
  template <class Visit>
  void for_each_count(bool adds_member, Visit&& visit) const {
    for (int32_t number = 0; number < bounds.distinct_counts; ++number)
      if (number + adds_member < bounds.distinct_counts)
        visit(number, number + adds_member);
      else if (!bounds.is_bounded)
        visit(number, number);  // the last number stands for all larger ones
  }

  bool compute_costs(size_t d) {
    const ConditionDiagrams::Part& diagram_part = *part.diagrams[d];
    if (diagram_part.diagram.nodes == 0) return false;
    rows[d].assign(static_cast<size_t>(diagram_part.diagram.nodes) * static_cast<size_t>(bounds.distinct_counts),
                   kImpossible);
    const int32_t end = diagram_part.diagram.nodes - 1;
    const bool is_last = d + 1 == part.diagrams.size();
    for (int32_t number = 0; number < bounds.distinct_counts; ++number)
      at(d, end, number) = is_last ? (number == 0 ? 0 : kImpossible) : at(d + 1, 0, number);
    for (size_t level = diagram_part.slots.size(); level-- > 0;) {
      CallMeter::work(1 + int64_t{diagram_part.diagram.end(level) - diagram_part.diagram.levels[level].first} *
                              bounds.distinct_counts);
      for (int32_t node = diagram_part.diagram.levels[level].first; node < diagram_part.diagram.end(level); ++node)
        for_each_edge(diagram_part, level, node, [&](int32_t next, int64_t edge_cost, int32_t member) {
          for_each_count(member >= 0, [&](int32_t count_after, int32_t count_before) {
            at(d, node, count_before) =
                std::min(at(d, node, count_before), add_costs(at(d, next, count_after), edge_cost));
          });
        });
    }
    return true;
  }

  // Follows the edges that gave the cost of `number`, from the root to the end. Sets `number` to the number at the end.
  void follow_path(size_t d, int32_t& number) {
    const ConditionDiagrams::Part& diagram_part = *part.diagrams[d];
    int32_t node = 0;
    for (size_t level = 0; level < diagram_part.slots.size(); ++level) {
      CallMeter::work(1 + bounds.distinct_counts);
      const int64_t path_cost = at(d, node, number);
      int32_t to = kDead, next_number = 0, written_member = -1;
      for_each_edge(diagram_part, level, node, [&](int32_t next, int64_t edge_cost, int32_t member) {
        for_each_count(member >= 0, [&](int32_t count_after, int32_t count_before) {
          if (to != kDead || count_before != number || add_costs(at(d, next, count_after), edge_cost) != path_cost)
            return;
          to = next;
          next_number = count_after;
          written_member = member;
        });
      });
      if (written_member >= 0) members.push_back(written_member);
      node = to;
      number = next_number;
    }
  }
};

std::optional<std::vector<int32_t>> MemberChoices::plan(int32_t part, const SeenSet& seen,
                                                        const std::vector<int64_t>& costs, int64_t max_cost) const {
  const Part& planned_part = parts_[part];
  Plan best(*this, planned_part, seen, costs, max_cost);
  int64_t total = best.total;
  for_each_repeated(planned_part, seen, counted_ && best.bounds.low > 0 && !best.bounds.can_repeat,
                    [&](const SeenSet& seen_after, int32_t member) {
                      Plan with_member(*this, planned_part, seen_after, costs, max_cost);
                      const int64_t sum = add_costs(with_member.total, best.cost(member));
                      if (sum >= total) return;
                      total = sum;
                      best.members = std::move(with_member.members);
                      best.members.push_back(member);
                    });
  if (total == kImpossible) return std::nullopt;
  return best.members;
}

}  // namespace guided
