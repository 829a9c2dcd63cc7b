// Rules that generate nothing, and positions from which no end is reached, are removed.
//
// A least fixpoint over rules: a rule generates something if its automaton accepts along edges whose calls do. A
// counter must be able to iterate; a permutation must be able to write its required members and enough of the others.
#pragma once

#include <vector>

#include "compile/rules.hpp"

namespace guided {

// Drops edges of calls that generate nothing; empties the automata of rules that generate nothing.
void prune_rules(std::vector<LoweredRule>& rules, Meter& meter);

}  // namespace guided
