// Finite automata whose edges carry ranges of symbols.
//
// In: nondeterministic automata over `Symbol` ranges. Out: deterministic, trimmed, minimal ones, and their boolean
// combinations. Everything is done on ranges: no step ever visits the code points of a class one by one.
//
// determinise   subset construction; each subset's edges are cut at the range borders (a sweep)
// minimise      the states that no cycle follows by hashing, from the last ones backwards; the others by partition
//               refinement that re-examines only states whose successors changed class and keeps the label of the
//               largest part (Hopcroft's idea on Moore's signatures): O(edges log states), also on long chains
// intersect     product, reachable part only;   complement: relative to all code points of encoding 0
#pragma once

#include <vector>

#include "common.hpp"

namespace guided {

struct Edge {
  Symbol lo, hi;  // inclusive
  int32_t to;
};

// Deterministic: the edges of a state are sorted and disjoint; missing symbols lead nowhere. State 0 is the start.
struct Dfa {
  std::vector<std::vector<Edge>> edges;
  std::vector<uint8_t> accept;
  int32_t size() const { return static_cast<int32_t>(edges.size()); }
  int32_t add(bool accepting = false) {
    edges.emplace_back();
    accept.push_back(accepting);
    return size() - 1;
  }
  // The state after `s` on symbol `c`, or -1.
  int32_t next(int32_t s, Symbol c) const;
  bool empty() const { return edges.empty(); }
};

// Nondeterministic, with empty moves; `start` and one `final` state.
struct Nfa {
  std::vector<std::vector<Edge>> edges;
  std::vector<std::vector<int32_t>> moves;
  int32_t start = 0, final = 0;
  int64_t size = 0;  // states, edges and moves
  int32_t add() {
    ++size;
    edges.emplace_back();
    moves.emplace_back();
    return static_cast<int32_t>(edges.size()) - 1;
  }
  void edge(int32_t from, Symbol lo, Symbol hi, int32_t to) {
    ++size;
    edges[from].push_back({lo, hi, to});
  }
  void move(int32_t from, int32_t to) {
    ++size;
    moves[from].push_back(to);
  }
  // A copy of `dfa` between two states of this automaton.
  void splice(const Dfa& dfa, int32_t from, int32_t to);
};

Dfa determinise(const Nfa& nfa, Meter& meter);
Dfa minimise(const Dfa& dfa, Meter& meter);
Dfa intersect(const Dfa& a, const Dfa& b, Meter& meter);
Dfa complement(const Dfa& dfa, Meter& meter);
// Drops states from which no accepting state is reached, and those that cannot be reached. Empty if nothing is left.
Dfa trim(const Dfa& dfa);
// An automaton over characters of encoding 0, over those of another one.
Dfa relabelled(Dfa dfa, int32_t encoding);
// The same language without the empty string.
Dfa without_empty(const Dfa& dfa);
// Merges neighbouring edges with equal targets; expects sorted edges.
void join_edges(std::vector<Edge>& edges);

}  // namespace guided
