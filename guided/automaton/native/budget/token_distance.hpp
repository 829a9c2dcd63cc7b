// Exact distances: the least number of tokens from a state to an accepting one.
//
// Breadth first over the graph of states and tokens, forwards to find it and backwards from its accepting states to
// measure it; whatever has been measured is kept. For vocabularies and languages with few states: every token of
// every state that can be reached is followed once. The search gives up once the states have too many tokens and threads:
// a state of nested counts has a thread for each way to count, and there are as many states as counts. When it does depends
// on the states alone, and not on what is known of them already, so that answers do not depend on earlier questions.
// Cost: some milliseconds, once for a grammar.
#pragma once

#include <optional>
#include <unordered_map>

#include "run/masks.hpp"

namespace guided {

class TokenDistances {
 public:
  explicit TokenDistances(MaskBuilder& masks) : masks_(masks), arena_(masks.arena()) {}
  // Empty where the graph is too large. With the arena's lock held.
  std::optional<int64_t> find(int32_t state);
  bool empty() const { return known_.empty(); }

 private:
  MaskBuilder& masks_;
  Arena& arena_;
  std::unordered_map<int32_t, std::optional<int64_t>> known_;
};

}  // namespace guided
