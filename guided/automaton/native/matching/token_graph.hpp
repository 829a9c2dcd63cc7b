// Prunes a grammar on the graph of positions and tokens, for vocabularies in which some byte occurs only in longer
// tokens.
//
// In: a grammar of one plain rule, and the vocabulary. Out: `Position::boundary` says whether whole tokens lead from a
// position to an accepting one, so a token may end there. `Grammar::token_distance` is the number of these tokens.
// Throws EmptyLanguage if no whole tokens lead from the start to an end. Cost: one walk of the trie for each position
// at which some token can end.
#pragma once

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

void prune_token_graph(Grammar& grammar, const TokenVocabulary& vocabulary, Meter& meter);

}  // namespace guided
