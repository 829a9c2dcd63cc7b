// The attention of attend_slots.hpp for many new positions of a sequence: the same bits, by other loops.
//
// In and out: as there. How: the keys and values of a KV head are first converted to float32, with the keys of sixteen
// positions interleaved. So a vector holds the scores of sixteen positions. The sixteen lanes of one vector there are
// sixteen vectors here, added in the same order. About 24 queries share one pass over keys and values, a few at a time
// as registers allow, and each reads up to its own position. Memory: the keys and values of one head in float32, and 24
// scores per position for each thread. Cost: as there, at several times the speed; threads share the queries.
#pragma once

#include <cstdint>

#include "attend_slots.hpp"

namespace guided {

template <typename Stored, typename Number>
void attend_prompt(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer,
                   const Queries<Number>& queries, int64_t threads);

}  // namespace guided
