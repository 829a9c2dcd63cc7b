// Answers queries about a condition by walking its decision diagrams, from their ends to their roots.
//
// In: the members that were written. Out: whether the condition can still become true, and the cheapest way to that.
//
// How: an edge is open if its value is in the domain of its slot: the member that was written, or all that may still
// be.
// - A node has a path to the end if one of its open edges leads to a node that has one.
// - If members are counted, a node stores, as bits, the numbers of members that its paths write. A repeatable member
//   can make up for all missing ones. So if none was written yet, the query is repeated as if each of them, in turn,
//   had been. Slots without a level in the diagrams are only counted: they add any number up to their own number.
// - A plan stores the lowest cost for each of these numbers, and then follows the edges that gave it.
#include <algorithm>

#include "base/call_meter.hpp"
#include "fsa/condition.hpp"

namespace guided {

namespace {
constexpr int64_t kNever = INT64_MAX / 2;  // impossible; all costs are lower
int64_t plus(int64_t a, int64_t b) { return a == kNever || b == kNever ? kNever : std::min(kNever - 1, a + b); }
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
  if (counted_) find_others();
}

void MemberChoices::find_others() {
  other_members_.assign((repeatable_.size() + 63) / 64, 0);
  for (int32_t slot = 0; slot < static_cast<int32_t>(part_of_.size()); ++slot) {
    if (part_of_[slot] >= 0) continue;
    part_of_[slot] = 0;
    bool is_possible = false;
    for (int32_t member : diagrams_->members[slot]) {
      is_possible |= repeatable_[member] == kOnce;
      if (repeatable_[member] == kRepeatable)
        repeatable_others_.push_back(member);
      else
        other_members_[member / 64] |= uint64_t{1} << (member % 64);
    }
    if (is_possible) others_.push_back(slot);
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
    auto can_be_skipped = [&](int32_t slot) {
      skipped.last = slot;
      return has_path(*part.diagrams[0], skipped);
    };
    if (slots.empty() || can_be_skipped(slots.back())) continue;
    out = *std::ranges::partition_point(slots, can_be_skipped);
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
  uint64_t open = kAbsentOption;
  for (size_t k = 0; k < members.size(); ++k) {
    if (seen.has(static_cast<size_t>(members[k]))) return uint64_t{2} << k;
    if (repeatable_[members[k]] != kAbsent) open |= uint64_t{2} << k;
  }
  const bool passed = diagrams_->ordered && !repeats_[slot] && slot <= seen.last;
  return passed ? kAbsentOption : open;
}

std::string MemberChoices::key(int32_t part, const SeenSet& seen) const {
  std::string out(reinterpret_cast<const char*>(&part), sizeof part);
  CallMeter::work(std::ssize(parts_[part].slots));
  for (int32_t slot : parts_[part].slots) {
    const uint64_t options = domain(slot, seen);
    // 0: open; 1: only absent; otherwise the member that was written. The options of an open slot never change.
    const int state = options == kAbsentOption ? 1 : options & kAbsentOption ? 0 : 2 + __builtin_ctzll(options);
    out.push_back(static_cast<char>(state));
  }
  if (!counted_) return out;
  for (int64_t number : {seen.count, open_others(seen)})
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  return out;
}

bool MemberChoices::holds(int32_t part, const SeenSet& seen) const {
  for (const ConditionDiagrams::Part* of : parts_[part].diagrams) {
    int32_t node = of->diagram.nodes > 0 ? 0 : kDead;
    CallMeter::work(std::ssize(of->slots));
    for (size_t level = 0; node != kDead && level < of->slots.size(); ++level) {
      const uint64_t options = domain(of->slots[level], seen);
      const int32_t value = options & kAbsentOption ? 0 : __builtin_ctzll(options);
      node = of->diagram.next(of->diagram.levels[level], node, value);
    }
    if (node == kDead) return false;
  }
  return true;
}

bool MemberChoices::can_hold(int32_t part, const SeenSet& seen) const {
  return counted_ ? has_counted_path(parts_[part], seen) : has_path(*parts_[part].diagrams[0], seen);
}

bool MemberChoices::generates() const {
  const SeenSet nothing{.bits = std::vector<uint64_t>((repeatable_.size() + 63) / 64, 0)};
  for (int32_t part = 0; part < parts(); ++part)
    if (!can_hold(part, nothing)) return false;
  const int32_t furthest = reach(nothing);
  for (int32_t m = 0; m < static_cast<int32_t>(repeatable_.size()); ++m)
    if (is_open(nothing, m) && rank(m) <= furthest && (part_of(m) < 0 || can_hold(part_of(m), with(nothing, m))))
      return true;
  return false;
}

bool MemberChoices::has_path(const ConditionDiagrams::Part& part, const SeenSet& seen) const {
  const DecisionDiagram& diagram = part.diagram;
  if (diagram.nodes == 0) return false;
  std::vector<uint8_t> reaches(static_cast<size_t>(diagram.nodes), 0);
  reaches.back() = 1;
  for (size_t level = diagram.levels.size(); level-- > 0;) {
    CallMeter::work(1 + diagram.end(level) - diagram.levels[level].first);
    const uint64_t options = domain(part.slots[level], seen);
    for (int32_t node = diagram.levels[level].first; node < diagram.end(level); ++node)
      for (uint64_t left = options; left && !reaches[node]; left &= left - 1) {
        const int32_t next = diagram.next(diagram.levels[level], node, __builtin_ctzll(left));
        reaches[node] = next != kDead && reaches[next];
      }
  }
  return reaches[0] != 0;
}

// What the bounds on the number of members still allow.
struct MemberChoices::Room {
  bool possible = true, bounded = false;
  int64_t low = 0, high = 0;  // how many more members must be written; how many may be, if bounded
  int64_t others = 0;         // slots without a level in which a member may still be written, once
  bool again = false;         // some member that was written or has no level can be repeated without limit
  int32_t numbers = 1;        // numbers of further members with a level that are distinguished: 0 to numbers - 1

  Room(const MemberChoices& on, const Part& part, const SeenSet& seen) {
    if (!on.counted_) return;
    bounded = on.max_ >= 0;
    low = std::max<int64_t>(0, on.min_ - seen.count);
    high = bounded ? std::max<int64_t>(0, on.max_ - seen.count) : 0;
    possible = !bounded || (seen.count <= on.max_ && low <= high);
    others = on.open_others(seen);
    again = !on.repeatable_others_.empty();
    int64_t open = 0;
    for (const ConditionDiagrams::Part* of : part.diagrams) {
      CallMeter::work(std::ssize(of->slots));
      for (int32_t slot : of->slots) {
        const uint64_t options = on.domain(slot, seen);
        again |= on.repeats_[slot] && !(options & kAbsentOption);
        open += (options & kAbsentOption) && options != kAbsentOption;
      }
    }
    numbers = static_cast<int32_t>(std::min(bounded ? high : low, open)) + 1;
  }
  // Whether `number` further members with a level, together with others, can satisfy the bounds.
  bool fits(int64_t number) const {
    const int64_t missing = std::max<int64_t>(0, low - number);
    return (again || missing <= others) && (!bounded || number + missing <= high);
  }
};

int64_t MemberChoices::open_others(const SeenSet& seen) const {
  if (diagrams_->ordered) return others_.end() - std::ranges::upper_bound(others_, seen.last);
  auto out = static_cast<int64_t>(others_.size());
  for (size_t w = 0; w < seen.bits.size(); ++w) out -= __builtin_popcountll(seen.bits[w] & other_members_[w]);
  return out;
}

// If `is_needed`, calls visit(seen, member) for each repeatable member with a level, with the set in which it was
// written: none of them was, and the minimum may be out of reach. `last` is unchanged: other slots may still come
// before it.
template <class Visit>
void MemberChoices::each_repeated(const Part& part, const SeenSet& seen, bool is_needed, Visit&& visit) const {
  if (!is_needed) return;
  for (const ConditionDiagrams::Part* of : part.diagrams)
    for (int32_t slot : of->slots) {
      if (!repeats_[slot]) continue;
      SeenSet after = with(seen, diagrams_->members[slot][0]);
      after.last = seen.last;
      visit(after, diagrams_->members[slot][0]);
    }
}

bool MemberChoices::has_counted_path(const Part& part, const SeenSet& seen) const {
  const Room room(*this, part, seen);
  if (!room.possible) return false;
  const std::vector<uint64_t> found = path_numbers(part, seen, room);
  for (int64_t number = 0; number < room.numbers; ++number)
    if ((found[static_cast<size_t>(number) / 64] >> number % 64 & 1) && room.fits(number)) return true;
  bool out = false;
  each_repeated(part, seen, room.low > 0 && !room.again,
                [&](const SeenSet& after, int32_t) { out = out || has_counted_path(part, after); });
  return out;
}

// The numbers of further members that the paths through all diagrams write, as bits.
std::vector<uint64_t> MemberChoices::path_numbers(const Part& part, const SeenSet& seen, const Room& room) const {
  const auto words = static_cast<size_t>(room.numbers / 64 + 1);
  const auto top = static_cast<size_t>(room.numbers);
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
          const bool adds = value > 0 && (options & kAbsentOption);
          for (size_t w = 0; w < words; ++w) to[w] |= adds ? from[w] << 1 | (w > 0 ? from[w - 1] >> 63 : 0) : from[w];
        }
        if (!(to[top / 64] >> top % 64 & 1)) continue;
        to[top / 64] ^= uint64_t{1} << top % 64;
        if (!room.bounded) to[(top - 1) / 64] |= uint64_t{1} << (top - 1) % 64;  // stands for all larger numbers
      }
    }
    std::copy_n(rows.begin(), words, out.begin());
  }
  return out;
}

