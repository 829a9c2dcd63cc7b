// Which parts of a composed grammar follow which.
//
// In: for each occurrence of a part, those that may come behind it, and whether the output may end there. This is the
// automaton of Glushkov (Russian Mathematical Surveys 16(5), 1961), whose symbols are the parts' languages. Out: of each
// occurrence, the tokens that are needed behind it.
//
//     choice(a, b) then repeat(c)      occurrences a, b, c      first: a, b      next: a -> c, b -> c, c -> c      last: all
//
// An occurrence whose part matches the empty text is also passed over; that is found out from the part itself.
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
  // `is_empty`: the output may be empty without any part. Throws std::out_of_range for a number that is none.
  PartGraph(std::vector<std::shared_ptr<Compiled>> parts, std::vector<Occurrence> occurrences,
            std::vector<int32_t> first, bool is_empty);
  const std::vector<std::shared_ptr<Compiled>>& parts() const { return parts_; }
  int32_t size() const { return static_cast<int32_t>(occurrences_.size()); }
  const Occurrence& at(int32_t occurrence) const { return occurrences_[occurrence]; }
  const std::vector<int32_t>& first() const { return first_; }
  bool is_empty() const { return is_empty_; }

  // The fewest tokens behind an occurrence, those of each part counted by itself: tokens that lie in two parts make it an
  // upper bound.
  int64_t tokens_behind(int32_t occurrence) const { return rests_[occurrence].tokens; }
  // The next occurrence on a shortest way to the end, or -1.
  int32_t shortest_next(int32_t occurrence) const { return rests_[occurrence].next; }

 private:
  void weigh();

  struct Rest {
    int64_t tokens;
    int32_t parts;  // on the way, so that parts without text cannot make it a circle
    int32_t next = -1;
  };
  std::vector<std::shared_ptr<Compiled>> parts_;
  std::vector<Occurrence> occurrences_;
  std::vector<int32_t> first_;
  bool is_empty_;
  std::vector<Rest> rests_;
};

}  // namespace guided
