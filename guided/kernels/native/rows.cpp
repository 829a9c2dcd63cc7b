#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace guided {
namespace {

template <typename Number>
GUIDED_INLINE void norm_row(const Number* x, const Number* weight, Number* out, int64_t size, float eps, float offset) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += read(x[i + lane]) * read(x[i + lane]);
  for (; i < size; ++i) lanes[i % kLanes] += read(x[i]) * read(x[i]);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  const float scale = 1.0F / std::sqrt(sum / static_cast<float>(size) + eps);
  if (weight == nullptr)
    for (int64_t j = 0; j < size; ++j) write(read(x[j]) * scale, out[j]);
  else
    for (int64_t j = 0; j < size; ++j) write(read(x[j]) * scale * (offset + read(weight[j])), out[j]);
}

template <typename Number>
GUIDED_INLINE void swiglu_row(const Number* gate, const Number* up, Number* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    const float x = read(gate[i]);
    const float power = exponential(x < 0 ? x : -x);  // never overflows
    write(x * (x < 0 ? power : 1.0F) / (1.0F + power) * read(up[i]), out[i]);
  }
}

// x (1 + tanh(u)) / 2 = x / (1 + e ** -2u)
GUIDED_INLINE float gelu_by_tanh(float x) {
  const float two_u = 1.59576912F * (x + 0.044715F * x * x * x);
  const float power = exponential(two_u < 0 ? two_u : -two_u);  // never overflows
  return x * (two_u < 0 ? power : 1.0F) / (1.0F + power);
}

template <typename Number>
GUIDED_INLINE void geglu_row(const Number* gate, const Number* up, Number* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) write(gelu_by_tanh(read(gate[i])) * read(up[i]), out[i]);
}

template <typename Number>
GUIDED_INLINE void gelu_row(bool exact, const Number* x, Number* out, int64_t size) {
  if (exact) {
    for (int64_t i = 0; i < size; ++i) {
      const float number = read(x[i]);
      write(0.5F * number * std::erfc(number * -0.70710678F), out[i]);
    }
    return;
  }
  for (int64_t i = 0; i < size; ++i) write(gelu_by_tanh(read(x[i])), out[i]);
}

template <typename Number>
GUIDED_INLINE void rotate_head(Number* x, const Number* cos, const Number* sin, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = read(x[i]), b = read(x[half + i]);
    write(a * read(cos[i]) + b * read(sin[i]), x[i]);
    write(b * read(cos[half + i]) + a * read(sin[half + i]), x[half + i]);
  }
}

// Magnitudes are compared as bit patterns, so that infinity sorts above all numbers, and NaN above infinity.
template <typename Number>
GUIDED_INLINE void pack_head(const Number* x, int8_t* out, int64_t size) {
  uint32_t greatest = 0;
  for (int64_t i = 0; i < size; ++i) greatest = std::max(greatest, std::bit_cast<uint32_t>(read(x[i])) & 0x7FFFFFFFU);
  float scale = std::bit_cast<float>(greatest) / 127.0F;
  scale = scale < std::numeric_limits<float>::min() ? std::numeric_limits<float>::min() : scale;
  if (std::isfinite(scale))
    for (int64_t i = 0; i < size; ++i)  // the lowest bits of the sum are the quotient, rounded to nearest, ties to even
      out[i] = static_cast<int8_t>(std::bit_cast<uint32_t>(read(x[i]) / scale + 12582912.0F));
  else
    std::fill(out, out + size, int8_t{0});  // an infinite or NaN scale times 0 is NaN when unpacked
  std::memcpy(out + size, &scale, sizeof scale);
}

}  // namespace

GUIDED_FOR_EACH_CPU void softcap(float* x, int64_t rows, int64_t size, float cap) {
  for (int64_t row = 0; row < rows; ++row, x += size)
    for (int64_t i = 0; i < size; ++i) x[i] = cap * hyperbolic_tangent(x[i] / cap);
}

#define GUIDED_ROWS(Number)                                                                                         \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void rms_norm(const Number* x, const Number* weight, Number* out, int64_t rows, int64_t size, \
                                    float eps, float offset) {                                                      \
    for (int64_t row = 0; row < rows; ++row) norm_row(x + row * size, weight, out + row * size, size, eps, offset); \
  }                                                                                                                 \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void swiglu(const Number* x, Number* out, int64_t rows, int64_t size) {                       \
    for (int64_t row = 0; row < rows; ++row)                                                                        \
      swiglu_row(x + 2 * row * size, x + (2 * row + 1) * size, out + row * size, size);                             \
  }                                                                                                                 \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void geglu(const Number* x, Number* out, int64_t rows, int64_t size) {                        \
    for (int64_t row = 0; row < rows; ++row)                                                                        \
      geglu_row(x + 2 * row * size, x + (2 * row + 1) * size, out + row * size, size);                              \
  }                                                                                                                 \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void gelu(bool exact, const Number* x, Number* out, int64_t rows, int64_t size) {             \
    for (int64_t row = 0; row < rows; ++row) gelu_row(exact, x + row * size, out + row * size, size);               \
  }                                                                                                                 \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void rotate(Number* x, int64_t stride, const Number* cos, const Number* sin, int64_t rows,    \
                                  int64_t heads, int64_t size, int64_t turned) {                                    \
    for (int64_t row = 0; row < rows; ++row)                                                                        \
      for (int64_t head = 0; head < heads; ++head)                                                                  \
        rotate_head(x + row * stride + head * size, cos + row * turned, sin + row * turned, turned / 2);            \
  }                                                                                                                 \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void pack(const Number* x, int64_t stride, int8_t* out, int64_t rows, int64_t heads,          \
                                int64_t size) {                                                                     \
    const int64_t width = size + static_cast<int64_t>(sizeof(float));                                               \
    for (int64_t row = 0; row < rows; ++row)                                                                        \
      for (int64_t head = 0; head < heads; ++head)                                                                  \
        pack_head(x + row * stride + head * size, out + (row * heads + head) * width, size);                        \
  }
GUIDED_ROWS(float)
GUIDED_ROWS(bfloat16)

}  // namespace guided
