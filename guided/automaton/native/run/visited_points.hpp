// What a walk of the vocabulary knows about each point (walk_points.hpp) that it has visited. All nodes of the trie at
// which the walk is in the same point share it.
//
// In: the task of the walk, and its points. Out, for each point: whether tokens may end there, and in which of the
// table's sets; whether the frame may end; which character classes *loop*. All characters of such a class lead back to
// the point, so tokens made of them need no walk (class_token_sets.hpp). Under a counter, they do not lead back, but
// along a *chain* of points, each one count further. Cost: each point is examined once. Loops are searched for only if
// many tokens are below the point. A chain grows as it is followed.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "run/label.hpp"
#include "run/table_builder.hpp"
#include "run/walk_points.hpp"

namespace guided {

constexpr int kManyBytes = 4;          // a point that reads fewer is not searched for loops
constexpr int32_t kFewTokens = 16;     // below a node: walked without searching for loops
constexpr int32_t kManyTokens = 2000;  // below a node: worth building the set of tokens of its character classes

inline CharClasses char_class_of(uint8_t byte) { return byte < 128 ? char_class_of_ascii(byte) : kWholeCharacters; }
inline bool begins_character(uint8_t byte) { return (byte & 0xC0) != 0x80; }

class VisitedPoints : public WalkPoints {
 public:
  // The points after 0, 1, 2, ... characters, each of which adds one count, and the sets for tokens that end there.
  struct Chain {
    std::vector<int32_t> sets, points;
    uint8_t byte = 0;  // a byte that leads to the next point
    CharClasses char_classes = 0;
    bool exits = false;  // the frame may end at all of the points; otherwise at none
    bool torn = false;   // at one of the points, only some characters lead on, or `exits` differs
  };
  // The tokens that consist of the character classes that loop in a point, and the bytes after which the walk must
  // continue.
  struct Loop {
    std::shared_ptr<const ClassTokens> set;
    std::vector<uint8_t> edges;
  };
  struct PointInfo : Ending {
    bool known = false, exits = false, loops_are_known = false;  // loops_are_known: `loops` and `chain` are set
    int32_t point = 0;
    CharClasses loops = 0;  // character classes that all lead back to the point (under a counter: one count further)
    Chain* chain = nullptr;
    const Loop* loop = nullptr;  // the tokens to take; null: not looked up, or unknown
  };
  struct Link {
    int32_t set, point;
  };

  VisitedPoints(const TableTask& task, TableBuilder& table);

  CharClasses follow_classes() const { return follow_classes_; }
  const PointInfo& look_up(int32_t point) {
    if (static_cast<size_t>(point) < infos_.size() && infos_[point].known) return infos_[point];
    return make_info(point);
  }
  // The same, with `loops` and `chain` known.
  const PointInfo& with_loops(int32_t point);
  // The loop of a point. `before`: the point from which the walk came to it, or the point itself. Null if the set is
  // unknown and must not be built.
  const Loop* loop(int32_t before, const PointInfo& info, bool build);
  // The point after `further` more characters: the same one in a loop, a point of the chain under a counter.
  Link link(const PointInfo& info, int32_t further) {
    if (!info.chain) return {info.set, info.point};
    if (static_cast<int32_t>(info.chain->sets.size()) <= further) lengthen(*info.chain, further);
    return {info.chain->sets[further], info.chain->points[further]};
  }
  // Whether there is no chain, or it is not torn within the longest token below a node of `length` characters.
  bool holds(const PointInfo& info, const TokenTrie::Node& node, int32_t length);

 private:
  const PointInfo& make_info(int32_t point);
  void find_loops(PointInfo& info);
  void lengthen(Chain& chain, int32_t further);

  const TableTask& task_;
  TableBuilder& table_;
  const bool relative_, counter_;
  CharClasses follow_classes_ = 0;  // of the bytes that may follow
  Labels labels_;
  std::vector<PointInfo> infos_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unordered_map<int32_t, Chain> chains_;
};

}  // namespace guided
