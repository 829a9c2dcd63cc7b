// Rules with a limit of tokens: how many tokens lead to their ends.
//
// In: a grammar, and a vocabulary in which each byte is a token by itself. Out: Grammar::token_rests and
// Rule::furthest_rest. Only tokens count that end within the rule, or where it does: so the number is known whatever
// stands around the rule.
//
// How: breadth first, against the tokens, from the positions where the rule may end.
// Cost: a walk of the trie of tokens for each position of such a rule. Throws Unsupported where the fewest tokens of a
// whole text are more than the limit.
#pragma once

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

void find_token_rests(Grammar& g, const TokenVocabulary& vocabulary, Meter& meter);

}  // namespace guided
