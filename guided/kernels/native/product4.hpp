// Rows times a transposed matrix whose weights are numbers of 4 bits, on a CPU: each row has the same bits whatever rows are
// beside it.
//
// In: x (rows, ins) of bfloat16; weights, of which 32 neighbours have a scale and a rest, (number - 8) * scale + rest, with
// numbers from 0 to 15; or of two such numbers, (16 * (high - 8) + low - 8) * scale + rest. Out: x W^T + bias, rounded once,
// (rows, outs). How: a lane of a vector is an output. Over each group of 32 inputs it adds up x times the numbers, which are
// small and exact, then this sum times the scale, and the sum of x times the rest: so scales cost next to nothing. A few rows
// share what is unpacked in registers, many what is unpacked for sixteen outputs in memory; the order of all sums is the same.
// With AVX512_BF16 a lane takes two inputs at a time: other bits than on other processors. Cost: rows * outs * ins
// multiplications, and the weights are read once for some hundred rows.
//
// Layout of 16 outputs and 32 inputs, `kGroupBytes` of them: for each number (the low ones first) four vectors of 16 words of
// 32 bits, a word for each output, which holds inputs 8 u to 8 u + 7 of vector u: the even ones in the nibbles of its lower
// half, the odd ones in those of its upper half, nibbles as two's complement of 4 bits; then 16 scales and 16 rests in
// bfloat16. Groups of 16 outputs follow one another, then the next 16 outputs.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace guided {

constexpr int64_t kGroup = 32, kOutputs = 16;

struct Product4 {
  const bfloat16* x;
  const uint8_t* weights;
  const bfloat16* bias;  // null: none
  bfloat16* out;
  int64_t rows, outs, ins, planes;

  int64_t group_bytes() const { return 256 * planes + 64; }
};

void multiply4(const Product4& product, int64_t threads);

}  // namespace guided
