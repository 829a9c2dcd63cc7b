// Vectors of sixteen numbers. The compiler splits them if registers are smaller.
#pragma once

#include <cstdint>
#include <cstring>

#include "numbers.hpp"

namespace guided {

// Vectors are passed by reference, because instruction sets pass them by value in different ways.
using Vector = float __attribute__((vector_size(64)));
using Words = uint32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));
using Integers = int32_t __attribute__((vector_size(64)));

GUIDED_INLINE void load(const float* from, Vector& out) { std::memcpy(&out, from, sizeof out); }
GUIDED_INLINE void load(const bfloat16* from, Vector& out) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words) << 16;
  std::memcpy(&out, &words, sizeof out);
}

GUIDED_INLINE void load(const float16* from, Vector& out) {
  float numbers[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) numbers[lane] = read(from[lane]);
  std::memcpy(&out, numbers, sizeof out);
}

// The sum of sixteen lanes: adds lanes that are 8 apart first, then 4, 2 and 1.
GUIDED_INLINE float sum_of(const Vector& v) {
  using Half = float __attribute__((vector_size(32)));
  using Quarter = float __attribute__((vector_size(16)));
  Half halves[2];
  std::memcpy(halves, &v, sizeof v);
  const Half half = halves[0] + halves[1];
  Quarter quarters[2];
  std::memcpy(quarters, &half, sizeof half);
  const Quarter quarter = quarters[0] + quarters[1];
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

// Writes the sums of four vectors, each with the same additions as `sum_of`. Shuffles let one instruction add lanes of
// several vectors.
GUIDED_INLINE void sums_of(const Vector* v, float* out) {
  const Vector halves[2] = {
      __builtin_shufflevector(v[0], v[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
          __builtin_shufflevector(v[0], v[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
      __builtin_shufflevector(v[2], v[3], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
          __builtin_shufflevector(v[2], v[3], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)};
  const Vector quarters =
      __builtin_shufflevector(halves[0], halves[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
      __builtin_shufflevector(halves[0], halves[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const Vector pairs =
      quarters + __builtin_shufflevector(quarters, quarters, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  for (int i = 0; i < 4; ++i) out[i] = pairs[4 * i] + pairs[4 * i + 1];
}

}  // namespace guided
