// Conditions on the members of a permutation (an object written in any order): decides whether a condition can still
// become true.
//
// In: a Boolean formula over "member m was written" (All, Any and None of parts), the slots of the members, and the set
// of members written so far. Members that share a slot exclude each other. Out: whether some choice of further members
// makes the formula true, and the cheapest such choice.
//
// How: a slot is a variable; its values are "absent" and its members. At compile time, the formula becomes a decision
// diagram (condition_diagrams.cpp), whose paths are the choices that make it true. While a text is written, a query
// walks the diagram once, from its end to its root. An edge can be taken if its value is still possible. Each node
// stores the query's answer for the diagram below it (member_choices.cpp).
//
// Example: members a0, a1 in slot A and b0 in slot B; All(Any(a0, b0), None(a0)).
//     A: root --absent, a1--> b        B: b --b0--> true
// Once b0 is written, the formula is true. If a0 were written, no path would remain.
//
// Conjuncts that share no slot, directly or indirectly, have separate diagrams, so n independent conditions cost n
// small diagrams. Bounds on the number of members connect them. Then each node stores all numbers of further members
// with which a path can reach the end.
// Cost: a query takes one step per edge of a diagram, or per edge and 64 counted members; a plan takes one step per
// edge and number of members. The problem is NP-complete, so some formulas have no small diagram. They are rejected at
// compile time (`Unsupported`). Callers cache the answers, by `key`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/common.hpp"
#include "fsa/decision_diagram.hpp"

namespace guided {

constexpr int64_t kUnbounded = -1;  // an upper bound: there is none
// How often a member may be written (the elements of `repeatable`): once, any number of times, or never.
enum Occurrence : uint8_t { kOnce, kRepeatable, kAbsent };
constexpr int32_t kEverySlot = INT32_MAX;  // a rank in the order of slots: after every slot
constexpr int32_t kNoSlot = -1;            // a rank: before every slot
constexpr int32_t kMaxInSlot = 62;         // the limit on members of one slot; a domain has 64 bits

// A formula as a list of nodes. Parts come before the nodes that contain them; the last node is the whole formula.
struct Condition {
  enum Kind : uint8_t { Written, All, Any, None };
  struct Node {
    Kind kind;
    std::vector<int32_t> parts;  // Written: members, of which one must be written; otherwise: nodes
  };
  std::vector<Node> nodes;
  std::vector<int32_t> slots;  // member -> slot
  bool ordered = false;        // slots are written in the order of their numbers, then repeatable members
  Digest digest() const;
  // `nodes`: (kind, parts) as above. Required members are added to the formula as conjuncts. Throws
  // std::invalid_argument if a number is out of range or a repeatable member shares its slot.
  static Condition read(const std::vector<uint8_t>& required, const std::vector<uint8_t>& repeatable,
                        const std::vector<int32_t>& slots, bool ordered,
                        const std::vector<std::pair<int32_t, std::vector<int32_t>>>& nodes);
};

// A condition, prepared for queries. It depends neither on a text nor on which members the vocabulary can write.
struct ConditionDiagrams {
  struct Part {
    std::vector<int32_t> slots;  // by level of the diagram
    DecisionDiagram diagram;     // value 0 of a slot is "absent", value k + 1 its member k
  };
  std::vector<int32_t> slot_of;               // member -> slot
  std::vector<std::vector<int32_t>> members;  // by slot
  bool ordered;
  std::vector<Part> parts;

  // `min`, `max`: bounds on the number of members. Throws Unsupported if the diagrams are too large for a mask, which
  // queries them once per member.
  static std::shared_ptr<const ConditionDiagrams> build(const Condition& condition,
                                                        const std::vector<uint8_t>& repeatable, int64_t min,
                                                        int64_t max, Meter& meter);
};

// The members that were written: the register of a permutation's frame.
struct SeenSet {
  int64_t count = 0;           // how many members were written, including repetitions
  std::vector<uint64_t> bits;  // by member
  // If slots are ordered: the slot of the last member; kNoSlot before the first member, kEverySlot after a repeatable
  // one.
  int32_t last = kNoSlot;
  bool has(size_t i) const { return (bits[i / 64] >> (i % 64)) & 1; }
  bool operator==(const SeenSet&) const = default;
};

// Answers queries about a condition: which members may be written next, after a given set.
class MemberChoices {
 public:
  // `repeatable`: by member, an Occurrence. `min`, `max`: bounds on the number of members.
  MemberChoices(std::shared_ptr<const ConditionDiagrams> diagrams, const std::vector<uint8_t>& repeatable, int64_t min,
                int64_t max);

