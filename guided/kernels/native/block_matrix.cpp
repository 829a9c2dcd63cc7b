#include "block_matrix.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "block_layout.hpp"
#include "product.hpp"

namespace guided {
namespace {

constexpr int64_t kMaxColumns = int64_t{1} << 31;

// Calls body with a null pointer to the number type of an unquantised format. Returns false for other formats.
template <typename Body>
bool with_plain_type(int32_t ggml_type, const Body& body) {
  if (ggml_type == 0)
    body(static_cast<const float*>(nullptr));
  else if (ggml_type == 1)
    body(static_cast<const float16*>(nullptr));
  else if (ggml_type == 30)
    body(static_cast<const bfloat16*>(nullptr));
  else
    return false;
  return true;
}

int64_t count_bytes(int32_t ggml_type, int64_t count, int64_t columns) {
  int64_t size = -1;
  if (columns <= 0 || columns > kMaxColumns) return size;
  const auto handle_plain = [&]<typename Weight>(const Weight*) { size = count * columns * int64_t{sizeof(Weight)}; };
  return with_plain_type(ggml_type, handle_plain) ? size : count_tile_bytes(ggml_type, count, columns);
}

void copy_rows(const uint8_t* raw, const int64_t* order, int64_t count, size_t row_bytes, uint8_t* out) {
  if (order == nullptr) {
    std::memcpy(out, raw, static_cast<size_t>(count) * row_bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i, out += row_bytes)
    std::memcpy(out, raw + static_cast<size_t>(order[i]) * row_bytes, row_bytes);
}

template <typename Weight>
void multiply_plain(const BlockPart& part, const BlockProduct& p, const float* x, const float* bias, float* out,
                    int64_t stride, int64_t threads) {
  const auto* weights = reinterpret_cast<const Weight*>(part.tiles);
  multiply(Product<float, Weight>{x, weights, bias, out, p.rows, part.outs, p.ins, stride}, threads);
}

std::vector<float> to_float(const bfloat16* x, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = read(x[i]);
  return out;
}

template <typename Weight>
void multiply_plain(const BlockPart& part, const BlockProduct& p, const bfloat16* x, const bfloat16* bias,
                    bfloat16* out, int64_t stride, int64_t threads) {
  if constexpr (std::is_same_v<Weight, bfloat16>) {
    const auto* weights = reinterpret_cast<const Weight*>(part.tiles);
    return multiply(Product<bfloat16>{x, weights, bias, out, p.rows, part.outs, p.ins, stride}, threads);
  }
  const auto wide = to_float(x, p.rows * p.ins), wide_bias = to_float(bias, bias == nullptr ? 0 : part.outs);
  std::vector<float> wide_out(static_cast<size_t>(p.rows * part.outs));
  multiply_plain<Weight>(part, p, wide.data(), bias == nullptr ? nullptr : wide_bias.data(), wide_out.data(), part.outs,
                         threads);
  const float* from = wide_out.data();
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t i = 0; i < part.outs; ++i) write(*from++, out[row * stride + i]);
}

}  // namespace

void BlockMatrix::FreeMemory::operator()(void* memory) const { std::free(memory); }

void BlockMatrix::add(int32_t ggml_type, const uint8_t* raw, int64_t rows, const int64_t* order, int64_t count,
                      int64_t threads) {
  const int64_t size = count_bytes(ggml_type, count, columns_);
  if (size < 0) throw std::invalid_argument("the rows do not consist of whole blocks of a known format");
  const auto exists = [rows](int64_t row) { return row >= 0 && row < rows; };
  if (order == nullptr ? count > rows : !std::all_of(order, order + count, exists))
    throw std::out_of_range("there is no such row");
  if (count == 0) return;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(64, static_cast<size_t>((size + 63) / 64 * 64)));
  if (memory == nullptr) throw std::bad_alloc();
  memory_.emplace_back(memory);
  const auto handle_plain = [&]<typename Weight>(const Weight*) {
    copy_rows(raw, order, count, static_cast<size_t>(columns_) * sizeof(Weight), memory);
  };
  if (!with_plain_type(ggml_type, handle_plain)) arrange({raw, order, count, columns_, ggml_type, memory}, threads);
  parts_.push_back({ggml_type, memory, count});
  rows_ += count;
  bytes_ += size;
}

template <typename Number>
void BlockMatrix::multiply(const Number* x, const Number* bias, Number* out, int64_t rows, int64_t threads) const {
  const BlockProduct product{&parts_, rows, rows_, columns_};
  int64_t first = 0;
  bool has_tiles = false;
  for (const BlockPart& part : parts_) {
    const bool is_plain = with_plain_type(part.ggml_type, [&]<typename Weight>(const Weight*) {
      multiply_plain<Weight>(part, product, x, bias == nullptr ? nullptr : bias + first, out + first, rows_, threads);
    });
    has_tiles = has_tiles || !is_plain;
    first += part.outs;
  }
  if (has_tiles) multiply_blocks(product, x, bias, out, threads);
}
template void BlockMatrix::multiply(const float*, const float*, float*, int64_t, int64_t) const;
template void BlockMatrix::multiply(const bfloat16*, const bfloat16*, bfloat16*, int64_t, int64_t) const;

void BlockMatrix::values(const int64_t* rows, int64_t count, float* out) const {
  for (int64_t i = 0; i < count; ++i, out += columns_) {
    int64_t row = rows[i];
    if (row < 0 || row >= rows_) throw std::out_of_range("there is no such row");
    const BlockPart* part = parts_.data();
    for (; row >= part->outs; ++part) row -= part->outs;
    const auto handle_plain = [&]<typename Weight>(const Weight*) {
      const auto* from = reinterpret_cast<const Weight*>(part->tiles) + row * columns_;
      for (int64_t k = 0; k < columns_; ++k) out[k] = read(from[k]);
    };
    if (!with_plain_type(part->ggml_type, handle_plain)) read_row(part->tiles, part->ggml_type, columns_, row, out);
  }
}

}  // namespace guided
