// The points that a walk of the vocabulary has visited, with all that is the same for the trie's nodes at one point.
//
// In: the task of the walk, and points (walk_points.hpp). Out, for each: whether tokens may end there, and in which of
// the table's sets; whether the frame may end; the character classes that *loop*, that is, which all lead back to the
// point, so that the tokens made of them need no walk (class_token_sets.hpp); under a counter, where nothing leads
// back, the *chain* of points that such characters lead along, each one count further. Cost: each point is examined
// once, for loops only where many tokens are below it; a chain grows as it is followed.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "run/label.hpp"
#include "run/table_builder.hpp"
#include "run/walk_points.hpp"

namespace guided {

constexpr int kManyBytes = 4;          // a point that reads fewer is no loop worth looking for
constexpr int32_t kFewTokens = 16;     // below a node: walked without looking for loops
constexpr int32_t kManyTokens = 2000;  // below a node: worth finding out which consist of some character classes

inline CharClasses char_class_of(uint8_t byte) { return byte < 128 ? char_class_of_ascii(byte) : kWholeCharacters; }
inline bool begins_character(uint8_t byte) { return (byte & 0xC0) != 0x80; }

class VisitedPoints : public WalkPoints {
 public:
  // The points after 0, 1, 2, ... characters of a class that counts, and the sets for tokens that end there.
  struct Chain {
    std::vector<int32_t> sets, points;
    uint8_t byte = 0;  // that leads on
    CharClasses char_classes = 0;
    bool exits = false;  // along all of it, or nowhere
    bool torn = false;   // a bound is looked at that only some of the characters meet
  };
  // The tokens that consist of the character classes that loop in a point, and the bytes at whose edges something goes
  // on.
  struct Loop {
    std::shared_ptr<const ClassTokens> set;
    std::vector<uint8_t> edges;
  };
  struct Met : Ending {
    bool known = false, exits = false, looped = false;  // looped: `loops` is known
    int32_t point = 0;
    CharClasses loops = 0;  // character classes that all lead back to the point (under a counter: one count further)
    Chain* chain = nullptr;
    const Loop* loop = nullptr;  // what there is to take; null: not looked up, or not known
  };
  struct Link {
    int32_t set, point;
  };

  VisitedPoints(const TableTask& task, TableBuilder& table);

  CharClasses follow_classes() const { return follow_classes_; }
  const Met& meet(int32_t point) {
    if (static_cast<size_t>(point) < met_.size() && met_[point].known) return met_[point];
    return look(point);
  }
  // The same, with `loops` and `chain` known.
  const Met& with_loops(int32_t point);
  // Of a point that loops, when the walk was in the point `before` ahead of it. Null where the set is not known and is
  // not to be built.
  const Loop* loop(int32_t before, const Met& met, bool build);
  // So many characters further: in a loop nowhere else, under a counter along the chain.
  Link link(const Met& met, int32_t further) {
    if (!met.chain) return {met.set, met.point};
    if (static_cast<int32_t>(met.chain->sets.size()) <= further) lengthen(*met.chain, further);
    return {met.chain->sets[further], met.chain->points[further]};
  }
  // Whether the chain holds for all tokens below a node, whose own string has so many characters.
  bool holds(const Met& met, const TokenTrie::Node& node, int32_t length);

 private:
  const Met& look(int32_t point);
  void find_loops(Met& met);
  void lengthen(Chain& chain, int32_t further);

  const TableTask& task_;
  TableBuilder& table_;
  const bool relative_, counter_;
  CharClasses follow_classes_ = 0;  // of the bytes that may follow
  Labels labels_;
  std::vector<Met> met_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unordered_map<int32_t, Chain> chains_;
};

}  // namespace guided
