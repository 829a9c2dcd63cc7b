// Computes the attention of attend_slots.hpp for many new positions of a sequence: other loops, bitwise equal results.
//
// In, out: see attend_slots.hpp. How: the keys and values of a KV head are first converted to float32, with the keys of
// sixteen positions interleaved. So a vector holds the scores of sixteen positions. Where attend_slots.hpp adds the
// sixteen lanes of one vector, this file adds sixteen vectors in the same order. About 24 queries share one pass over
// keys and values. As many queries as registers allow are computed at a time. Each query reads up to its own position.
// Memory: the keys and values of one head in float32, and 24 scores per position for each thread. Cost: as many
// operations as in attend_slots.hpp, but several times as fast; threads share the queries.
#pragma once

#include <cstdint>

#include "attend_slots.hpp"

namespace guided {

template <typename Stored, typename Number>
void attend_prompt(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer,
                   const Queries<Number>& queries, int64_t threads);

}  // namespace guided
