// Inlines the rules that read one character.
//
// Problem: in `string ::= "\"" char* "\""`, the rule `char` ends after each character. A token such as `hello` would
// leave the frame of `char` after its first letter, so nearly the whole vocabulary would be remainders of its token
// table, and no character would loop (run/masks.hpp).
//
// How: a *character rule* is one whose automaton is small, has no cycle, calls, actions or control tokens, and cannot
// continue where it may end, and of whose texts many are a single character. A call of it is replaced by a copy of its
// automaton:
//     S --call char--> T        becomes        S --[^"\\]--> T     S --\--> 1 --["\\nt]--> T
// Such a rule may itself consist of small rules, as in `char ::= plain | escape`. The caller must remain deterministic:
// if one of its other edges at S can read a byte with which the character rule begins, the call stays.
//
// Explanations name the rules that are open. So each caller notes which of its states belong to which inlined rules
// (`LoweredRule::parts`).
//
// In: prepared rules. Out: the same rules, some of them with another automaton. They are laid out for this grammar
// only; the cache of rules keeps the automata with calls, since the content of a callee is no part of a rule's key.
// Cost: linear in the automata that call such a rule. Copies add at most kMostAdded states to a grammar.
#pragma once

#include "compile/rules.hpp"

namespace guided {

void inline_character_rules(LoweredGrammar& grammar, const IrGrammar& ir, Meter& meter);

}  // namespace guided
