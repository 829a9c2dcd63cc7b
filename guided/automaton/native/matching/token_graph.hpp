// Pruning on the token graph: for vocabularies in which some byte exists only inside longer tokens.
//
// In: a grammar of one plain rule and the vocabulary. A position may end a token only if from it an accepting position
// is reached by whole tokens; `Position::boundary` says so afterwards, and `Grammar::token_distance` by how many.
// Throws EmptyLanguage where the start has no such path. Cost: one walk of the trie per position that some token can
// end in.
#pragma once

#include "compile/grammar.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

void prune_token_graph(Grammar& grammar, const TokenVocabulary& vocabulary, Meter& meter);

}  // namespace guided
