// From the IR to rules: one deterministic byte automaton per rule, over bytes, calls, tokens and effects.
//
// In: an IrGrammar and the bytes that the vocabulary can write. Out: rules in which
//   - no rule generates the empty string (the start's emptiness is a flag), so a call always consumes something;
//   - no rule is left-recursive: for a strongly connected component of left corners, one automaton over suffixes;
//   - every position can reach the rule's end, with live bytes only (effects aside, whose guards look ahead);
//   - counted repetition that would be large is a rule of its own with a count in its frame's register.
#pragma once

#include "compile/ir.hpp"
#include "compile/rules.hpp"

namespace guided {

// Every rule that generates something is prepared.
LoweredGrammar lower(const IrGrammar& ir, const LowerOptions& options, Meter& meter);

}  // namespace guided
