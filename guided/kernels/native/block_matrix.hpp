// A matrix from a GGUF file. It owns its memory, and consists of parts in different formats, one below the other. The
// formats of block_format.hpp are stored as tiles; F32, F16 and BF16 are stored as unchanged rows.
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

  // Appends rows. `raw`: `rows` rows as they are stored in the file. `order`: the indices of the `count` rows to
  // append; null: the first `count` rows. Throws std::invalid_argument if the format is unknown or a row does not
  // consist of whole blocks, and std::out_of_range if a row does not exist.
  void add(int32_t ggml_type, const uint8_t* raw, int64_t rows, const int64_t* order, int64_t count, int64_t threads);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t bytes() const { return bytes_; }
  // Writes x W^T + bias to `out`. `x`: (rows, columns()), `out`: (rows, rows()). See block_product.hpp and product.hpp.
  template <typename Number>
  void multiply(const Number* x, const Number* bias, Number* out, int64_t rows, int64_t threads) const;
  // Writes rows to `out` as float32 (count, columns). Throws std::out_of_range if a row does not exist.
  void values(const int64_t* rows, int64_t count, float* out) const;

 private:
  struct FreeMemory {
    void operator()(void* memory) const;
  };
  int64_t columns_, rows_ = 0, bytes_ = 0;
  std::vector<BlockPart> parts_;
  std::vector<std::unique_ptr<uint8_t, FreeMemory>> memory_;
};

}  // namespace guided
