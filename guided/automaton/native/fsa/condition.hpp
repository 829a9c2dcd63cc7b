// What a permutation asks of its members together, and which of them can still make it true.
//
// In: a condition (written members, combined by all, any and none of), the slots that members share, and what was
// written so far. Out: whether the condition can still come true, and a choice of members that makes it so.
//
// How: a slot is a variable whose values are its members and "absent". Domains are narrowed by what each conjunct
// requires until nothing changes; then a slot of a conjunct that does not hold yet is tried, absent first, and what
// follows is searched in depth: the procedure of Davis, Logemann and Loveland (CACM 5(7), 1962) over finite domains.
// Parts of the condition that share no slot are searched apart, so n independent conditions cost n small searches.
// Cost: a conjunct is looked at again where one of its slots was narrowed; how often, in one search, is bounded. The
// answers are kept by who asks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/common.hpp"

namespace guided {

constexpr uint8_t kAbsent = 2;
constexpr int32_t kEverySlot = INT32_MAX;
constexpr int32_t kMostInSlot = 62;

// As the IR has it: nodes with children first; the last one is the condition.
struct Condition {
  enum Kind : uint8_t { Written, All, Any, None };
  struct Node {
    Kind kind;
    std::vector<int32_t> parts;  // Written: members, any of which; else nodes
  };
  std::vector<Node> nodes;
  std::vector<int32_t> slots;  // member -> slot; members of one slot exclude each other
  bool ordered = false;        // slots are written in their order; repeatable members come last
  Digest digest() const;
  // `nodes`: (kind, parts). What is required joins the condition. Throws std::invalid_argument.
  static Condition read(const std::vector<uint8_t>& required, const std::vector<uint8_t>& repeatable,
                        const std::vector<int32_t>& slots, bool ordered,
                        const std::vector<std::pair<int32_t, std::vector<int32_t>>>& nodes);
};

// What was written: a permutation's register.
struct SeenSet {
  int64_t count = 0;
  std::vector<uint64_t> bits;
  int32_t last = -1;  // in order: the slot of the last member, kEverySlot after a repeatable one
  bool has(size_t i) const { return (bits[i / 64] >> (i % 64)) & 1; }
  bool operator==(const SeenSet&) const = default;
};

class ConditionSearch {
 public:
  // `repeatable`: as in LoweredRule, kAbsent for a member that cannot be written. min, max: of the number of members.
  ConditionSearch(const Condition& condition, const std::vector<uint8_t>& repeatable, int64_t min, int64_t max);

  // Whether the slots let `member` be written next, conditions aside.
  bool is_open(const SeenSet& seen, int32_t member) const;
  // What is written once `member` has been.
  SeenSet with(const SeenSet& seen, int32_t member) const;
  int32_t parts() const { return static_cast<int32_t>(parts_.size()); }
  // The parts whose outlook a member may change.
  std::vector<int32_t> touched(const SeenSet& seen, int32_t member) const;
  // All that the answers for a part hang on.
  std::string key(int32_t part, const SeenSet& seen) const;
  bool holds(int32_t part, const SeenSet& seen) const;  // nothing more being written
  bool generates() const;                               // some choice of one member or more makes the condition true
  // Members to be written for a part; none where it cannot come true. Of a slot's members the cheapest is tried first,
  // those that cost more than `most` are not (no costs: all are alike).
  std::optional<std::vector<int32_t>> plan(int32_t part, const SeenSet& seen, const std::vector<int64_t>& costs,
                                           int64_t most) const;

 private:
  enum Value : uint8_t { No, Yes, Open };
  struct InSlot {
    int32_t slot;
    uint64_t options;
  };
  struct Node {
    Condition::Kind kind;
    std::vector<int32_t> parts;  // nodes
    std::vector<InSlot> written;
  };
  struct Slot {
    std::vector<int32_t> members;  // option k + 1; option 0 is absent
    bool repeatable = false;
  };
  struct Root {
    std::vector<int32_t> nodes, slots;  // what it is made of, children first, itself last; the slots that it speaks of
  };
  struct Part {
    std::vector<int32_t> slots, roots;
  };
  struct Search;

  Root root_at(int32_t node) const;
  void split();
  int32_t rank(int32_t slot) const { return slots_[slot].repeatable ? kEverySlot : slot; }
  uint64_t domain(int32_t slot, const SeenSet& seen, bool ended) const;

  std::vector<Slot> slots_;
  std::vector<int32_t> slot_of_;
  std::vector<uint8_t> repeatable_;
  std::vector<Node> nodes_;
  std::vector<Root> roots_;
  std::vector<std::vector<int32_t>> roots_of_;  // by slot
  std::vector<Part> parts_;
  std::vector<int32_t> part_of_;  // slot -> part, -1: in none
  bool ordered_, counted_;
  int64_t min_, max_;
};

}  // namespace guided
