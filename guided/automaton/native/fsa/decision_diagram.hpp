// Decision diagrams: a graph of all solutions of a formula over variables with few values, with one level per variable.
//
// In: formulas "one of these variables has one of these values", and their conjunctions, disjunctions and complements.
// Out: a graph whose paths from the root to the node "true" are the solutions, with a value for every variable.
//
// How: during construction, diagrams are reduced: equal nodes are shared, and a node whose values all lead to the same
// node is omitted. So equivalent formulas have the same node. An operation on two diagrams visits the pairs of nodes
// that the same values lead to (Bryant, "Graph-Based Algorithms for Boolean Function Manipulation", 1986; with more
// than two values: Srinivasan, Kam, Malik and Brayton, "Algorithms for Discrete Function Manipulation", 1990). The
// final diagram has a node at every level of every path, so walks need no special case for omitted nodes.
//
// Example: variables A with values 0 and 1, B with values 0, 1 and 2; "A is 1, or B is 2":
//     A: root --0--> b, root --1--> c     B: b --2--> true; c --0, 1, 2--> true
//
// Cost: an operation takes time proportional to the number of pairs that it visits, at most the product of both sizes.
// The sizes depend on the order of the variables. The number of edges is limited. Nothing is recursive, because there
// may be many levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/common.hpp"
#include "base/slot_table.hpp"

namespace guided {

// Nodes are numbered level by level, so edges lead to higher numbers. The root is 0; the last node is "true".
struct DecisionDiagram {
  struct Level {
    int32_t values;  // the number of values of the variable
    int32_t first;   // the first node of this level
    size_t edges;    // the index of its first edge
  };
  std::vector<Level> levels;
  std::vector<int32_t> edges;  // by node and value: a node, or kDead
  int32_t nodes = 0;           // 0: the formula has no solution

  int32_t next(const Level& level, int32_t node, int32_t value) const {
    return edges[level.edges + static_cast<size_t>(node - level.first) * static_cast<size_t>(level.values) +
                 static_cast<size_t>(value)];
  }
  // The first node after a level.
  int32_t end(size_t level) const { return level + 1 < levels.size() ? levels[level + 1].first : nodes - 1; }
};

// Thrown when the diagrams of a builder exceed its limit on edges.
struct DiagramTooLarge {};

class DiagramBuilder {
 public:
  static constexpr int32_t kFalse = 0, kTrue = 1;
  // `values`: the number of values, by level. `max_edges`: the limit on the edges of all diagrams of this builder.
  DiagramBuilder(std::vector<int32_t> values, size_t max_edges, Meter& meter);
  // "Some variable has one of its options." `options`: (level, values as bits), by ascending level.
  int32_t any_of(const std::vector<std::pair<int32_t, uint64_t>>& options);
  int32_t conjoin(int32_t a, int32_t b) { return combine(a, b, kFalse); }
  int32_t disjoin(int32_t a, int32_t b) { return combine(a, b, kTrue); }
  int32_t negate(int32_t a);
  int32_t level(int32_t node) const { return nodes_[node].level; }
  DecisionDiagram build_diagram(int32_t root);

 private:
  struct Node {
    int32_t level;
    size_t edges;  // the index of the first edge
  };
  int32_t make_node(int32_t level, const std::vector<int32_t>& children);
  // `dominant`: the constant that is the result if either operand equals it.
  int32_t combine(int32_t a, int32_t b, int32_t dominant);
  // The node that follows `node` if the variable of `level` has `value`.
  int32_t child(int32_t node, int32_t level, int32_t value) const {
    return nodes_[node].level == level ? edges_[nodes_[node].edges + static_cast<size_t>(value)] : node;
  }
  void spend(size_t edges);

  std::vector<int32_t> values_;
  std::vector<Node> nodes_;  // edges lead to lower numbers
  std::vector<int32_t> edges_;
  NumberTable numbers_;  // of nodes
  size_t edges_left_;
  Meter& meter_;
};

}  // namespace guided
