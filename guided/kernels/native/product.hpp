// Multiplies rows by a transposed matrix, on a CPU. Each output row is bitwise independent of the other rows.
//
// In: x (rows, ins), weights (outs, ins), and optionally a bias (outs). All have the same type, float32 or bfloat16; or
// the weights are bfloat16 or float16, and x and bias are float32. Out: x W^T + bias, (rows, outs), accumulated in
// float32 and rounded once.
//
// How: each result is the sum of sixteen partial sums, one for each lane of a vector. A lane adds its own products in
// order; then the lanes are added in a fixed order. A few rows and outputs are computed together, so that loaded
// numbers are used several times, and threads share the outputs. Neither changes the order of a sum. float16 is widened
// exactly.
//
// On processors with AVX512_BF16, a lane takes two adjacent bfloat16 numbers at a time, so the bits differ from those on
// other processors. There, x is rounded to bfloat16 if it is float32 and the weights are bfloat16.
//
// Cost: rows * outs * ins multiplications; the weights are read once for a few hundred rows.
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
