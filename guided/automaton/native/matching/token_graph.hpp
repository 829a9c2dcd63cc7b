// Pruning on the token graph: for vocabularies in which some byte exists only inside longer tokens.
//
// In: a grammar of one plain rule, and the vocabulary. Out: `Position::boundary`, whether whole tokens lead from a
// position to an accepting one, so that a token may end there; and `Grammar::token_distance`, by how many tokens.
// Throws EmptyLanguage if no whole tokens lead from the start to an end. Cost: one walk of the trie for each position
// in which some token can end.
#pragma once

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

void prune_token_graph(Grammar& grammar, const TokenVocabulary& vocabulary, Meter& meter);

}  // namespace guided
