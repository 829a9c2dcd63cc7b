// Symbolic finite automata: automata whose edges carry ranges of symbols.
//
// In: nondeterministic automata over ranges of `Symbol`. Out: deterministic, trimmed and minimal automata, and their
// Boolean combinations. All operations work on ranges; none visits the code points of a character class one by one.
//
// determinise   subset construction (Rabin and Scott, 1959). A sweep over the edges of a subset's states cuts them at
//               the boundaries of their ranges. Exponential in the worst case; the meter limits states and work.
//               Of the states of a counted class `[...]{m,n}`, a subset keeps only as many as its language needs.
// minimise      acyclic parts by hashing backwards from the ends (Revuz, 1992), the rest by partition refinement
//               (Hopcroft, 1971; on the signatures of Moore, 1956): O(edges log states). See minimise.cpp.
// intersect     product construction, only the reachable part: O(edges of the product)
// complement    relative to all strings of code points of encoding 0, without surrogates
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/common.hpp"

namespace guided {

struct Edge {
  Symbol lo, hi;  // inclusive
  int32_t to;
};

// The edges of all states in one array, so no state needs its own allocation.
class EdgeLists {
 public:
  std::span<const Edge> operator[](int32_t s) const { return {store_.data() + lists_[s].from, lists_[s].count}; }
  std::span<Edge> operator[](int32_t s) { return {store_.data() + lists_[s].from, lists_[s].count}; }
  int32_t size() const { return static_cast<int32_t>(lists_.size()); }
  bool empty() const { return lists_.empty(); }
  void add() { lists_.push_back({0, 0}); }
  void reserve(size_t states, size_t edges) {
    lists_.reserve(states);
    store_.reserve(edges);
  }
  // Replaces the edges of a state. `list` must not point into this object.
  void set(int32_t s, std::span<const Edge> list) {
    lists_[s] = {static_cast<uint32_t>(store_.size()), static_cast<uint32_t>(list.size())};
    store_.insert(store_.end(), list.begin(), list.end());
  }
  template <class Drop>
  void erase_if(int32_t s, Drop&& drop) {
    const std::span<Edge> list = (*this)[s];
    lists_[s].count = static_cast<uint32_t>(std::remove_if(list.begin(), list.end(), drop) - list.begin());
  }
  size_t stored_edges() const { return store_.size(); }  // includes edges that were replaced or erased

 private:
  struct List {
    uint32_t from, count;
  };
  std::vector<Edge> store_;
  std::vector<List> lists_;
};

// A deterministic automaton. The edges of a state are sorted and disjoint; a symbol without an edge is rejected.
// State 0 is the start. An automaton without states has the empty language.
struct Dfa {
  EdgeLists edges;
  std::vector<uint8_t> accept;
  int32_t size() const { return edges.size(); }
  int32_t add(bool accepting = false) {
    edges.add();
    accept.push_back(accepting);
    return size() - 1;
  }
  // The state after `s` on symbol `c`, or -1 if there is none.
  int32_t next(int32_t s, Symbol c) const;
  bool empty() const { return edges.empty(); }
};

// A nondeterministic automaton with one `start` and one `final` state. A move is a transition that reads nothing.
// Edges and moves are in any order.
struct Nfa {
  struct OutEdge {
    int32_t from;
    Edge edge;
  };
  struct Move {
    int32_t from, to;
  };
  // A state in `[...]{min,max}` (max < 0: unbounded) after `count` characters. It has no other edges, and nothing but
  // these characters leads to it. The states of one such node have adjacent numbers, ascending with their counts.
  struct CountedState {
    int32_t state, node;
    int64_t count, min, max;
  };
  std::vector<OutEdge> edges;
  std::vector<Move> moves;
  std::vector<CountedState> counted;
  int32_t counted_nodes = 0;
  int32_t states = 0, start = 0, final = 0;
  int64_t size() const { return states + static_cast<int64_t>(edges.size() + moves.size()); }
  int32_t add() { return states++; }
  void edge(int32_t from, Symbol lo, Symbol hi, int32_t to) { edges.push_back({from, {lo, hi, to}}); }
  void move(int32_t from, int32_t to) { moves.push_back({from, to}); }
  // Inserts a copy of `dfa` between two states of this automaton.
  void splice(const Dfa& dfa, int32_t from, int32_t to);
};

Dfa determinise(const Nfa& nfa, Meter& meter);
Dfa minimise(Dfa dfa, Meter& meter);
Dfa intersect(const Dfa& a, const Dfa& b, Meter& meter);
Dfa complement(const Dfa& dfa, Meter& meter);
// Removes states that cannot be reached or cannot reach an accepting state. Numbers the others breadth first.
Dfa trim(Dfa dfa);
// Converts an automaton over code points of encoding 0 to one over code points of another encoding.
Dfa relabel(Dfa dfa, int32_t encoding);
// Removes the empty string from the language.
Dfa remove_empty(Dfa dfa);
// The predecessors of each state: the states with an edge to it, each once.
class Predecessors {
 public:
  explicit Predecessors(const Dfa& dfa);
  std::span<const int32_t> operator[](int32_t s) const {
    return {list_.data() + from_[s], static_cast<size_t>(from_[s + 1] - from_[s])};
  }

 private:
  std::vector<int32_t> from_, list_;
};
// Joins adjacent ranges of text symbols with equal targets. The edges must be sorted.
void join_edges(std::vector<Edge>& edges);

}  // namespace guided
