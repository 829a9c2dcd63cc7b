// The shortest text to the end of a frame, as a tree: at each position, the next step on the shortest way.
//
// Knuth's generalisation of Dijkstra's algorithm (1977), over the automata of the rules: the cost of a call is the cost
// of the called rule. Guards are evaluated on the way, so a count below its bound goes on and a full one ends. Seen
// sets (uniqueness.hpp) are ignored, except when an entry ends.
// In: a grammar. Out: for a thread, the next step on the shortest way.
// Cost: once for each rule that is needed and the rules that it calls, callees first. It is linear in automata without
// cycles, with one more round for what a cycle makes cheaper; after three rounds it is O(n log n).
#pragma once

#include <optional>
#include <span>

#include "run/arena.hpp"
#include "run/costs.hpp"

namespace guided {

class ShortestText {
 public:
  struct Choice {
    enum Kind : uint8_t { End, Byte, Call, Token, Operate } kind = End;
    int32_t index = 0;  // byte, or index of the edge
    int64_t cost = 0;   // above kUnreachable: the end cannot be reached
  };

  explicit ShortestText(Arena& arena) : arena_(arena), grammar_(arena.grammar()) {}
  Choice choose(const Thread& at);
  // A lower bound on the bytes to the end of the frame.
  int64_t least_bytes(const Thread& at);
  // The same to the end of the output, over a limited number of frames.
  int64_t least_to_end(Thread at);

  // Computes the costs of a rule and of all rules that it calls, ignoring guards. Required before the calls below.
  void prepare(int32_t rule);
  int64_t cost(int32_t position) const { return cost_[position]; }
  int32_t by_byte(int32_t position) const { return by_byte_[position]; }  // next position if a byte leads there, or -1
  int64_t rule_cost(int32_t rule) const { return rule_cost_[rule]; }
  int64_t call_cost(int32_t call) const;

 private:
  void settle(const std::vector<int32_t>& together);
  std::span<const CallEdge> calls_of(int32_t rule) const;
  template <class Visit>
  void each_edge(int32_t position, Visit&& visit) const;
  void relax(int32_t rule);
  bool sweep(const Rule& rule);
  void spread(const Rule& rule);
  int64_t whole_cost(const Rule& rule) const;
  std::vector<int64_t> member_costs(const Rule& rule) const;
  std::optional<std::vector<int32_t>> needed_members(const Rule& rule, const SeenSet& seen,
                                                     const std::vector<int64_t>& costs, int64_t most) const;
  int64_t conditional_cost(const Rule& rule) const;
  int32_t needed_member(int32_t rule, int32_t reg);
  const std::vector<int32_t>& cheapest_effects(int32_t pos);
  int64_t owed(const Rule& rule, int32_t reg);

  Arena& arena_;
  const Grammar& grammar_;
  std::vector<int64_t> cost_, rule_cost_;  // by position and by rule
  std::vector<int32_t> by_byte_;
  std::vector<uint8_t> read_early_;                            // by position: an edge leads back to it
  std::vector<uint8_t> settled_;                               // by rule: its cost is known
  std::unordered_map<uint64_t, int32_t> needed_;               // by rule and register
  std::unordered_map<int32_t, std::vector<int32_t>> effects_;  // by position: effects, cheapest first
};

}  // namespace guided