// The cheapest choice that makes a part true: the lowest cost by node and number of further members.
struct MemberChoices::Plan {
  const MemberChoices& on;
  const Part& part;
  const SeenSet& seen;
  const std::vector<int64_t>& costs;
  const int64_t most;
  Room room;
  std::vector<std::pair<int64_t, int32_t>> others;  // (cost, member) of each slot without a level, cheapest first
  std::pair<int64_t, int32_t> again{kNever, -1};  // (cost, member): the cheapest one that can be repeated without limit
  std::vector<std::vector<int64_t>> rows;         // by diagram: costs, by node and number
  int64_t total = kNever;
  std::vector<int32_t> members;

  Plan(const MemberChoices& choices, const Part& of, const SeenSet& set, const std::vector<int64_t>& given,
       int64_t limit)
      : on(choices), part(of), seen(set), costs(given), most(limit), room(choices, of, set), rows(of.diagrams.size()) {
    if (on.counted_) find_others();
    for (size_t d = part.diagrams.size(); room.possible && d-- > 0;) room.possible = walk(d);
    if (!room.possible) return;
    int32_t best = 0;
    for (int32_t number = 0; number < room.numbers; ++number) {
      const int64_t sum = plus(rows.empty() ? 0 : rows[0][static_cast<size_t>(number)], filled(number, nullptr));
      if (sum >= total) continue;
      total = sum;
      best = number;
    }
    if (total == kNever) return;
    filled(best, &members);
    for (size_t d = 0; d < part.diagrams.size(); ++d) follow(d, best);
  }

