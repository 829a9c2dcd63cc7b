// The number types of tensors, functions on numbers, and macros that compile code for each instruction set.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

// GUIDED_FOR_EACH_CPU marks a function that is compiled for each level of x86-64; one version is chosen when the module
// is loaded. The functions that it calls must be inlined into it: GUIDED_INLINE.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define GUIDED_X86_CLONES
#define GUIDED_V3 __attribute__((target("arch=x86-64-v3")))
#define GUIDED_V4 __attribute__((target("arch=x86-64-v4")))
#define GUIDED_FOR_EACH_CPU __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define GUIDED_FOR_EACH_CPU
#endif
// GUIDED_NEON marks a function with dot products of 8-bit integers. All Macs with Arm processors have such
// instructions; other processors are checked at run time.
#if defined(__ARM_FEATURE_DOTPROD)
#define GUIDED_NEON
#elif defined(__aarch64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define GUIDED_NEON __attribute__((target("arch=armv8.2-a+dotprod")))
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
struct float16 {
  uint16_t bits;
};

// The partial sums of a row, as many as fit into an AVX-512 register. They fix the order of additions.
constexpr int kLanes = 16;

GUIDED_INLINE float read(float number) { return number; }
GUIDED_INLINE float read(bfloat16 number) { return std::bit_cast<float>(static_cast<uint32_t>(number.bits) << 16); }
GUIDED_INLINE float read(int8_t number) { return number; }
GUIDED_INLINE void write(float number, float& out) { out = number; }
GUIDED_INLINE void write(float number, bfloat16& out) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);  // to nearest, ties to even
  out.bits = static_cast<uint16_t>((number != number ? bits | 0x400000 : rounded) >> 16);
}

// Converts a float16, given by its bits. Multiplication by 2 ** 112 corrects the exponent, even for zeros and subnormal
// numbers. Infinity and NaN are handled separately.
GUIDED_INLINE float half_to_float(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half & 0x7FFF) << 13, sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude =
      (half & 0x7C00) == 0x7C00 ? bits | 0x7F800000 : std::bit_cast<uint32_t>(std::bit_cast<float>(bits) * 0x1p112F);
  return std::bit_cast<float>(magnitude | sign);
}

GUIDED_INLINE float read(float16 number) { return half_to_float(number.bits); }

// e ** x for x <= 0, with an error of about 1e-7: 2 ** whole * e ** fraction, with the polynomial of Cephes' expf. NaN
// stays NaN. `Number` is a number or a vector of numbers, and `Bits` the integer type of the same size.
template <typename Bits, typename Number>
GUIDED_INLINE void exponential_to(const Number& input, Number& out) {
  const Number lowest = Number{} - 87.0F, x = input < lowest ? lowest : input;
  const Number shifted = x * 1.44269504F + 12582912.0F;  // the whole number is now in the lowest bits
  const Number whole = shifted - 12582912.0F;
  const Number fraction = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;
  Number sum = fraction * 1.9875691500e-4F + 1.3981999507e-3F;
  sum = sum * fraction + 8.3334519073e-3F;
  sum = sum * fraction + 4.1665795894e-2F;
  sum = sum * fraction + 1.6666665459e-1F;
  sum = sum * fraction + 5.0000001201e-1F;
  sum = sum * fraction * fraction + fraction + 1.0F;
  Bits exponent;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent + 127U) << 23;
  std::memcpy(&out, &exponent, sizeof out);
  out *= sum;
}

GUIDED_INLINE float exponential(float x) {
  float out;
  exponential_to<uint32_t>(x, out);
  return out;
}

// tanh with a relative error of about 2e-7, as a quotient of polynomials from Eigen. NaN stays NaN.
GUIDED_INLINE float hyperbolic_tangent(float x) {
  x = x < -7.90531110763549805F ? -7.90531110763549805F : x;
  x = x > 7.90531110763549805F ? 7.90531110763549805F : x;
  const float square = x * x;
  float numerator = -2.76076847742355e-16F;
  numerator = numerator * square + 2.00018790482477e-13F;
  numerator = numerator * square + -8.60467152213735e-11F;
  numerator = numerator * square + 5.12229709037114e-08F;
  numerator = numerator * square + 1.48572235717979e-05F;
  numerator = numerator * square + 6.37261928875436e-04F;
  numerator = numerator * square + 4.89352455891786e-03F;
  float denominator = 1.19825839466702e-06F;
  denominator = denominator * square + 1.18534705686654e-04F;
  denominator = denominator * square + 2.26843463243900e-03F;
  denominator = denominator * square + 4.89352518554385e-03F;
  return x * numerator / denominator;
}

}  // namespace guided
