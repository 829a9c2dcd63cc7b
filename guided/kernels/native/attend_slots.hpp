// Computes the causal attention of a few new positions on a CPU, over keys and values in the slots of a cache.
//
// In: queries (n, heads, head_dim) of the newest positions of one sequence; a layer's keys and values (slots, kv_heads,
// head_dim), and the slots of the sequence in order. If there are fewer KV heads than query heads, groups of query
// heads share a KV head. Numbers are float32 or bfloat16. Out: the attention output, with the shape of the queries.
// Query i of n reads the first total - n + i + 1 positions, or only the last `window` of them if there are more.
//
// Everything is accumulated in float32, in an order that depends only on the query's position: a score in sixteen
// lanes, each over every sixteenth number of a head; exponentials in sixteen lanes over the positions; values one after
// another.
//
// How: compute the scores, their maximum, the exponentials, and the weighted sum of values, one KV head at a time, so
// that the head's group shares each row of keys and values. The time for reading these rows once determines the speed.
// For a single query, torch's kernels spend several times longer on tiling and threads than on the work. Keys and
// values may be packed (rows.hpp): the scale of a row is then applied once, to its score or weight.
//
// Cost: 4 * n * total * heads * head_dim operations. For long prompts, attend_prompt.hpp computes bitwise equal results
// faster.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace guided {

// One sequence of a batch.
struct Sequence {
  const void* keys;  // of layer 0
  const void* values;
  int64_t layer_stride;  // elements between two layers
  const int64_t* slots;  // null: consecutive slots from `start`
  int64_t start;
  int64_t total;  // positions, including the new ones
  int64_t first;  // the query row of the first new position
  int64_t count;  // new positions
};

struct Heads {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

// How a layer turns dot products of queries and keys into scores, and which positions a query reads.
struct Kind {
  float scale;     // multiplies the dot products
  float softcap;   // c: scores become c tanh(score / c); 0: no cap
  int64_t window;  // the maximum number of positions that a query reads, including its own

  // The first position that a query reads. `visible_count`: the number of positions up to its own.
  int64_t first_in_window(int64_t visible_count) const { return visible_count > window ? visible_count - window : 0; }
};

// Rows of queries are `stride` elements apart; the output is contiguous.
template <typename Number>
struct Queries {
  const Number* q;
  int64_t stride;
  Number* out;
};

// Computes one KV head. Stored is the type of keys and values: float, bfloat16, or int8_t for packed rows of head_dim +
// 4 bytes.
template <typename Stored, typename Number>
void attend_slots(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer, int64_t head,
                  const Queries<Number>& queries);

}  // namespace guided
