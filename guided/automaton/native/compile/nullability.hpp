// Which nodes and rules of an IR contain the empty string.
//
// Children stand before their parents in the node array, so one pass over a rule's nodes decides it once its callees
// are decided: components of the reference graph, callees first, and a least fixpoint inside each. Linear but for large
// components.
#pragma once

#include <vector>

#include "compile/ir.hpp"

namespace guided {

class Nullability {
 public:
  Nullability(const IrGrammar& ir, Meter& meter);
  bool node(int32_t id) const { return value_[id]; }
  bool rule(int32_t rule) const { return value_[ir_.rules[rule]]; }
  // Bounds that no count meets.
  static bool contradicts(const IrNode& n) { return n.max >= 0 && n.min > n.max; }
  static bool permutation(const IrNode& n);

 private:
  bool decide(const IrNode& n) const;
  const IrGrammar& ir_;
  std::vector<uint8_t> value_;
};

}  // namespace guided
