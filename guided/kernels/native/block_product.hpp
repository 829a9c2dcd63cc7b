// Rows times a transposed matrix of ggml's blocks, on a CPU: each row has the same bits whatever rows are beside it.
//
// In: x (rows, ins) of float32 or bfloat16; weights in tiles (block_format.hpp), maybe several parts of different formats
// one below the other. Out: x W^T + bias, (rows, outs). How: 32 neighbours of x become whole numbers of 8 bits with one
// scale, the greatest of them 127. A lane of a vector is an output. Over a group of columns it adds up products of whole
// numbers, which is exact in any order, and then, in float32 and in the order of the groups, this sum times both scales,
// and the rest times the sum of x. So bits depend neither on other rows nor on threads, and among processors only on
// whether they fuse multiplication and addition. A few rows share what is unpacked in registers.
//
// Cost: rows * outs * ins products, four in each lane by one instruction where there is one for it; the weights are read
// once for some hundred rows. What it does not do: x is rounded to 8 bits, so it is no product for training.
#pragma once

#include <cstdint>
#include <vector>

#include "numbers.hpp"

namespace guided {

struct BlockPart {
  int32_t ggml_type;
  const uint8_t* tiles;  // of formats that block_format.hpp does not have: rows as they lie
  int64_t outs;
};

struct BlockProduct {
  const std::vector<BlockPart>* parts;
  int64_t rows, outs, ins;
};

// The outputs of those parts that are tiles.
template <typename Number>
void multiply_blocks(const BlockProduct& product, const Number* x, const Number* bias, Number* out, int64_t threads);

// The instructions in use: "avx512", "avxvnni", "avx2", "neon" or "plain".
const char* block_instructions();

}  // namespace guided
