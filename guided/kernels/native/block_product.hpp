// Multiplies rows by a transposed matrix of ggml blocks, on a CPU. Each output row is bitwise independent of the
// others.
//
// In: x (rows, ins) in float32 or bfloat16; weights in tiles (block_format.hpp), possibly several parts in different
// formats, one below the other. Out: x W^T + bias, (rows, outs).
//
// How: 32 adjacent numbers of x become 8-bit integers with one scale; the greatest magnitude becomes 127. A lane of a
// vector computes an output. Over a group of columns, it adds products of integers, which is exact in any order. Then,
// in float32 and in the order of the groups, it adds this sum times the scales of x and of the weights' block, and the
// block's offset (block_format.hpp) times the sum of x. So the bits depend neither on other rows nor on threads.
// Between processors, they depend only on whether multiplication and addition are fused. A few rows share the unpacked
// weights in registers.
//
// Cost: rows * outs * ins multiplications, four per lane and instruction if the processor has such an instruction. The
// weights are read once for a few hundred rows. Since x is rounded to 8 bits, the product is not suitable for training.
#pragma once

#include <cstdint>
#include <vector>

#include "numbers.hpp"

namespace guided {

struct BlockPart {
  int32_t ggml_type;
  const uint8_t* tiles;  // unchanged rows if block_format.hpp does not have the format
  int64_t outs;
};

struct BlockProduct {
  const std::vector<BlockPart>* parts;
  int64_t rows, outs, ins;
};

// Computes the outputs of the parts that are tiles.
template <typename Number>
void multiply_blocks(const BlockProduct& product, const Number* x, const Number* bias, Number* out, int64_t threads);

// The instructions in use: "avx512", "avxvnni", "avx2", "neon" or "plain".
const char* block_instructions();

}  // namespace guided