  int64_t cost(int32_t member) const { return costs.empty() ? 0 : costs[member] > most ? kNever : costs[member]; }

  void find_others() {
    for (int32_t slot : on.others_) {
      std::pair<int64_t, int32_t> best{kNever, -1};
      for (int32_t member : on.diagrams_->members[slot])
        if (on.is_open(seen, member)) best = std::min(best, {cost(member), member});
      if (best.first < kNever) others.push_back(best);
    }
    std::ranges::sort(others);
    for (int32_t member : on.repeatable_others_) again = std::min(again, {cost(member), member});
    for (const ConditionDiagrams::Part* of : part.diagrams)
      for (int32_t slot : of->slots) {
        const int32_t member = on.diagrams_->members[slot].empty() ? -1 : on.diagrams_->members[slot][0];
        if (on.repeats_[slot] && seen.has(static_cast<size_t>(member))) again = std::min(again, {cost(member), member});
      }
    room.others = static_cast<int64_t>(others.size());
    room.again = again.first < kNever;
  }

  // The cost of the members without a level that must be added to `number` members with one. Appends them to `out`.
  int64_t filled(int64_t number, std::vector<int32_t>* out) const {
    if (!room.fits(number)) return kNever;
    int64_t sum = 0;
    for (int64_t missing = room.low - number, i = 0; i < missing; ++i) {
      const bool repeats = i == room.others || again.first <= others[static_cast<size_t>(i)].first;
      const auto [one, member] = repeats ? again : others[static_cast<size_t>(i)];
      const int64_t times = repeats ? missing - i : 1;
      sum = plus(sum, one > 0 && times > kNever / one ? kNever - 1 : one * times);
      if (out && !seen.has(static_cast<size_t>(member))) out->push_back(member);
      if (repeats) break;
    }
    return sum;
  }

