// Causal attention of a few new positions, on a CPU, over keys and values that lie in slots.
//
// In: queries (n, heads, head_dim) of one sequence's newest positions; a layer's keys and values (slots, kv_heads,
// head_dim) and the slots of the sequence in order; fewer KV heads than query heads are shared in groups. Out: what the
// queries read, in their shape. Query i of n reads the first total - n + i + 1 positions, or the last of them that fit into
// a window. Numbers are float32 or bfloat16;
// everything is added up in float32, in an order that depends on nothing but the query's position: a score in sixteen lanes,
// each over every sixteenth number of a head; exponentials in sixteen lanes over the positions; values one after the other.
// How: scores, their greatest, exponentials, the sum of values; one KV head at a time, so that its group shares each row of
// keys and values. It is bound by reading these once; what torch's kernels do beside that for a single query (tiling,
// threads) takes several times longer than the work. Keys and values may be packed (rows.hpp): their numbers are multiplied
// as they are read, once by a score or a weight. Cost: 4 n total heads head_dim operations. For long prompts there is
// attend_prompt.hpp, which gives the same bits.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace guided {

// One sequence of a batch.
struct Sequence {
  const void* keys;  // of layer 0
  const void* values;
  int64_t layer_stride;  // elements between two layers
  const int64_t* slots;  // null: they follow one another from `start`
  int64_t start;
  int64_t total;  // positions, new ones included
  int64_t first;  // row of the first new position among the queries
  int64_t count;  // new positions
};

struct Heads {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

// What a layer makes of the products of queries and keys, and which of them there are.
struct Kind {
  float scale;     // what they are multiplied by
  float softcap;   // c: they become c tanh(score / c); 0: they stay
  int64_t window;  // the most positions that a query reads, itself included

  int64_t first_of(int64_t seen) const { return seen > window ? seen - window : 0; }  // position that is read
};

// Rows of queries are `stride` elements apart; the output is contiguous.
template <typename Number>
struct Queries {
  const Number* q;
  int64_t stride;
  Number* out;
};

// One KV head. Keys and values are of the type Stored: as the queries, or int8_t: packed rows of head_dim + 4 bytes.
template <typename Stored, typename Number>
void attend_slots(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer, int64_t head,
                  const Queries<Number>& queries);

}  // namespace guided
