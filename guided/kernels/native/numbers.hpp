// Numbers as tensors have them, what is computed with them, and code for each instruction set.
#pragma once

#include <bit>
#include <cstdint>

// A function so marked is compiled for each level of x86-64 and chosen when the module is loaded. What it calls must be
// inlined into it: GUIDED_INLINE.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define GUIDED_X86_CLONES
#define GUIDED_V3 __attribute__((target("arch=x86-64-v3")))
#define GUIDED_V4 __attribute__((target("arch=x86-64-v4")))
#define GUIDED_FOR_EACH_CPU __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define GUIDED_FOR_EACH_CPU
#endif
#if defined(__GNUC__)
#define GUIDED_INLINE inline __attribute__((always_inline))
#else
#define GUIDED_INLINE inline
#endif

namespace guided {

struct bfloat16 {
  uint16_t bits;
};

constexpr int kLanes = 16;  // partial sums: one vector register, and a fixed order of additions

GUIDED_INLINE float read(float number) { return number; }
GUIDED_INLINE float read(bfloat16 number) { return std::bit_cast<float>(static_cast<uint32_t>(number.bits) << 16); }
GUIDED_INLINE float read(int8_t number) { return number; }
GUIDED_INLINE void write(float number, float& out) { out = number; }
GUIDED_INLINE void write(float number, bfloat16& out) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);  // to nearest, ties to even
  out.bits = static_cast<uint16_t>((number != number ? bits | 0x400000 : rounded) >> 16);
}

// e ** x for x <= 0, to some 1e-7: 2 ** whole * e ** rest, the polynomial of Cephes' expf. NaN stays NaN.
GUIDED_INLINE float exponential(float x) {
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * 1.44269504F + 12582912.0F;  // the whole number is in the lowest bits
  const float whole = shifted - 12582912.0F;
  const float rest = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;
  float sum = 1.9875691500e-4F;
  sum = sum * rest + 1.3981999507e-3F;
  sum = sum * rest + 8.3334519073e-3F;
  sum = sum * rest + 4.1665795894e-2F;
  sum = sum * rest + 1.6666665459e-1F;
  sum = sum * rest + 5.0000001201e-1F;
  sum = sum * rest * rest + rest + 1.0F;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127U) << 23;
  return sum * std::bit_cast<float>(exponent);
}

}  // namespace guided
