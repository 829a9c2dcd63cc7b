// The attention of attend_slots.hpp for many new positions of a sequence: the same bits, by other loops.
//
// In and out as there. How: keys and values of a KV head are first brought into float32, keys of sixteen positions side by
// side. So a vector holds the scores of sixteen positions, and what there are the lanes of one vector are sixteen vectors
// here, added up in the same order; some 24 queries go through keys and values together, a few at a time for what fits into
// registers, and each reads up to itself. Memory: keys and values of one head in float32, and 24 scores for each position, for
// each thread. Cost: as there, at several times the speed; threads share the queries.
#pragma once

#include <cstdint>

#include "attend_slots.hpp"

namespace guided {

template <typename Stored, typename Number>
void attend_prompt(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer,
                   const Queries<Number>& queries, int64_t threads);

}  // namespace guided
