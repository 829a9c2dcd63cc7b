// Conditions on the members of a permutation (an object written in any order): can the condition still become true?
//
// In: a Boolean formula over "member m was written" (All, Any and None of parts), the slots of the members, and the set
// of members written so far. Members that share a slot exclude each other. Out: whether some choice of further members
// makes the formula true, and such a choice.
//
// How: constraint satisfaction. A slot is a variable; its values are its members and "absent". First, propagation:
// every conjunct of the formula removes values that would make it false, until nothing changes. Then a slot of a
// conjunct that is not true yet is assigned a value, "absent" first, and the search goes on depth first. This is the
// procedure of Davis, Logemann and Loveland (CACM 5(7), 1962) over finite domains.
//
// Example: members a0, a1 in slot A and b0 in slot B; All(Any(a0, b0), None(a0)). Nothing is written.
//     domains          A = {absent, a0, a1}   B = {absent, b0}
//     None(a0)         A = {absent, a1}
//     Any(a0, b0)      B = {b0}                only b0 can make it true
//     choice           A = absent, B = b0
// Once b0 is written the formula is true; had a0 been written, no choice would help.
//
// Conjuncts that share no slot, directly or through others, form separate *parts* with a search each: n independent
// conditions cost n small searches, not one of exponential size.
// Cost: a conjunct is evaluated again whenever one of its slots was narrowed; the number of evaluations in one search
// is limited (`LimitFailure`), as the problem is NP-complete. Not done here: caching; callers cache answers by `key`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/common.hpp"

namespace guided {

constexpr int64_t kUnbounded = -1;  // as an upper bound
// The elements of lists `repeatable`: a member may be written once, any number of times, or cannot be written at all.
enum Occurrence : uint8_t { kOnce, kRepeatable, kAbsent };
constexpr int32_t kEverySlot = INT32_MAX;  // as a rank in the order of slots: after every slot
constexpr int32_t kNoSlot = -1;            // before every slot
constexpr int32_t kMostInSlot = 62;        // members of one slot: they and "absent" are bits of a 64-bit domain

// A formula as a list of nodes, parts before what they are parts of; the last node is the whole formula.
struct Condition {
  enum Kind : uint8_t { Written, All, Any, None };
  struct Node {
    Kind kind;
    std::vector<int32_t> parts;  // Written: members, of which one must be written; otherwise: nodes
  };
  std::vector<Node> nodes;
  std::vector<int32_t> slots;  // member -> slot
  bool ordered = false;        // slots are written in the order of their numbers, repeatable members after all others
  Digest digest() const;
  // `nodes`: (kind, parts) as above. Required members are added to the formula as conjuncts. Throws
  // std::invalid_argument if a number is out of range or a repeatable member shares its slot.
  static Condition read(const std::vector<uint8_t>& required, const std::vector<uint8_t>& repeatable,
                        const std::vector<int32_t>& slots, bool ordered,
                        const std::vector<std::pair<int32_t, std::vector<int32_t>>>& nodes);
};

// The members that were written: the register of a permutation's frame.
struct SeenSet {
  int64_t count = 0;           // how many members were written, repetitions included
  std::vector<uint64_t> bits;  // by member
  // If slots are ordered: the slot of the last member; kNoSlot if there is none, kEverySlot after a repeatable one.
  int32_t last = kNoSlot;
  bool has(size_t i) const { return (bits[i / 64] >> (i % 64)) & 1; }
  bool operator==(const SeenSet&) const = default;
};

class ConditionSearch {
 public:
  // `repeatable`: by member, an Occurrence. `min`, `max`: bounds on the number of members.
  ConditionSearch(const Condition& condition, const std::vector<uint8_t>& repeatable, int64_t min, int64_t max);

  // Whether `member` may be written next as far as slots and their order are concerned.
  bool is_open(const SeenSet& seen, int32_t member) const;
  // The set of written members after `member`.
  SeenSet with(const SeenSet& seen, int32_t member) const;
  int32_t parts() const { return static_cast<int32_t>(parts_.size()); }
  // The parts that writing `member` may change: that of its slot, and those of the slots that the order now rules out.
  std::vector<int32_t> touched(const SeenSet& seen, int32_t member) const;
  // A key for caching: equal keys have equal answers for this part.
  std::string key(int32_t part, const SeenSet& seen) const;
  bool holds(int32_t part, const SeenSet& seen) const;  // whether the part is true if nothing more is written
  bool generates() const;  // whether, from nothing written, one member or more can make the condition true
  // The further members of some choice that makes the part true, or nullopt if there is none. `costs`: by member; the
  // cheapest member of a slot is tried first, and one that costs more than `most` never. Empty: all cost the same.
  std::optional<std::vector<int32_t>> plan(int32_t part, const SeenSet& seen, const std::vector<int64_t>& costs,
                                           int64_t most) const;

 private:
  static constexpr uint64_t kAbsentOption = 1;  // bit 0 of a domain; bit k + 1 is member k of the slot

  enum Value : uint8_t { No, Yes, Open };  // of a node: false or true whatever is chosen, or not decided yet
  struct InSlot {
    int32_t slot;
    uint64_t options;  // a set of values of the slot, as bits
  };
  struct Node {
    Condition::Kind kind;
    std::vector<int32_t> parts;  // nodes
    std::vector<InSlot> written;
  };
  struct Slot {
    std::vector<int32_t> members;
    bool repeatable = false;
  };
  struct Root {                  // a conjunct of the formula
    std::vector<int32_t> nodes;  // its nodes, parts first, itself last
    std::vector<int32_t> slots;  // the slots that occur in it
  };
  struct Part {
    std::vector<int32_t> slots, roots;
  };
  struct Search;

  Root root_at(int32_t node) const;
  void split();
  // The position of a slot in the order of slots.
  int32_t rank(int32_t slot) const { return slots_[slot].repeatable ? kEverySlot : slot; }
  // The values that a slot can still have. `ended`: nothing more is written.
  uint64_t domain(int32_t slot, const SeenSet& seen, bool ended) const;

  std::vector<Slot> slots_;
  std::vector<int32_t> slot_of_;
  std::vector<uint8_t> repeatable_;
  std::vector<Node> nodes_;
  std::vector<Root> roots_;
  std::vector<std::vector<int32_t>> roots_of_;  // by slot
  std::vector<Part> parts_;
  std::vector<int32_t> part_of_;  // slot -> part; -1: in none
  bool ordered_, counted_;        // counted_: bounds on the number of members matter
  int64_t min_, max_;
};

}  // namespace guided
