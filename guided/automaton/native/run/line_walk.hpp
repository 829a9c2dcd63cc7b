// Walks of the whole vocabulary line by line: an array that is read in order, depth first (TokenTrie::Line).
//
// `sweep` is for a point from which most of the vocabulary leads on and few characters loop, so that a search for loops
// gains nothing. Runs that no continuation can fail are accepted at once (free_runs.hpp). `differ` makes a table from
// that of another position of the same rule. Two walks go side by side, one from each position; where both are in the
// same point, all below that line is copied from the other table. Example: after "ab", a search for "abc" differs from
// the search at its start only in the tokens that begin with "c".
//
// In: the points visited so far, and the table that is being built. Out: the table's tokens, and those that leave.
// Cost: O(lines reached), some nanoseconds each; `differ` gives up where the two differ in too many lines.
#pragma once

#include <vector>

#include "run/table_builder.hpp"
#include "run/visited_points.hpp"

namespace guided {

constexpr int kManyReadBytes = 24;  // a point that reads as many may lead through most of the vocabulary

class LineWalk {
 public:
  LineWalk(const TableTask& task, VisitedPoints& points, TableBuilder& table)
      : task_(task), trie_(task.trie()), follow_(task.follow), points_(points), table_(table) {}

  // Whether many tokens below a node may lead on from the point, most of which hold characters that do not loop; or
  // some, and little of what can be read there is ever refused.
  bool leads_everywhere(int32_t node, int32_t point, CharClasses loops);
  // All tokens below a node that is met in this point, after so many bytes.
  void sweep(int32_t node, int32_t point, int32_t depth);
  // The other table, but for where it differs. False, with nothing taken, where that is nearly everywhere.
  bool differ(const OtherTable& other);

 private:
  // Payloads below a line from which two walks are in the same point, after so many bytes.
  struct Same {
    int32_t from, to, depth;
  };
  bool agree(int32_t point, int32_t other, CharClasses char_classes);
  void leave_as_other(const TokenTable& other, const std::vector<Same>& same);
  int32_t step(int32_t point, uint8_t byte) {
    return point != WalkPoints::kNowhere && points_.bytes(point).has(byte) ? points_.next(point, byte)
                                                                           : WalkPoints::kNowhere;
  }

  int64_t with_kinds(
      CharClasses char_classes) const;  // how many tokens hold one, each counted for each of the character classes
  FreeRuns::Runs* runs();               // null where there are none
  // So many characters of the character classes of `runs()` can be read from a point, whatever they are; -1 where it is
  // none.
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
