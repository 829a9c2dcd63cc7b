// Rules that are compiled when they are first entered.
//
// Problem: of a hundred tools that a chat may call, it calls one or two. To compile the arguments of all of them takes
// longer than all else of the first mask.
//
// How: such a rule is compiled as a grammar of its own. Until then another rule stands for it, of which is known that it
// generates something, no empty text, and how long its shortest text is at most. A step into it, and whatever depends
// on its texts, throws `RulesNeeded` (run/arena.cpp); the matcher, which holds no lock then, has the rule compiled, goes
// over to states of the larger grammar, and begins again (matching/matcher.cpp).
//
// In: a grammar, and the grammars of some of its later rules. Out: the grammar with these at its end:
//     | rules and positions of the grammar, unchanged | those of the first part | of the second | ...
// Its numbers remain valid, so that states can be carried over. Calls of the rule that stood for a part call the part.
// The digests of callers remain as well: they hold the digest of the part's specification, and no token table that was
// made before knows more of the part.
// Cost: a copy of the grammar and of the parts.
// What it does not do: such a rule may not be called from within itself, nor be an operand of a boolean operation.
#pragma once

#include <memory>
#include <vector>

#include "compile/grammar.hpp"

namespace guided {

struct LaterPart {
  int32_t later;           // its number in Grammar::later
  const Grammar* grammar;  // which generates no empty text
};

std::unique_ptr<Grammar> with_later_rules(const Grammar& grammar, const std::vector<LaterPart>& parts);

}  // namespace guided
