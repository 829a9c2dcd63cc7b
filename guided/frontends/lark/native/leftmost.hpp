// Finds the texts that a backtracking matcher matches as a whole. In: a tree that keeps the order of preference. Out: a
// deterministic automaton, equal to that of guided/frontends/regex/leftmost_match.py, which explains the algorithm.
//
// Patterns whose counts that module keeps, and patterns that need many states or steps, are left to it (`Unusual`).
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

// `most_unrolled`: the most rounds of counted repetitions that may be unrolled.
Automaton leftmost_texts(const Regex& tree, int64_t most_unrolled);

}  // namespace guided::lark
