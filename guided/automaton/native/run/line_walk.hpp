// Walks the whole vocabulary line by line: it reads the array of TokenTrie::Line, which is in depth-first order, from
// start to end.
//
// `sweep` is for a point (walk_points.hpp) from which most of the vocabulary can be read but few characters lead back
// to the point (*loop*, visited_points.hpp), so searching for loops would gain nothing. If every string of n characters
// of some classes can be read from a point (free_runs.hpp), `sweep` takes the tokens that continue with at most n of
// these characters without walking them. `derive` computes a table from the table of another position of the same rule.
// Two walks run side by side, one from each position. Where both are at the same point, everything below that line is
// copied from the other table. Example: after "ab", a search for "abc" differs from the search at its start only in the
// tokens that begin with "c".
//
// In: the points visited so far, and the table that is being built. Out: the table's tokens, including those that
// leave the frame.
// Cost: O(lines reached), a few nanoseconds each. `derive` gives up if the tables differ in too many lines.
#pragma once

#include <vector>

#include "run/table_builder.hpp"
#include "run/visited_points.hpp"

namespace guided {

// Most of the vocabulary may be readable from a point that reads at least this many bytes.
constexpr int kManyReadBytes = 24;

class LineWalk {
 public:
  LineWalk(const TableTask& task, VisitedPoints& points, TableBuilder& table)
      : task_(task), trie_(task.trie()), follow_(task.follow), points_(points), table_(table) {}

  // Whether a sweep below a node is worthwhile. The node must have many tokens below it, the point must read many
  // bytes, and more than half of the vocabulary must have characters that do not loop. If long runs of arbitrary
  // characters can be read, fewer tokens with characters that do not loop suffice.
  bool is_sweep_worthwhile(int32_t node, int32_t point, CharClasses loops);
  // Takes all tokens below a node at which the walk is at this point, after `depth` bytes.
  void sweep(int32_t node, int32_t point, int32_t depth);
  // Derives the table from another one. Returns false, without taking any token, if the two differ in too many lines.
  bool derive(const SiblingTable& other);

 private:
  // The payloads below a line at which both walks are at the same point, after `depth` bytes.
  struct SharedPayloads {
    int32_t from, to, depth;
  };
  bool points_agree(int32_t point, int32_t other, CharClasses char_classes);
  void copy_remainders(const TokenTable& other, const std::vector<SharedPayloads>& shared_payloads);
  int32_t step(int32_t point, uint8_t byte) {
    return point != WalkPoints::kNowhere && points_.bytes(point).has(byte) ? points_.next(point, byte)
                                                                           : WalkPoints::kNowhere;
  }

  // The number of tokens with a character of these classes. A token counts once for each class that it contains.
  int64_t count_tokens_with(CharClasses char_classes) const;
  FreeRuns::Runs* runs();  // null if there are none
  // The length of the longest free run from a point, in characters of the classes of `runs()`; -1 if there is none.
  int32_t free_run(int32_t point);

  const TableTask& task_;
  const TokenTrie& trie_;
  const ByteSet follow_;
  VisitedPoints& points_;
  TableBuilder& table_;
  FreeRuns::Runs* runs_ = nullptr;
  bool has_searched_runs_ = false;
  static constexpr int32_t kNotComputed = -2;
  std::vector<int32_t> free_runs_;  // by point
};

}  // namespace guided
