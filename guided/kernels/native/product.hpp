// Rows times a transposed matrix, on a CPU: each row has the same bits whatever rows are beside it.
//
// In: x (rows, ins), weights (outs, ins) as they lie, and maybe a bias (outs), of float32 or bfloat16. Out: x W^T + bias,
// (rows, outs), added up in float32 and rounded once. How: a number of the result is sixteen partial sums, one for each lane
// of a vector, each over its own inputs in their order; then these are added in a fixed order. Rows and outputs are taken a
// few at a time, so that what is loaded is used several times, which changes the order of no sum. Nor do threads, which
// share the outputs. With AVX512_BF16 a lane takes two neighbours of bfloat16 at a time: other bits than on other processors.
// Cost: rows * outs * ins multiplications, and the weights are read once for some hundred rows.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace guided {

template <typename Number>
struct Product {
  const Number* x;
  const Number* weights;
  const Number* bias;  // null: none
  Number* out;
  int64_t rows, outs, ins;
};

template <typename Number>
void multiply(const Product<Number>& product, int64_t threads);

}  // namespace guided
