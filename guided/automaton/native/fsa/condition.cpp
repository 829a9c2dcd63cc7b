#include "fsa/condition.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

namespace guided {

Digest Condition::digest() const {
  Digest out;
  out.add(ordered);
  for (int32_t slot : slots) out.add(static_cast<uint64_t>(slot) + 1);
  for (const Node& node : nodes) {
    out.add(0xC0D0u + node.kind);
    for (int32_t part : node.parts) out.add(static_cast<uint64_t>(part));
  }
  return out;
}

Condition Condition::read(const std::vector<uint8_t>& required, const std::vector<uint8_t>& repeatable,
                          const std::vector<int32_t>& slots, bool ordered,
                          const std::vector<std::pair<int32_t, std::vector<int32_t>>>& nodes) {
  const auto members = static_cast<int32_t>(required.size());
  std::vector<int32_t> in_slot(slots.size(), 0);
  if (slots.size() != required.size()) throw std::invalid_argument("each member has a slot");
  for (int32_t slot : slots)
    if (slot < 0 || slot >= members || ++in_slot[slot] > kMostInSlot)
      throw std::invalid_argument("a slot out of range");
  for (int32_t m = 0; m < members; ++m)
    if (repeatable[m] && in_slot[slots[m]] > 1) throw std::invalid_argument("a repeatable member shares its slot");
  Condition out{.nodes = {}, .slots = slots, .ordered = ordered};
  for (const auto& [kind, parts] : nodes) {
    const auto below = kind == Written ? members : static_cast<int32_t>(out.nodes.size());
    if (kind < Written || kind > None || std::ranges::any_of(parts, [&](int32_t p) { return p < 0 || p >= below; }))
      throw std::invalid_argument("a condition is made of members and of conditions before it");
    out.nodes.push_back({static_cast<Kind>(kind), parts});
  }
  std::vector<int32_t> all;
  if (!out.nodes.empty()) all.push_back(static_cast<int32_t>(out.nodes.size()) - 1);
  for (int32_t m = 0; m < members; ++m)
    if (required[m]) {
      all.push_back(static_cast<int32_t>(out.nodes.size()));
      out.nodes.push_back({Written, {m}});
    }
  out.nodes.push_back({All, all});
  return out;
}

ConditionSearch::ConditionSearch(const Condition& condition, const std::vector<uint8_t>& repeatable, int64_t min,
                                 int64_t max)
    : slot_of_(condition.slots),
      repeatable_(repeatable),
      ordered_(condition.ordered),
      counted_(min > 1 || max >= 0),
      min_(min),
      max_(max) {
  slots_.resize(slot_of_.empty() ? 0 : static_cast<size_t>(*std::ranges::max_element(slot_of_)) + 1);
  std::vector<uint64_t> option(slot_of_.size());
  for (size_t m = 0; m < slot_of_.size(); ++m) {
    Slot& slot = slots_[slot_of_[m]];
    slot.members.push_back(static_cast<int32_t>(m));
    slot.repeatable |= repeatable[m] == kRepeatable;
    option[m] = uint64_t{1} << slot.members.size();
  }
  for (const Condition::Node& from : condition.nodes) {
    Node& node = nodes_.emplace_back();
    node.kind = from.kind;
    if (from.kind != Condition::Written) {
      node.parts = from.parts;
      continue;
    }
    for (int32_t member : from.parts) {
      auto same = [&](const InSlot& one) { return one.slot == slot_of_[member]; };
      auto it = std::ranges::find_if(node.written, same);
      if (it == node.written.end()) it = node.written.insert(it, {.slot = slot_of_[member], .options = 0});
      it->options |= option[member];
    }
  }
  std::vector<int32_t> open;
  if (!nodes_.empty()) open.push_back(static_cast<int32_t>(nodes_.size()) - 1);
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    if (nodes_[at].kind == Condition::All)
      open.insert(open.end(), nodes_[at].parts.rbegin(), nodes_[at].parts.rend());
    else
      roots_.push_back(root_at(at));
  }
  split();
}

ConditionSearch::Root ConditionSearch::root_at(int32_t node) const {
  Root out;
  std::vector<int32_t> open{node};
  std::unordered_set<int32_t> visited{node};
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    out.nodes.push_back(at);
    for (const InSlot& one : nodes_[at].written) out.slots.push_back(one.slot);
    for (int32_t part : nodes_[at].parts)
      if (visited.insert(part).second) open.push_back(part);
  }
  std::ranges::sort(out.nodes);  // parts have smaller numbers than what they are parts of
  std::ranges::sort(out.slots);
  out.slots.erase(std::unique(out.slots.begin(), out.slots.end()), out.slots.end());
  return out;
}

