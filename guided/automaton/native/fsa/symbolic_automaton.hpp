// Finite automata whose edges carry ranges of symbols.
//
// In: nondeterministic automata over `Symbol` ranges. Out: deterministic, trimmed, minimal ones, and their boolean
// combinations. Everything is done on ranges: no step ever visits the code points of a class one by one.
//
// determinise   subset construction; each subset's edges are cut at the range borders (a sweep)
// minimise      the states that no cycle follows by hashing, from the last ones backwards, and all of them where no
//               cycle is longer than a loop; else by partition refinement that re-examines only states whose successors
//               changed class and keeps the label of the largest part (Hopcroft's idea on Moore's signatures):
//               O(edges log states), also on long chains
// intersect     product, reachable part only;   complement: relative to all code points of encoding 0
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

// Lists of edges by state, in one store: nothing is allocated for a state by itself.
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
  // `list` may not lie in this store.
  void set(int32_t s, std::span<const Edge> list) {
    lists_[s] = {static_cast<uint32_t>(store_.size()), static_cast<uint32_t>(list.size())};
    store_.insert(store_.end(), list.begin(), list.end());
  }
  template <class Drop>
  void erase_if(int32_t s, Drop&& drop) {
    const std::span<Edge> list = (*this)[s];
    lists_[s].count = static_cast<uint32_t>(std::remove_if(list.begin(), list.end(), drop) - list.begin());
  }
  size_t edges() const { return store_.size(); }

 private:
  struct List {
    uint32_t from, count;
  };
  std::vector<Edge> store_;
  std::vector<List> lists_;
};

// Deterministic: the edges of a state are sorted and disjoint; missing symbols lead nowhere. State 0 is the start.
struct Dfa {
  EdgeLists edges;
  std::vector<uint8_t> accept;
  int32_t size() const { return edges.size(); }
  int32_t add(bool accepting = false) {
    edges.add();
    accept.push_back(accepting);
    return size() - 1;
  }
  // The state after `s` on symbol `c`, or -1.
  int32_t next(int32_t s, Symbol c) const;
  bool empty() const { return edges.empty(); }
};

// Nondeterministic, with empty moves; `start` and one `final` state. A list of edges, in any order.
struct Nfa {
  struct From {
    int32_t from;
    Edge edge;
  };
  struct Move {
    int32_t from, to;
  };
  std::vector<From> edges;
  std::vector<Move> moves;
  int32_t states = 0, start = 0, final = 0;
  int64_t size() const { return states + static_cast<int64_t>(edges.size() + moves.size()); }
  int32_t add() { return states++; }
  void edge(int32_t from, Symbol lo, Symbol hi, int32_t to) { edges.push_back({from, {lo, hi, to}}); }
  void move(int32_t from, int32_t to) { moves.push_back({from, to}); }
  // A copy of `dfa` between two states of this automaton.
  void splice(const Dfa& dfa, int32_t from, int32_t to);
};

Dfa determinise(const Nfa& nfa, Meter& meter);
Dfa minimise(Dfa dfa, Meter& meter);
Dfa intersect(const Dfa& a, const Dfa& b, Meter& meter);
Dfa complement(const Dfa& dfa, Meter& meter);
// Drops states from which no accepting state is reached, and those that cannot be reached. Empty if nothing is left.
Dfa trim(Dfa dfa);
// An automaton over characters of encoding 0, over those of another one.
Dfa relabelled(Dfa dfa, int32_t encoding);
// The same language without the empty string.
Dfa without_empty(Dfa dfa);
// The states that have an edge to each state, each once.
class Predecessors {
 public:
  explicit Predecessors(const Dfa& dfa);
  std::span<const int32_t> operator[](int32_t s) const {
    return {list_.data() + from_[s], static_cast<size_t>(from_[s + 1] - from_[s])};
  }

 private:
  std::vector<int32_t> from_, list_;
};
// Merges neighbouring edges with equal targets; expects sorted edges.
void join_edges(std::vector<Edge>& edges);

}  // namespace guided
