// Stores what a walk of the vocabulary knows about each point (walk_points.hpp) that it has visited. All trie nodes at
// which the walk is at the same point share this information.
//
// In: the task of the walk, and its points. Out, for each point: whether tokens may end there, and in which of the
// table's sets they belong; whether the frame may end; which character classes *loop*. All characters of such a class
// lead back to the point, so tokens that consist of them need no walk (class_token_sets.hpp). In a counter, they do not
// lead back but along a *chain* of points, each one count higher. Cost: each point is examined once. Loops are only
// searched for if many tokens are below the point. A chain grows as it is followed.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "run/label.hpp"
#include "run/table_builder.hpp"
#include "run/walk_points.hpp"

namespace guided {

constexpr int kMinLoopBytes = 4;    // points that read fewer bytes are not searched for loops
constexpr int32_t kFewTokens = 16;  // up to this many tokens below a node are walked without searching for loops
// If more tokens are below a node, the set of tokens of its character classes is built.
constexpr int32_t kManyTokens = 2000;

inline CharClasses char_class_of(uint8_t byte) { return byte < 128 ? char_class_of_ascii(byte) : kNonAscii; }
inline bool begins_character(uint8_t byte) { return (byte & 0xC0) != 0x80; }

class VisitedPoints : public WalkPoints {
 public:
  // The points after 0, 1, 2, ... characters, each of which adds one to the count, and the sets for tokens that end
  // there.
  struct Chain {
    std::vector<int32_t> sets, points;
    uint8_t byte = 0;  // a byte that leads to the next point
    CharClasses char_classes = 0;
    bool can_exit = false;  // whether the frame may end at all of the points; otherwise at none
    bool is_torn = false;   // whether at some point, only some of the characters lead on, or `can_exit` differs
  };
  // The tokens that consist of the character classes that loop at a point, and the bytes after which the walk must
  // continue.
  struct Loop {
    std::shared_ptr<const ClassTokens> set;
    std::vector<uint8_t> edges;
  };
  struct PointInfo : Ending {
    // loops_are_known: whether `loops` and `chain` are set.
    bool is_known = false, can_exit = false, loops_are_known = false;
    int32_t point = 0;
    // Character classes all of whose characters lead back to the point or, in a counter, one count further.
    CharClasses loops = 0;
    Chain* chain = nullptr;
    const Loop* loop = nullptr;  // the tokens to take; null: not looked up yet, or unknown
  };
  struct Link {
    int32_t set, point;
  };

  VisitedPoints(const TableTask& task, TableBuilder& table);

  CharClasses follow_classes() const { return follow_classes_; }
  const PointInfo& look_up(int32_t point) {
    if (static_cast<size_t>(point) < infos_.size() && infos_[point].is_known) return infos_[point];
    return compute_info(point);
  }
  // Like look_up(), but `loops` and `chain` are known.
  const PointInfo& with_loops(int32_t point);
  // The loop of a point. `previous`: the point from which the walk came to this point, or the point itself. Null if the
  // set has not been built and `build` is false.
  const Loop* loop(int32_t previous, const PointInfo& info, bool build);
  // The point after this many more characters: the same point in a loop, a point of the chain in a counter.
  Link link_after(const PointInfo& info, int32_t characters) {
    if (!info.chain) return {info.set, info.point};
    if (static_cast<int32_t>(info.chain->sets.size()) <= characters) extend_chain(*info.chain, characters);
    return {info.chain->sets[characters], info.chain->points[characters]};
  }
  // Whether there is no chain, or the chain is not torn within the longest token below `node`. `length`: the number of
  // characters of the node's string.
  bool is_chain_intact(const PointInfo& info, const TokenTrie::Node& node, int32_t length);

 private:
  const PointInfo& compute_info(int32_t point);
  void find_loops(PointInfo& info);
  void extend_chain(Chain& chain, int32_t characters);

  const TableTask& task_;
  TableBuilder& table_;
  const bool is_relative_, is_counter_;
  CharClasses follow_classes_ = 0;  // classes of the bytes that may follow the frame
  Labels labels_;
  std::vector<PointInfo> infos_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unordered_map<int32_t, Chain> chains_;
};

}  // namespace guided
