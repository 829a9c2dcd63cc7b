// Lowering: the IR becomes rules, each a deterministic automaton over bytes, calls, control tokens and actions.
//
// In: an IrGrammar and the live bytes, those that occur in some token. Out: rules with these invariants, on which
// everything behind this step relies:
//   - no rule generates the empty string (whether the start may be empty is a flag), so a call always reads something;
//   - no rule is left-recursive (left_recursion.hpp), so stepping ends;
//   - from every position the rule's end can be reached in live bytes (guards of actions aside, which look ahead on
//     their own);
//   - a counted repetition that would be large as states is a rule of its own, with a count in its frame's register.
//
// How: nodes to automata over characters (lowerer.hpp); rules that generate nothing are removed (prune.hpp); left
// recursion is removed; characters become bytes (encoding.hpp), and the automata are laid out for stepping
// (rule_block.hpp). A rule that an earlier grammar of the same vocabulary had is taken from a cache (rule_keys.hpp).
#pragma once

#include "compile/ir.hpp"
#include "compile/rules.hpp"

namespace guided {

// In the result every rule that generates something is prepared. Throws Unsupported and LimitFailure.
LoweredGrammar lower(const IrGrammar& ir, const LowerOptions& options, Meter& meter);

}  // namespace guided
