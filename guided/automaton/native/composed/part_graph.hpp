// Which parts of a composed grammar follow which.
//
// In: for each occurrence of a part, the occurrences that may follow, and whether the output may end after it. This is
// the Glushkov automaton (Russian Mathematical Surveys 16(5), 1961), whose symbols are the languages of the parts. Out:
// for each occurrence, the number of tokens that are needed after it.
//
//     choice(a, b) then repeat(c)    occurrences a, b, c    first: a, b    next: a -> c, b -> c, c -> c    last: all
//
// An occurrence whose part matches the empty text may also be skipped. The part itself tells whether it does.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "matching/states.hpp"

namespace guided {

class PartGraph {
 public:
  struct Occurrence {
    int32_t part;
    std::vector<int32_t> next;
    bool last;
  };
  // `is_empty`: whether the output may be empty without any part. Throws std::out_of_range for a number that does not
  // exist.
  PartGraph(std::vector<std::shared_ptr<Compiled>> parts, std::vector<Occurrence> occurrences,
            std::vector<int32_t> first, bool is_empty);
  const std::vector<std::shared_ptr<Compiled>>& parts() const { return parts_; }
  int32_t size() const { return static_cast<int32_t>(occurrences_.size()); }
  const Occurrence& at(int32_t occurrence) const { return occurrences_[occurrence]; }
  const std::vector<int32_t>& first() const { return first_; }
  bool is_empty() const { return is_empty_; }

  // An upper bound on the fewest tokens after an occurrence: the tokens of each part are counted separately, although
  // one token may lie in two parts.
  int64_t tokens_behind(int32_t occurrence) const { return rests_[occurrence].tokens; }
  // The next occurrence on a shortest path to the end, or -1.
  int32_t shortest_next(int32_t occurrence) const { return rests_[occurrence].next; }

 private:
  void weigh();

  struct Rest {
    int64_t tokens;
    int32_t parts;  // on the path; a tie-breaker, so that parts without text cannot form a cycle
    int32_t next = -1;
  };
  std::vector<std::shared_ptr<Compiled>> parts_;
  std::vector<Occurrence> occurrences_;
  std::vector<int32_t> first_;
  bool is_empty_;
  std::vector<Rest> rests_;
};

}  // namespace guided
