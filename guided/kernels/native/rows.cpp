#include "rows.hpp"

#include <cmath>

namespace guided {
namespace {

template <typename Number>
GUIDED_INLINE void norm_row(const Number* x, const Number* weight, Number* out, int64_t size, float eps) {
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
    for (int64_t j = 0; j < size; ++j) write(read(x[j]) * scale * read(weight[j]), out[j]);
}

template <typename Number>
GUIDED_INLINE void swiglu_row(const Number* gate, const Number* up, Number* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    const float x = read(gate[i]);
    const float small = exponential(x < 0 ? x : -x);  // never overflows
    write(x * (x < 0 ? small : 1.0F) / (1.0F + small) * read(up[i]), out[i]);
  }
}

template <typename Number>
GUIDED_INLINE void rotate_head(Number* x, const Number* cos, const Number* sin, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = read(x[i]), b = read(x[half + i]);
    write(a * read(cos[i]) + b * read(sin[i]), x[i]);
    write(b * read(cos[half + i]) + a * read(sin[half + i]), x[half + i]);
  }
}

}  // namespace

#define GUIDED_ROWS(Number)                                                                                         \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void rms_norm(const Number* x, const Number* weight, Number* out, int64_t rows, int64_t size, \
                                    float eps) {                                                                    \
    for (int64_t row = 0; row < rows; ++row) norm_row(x + row * size, weight, out + row * size, size, eps);         \
  }                                                                                                                 \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void swiglu(const Number* x, Number* out, int64_t rows, int64_t size) {                       \
    for (int64_t row = 0; row < rows; ++row)                                                                        \
      swiglu_row(x + 2 * row * size, x + (2 * row + 1) * size, out + row * size, size);                             \
  }                                                                                                                 \
  template <>                                                                                                       \
  GUIDED_FOR_EACH_CPU void rotate(Number* x, int64_t stride, const Number* cos, const Number* sin, int64_t rows,    \
                                  int64_t heads, int64_t size) {                                                    \
    for (int64_t row = 0; row < rows; ++row)                                                                        \
      for (int64_t head = 0; head < heads; ++head)                                                                  \
        rotate_head(x + row * stride + head * size, cos + row * size, sin + row * size, size / 2);                  \
  }
GUIDED_ROWS(float)
GUIDED_ROWS(bfloat16)

}  // namespace guided
