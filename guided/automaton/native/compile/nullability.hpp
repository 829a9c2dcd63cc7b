// Decides which nodes and rules of an IR are nullable, that is, generate the empty string.
//
// How: a least fixpoint over the strongly connected components of the reference graph, callees first. Children precede
// their parents in the array of nodes, so one pass over a rule's nodes decides the rule once its callees are decided.
// Only mutually recursive rules need several passes, until nothing changes.
// Cost: linear, except for large components.
#pragma once

#include <vector>

#include "compile/ir.hpp"

namespace guided {

class Nullability {
 public:
  Nullability(const IrGrammar& ir, Meter& meter);
  bool is_nullable_node(int32_t id) const { return is_nullable_[id]; }
  bool is_nullable_rule(int32_t rule) const { return is_nullable_[ir_.rules[rule]]; }
  // Whether no count satisfies the node's bounds.
  static bool has_contradictory_bounds(const IrNode& n) { return n.max >= 0 && n.min > n.max; }
  // Whether a permutation may be written without any member.
  static bool permutation_can_be_empty(const IrNode& n);

 private:
  bool decide(const IrNode& n) const;
  const IrGrammar& ir_;
  std::vector<uint8_t> is_nullable_;  // by node
};

}  // namespace guided
