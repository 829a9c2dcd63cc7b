// Rules that are compiled when they are first entered.
//
// Problem: of a hundred tools that a chat may call, it calls one or two. Compiling the arguments of all of them takes
// longer than everything else before the first mask.
//
// How: such a rule is compiled as a separate grammar. Until then, a placeholder represents it. Only three facts are
// known about a placeholder: it generates some text, it does not generate the empty text, and its shortest text has at
// most a given number of bytes. A step into it, and everything that depends on its texts, throws `RulesNeeded`
// (run/arena.cpp). The matcher then holds no lock. It has the rule compiled, transfers its states to the larger
// grammar, and repeats the call (matching/matcher.cpp).
//
// In: a grammar, and the compiled grammars of some of its later rules (*parts*). Out: the grammar with these appended:
//     | rules and positions of the grammar, unchanged | of the first part | of the second | ...
// Its numbers remain valid, so states can be transferred. Calls of a placeholder become calls of its part.
// The digests of callers remain valid, too: they include the digest of the part's specification, and existing token
// tables contain nothing that depends on the part.
// Cost: a copy of the grammar and of the parts.
// Limitation: a later rule must not call itself, directly or through others, or be an operand of a Boolean operation.
#pragma once

#include <memory>
#include <vector>

#include "compile/grammar.hpp"

namespace guided {

struct LaterPart {
  int32_t later;           // its index in Grammar::later
  const Grammar* grammar;  // must not generate the empty text
};

std::unique_ptr<Grammar> append_later_rules(const Grammar& grammar, const std::vector<LaterPart>& parts);

}  // namespace guided
