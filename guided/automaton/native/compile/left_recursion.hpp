// Removes left recursion, by the left-corner transform on automata.
//
// The problem: a rule that can begin with a call of itself would be entered endlessly before any byte is read. The core
// needs only the language, not parse trees, so it can rewrite such rules: `R -> R a | b` becomes `b a*`.
//
// In: rules whose automata have calls as symbols and never accept the empty string. The *left corners* of a rule are
// the rules called from its start state. Out: the same languages without left recursion.
//
// How: for each rule R of a strongly connected component C of the left-corner graph, one new automaton:
//   start -> (an edge from the start of X, except calls into C) -> the rest of X     for every X in C
//   end of Y -> (the target of a call of Y from the start of X)                      for every X, Y in C
//   R accepts at the end of R
// In words: a text of R begins with a part that is not a call into C. After a rule of C has been read completely, the
// text continues in a rule that begins with a call of it. (Moore, "Removing left recursion from context-free grammars",
// 2000.) For `R -> R a | b`: start --b--> end of R --a--> end of R.
//
// Cost: |C| copies of the component. Calls elsewhere in a rule are unchanged.
// Left recursion through a counted rule or a permutation throws `Unsupported`, because its register would have to start
// again one level up.
#pragma once

#include <vector>

#include "compile/rules.hpp"

namespace guided {

// Whether some rule is left-recursive, directly or through others.
bool has_left_recursion(const std::vector<LoweredRule>& rules);
// Rewrites the left-recursive rules, which must not be prepared yet.
void remove_left_recursion(std::vector<LoweredRule>& rules, Meter& meter);

}  // namespace guided
