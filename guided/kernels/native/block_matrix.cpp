#include "block_matrix.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "block_layout.hpp"

namespace guided {

void BlockMatrix::Free::operator()(void* memory) const { std::free(memory); }

void BlockMatrix::add(int32_t ggml_type, const uint8_t* raw, int64_t rows, const int64_t* order, int64_t count,
                      int64_t threads) {
  const int64_t size = bytes_of_tiles(ggml_type, count, columns_);
  if (size < 0) throw std::invalid_argument("these are no rows of whole blocks of a known format");
  const auto is_there = [rows](int64_t row) { return row >= 0 && row < rows; };
  if (order == nullptr ? count > rows : !std::all_of(order, order + count, is_there))
    throw std::out_of_range("there is no such row");
  if (count == 0) return;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(64, static_cast<size_t>((size + 63) / 64 * 64)));
  if (memory == nullptr) throw std::bad_alloc();
  memory_.emplace_back(memory);
  arrange({raw, order, count, columns_, ggml_type, memory}, threads);
  parts_.push_back({ggml_type, memory, count});
  rows_ += count;
  bytes_ += size;
}

void BlockMatrix::values(const int64_t* rows, int64_t count, float* out) const {
  for (int64_t i = 0; i < count; ++i, out += columns_) {
    int64_t row = rows[i];
    if (row < 0 || row >= rows_) throw std::out_of_range("there is no such row");
    const BlockPart* part = parts_.data();
    for (; row >= part->outs; ++part) row -= part->outs;
    values_of_row(part->tiles, part->ggml_type, columns_, row, out);
  }
}

}  // namespace guided
