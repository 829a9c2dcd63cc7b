// The walk of the vocabulary's trie that makes a token table.
//
// In: a thread under an unknown caller and the bytes that may come after its frame. Out: the table (token_table.hpp).
// How: breadth first along points (walk_points.hpp), with short cuts. Where the characters below a node all loop, the
// tokens are one stretch; where those of some character classes do, the tokens made of them are one set, and the walk
// goes on where others begin (visited_points.hpp, class_token_sets.hpp); where most of the vocabulary leads on, it is
// read line by line (line_walk.hpp); and a table that is nearly the same as one that is known is made of that.
// Cost: a subtree of the trie whose bytes all lead back to the state is taken whole, or, under a counter, by the
// tokens' lengths; 1-2 ms for a JSON string over 128,000 tokens, 10-50 us for usual positions.
#pragma once

#include <memory>

#include "run/arena.hpp"
#include "run/token_table.hpp"
#include "vocabulary/free_runs.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

// `thread`: with an unknown caller; `follow`: the bytes that may come after its frame. With the arena's lock held.
// `other`: null, or a table that the new one may be made of.
std::shared_ptr<TokenTable> build_token_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                              const ByteSet& follow, FreeRuns& runs, const OtherTable* other = nullptr);
// The same for the remainders of another frame's tokens, which go on in this one. In point of tokens the table has
// numbers of `left.entries`; its own entries are tokens again.
std::shared_ptr<TokenTable> build_remainder_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                                  const ByteSet& follow, const TokenTable& left);

}  // namespace guided
