// The graph of the parts of a composed grammar: which parts may follow which.
//
// In: for each occurrence of a part, the occurrences that may follow, and whether the output may end after it. This is
// the Glushkov automaton (Russian Mathematical Surveys 16(5), 1961), whose symbols are the languages of the parts. Out:
// for each occurrence, the number of tokens that are needed after it.
//
//     choice(a, b) then repeat(c)    occurrences a, b, c    first: a, b    next: a -> c, b -> c, c -> c    last: all
//
// An occurrence whose part matches the empty text may also be skipped. The initial state of a part says whether it
// matches the empty text.
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
  // `may_be_empty`: whether the output may be empty without any part. Throws std::out_of_range for an invalid number.
  PartGraph(std::vector<std::shared_ptr<Compiled>> parts, std::vector<Occurrence> occurrences,
            std::vector<int32_t> first, bool may_be_empty);
  const std::vector<std::shared_ptr<Compiled>>& parts() const { return parts_; }
  int32_t size() const { return static_cast<int32_t>(occurrences_.size()); }
  const Occurrence& at(int32_t occurrence) const { return occurrences_[occurrence]; }
  const std::vector<int32_t>& first() const { return first_; }
  bool may_be_empty() const { return may_be_empty_; }

  // An upper bound on the minimum number of tokens after an occurrence. The tokens of each part are counted separately,
  // although one token may span two parts.
  int64_t tokens_after(int32_t occurrence) const { return rests_[occurrence].tokens; }
  // The next occurrence on a shortest path to the end, or -1.
  int32_t shortest_next(int32_t occurrence) const { return rests_[occurrence].next; }

 private:
  void compute_rests();

  struct Rest {
    int64_t tokens;
    int32_t parts;  // on the path; a tie-breaker, so parts without text cannot form a cycle
    int32_t next = -1;
  };
  std::vector<std::shared_ptr<Compiled>> parts_;
  std::vector<Occurrence> occurrences_;
  std::vector<int32_t> first_;
  bool may_be_empty_;
  std::vector<Rest> rests_;
};

}  // namespace guided
