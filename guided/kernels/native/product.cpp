#include "product.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "team.hpp"
#include "vectors.hpp"

namespace guided {
namespace {

constexpr int64_t kCachedInputBytes = 192 << 10;  // bytes of x that stay in the cache while the weights are read
constexpr int64_t kOutputsPerTask = 64;           // outputs that a thread takes at once
constexpr int64_t kFewProducts = 65536;           // with fewer multiplications, a second thread starts too late to help

// With few rows, memory limits the speed. The hardware prefetcher stops at the end of a page, so this code prefetches.
constexpr int kFewRows = 2;
constexpr int64_t kPrefetchBytes = 8 << 10;  // prefetch distance, in bytes
// Up to this length, a single row of x is multiplied by one row of weights after another, since memory is read fastest
// in order. In longer rows, each addition would wait for the previous one, so several outputs are computed together.
constexpr int64_t kShortRowBytes = 8 << 10;  // bytes per row of weights

// Each lane takes one number at a time.
struct Singles {
  static constexpr int64_t kStep = kLanes;
  using Operand = Vector;
  template <typename Number>
  static GUIDED_INLINE void load_operand(const Number* from, Operand& out) {
    load(from, out);
  }
  static GUIDED_INLINE void add(const Operand& a, const Operand& b, Vector& sum) { sum += a * b; }
};

#if defined(GUIDED_X86_CLONES)
// Like Singles, with instructions for float16.
struct SinglesV3 : Singles {
  using Singles::load_operand;
  static GUIDED_INLINE void load_operand(const float16* from, Operand& out) {
    using Half = float __attribute__((vector_size(32)));
    Half low, high;
    asm("vcvtph2ps %1, %0" : "=x"(low) : "m"(*reinterpret_cast<const uint16_t (*)[8]>(from)));
    asm("vcvtph2ps %1, %0" : "=x"(high) : "m"(*reinterpret_cast<const uint16_t (*)[8]>(from + 8)));
    out = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
};
struct SinglesV4 : Singles {
  using Singles::load_operand;
  static GUIDED_INLINE void load_operand(const float16* from, Operand& out) {
    Vector in_register;
    asm("vcvtph2ps %1, %0" : "=v"(in_register) : "m"(*reinterpret_cast<const uint16_t (*)[16]>(from)));
    out = in_register;
  }
};
// Each lane takes two adjacent numbers at a time, with one instruction.
struct Pairs {
  static constexpr int64_t kStep = 2 * kLanes;
  using Operand = Words;
  static GUIDED_INLINE void load_operand(const bfloat16* from, Operand& out) { std::memcpy(&out, from, sizeof out); }
  static GUIDED_INLINE void add(const Operand& a, const Operand& b, Vector& sum) {
    Vector in_register = sum;  // a copy whose address is not taken stays in a register
    asm("vdpbf16ps %2, %1, %0" : "+v"(in_register) : "v"(a), "v"(b));
    sum = in_register;
  }
};
#endif

// Like Product, but the types of x and of the output may differ.
template <typename X, typename Weight, typename Number>
struct Operands {
  const X* x;
  const Weight* weights;
  const Number* bias;
  Number* out;
  int64_t rows, outs, ins, stride;
};

// Computes `Outs` outputs of `Rows` rows.
template <typename Lanes, int Rows, int Outs, typename X, typename Weight, typename Number>
GUIDED_INLINE void multiply_tile(const Operands<X, Weight, Number>& p, int64_t row, int64_t out) {
  const X* x = p.x + row * p.ins;
  const Weight* w = p.weights + out * p.ins;
  Vector sums[Rows][Outs] = {};
  const auto step = [&](const X* a, int64_t a_stride, const Weight* b, int64_t b_stride)
                        __attribute__((always_inline)) {
                          typename Lanes::Operand weights[Outs];
#pragma GCC unroll 8
                          for (int n = 0; n < Outs; ++n) Lanes::load_operand(b + n * b_stride, weights[n]);
#pragma GCC unroll 8
                          for (int m = 0; m < Rows; ++m) {
                            typename Lanes::Operand number;
                            Lanes::load_operand(a + m * a_stride, number);
#pragma GCC unroll 8
                            for (int n = 0; n < Outs; ++n) Lanes::add(number, weights[n], sums[m][n]);
                          }
                        };
  const int64_t whole = p.ins / Lanes::kStep * Lanes::kStep;
  for (int64_t k = 0; k < whole; k += Lanes::kStep) {
    if constexpr (Rows <= kFewRows) {
      const int64_t ahead = k + kPrefetchBytes / (Outs * int64_t{sizeof(Weight)});
      // After the end of these rows of weights, the rows of the next outputs begin.
      const Weight* prefetched = w + (ahead < p.ins ? ahead : ahead + (Outs - 1) * p.ins);
#pragma GCC unroll 8
      for (int n = 0; n < Outs; ++n) __builtin_prefetch(prefetched + n * p.ins);
    }
    step(x + k, p.ins, w + k, p.ins);
  }
  if (whole < p.ins) {  // the remaining numbers, padded with zeros
    X a[Rows][Lanes::kStep] = {};
    Weight b[Outs][Lanes::kStep] = {};
    const auto remaining = static_cast<size_t>(p.ins - whole);
    for (int m = 0; m < Rows; ++m) std::memcpy(a[m], x + m * p.ins + whole, remaining * sizeof(X));
    for (int n = 0; n < Outs; ++n) std::memcpy(b[n], w + n * p.ins + whole, remaining * sizeof(Weight));
    step(a[0], Lanes::kStep, b[0], Lanes::kStep);
  }
#pragma GCC unroll 8
  for (int m = 0; m < Rows; ++m) {
    float totals[Outs];
    if constexpr (Outs == 4)
      sums_of(sums[m], totals);
    else
      for (int n = 0; n < Outs; ++n) totals[n] = sum_of(sums[m][n]);
    Number* to = p.out + (row + m) * p.stride + out;
    for (int n = 0; n < Outs; ++n) write(p.bias == nullptr ? totals[n] : totals[n] + read(p.bias[out + n]), to[n]);
  }
}

template <typename Lanes, int Rows, int Outs, typename X, typename Weight, typename Number>
GUIDED_INLINE void multiply_tiles(const Operands<X, Weight, Number>& p, int64_t row, int64_t last_row, int64_t out) {
  if constexpr (Rows == 1)
    if (p.ins * int64_t{sizeof(Weight)} <= kShortRowBytes) {
      for (; row < last_row; ++row)
        for (int n = 0; n < Outs; ++n) multiply_tile<Lanes, 1, 1>(p, row, out + n);
      return;
    }
  for (; row + Rows <= last_row; row += Rows) multiply_tile<Lanes, Rows, Outs>(p, row, out);
  if constexpr (Rows > 1) multiply_tiles<Lanes, Rows - 1, Outs>(p, row, last_row, out);
}

struct Range {
  int64_t first, last;
};

template <typename Lanes, int Rows, int Outs, typename X, typename Weight, typename Number>
GUIDED_INLINE void multiply_outputs(const Operands<X, Weight, Number>& p, Range outs) {
  const int64_t bytes = std::max<int64_t>(1, p.ins * static_cast<int64_t>(sizeof(X)));
  const int64_t rows_at_once = std::max<int64_t>(Rows, kCachedInputBytes / bytes / Rows * Rows);
  for (int64_t row = 0; row < p.rows; row += rows_at_once) {
    const int64_t last = std::min(p.rows, row + rows_at_once);
    int64_t out = outs.first;
    for (; out + Outs <= outs.last; out += Outs) multiply_tiles<Lanes, Rows, Outs>(p, row, last, out);
    for (; out < outs.last; ++out) multiply_tiles<Lanes, Rows, 1>(p, row, last, out);
  }
}

// One version per kind of processor. A tile has as many accumulators as registers allow.
template <typename X, typename Weight, typename Number>
using MultiplyOutputs = void (*)(const Operands<X, Weight, Number>&, Range);

#if defined(GUIDED_X86_CLONES)
template <typename X, typename Weight, typename Number>
GUIDED_V3 void multiply_outputs_v3(const Operands<X, Weight, Number>& p, Range outs) {
  multiply_outputs<SinglesV3, 2, 2>(p, outs);
}
template <typename X, typename Weight, typename Number>
GUIDED_V4 void multiply_outputs_v4(const Operands<X, Weight, Number>& p, Range outs) {
  multiply_outputs<SinglesV4, 6, 4>(p, outs);
}
template <typename Number>
GUIDED_V4 void multiply_outputs_bf16(const Operands<bfloat16, bfloat16, Number>& p, Range outs) {
  multiply_outputs<Pairs, 6, 4>(p, outs);
}
#endif

template <typename X, typename Weight, typename Number>
void multiply_outputs_base(const Operands<X, Weight, Number>& p, Range outs) {
  multiply_outputs<Singles, 2, 2>(p, outs);
}

bool has_pairs() {
#if defined(GUIDED_X86_CLONES)
  static const bool has = __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

template <typename X, typename Weight, typename Number>
MultiplyOutputs<X, Weight, Number> choose_kernel() {
#if defined(GUIDED_X86_CLONES)
  if constexpr (std::is_same_v<X, bfloat16> && std::is_same_v<Weight, bfloat16>)
    if (has_pairs()) return multiply_outputs_bf16<Number>;
  if (__builtin_cpu_supports("x86-64-v4")) return multiply_outputs_v4<X, Weight, Number>;
  if (__builtin_cpu_supports("x86-64-v3")) return multiply_outputs_v3<X, Weight, Number>;
#endif
  return multiply_outputs_base<X, Weight, Number>;
}

template <typename X, typename Weight, typename Number>
void run(const Operands<X, Weight, Number>& product, int64_t threads) {
  static const MultiplyOutputs<X, Weight, Number> kernel = choose_kernel<X, Weight, Number>();
  if (product.rows * product.outs * product.ins < kFewProducts) threads = 1;
  share((product.outs + kOutputsPerTask - 1) / kOutputsPerTask, threads,
        [&](int64_t i) { kernel(product, {i * kOutputsPerTask, std::min(product.outs, (i + 1) * kOutputsPerTask)}); });
}

GUIDED_FOR_EACH_CPU void round_to(const float* from, bfloat16* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) write(from[i], to[i]);
}

}  // namespace

template <typename Number, typename Weight>
void multiply(const Product<Number, Weight>& p, int64_t threads) {
  if constexpr (std::is_same_v<Number, float> && std::is_same_v<Weight, bfloat16>) {
    if (has_pairs()) {
      std::vector<bfloat16> rounded(static_cast<size_t>(p.rows * p.ins));
      round_to(p.x, rounded.data(), p.rows * p.ins);
      const Operands<bfloat16, bfloat16, float> operands{rounded.data(), p.weights, p.bias, p.out,
                                                         p.rows,         p.outs,    p.ins,  p.stride};
      return run(operands, threads);
    }
  }
  run(Operands<Number, Weight, Number>{p.x, p.weights, p.bias, p.out, p.rows, p.outs, p.ins, p.stride}, threads);
}
template void multiply(const Product<float>&, int64_t);
template void multiply(const Product<bfloat16>&, int64_t);
template void multiply(const Product<float, bfloat16>&, int64_t);
template void multiply(const Product<float, float16>&, int64_t);

}  // namespace guided
