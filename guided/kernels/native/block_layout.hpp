// Converts blocks of a GGUF file to the tiles of block_format.hpp, and tiles to plain numbers.
//
// In: the rows of a matrix as they are in the file, and their order. Out: tiles; the last one is padded with rows of
// zeros. Cost: one pass over the bytes; threads share the tiles.
#pragma once

#include <cstdint>

namespace guided {

// `order`: the indices of the rows; null: the order of the file. `out`: as many bytes as bytes_of_tiles() returns.
struct Arrangement {
  const uint8_t* rows;
  const int64_t* order;
  int64_t count, columns;
  int32_t ggml_type;
  uint8_t* out;
};

// The bytes of the tiles of `count` rows; -1: block_format.hpp does not have the type, or its blocks do not divide the
// columns.
int64_t bytes_of_tiles(int32_t ggml_type, int64_t count, int64_t columns);
void arrange(const Arrangement& arrangement, int64_t threads);
// Writes row `row` as float32.
void values_of_row(const uint8_t* tiles, int32_t ggml_type, int64_t columns, int64_t row, float* out);

}  // namespace guided
