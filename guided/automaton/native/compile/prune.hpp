// Pruning: removes rules that generate nothing, and states from which no end can be reached.
//
// In: rules with trimmed automata. Out: the same languages; every rule that is still called generates something.
// How: productive rules are a least fixpoint, found with a worklist. A rule is productive if its automaton can reach an
// accepting state by calling only productive rules. A counter with a minimum above 0 must also be able to iterate. A
// permutation must be able to write its required members and enough others for its bounds and its condition.
// Cost: a rule is examined again each time one of its callees turns out to be productive.
#pragma once

#include <vector>

#include "compile/rules.hpp"

namespace guided {

// Removes the edges of unproductive calls. Rules keep their numbers; unproductive ones get an empty automaton.
void prune_rules(std::vector<LoweredRule>& rules, Meter& meter);

}  // namespace guided
