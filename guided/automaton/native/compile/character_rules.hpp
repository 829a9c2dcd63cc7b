// Inlines the rules that read one character.
//
// Problem: in `string ::= "\"" char* "\""`, the rule `char` ends after each character. A token such as `hello` would
// leave the frame of `char` after its first letter. So in its token table, nearly every token would be listed with a
// remainder. And no character would lead back to the same position, so token tables could not use loops
// (run/visited_points.hpp).
//
// How: the automaton of a *character rule* is small and has no cycles, calls, actions or control tokens. Its accepting
// states have no edges, and many of its texts are a single character. A call is replaced by a copy of this automaton:
//     S --call char--> T        becomes        S --[^"\\]--> T     S --\--> 1 --["\\nt]--> T
// A character rule may call smaller rules, as in `char ::= plain | escape`. The caller must remain deterministic: if
// another edge of S can read a byte with which the character rule begins, the call stays.
//
// Explanations name the open rules. So each caller records which of its states belong to which inlined rules
// (`LoweredRule::parts`).
//
// In: prepared rules. Out: the same rules; some have new automata, which are laid out for this grammar only. The cache
// of rules keeps the automata with calls, because a rule's key does not depend on the content of its callees.
// Cost: linear in the automata that call a character rule. Copies add at most kMaxAddedStates states to a grammar.
#pragma once

#include "compile/rules.hpp"

namespace guided {

void inline_character_rules(LoweredGrammar& grammar, const IrGrammar& ir, Meter& meter);

}  // namespace guided
