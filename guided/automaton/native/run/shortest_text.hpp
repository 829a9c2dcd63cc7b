// Finds the shortest text to the end of a frame, as a tree: for each position, the next step on the shortest way.
//
// This is Knuth's generalisation of Dijkstra's algorithm (1977) over the automata of the rules: the cost of a call is
// the cost of the called rule. Guards are evaluated on the way: a count below its minimum continues, and a frame ends
// as soon as it may. Seen sets (uniqueness.hpp) are ignored, except when an entry ends.
// In: a grammar. Out: for a thread, the next step on the shortest way.
// Cost: each rule that is needed, and each rule that it calls, is computed once, callees first. This takes linear time
// for automata without cycles, one more round if a cycle makes something cheaper, and O(n log n) after three rounds.
#pragma once

#include <optional>
#include <span>

#include "run/arena.hpp"
#include "run/costs.hpp"

namespace guided {

class ShortestText {
 public:
  struct Choice {
    enum Kind : uint8_t { End, Byte, Call, Token, ApplyEffect } kind = End;
    int32_t index = 0;  // the byte, or the index of the edge
    int64_t cost = 0;   // above kUnreachable: the end cannot be reached
  };

  explicit ShortestText(Arena& arena) : arena_(arena), grammar_(arena.grammar()) {}
  Choice choose(const Thread& thread);
  // A lower bound on the bytes to the end of the frame.
  int64_t min_bytes_to_frame_end(const Thread& thread);
  // A lower bound on the bytes to the end of the output. Considers only a limited number of frames.
  int64_t min_bytes_to_end(Thread thread);

  // Computes the costs of a rule and of all rules that it calls, ignoring guards. Must be called before the functions
  // below.
  void prepare(int32_t rule);
  int64_t cost(int32_t position) const { return cost_[position]; }
  // The next position if the tree continues with a byte, otherwise -1.
  int32_t next_by_byte(int32_t position) const { return next_by_byte_[position]; }
  int64_t rule_cost(int32_t rule) const { return rule_cost_[rule]; }
  int64_t call_cost(int32_t call) const;
  // The effects of a position that write members or count iterations, in the order in which they are tried.
  const std::vector<int32_t>& cheapest_effects(int32_t pos);

 private:
  void compute_costs(const std::vector<int32_t>& component);
  std::span<const CallEdge> calls_of(int32_t rule) const;
  template <class Visit>
  void each_edge(int32_t position, Visit&& visit) const;
  void compute_position_costs(int32_t rule);
  bool sweep(const Rule& rule);
  void run_dijkstra(const Rule& rule);
  int64_t rule_text_cost(const Rule& rule) const;
  std::vector<int64_t> member_costs(const Rule& rule) const;
  std::optional<std::vector<int32_t>> needed_members(const Rule& rule, const SeenSet& seen,
                                                     const std::vector<int64_t>& costs, int64_t max_cost) const;
  int64_t conditional_cost(const Rule& rule) const;
  int32_t needed_member(int32_t rule, int32_t reg);
  int64_t required_cost(const Rule& rule, int32_t reg);

  Arena& arena_;
  const Grammar& grammar_;
  std::vector<int64_t> cost_, rule_cost_;  // by position and by rule
  std::vector<int32_t> next_by_byte_;
  std::vector<uint8_t> is_read_early_;  // by position: whether an edge from a later position leads back to it
  std::vector<uint8_t> is_known_;       // by rule: whether its cost is known
  std::unordered_map<uint64_t, int32_t> needed_members_;              // by rule and register, see needed_member()
  std::unordered_map<int32_t, std::vector<int32_t>> sorted_effects_;  // by position: effects, cheapest first
};

}  // namespace guided
