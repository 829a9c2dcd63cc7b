// Lowering: the IR becomes rules, each a deterministic automaton over bytes, calls, control tokens and actions.
//
// In: an IrGrammar and the live bytes, which occur in some token. Out: rules with these invariants:
//   - no rule generates the empty string, so a call always reads something. A flag says whether the whole output may be
//     empty;
//   - no rule is left-recursive (left_recursion.hpp), so each step terminates;
//   - from every position, live bytes lead to an end of the rule, apart from guards: a guard checks by itself whether
//     the rule can still end;
//   - a counted repetition that would need many states is a separate rule, with a count in its frame's register.
//
// How: nodes become automata over characters (lowerer.hpp). Rules that generate nothing are removed (prune.hpp), and so
// is left recursion. Characters become bytes (encoding.hpp), and the automata are laid out for stepping
// (rule_block.hpp). Rules that earlier grammars of the vocabulary have compiled come from a cache (rule_keys.hpp).
#pragma once

#include "compile/ir.hpp"
#include "compile/rules.hpp"

namespace guided {

// In the result, every rule that generates some text has its `prepared` form (rules.hpp). Throws Unsupported and
// LimitFailure.
LoweredGrammar lower(const IrGrammar& ir, const LowerOptions& options, Meter& meter);

}  // namespace guided
