// Exact distances: the least number of tokens from a state to an accepting one.
//
// Breadth first over the graph of states and tokens, forwards to find it and backwards from its accepting states to
// measure it; whatever has been measured is kept. For vocabularies and languages with few states: every token of
// every state that can be reached is followed once. First this is tried on states of its own, with a bound on work: a state
// of nested counts has a thread for each way to count, and there are as many states as counts. Whether distances are exact
// therefore depends on the grammar alone, and not on what was asked before.
// Cost: some milliseconds, twice for a grammar.
#pragma once

#include <unordered_map>

#include "run/masks.hpp"

namespace guided {

class TokenDistances {
 public:
  explicit TokenDistances(MaskBuilder& masks) : masks_(masks), arena_(masks.arena()) {}
  // Whether all states from the start on can be followed.
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