  // Whether the slot of `member` and the order of the slots allow it to be written next.
  bool is_open(const SeenSet& seen, int32_t member) const;
  // If slots are ordered: the rank of the first slot that cannot be skipped, or kEverySlot. Members of a higher rank
  // cannot be written next, because the condition could no longer become true.
  int32_t reach(const SeenSet& seen) const;
  bool has_reach() const { return diagrams_->ordered && !counted_; }  // if not, every slot is within reach
  // The set of written members after `member`.
  SeenSet with(const SeenSet& seen, int32_t member) const;
  int32_t parts() const { return static_cast<int32_t>(parts_.size()); }
  // The part that contains the member's slot, or -1. Within `reach`, writing the member does not change the answers of
  // other parts.
  int32_t part_of(int32_t member) const { return part_of_[diagrams_->slot_of[member]]; }
  // A member's position in the order of slots, repeatable members last.
  int32_t rank(int32_t member) const { return rank_of(diagrams_->slot_of[member]); }
  // A cache key: for equal keys, this part gives equal answers.
  std::string key(int32_t part, const SeenSet& seen) const;
  bool holds(int32_t part, const SeenSet& seen) const;     // whether the part is true if nothing more is written
  bool can_hold(int32_t part, const SeenSet& seen) const;  // whether some choice of further members makes it true
  bool generates() const;  // whether some non-empty set of members makes the condition true
  // The further members of the cheapest choice that makes the part true, each once; nullopt if there is none. `costs`:
  // by member; a member that costs more than `max_cost` is not chosen. Repetitions that are needed to reach `min` are
  // not listed, and their cost is estimated.
  std::optional<std::vector<int32_t>> plan(int32_t part, const SeenSet& seen, const std::vector<int64_t>& costs,
                                           int64_t max_cost) const;

 private:
  static constexpr uint64_t kAbsentOption = 1;  // bit 0 of a domain; bit k + 1 is member k of the slot

  struct Part {
    std::vector<int32_t> slots;  // ascending
    std::vector<const ConditionDiagrams::Part*> diagrams;
  };
  struct RemainingBounds;
  struct Plan;

  int32_t rank_of(int32_t slot) const { return repeats_[slot] ? kEverySlot : slot; }
  // The values that a slot can still have.
  uint64_t domain(int32_t slot, const SeenSet& seen) const;
  void find_members_without_level();
  int64_t open_slots_without_level(const SeenSet& seen) const;
  bool has_path(const ConditionDiagrams::Part& part, const SeenSet& seen) const;
  bool has_counted_path(const Part& part, const SeenSet& seen) const;
  std::vector<uint64_t> find_path_counts(const Part& part, const SeenSet& seen, const RemainingBounds& bounds) const;
  template <class Visit>
  void for_each_repeated(const Part& part, const SeenSet& seen, bool is_needed, Visit&& visit) const;

  std::shared_ptr<const ConditionDiagrams> diagrams_;
  std::vector<uint8_t> repeatable_;
  std::vector<uint8_t> repeats_;  // by slot: whether its member is repeatable
  std::vector<Part> parts_;
  std::vector<int32_t> part_of_;  // slot -> part; -1: none
  bool counted_;                  // the bounds on the number of members matter; then there is a single part
  // If members are counted: slots without a level in any diagram, and their members.
  std::vector<int32_t> slots_without_level_;  // slots in which one member may be written once, ascending
  std::vector<int32_t> repeatable_members_;   // members that may be repeated
  std::vector<uint64_t> other_members_;       // all other members, as bits
  int64_t min_, max_;
};

}  // namespace guided
