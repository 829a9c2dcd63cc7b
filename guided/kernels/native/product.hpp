// Rows times a transposed matrix, on a CPU: each row has the same bits whatever rows are beside it.
//
// In: x (rows, ins), weights (outs, ins) as they lie, and maybe a bias (outs): all of float32 or bfloat16, or weights of
// bfloat16 or float16 with the rest in float32. Out: x W^T + bias, (rows, outs), added up in float32 and rounded once. How: a number of the result is sixteen partial sums, one for each lane
// of a vector, each over its own inputs in their order; then these are added in a fixed order. Rows and outputs are taken a
// few at a time, so that what is loaded is used several times, which changes the order of no sum. Nor do threads, which
// share the outputs. With AVX512_BF16 a lane takes two neighbours of bfloat16 at a time: other bits than on other processors.
// Float32 times bfloat16 is bfloat16 times bfloat16 on such processors, x being rounded first; float16 is widened exactly.
// Cost: rows * outs * ins multiplications, and the weights are read once for some hundred rows.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace guided {

template <typename Number, typename Weight = Number>
struct Product {
  const Number* x;
  const Weight* weights;
  const Number* bias;  // null: none
  Number* out;
  int64_t rows, outs, ins;
  int64_t stride;  // between two rows of out
};

template <typename Number, typename Weight>
void multiply(const Product<Number, Weight>& product, int64_t threads);

}  // namespace guided
