#include "fsa/condition.hpp"

#include <algorithm>
#include <stdexcept>

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
  std::vector<int32_t> slot_sizes(slots.size(), 0);
  if (slots.size() != required.size()) throw std::invalid_argument("the number of slots is not the number of members");
  for (int32_t slot : slots)
    if (slot < 0 || slot >= members || ++slot_sizes[slot] > kMaxInSlot)
      throw std::invalid_argument("a slot is out of range or has too many members");
  for (int32_t m = 0; m < members; ++m)
    if (repeatable[m] && slot_sizes[slots[m]] > 1) throw std::invalid_argument("a repeatable member shares its slot");
  Condition out{.nodes = {}, .slots = slots, .ordered = ordered};
  for (const auto& [kind, parts] : nodes) {
    const auto end = kind == Written ? members : static_cast<int32_t>(out.nodes.size());
    if (kind < Written || kind > None || std::ranges::any_of(parts, [&](int32_t p) { return p < 0 || p >= end; }))
      throw std::invalid_argument("a condition consists of members and of earlier conditions");
    out.nodes.push_back({static_cast<Kind>(kind), parts});
  }
  std::vector<int32_t> conjuncts;
  if (!out.nodes.empty()) conjuncts.push_back(static_cast<int32_t>(out.nodes.size()) - 1);
  for (int32_t m = 0; m < members; ++m)
    if (required[m]) {
      conjuncts.push_back(static_cast<int32_t>(out.nodes.size()));
      out.nodes.push_back({Written, {m}});
    }
  out.nodes.push_back({All, conjuncts});
  return out;
}

}  // namespace guided
