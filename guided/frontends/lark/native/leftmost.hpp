// Finds the texts that a backtracking matcher matches as a whole. In: a tree that keeps the order of preference. Out: a
// deterministic automaton, the same as guided/frontends/regex/leftmost_match.py creates, which explains the algorithm.
//
// Not done, but left to that module (`NotHandled`): patterns with large counts, patterns that need many states
// or steps, and unbounded repetitions of items that may be empty.
#pragma once

#include <cstdint>
#include <vector>

#include "ranges.hpp"
#include "regex.hpp"

namespace guided::lark {

struct Edge {
  int32_t low, high, to;
};

struct Automaton {
  std::vector<uint8_t> accepts;
  std::vector<std::vector<Edge>> edges;  // by state, sorted and disjoint
};

// `max_unrolled`: the maximum number of character positions that unrolling counted repetitions may add.
Automaton leftmost_texts(const Regex& tree, int64_t max_unrolled);

}  // namespace guided::lark
