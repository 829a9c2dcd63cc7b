// Blocks of a GGUF file on their way into the tiles of block_format.hpp, and back into plain numbers.
//
// In: the rows of a matrix as they lie in the file, and in which order they are wanted. Out: tiles; the last one is filled
// up with rows of zeros. Cost: one pass over the bytes; threads share the tiles.
#pragma once

#include <cstdint>

namespace guided {

// `order`: of the rows; null: as they lie. `out`: tile_bytes() for each block of 16 rows.
struct Arrangement {
  const uint8_t* rows;
  const int64_t* order;
  int64_t count, columns;
  int32_t ggml_type;
  uint8_t* out;
};

// Of count rows; -1: the type is none of block_format.hpp, or does not divide the columns.
int64_t bytes_of_tiles(int32_t ggml_type, int64_t count, int64_t columns);
void arrange(const Arrangement& arrangement, int64_t threads);
// Row `row` as float32.
void values_of_row(const uint8_t* tiles, int32_t ggml_type, int64_t columns, int64_t row, float* out);

}  // namespace guided
