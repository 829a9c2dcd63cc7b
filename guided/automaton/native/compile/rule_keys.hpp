// Which rules of an IR say the same, in whatever grammar they stand.
//
// In: an IR, and which of its rules contain the empty string. Out: for a rule a key: a digest of its nodes in which the
// rules that it refers to, and the lists of known names in it, are numbered by their first occurrence, with these
// lists. Two rules with equal digests become equal automata once their references are named by these numbers.
// How: a subtree without references is its own digest; the others are numbered, children first, each node once.
// Cost: linear in the nodes that hold a reference.
// Not portable: a rule in which an operand of And, Not or Length refers to another rule, whose content would count.
#pragma once

#include <vector>

#include "compile/nullability.hpp"
#include "compile/rules.hpp"

namespace guided {

class RuleKeys {
 public:
  RuleKeys(const IrGrammar& ir, const Nullability& nullable)
      : ir_(ir), nullable_(nullable), number_(ir.nodes.size(), -1), ref_(ir.rules.size(), -1) {}
  RuleKey of(int32_t rule, int32_t encoding);

 private:
  void add(const IrNode& n, RuleKey& key);
  void add_child(int32_t id, Digest& digest) const;

  const IrGrammar& ir_;
  const Nullability& nullable_;
  // Of the rule that is looked at; -1 elsewhere.
  std::vector<int32_t> number_;  // by node
  std::vector<int32_t> ref_;     // by rule
};

}  // namespace guided
