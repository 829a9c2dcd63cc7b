// Rules with a token limit: how many tokens lead to their ends.
//
// In: a grammar, and a vocabulary in which each byte is a token. Out: Grammar::token_rests and Rule::furthest_rest.
// Only tokens count that end within the rule or at its end, so the number does not depend on the rule's context.
//
// How: breadth first and backwards, from the positions where the rule may end. Cost: a walk of the trie of tokens for
// each position of such a rule. Throws Unsupported if the shortest text takes more tokens than the limit.
#pragma once

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

void find_token_rests(Grammar& g, const TokenVocabulary& vocabulary, Meter& meter);

}  // namespace guided
