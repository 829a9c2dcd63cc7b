// Keys of rules: rules whose keys have equal digests can share one cached automaton, even in different grammars.
//
// In: an IR, and which of its rules are nullable. Out: the key of a rule, which consists of
//  - a digest of its nodes and its encoding, in which the referenced rules are numbered by their first occurrence,
//  - the referenced rules in that order, and
//  - for each uniqueness scope, the index of its list of initially seen strings.
// Rules with equal digests compile to automata that differ only in the rules they call and in these indices.
// Example: `item ::= string "," number` in one grammar and `pair ::= text "," amount` in another have the digest of
// `#0 "," #1`, with the references [string, number] and [text, amount].
// How: a subtree without references is represented by its own digest; the other nodes are numbered, children first.
// Cost: linear in the number of nodes whose subtree contains a reference.
// A rule is not *portable* if its automaton depends on the content of another rule, for example if an operand of And,
// Not or Length refers to one, or if it contains a permutation. Such rules are not cached.
#pragma once

#include <vector>

#include "compile/nullability.hpp"
#include "compile/rules.hpp"

namespace guided {

class RuleKeys {
 public:
  RuleKeys(const IrGrammar& ir, const Nullability& nullable)
      : ir_(ir), nullable_(nullable), node_numbers_(ir.nodes.size(), -1), rule_numbers_(ir.rules.size(), -1) {}
  RuleKey of(int32_t rule, int32_t encoding);

 private:
  void add(const IrNode& n, RuleKey& key);
  void add_child(int32_t id, Digest& digest) const;

  const IrGrammar& ir_;
  const Nullability& nullable_;
  // Numbers within the rule whose key is being computed; -1: none yet.
  std::vector<int32_t> node_numbers_;
  std::vector<int32_t> rule_numbers_;
};

}  // namespace guided
