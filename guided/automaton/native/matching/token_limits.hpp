// Computes how many tokens lead to the ends of rules with a token limit.
//
// In: a grammar, and a vocabulary in which each byte is a token. Out: Grammar::token_rests and Rule::furthest_rest.
// Only tokens that end within the rule or at its end count, so the number does not depend on the rule's context.
//
// How: breadth-first search, backwards from the positions at which the rule may end. Cost: a walk of the trie of tokens
// for each position of such a rule. Throws Unsupported if the shortest text takes more tokens than the limit.
#pragma once

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

void find_token_rests(Grammar& g, const TokenVocabulary& vocabulary, Meter& meter);

}  // namespace guided