// Groups the conjuncts into parts by union-find over slots: two conjuncts that share a slot are in one part. If the
// number of members is bounded, all slots depend on each other and form one part.
void ConditionSearch::split() {
  std::vector<int32_t> leader(slots_.size());
  std::iota(leader.begin(), leader.end(), 0);
  auto find = [&](int32_t slot) {
    while (leader[slot] != slot) slot = leader[slot] = leader[leader[slot]];
    return slot;
  };
  for (const Root& root : roots_)
    for (int32_t slot : root.slots) leader[find(slot)] = find(root.slots[0]);
  if (counted_)
    for (size_t s = 1; s < slots_.size(); ++s) leader[find(static_cast<int32_t>(s))] = find(0);
  std::unordered_map<int32_t, int32_t> numbers;  // leading slot -> part; -1: the part of conjuncts without slots
  auto part_of = [&](int32_t slot) {
    auto [it, inserted] = numbers.try_emplace(slot < 0 ? -1 : find(slot), static_cast<int32_t>(parts_.size()));
    if (inserted) parts_.emplace_back();
    return it->second;
  };
  roots_of_.resize(slots_.size());
  for (size_t r = 0; r < roots_.size(); ++r) {
    parts_[part_of(roots_[r].slots.empty() ? -1 : roots_[r].slots[0])].roots.push_back(static_cast<int32_t>(r));
    for (int32_t slot : roots_[r].slots) roots_of_[slot].push_back(static_cast<int32_t>(r));
  }
  part_of_.assign(slots_.size(), -1);
  for (int32_t s = 0; s < static_cast<int32_t>(slots_.size()); ++s) {
    if (!counted_ && roots_of_[s].empty()) continue;
    part_of_[s] = part_of(s);
    parts_[part_of_[s]].slots.push_back(s);
  }
}

bool ConditionSearch::is_open(const SeenSet& seen, int32_t member) const {
  if (repeatable_[member] == kAbsent) return false;
  if (repeatable_[member] == kRepeatable) return true;
  const int32_t slot = slot_of_[member];
  if (ordered_ && slot <= seen.last) return false;
  return std::ranges::none_of(slots_[slot].members, [&](int32_t m) { return seen.has(static_cast<size_t>(m)); });
}

SeenSet ConditionSearch::with(const SeenSet& seen, int32_t member) const {
  SeenSet out = seen;
  out.bits[member / 64] |= uint64_t{1} << (member % 64);
  ++out.count;
  if (ordered_) out.last = std::max(out.last, rank(slot_of_[member]));
  return out;
}

std::vector<int32_t> ConditionSearch::touched(const SeenSet& seen, int32_t member) const {
  std::vector<int32_t> out;
  auto add = [&](int32_t slot) {
    if (part_of_[slot] >= 0 && std::ranges::find(out, part_of_[slot]) == out.end()) out.push_back(part_of_[slot]);
  };
  add(slot_of_[member]);
  if (!ordered_) return out;
  const int32_t end = std::min(rank(slot_of_[member]), static_cast<int32_t>(slots_.size()));
  for (int32_t slot = seen.last == kEverySlot ? end : seen.last + 1; slot < end; ++slot) add(slot);
  return out;
}

uint64_t ConditionSearch::domain(int32_t slot, const SeenSet& seen, bool ended) const {
  const Slot& at = slots_[slot];
  uint64_t open = kAbsentOption;
  for (size_t k = 0; k < at.members.size(); ++k) {
    if (seen.has(static_cast<size_t>(at.members[k]))) return uint64_t{2} << k;
    if (repeatable_[at.members[k]] != kAbsent) open |= uint64_t{2} << k;
  }
  const bool passed = ordered_ && !at.repeatable && slot <= seen.last;
  return ended || passed ? kAbsentOption : open;
}

std::string ConditionSearch::key(int32_t part, const SeenSet& seen) const {
  std::string out(reinterpret_cast<const char*>(&part), sizeof part);
  for (int32_t slot : parts_[part].slots) {
    const uint64_t options = domain(slot, seen, false);
    // 0: still free, 1: absent for good, else the member that was written. What else a free slot can have is fixed.
    const int state = options == kAbsentOption ? 1 : options & kAbsentOption ? 0 : 2 + __builtin_ctzll(options);
    out.push_back(static_cast<char>(state));
  }
  if (counted_) out.append(reinterpret_cast<const char*>(&seen.count), sizeof seen.count);
  return out;
}

}  // namespace guided
