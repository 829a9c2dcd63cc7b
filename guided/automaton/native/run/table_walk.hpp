// The walk of the vocabulary's trie that builds a token table.
//
// In: a thread with an unknown caller, and the bytes that may come after its frame. Out: the table (token_table.hpp).
// How: breadth first along points (walk_points.hpp), with short cuts. If the characters below a node all loop, the
// tokens are one stretch. If the characters of some classes loop, the tokens that consist of them are one set, and the
// walk continues where other characters begin (visited_points.hpp, class_token_sets.hpp). If most of the vocabulary can
// be read, it is read line by line (line_walk.hpp). A table is derived from an existing one that is nearly equal.
// Cost: a subtree of the trie whose bytes all lead back to the state is taken whole or, under a counter, by the tokens'
// lengths; 1-2 ms for a JSON string over 128,000 tokens, 10-50 us for usual positions.
#pragma once

#include <memory>

#include "run/arena.hpp"
#include "run/token_table.hpp"
#include "vocabulary/free_runs.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

// `thread`: with an unknown caller; `follow`: the bytes that may come after its frame. With the arena's lock held.
// `other`: null, or a table from which the new one may be derived.
std::shared_ptr<TokenTable> build_token_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                              const ByteSet& follow, FreeRuns& runs, const OtherTable* other = nullptr);
// The same for the remainders of another frame's tokens, which continue in this frame. The sets of this table contain
// indexes into `left.entries` instead of token ids; its own entries contain token ids.
std::shared_ptr<TokenTable> build_remainder_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                                  const ByteSet& follow, const TokenTable& left);

}  // namespace guided
