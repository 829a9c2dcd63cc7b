// The walk of the vocabulary's trie that builds a token table.
//
// In: a thread with an unknown caller, and the bytes that may follow its frame. Out: the table (token_table.hpp).
// How: the walk is breadth-first along points (walk_points.hpp), with short cuts. A character loops if it leads from a
// point back to it. If all characters below a node loop, the tokens are one range of payloads. If the characters of
// some classes loop, the tokens that consist of them are one set, and the walk continues where other characters follow
// (visited_points.hpp, class_token_sets.hpp). If most of the vocabulary can be read, the walk visits the nodes in
// the order of an array of lines, one for each node (line_walk.hpp). If an existing table is nearly equal, the new one
// is derived from it.
// Cost: a subtree of the trie whose bytes all lead back to the same state is taken as a whole or, in a counter, by the
// tokens' lengths. 1-2 ms for a JSON string and 128,000 tokens; 10-50 us for typical positions.
#pragma once

#include <memory>

#include "run/arena.hpp"
#include "run/token_table.hpp"
#include "vocabulary/free_runs.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

// Needs the arena's lock. `thread`: its caller is unknown. `follow`: the bytes that may follow its frame. `sibling`:
// null, or a table from which the new one may be derived.
std::shared_ptr<TokenTable> build_token_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                              const ByteSet& follow, FreeRuns& runs,
                                              const SiblingTable* sibling = nullptr);
// Builds a table for the remainders of another frame's tokens, which continue in this frame. The sets of the new table
// contain indices into `source.entries` instead of token ids; its own entries contain token ids.
std::shared_ptr<TokenTable> build_remainder_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                                  const ByteSet& follow, const TokenTable& source);

}  // namespace guided
