// A matrix as a GGUF file stores it, which owns its memory: parts of different formats, one below the other. Those of
// block_format.hpp are tiles, those of F32, F16 and BF16 rows as they lie.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "block_product.hpp"

namespace guided {

class BlockMatrix {
 public:
  explicit BlockMatrix(int64_t columns) : columns_(columns) {}
  BlockMatrix(const BlockMatrix&) = delete;
  BlockMatrix& operator=(const BlockMatrix&) = delete;

  // `raw`: `rows` rows as they lie in a file; `order`: which of them are taken, `count` of them; null: the first ones.
  // Throws std::invalid_argument if the format is none of these or the columns are no whole blocks,
  // std::out_of_range if there is no such row.
  void add(int32_t ggml_type, const uint8_t* raw, int64_t rows, const int64_t* order, int64_t count, int64_t threads);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t bytes() const { return bytes_; }
  // x W^T + bias for x (rows, columns): (rows, rows()). See block_product.hpp and product.hpp.
  template <typename Number>
  void multiply(const Number* x, const Number* bias, Number* out, int64_t rows, int64_t threads) const;
  // Rows as float32, (count, columns). Throws std::out_of_range.
  void values(const int64_t* rows, int64_t count, float* out) const;

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  int64_t columns_, rows_ = 0, bytes_ = 0;
  std::vector<BlockPart> parts_;
  std::vector<std::unique_ptr<uint8_t, Free>> memory_;
};

}  // namespace guided
