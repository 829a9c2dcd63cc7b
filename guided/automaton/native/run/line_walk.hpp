// Walks the whole vocabulary line by line, which reads an array in order, depth first (TokenTrie::Line).
//
// `sweep` is for a point from which most of the vocabulary can be read but few characters loop, so that searching for
// loops would gain nothing. It accepts runs of characters that can always be read at once (free_runs.hpp). `differ`
// derives a table from the table of another position of the same rule. Two walks run side by side, one from each
// position. Where both are in the same point, everything below that line is copied from the other table. Example: after
// "ab", a search for "abc" differs from the search at its start only in the tokens that begin with "c".
//
// In: the points visited so far, and the table that is being built. Out: the table's tokens, and those that leave.
// Cost: O(lines reached), a few nanoseconds each; `differ` gives up if the two differ in too many lines.
#pragma once

#include <vector>

#include "run/table_builder.hpp"
#include "run/visited_points.hpp"

namespace guided {

constexpr int kManyReadBytes = 24;  // a point that reads at least this many may lead through most of the vocabulary

class LineWalk {
 public:
  LineWalk(const TableTask& task, VisitedPoints& points, TableBuilder& table)
      : task_(task), trie_(task.trie()), follow_(task.follow), points_(points), table_(table) {}

  // Whether a sweep is worthwhile below a node. Many tokens must be readable from the point, and most of them must have
  // characters that do not loop; or some of them, if long runs of characters can always be read.
  bool leads_everywhere(int32_t node, int32_t point, CharClasses loops);
  // Takes all tokens below a node that is reached in this point, after `depth` bytes.
  void sweep(int32_t node, int32_t point, int32_t depth);
  // Derives the table from another one. Returns false, with nothing taken, if they differ nearly everywhere.
  bool differ(const OtherTable& other);

 private:
  // Payloads below a line at which both walks are in the same point, after `depth` bytes.
  struct Same {
    int32_t from, to, depth;
  };
  bool agree(int32_t point, int32_t other, CharClasses char_classes);
  void leave_as_other(const TokenTable& other, const std::vector<Same>& same);
  int32_t step(int32_t point, uint8_t byte) {
    return point != WalkPoints::kNowhere && points_.bytes(point).has(byte) ? points_.next(point, byte)
                                                                           : WalkPoints::kNowhere;
  }

  int64_t with_kinds(CharClasses char_classes) const;  // tokens with such a character, counted once per class
  FreeRuns::Runs* runs();                              // null if there are none
  // The number of characters of the classes of `runs()` that can always be read from a point; -1 if no run passes
  // through it.
  int32_t free_run(int32_t point);

  const TableTask& task_;
  const TokenTrie& trie_;
  const ByteSet follow_;
  VisitedPoints& points_;
  TableBuilder& table_;
  FreeRuns::Runs* runs_ = nullptr;
  bool looked_for_runs_ = false;
  static constexpr int32_t kUnknownYet = -2;
  std::vector<int32_t> free_runs_;  // by point
};

}  // namespace guided
