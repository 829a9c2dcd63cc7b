// Converts blocks of a GGUF file to the tiles of block_format.hpp, and tiles to float32.
//
// In: the rows of a matrix as they are stored in the file, and their order. Out: tiles; the last one is padded with
// rows of zeros. Cost: one pass over the bytes; threads share the tiles.
#pragma once

#include <cstdint>

namespace guided {

// `order`: the indices of the rows; null: the order of the file. `out`: as many bytes as count_tile_bytes() returns.
struct Arrangement {
  const uint8_t* rows;
  const int64_t* order;
  int64_t count, columns;
  int32_t ggml_type;
  uint8_t* out;
};

// The number of bytes in the tiles of `count` rows; -1: block_format.hpp does not have the type, or `columns` is not a
// multiple of its block size.
int64_t count_tile_bytes(int32_t ggml_type, int64_t count, int64_t columns);
void arrange(const Arrangement& arrangement, int64_t threads);
// Writes row `row` to `out` as float32.
void read_row(const uint8_t* tiles, int32_t ggml_type, int64_t columns, int64_t row, float* out);

}  // namespace guided
