// Left recursion, removed without parse trees.
//
// In: rules whose automata never accept the empty string, calls as symbols. A rule's left corners are the calls on its
// start state. For a strongly connected component C of the left-corner graph and a rule R of C, one automaton:
//   start -> (what X's start reads outside C) -> X ...     for every X in C
//   end of Y -> (where a call of Y at X's start leads)     for every X, Y in C
//   R accepts at the end of R
// which is `R -> R a | b` as `b a*`, for mutual recursion too (Moore's left-corner automaton).
// Cost: |C| copies of the component. Calls elsewhere than at the start are left alone.
// Not done: a left corner through a counted rule (its count would have to start over a level up): refused.
#pragma once

#include <vector>

#include "compile/rules.hpp"

namespace guided {

// Whether a rule may begin with itself.
bool has_left_recursion(const std::vector<LoweredRule>& rules);
// Rewrites such rules; none of them is prepared.
void remove_left_recursion(std::vector<LoweredRule>& rules, Meter& meter);

}  // namespace guided
