// Exact distances: the least number of tokens from a state to an accepting one.
//
// A breadth-first search over the graph of states and tokens: forwards to explore it, and backwards from the accepting
// states to measure distances, which are stored. It is for small vocabularies and languages with few states, since
// every token of every reachable state is followed once. The search is first tried in a separate arena with a limit on
// work, since nested counts may have very many states, each with many threads. So whether distances are exact depends
// on the grammar alone, not on earlier calls.
// Cost: a few milliseconds, twice per grammar.
#pragma once

#include <unordered_map>

#include "run/masks.hpp"

namespace guided {

class TokenDistances {
 public:
  explicit TokenDistances(MaskBuilder& masks) : masks_(masks), arena_(masks.arena()) {}
  // Whether the search from the initial state stays within the limit on work.
  bool is_affordable() const;
  // The distance of a state. Needs the arena's lock.
  int64_t find(int32_t state);
  bool empty() const { return distances_.empty(); }

 private:
  struct TooMuchWork {};
  int64_t search(int32_t state, int64_t max_work);

  MaskBuilder& masks_;
  Arena& arena_;
  std::unordered_map<int32_t, int64_t> distances_;
};

}  // namespace guided
