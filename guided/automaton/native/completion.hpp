// Shortest completions, in tokens.
//
// For every configuration one concrete completion is kept: the cheapest of its threads' own, which is the rest of the
// thread's frame (along a shortest-path tree over the rules' automata, Knuth's generalisation of Dijkstra 1977)
// followed by the completion of its return configuration; and the fewest tokens that spell it (dynamic programming
// over the trie, tokens may cross frames). The sum is a sound upper bound of the least number of tokens.
//
// No certificate needs to be carried. Trees are suffix-closed: after the first token of a best spelling, the state holds
// a thread whose completion is what is left of it, spelled in one token less. So a state with bound b always
// allows a token that leads to a state with bound at most b - 1.
//
// Where the vocabulary is small and the language regular with few states, the least number itself is known
// (token_distance.hpp); the budgeted mask is then the largest one.
// Cost: O(length of the frame's rest * longest match) once per configuration, kept; lists of k mandatory items are
// chained, one link per item. Nothing of this is touched by the plain mask.
#pragma once

#include "token_distance.hpp"

namespace guided {

struct Completion {
  std::vector<int32_t> symbols;  // bytes, or 256 + token; the rest of the frame
  std::vector<int64_t> cost;     // cost[i]: tokens that spell symbols[i..] and all that follows
  int32_t next = -1;             // the configuration whose completion follows; -1: none
  int64_t total = 0;
};

class CompletionFinder {
 public:
  explicit CompletionFinder(MaskBuilder& masks)
      : masks_(masks), arena_(masks.arena()), grammar_(masks.arena().grammar()), exact_(masks) {}
  // Tokens to an accepting state, the end token not counted. With the arena's lock held.
  int64_t distance(int32_t state);
  // The most that distance() can be after one allowed token; INT64_MAX where that is not known cheaply.
  int64_t reach(int32_t state);
  // The completion's symbols, at most `limit` of them.
  std::vector<int32_t> spelled(int32_t state, size_t limit);
  const Completion& completion(int32_t config);

 private:
  struct Choice {
    enum Kind : uint8_t { End, Byte, Call, Token, Operate } kind = End;
    int32_t index = 0;  // byte, or index of the edge
    int64_t cost = 0;
  };
  void prepare();
  void relax(int32_t rule);
  int64_t call_cost(int32_t call) const;
  int64_t whole_cost(const Rule& rule) const;
  Choice choose(const Thread& at) const;
  void rest_of_frame(const Thread& thread, Completion& out);
  const std::vector<int32_t>& rule_text(int32_t rule);
  void spell(Completion& c);
  int64_t cost_at(const Completion* c, size_t offset);

  MaskBuilder& masks_;
  Arena& arena_;
  const Grammar& grammar_;
  std::vector<int64_t> cost_, rule_cost_;  // in bytes, by position and by rule
  std::vector<std::vector<int32_t>> text_;
  std::vector<uint8_t> text_known_;
  TokenDistances exact_;
  size_t held_ = 0;  // bytes of all completions that were tried, for the limit on memory
};

}  // namespace guided
