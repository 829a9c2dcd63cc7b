// Exact distances: the least number of tokens from a state to an accepting one.
//
// Breadth first over the graph of states and tokens: forwards to explore it, and backwards from its accepting states to
// measure it. Measured distances are stored. For vocabularies and languages with few states: every token of every
// reachable state is followed once. This is first tried in a separate arena, with a limit on work: a state of nested
// counts has a thread for each way to count, and there are as many states as counts. So whether distances are exact
// depends on the grammar alone, not on earlier calls.
// Cost: a few milliseconds, twice per grammar.
#pragma once

#include <unordered_map>

#include "run/masks.hpp"

namespace guided {

class TokenDistances {
 public:
  explicit TokenDistances(MaskBuilder& masks) : masks_(masks), arena_(masks.arena()) {}
  // Whether all states that can be reached from the initial one can be followed.
  bool is_affordable() const;
  // With the arena's lock held.
  int64_t find(int32_t state);
  bool empty() const { return known_.empty(); }

 private:
  struct TooMuch {};
  int64_t search(int32_t state, int64_t most_worked);

  MaskBuilder& masks_;
  Arena& arena_;
  std::unordered_map<int32_t, int64_t> known_;
};

}  // namespace guided