  int64_t& at(size_t diagram, int32_t node, int32_t number) {
    return rows[diagram][static_cast<size_t>(node) * static_cast<size_t>(room.numbers) + static_cast<size_t>(number)];
  }

  // Calls visit(next node, cost, member or -1) for each open edge.
  template <class Visit>
  void each_edge(const ConditionDiagrams::Part& of, size_t level, int32_t node, Visit&& visit) const {
    const int32_t slot = of.slots[level];
    const uint64_t options = on.domain(slot, seen);
    for (uint64_t left = options; left; left &= left - 1) {
      const int32_t value = __builtin_ctzll(left), next = of.diagram.next(of.diagram.levels[level], node, value);
      if (next == kDead) continue;
      const bool adds = value > 0 && (options & kAbsentOption);
      const int32_t member = adds ? on.diagrams_->members[slot][static_cast<size_t>(value) - 1] : -1;
      if (!adds) visit(next, int64_t{0}, -1);
      if (adds && cost(member) < kNever) visit(next, cost(member), member);
    }
  }

  // Calls visit(number after an edge, number before it).
  template <class Visit>
  void each_number(bool adds, Visit&& visit) const {
    for (int32_t number = 0; number < room.numbers; ++number)
      if (number + adds < room.numbers)
        visit(number, number + adds);
      else if (!room.bounded)
        visit(number, number);  // the last number stands for all larger ones
  }

  bool walk(size_t d) {
    const ConditionDiagrams::Part& of = *part.diagrams[d];
    if (of.diagram.nodes == 0) return false;
    rows[d].assign(static_cast<size_t>(of.diagram.nodes) * static_cast<size_t>(room.numbers), kNever);
    const int32_t end = of.diagram.nodes - 1;
    const bool is_last = d + 1 == part.diagrams.size();
    for (int32_t number = 0; number < room.numbers; ++number)
      at(d, end, number) = is_last ? (number == 0 ? 0 : kNever) : at(d + 1, 0, number);
    for (size_t level = of.slots.size(); level-- > 0;) {
      CallMeter::work(1 + int64_t{of.diagram.end(level) - of.diagram.levels[level].first} * room.numbers);
      for (int32_t node = of.diagram.levels[level].first; node < of.diagram.end(level); ++node)
        each_edge(of, level, node, [&](int32_t next, int64_t more, int32_t member) {
          each_number(member >= 0, [&](int32_t behind, int32_t before) {
            at(d, node, before) = std::min(at(d, node, before), plus(at(d, next, behind), more));
          });
        });
    }
    return true;
  }

  // Follows the edges that gave the cost of `number`, from the root to the end. Sets `number` to the number at the end.
  void follow(size_t d, int32_t& number) {
    const ConditionDiagrams::Part& of = *part.diagrams[d];
    int32_t node = 0;
    for (size_t level = 0; level < of.slots.size(); ++level) {
      CallMeter::work(1 + room.numbers);
      const int64_t wanted = at(d, node, number);
      int32_t to = kDead, left = 0, written = -1;
      each_edge(of, level, node, [&](int32_t next, int64_t more, int32_t member) {
        each_number(member >= 0, [&](int32_t behind, int32_t before) {
          if (to != kDead || before != number || plus(at(d, next, behind), more) != wanted) return;
          to = next;
          left = behind;
          written = member;
        });
      });
      if (written >= 0) members.push_back(written);
      node = to;
      number = left;
    }
  }
};

std::optional<std::vector<int32_t>> MemberChoices::plan(int32_t part, const SeenSet& seen,
                                                        const std::vector<int64_t>& costs, int64_t most) const {
  const Part& of = parts_[part];
  Plan best(*this, of, seen, costs, most);
  int64_t total = best.total;
  each_repeated(of, seen, counted_ && best.room.low > 0 && !best.room.again, [&](const SeenSet& after, int32_t member) {
    Plan other(*this, of, after, costs, most);
    const int64_t sum = plus(other.total, best.cost(member));
    if (sum >= total) return;
    total = sum;
    best.members = std::move(other.members);
    best.members.push_back(member);
  });
  if (total == kNever) return std::nullopt;
  return best.members;
}

}  // namespace guided
