// Rules that are compiled when they are first entered.
//
// Problem: of a hundred tools that a chat may call, it calls one or two. Compiling the arguments of all of them takes
// longer than everything else before the first mask.
//
// How: such a rule is compiled as a separate grammar. Until then another rule represents it, of which little is known:
// it generates some text, not the empty text, and its shortest text has at most a given number of bytes. A step into
// it, and everything that depends on its texts, throws `RulesNeeded` (run/arena.cpp). The matcher, which holds no lock
// then, has the rule compiled, transfers its states to the larger grammar, and repeats the call (matching/matcher.cpp).
//
// In: a grammar, and the grammars of some of its later rules. Out: the grammar with these parts appended:
//     | rules and positions of the grammar, unchanged | of the first part | of the second | ...
// Its numbers remain valid, so states can be transferred. Calls of the rule that represented a part now call the part.
// The digests of callers remain valid, too: they include the digest of the part's specification, and existing token
// tables contain nothing that depends on the part.
// Cost: a copy of the grammar and of the parts.
// What it does not do: such a rule must not be called from within itself, nor be an operand of a Boolean operation.
#pragma once

#include <memory>
#include <vector>

#include "compile/grammar.hpp"

namespace guided {

struct LaterPart {
  int32_t later;           // its index in Grammar::later
  const Grammar* grammar;  // must not generate the empty text
};

std::unique_ptr<Grammar> with_later_rules(const Grammar& grammar, const std::vector<LaterPart>& parts);

}  // namespace guided
