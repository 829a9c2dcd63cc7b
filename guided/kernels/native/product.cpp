#include "product.hpp"

#include <algorithm>
#include <cstring>

#include "team.hpp"
#include "vectors.hpp"

namespace guided {
namespace {

constexpr int64_t kCached = 192 << 10;   // bytes of x that stay near while the weights pass by
constexpr int64_t kShare = 64;           // outputs that a thread takes at once
constexpr int64_t kFewProducts = 65536;  // below these a second thread starts too late to help

// How a lane takes in numbers: one after the other.
template <typename Number>
struct Singles {
  static constexpr int64_t kStep = kLanes;
  using Operand = Vector;
  static GUIDED_INLINE void take(const Number* from, Operand& out) { load(from, out); }
  static GUIDED_INLINE void add(const Operand& a, const Operand& b, Vector& sum) { sum += a * b; }
};

#if defined(GUIDED_X86_CLONES)
// Two neighbours at a time, by an instruction.
struct Pairs {
  static constexpr int64_t kStep = 2 * kLanes;
  using Operand = Words;
  static GUIDED_INLINE void take(const bfloat16* from, Operand& out) { std::memcpy(&out, from, sizeof out); }
  static GUIDED_INLINE void add(const Operand& a, const Operand& b, Vector& sum) {
    Vector in_register = sum;  // whose address is not taken
    asm("vdpbf16ps %2, %1, %0" : "+v"(in_register) : "v"(a), "v"(b));
    sum = in_register;
  }
};
#endif

// `Rows` rows times `Outs` outputs.
template <typename Lanes, int Rows, int Outs, typename Number>
GUIDED_INLINE void tile(const Product<Number>& p, int64_t row, int64_t out) {
  const Number *x = p.x + row * p.ins, *w = p.weights + out * p.ins;
  Vector sums[Rows][Outs] = {};
  const auto step = [&](const Number* a, int64_t a_stride, const Number* b, int64_t b_stride)
                        __attribute__((always_inline)) {
                          typename Lanes::Operand weights[Outs];
#pragma GCC unroll 8
                          for (int n = 0; n < Outs; ++n) Lanes::take(b + n * b_stride, weights[n]);
#pragma GCC unroll 8
                          for (int m = 0; m < Rows; ++m) {
                            typename Lanes::Operand number;
                            Lanes::take(a + m * a_stride, number);
#pragma GCC unroll 8
                            for (int n = 0; n < Outs; ++n) Lanes::add(number, weights[n], sums[m][n]);
                          }
                        };
  const int64_t whole = p.ins / Lanes::kStep * Lanes::kStep;
  for (int64_t k = 0; k < whole; k += Lanes::kStep) step(x + k, p.ins, w + k, p.ins);
  if (whole < p.ins) {  // the rest, and zeros
    Number a[Rows][Lanes::kStep] = {}, b[Outs][Lanes::kStep] = {};
    const size_t bytes = static_cast<size_t>(p.ins - whole) * sizeof(Number);
    for (int m = 0; m < Rows; ++m) std::memcpy(a[m], x + m * p.ins + whole, bytes);
    for (int n = 0; n < Outs; ++n) std::memcpy(b[n], w + n * p.ins + whole, bytes);
    step(a[0], Lanes::kStep, b[0], Lanes::kStep);
  }
#pragma GCC unroll 8
  for (int m = 0; m < Rows; ++m) {
    float totals[Outs];
    if constexpr (Outs == 4)
      sums_of(sums[m], totals);
    else
      for (int n = 0; n < Outs; ++n) totals[n] = sum_of(sums[m][n]);
    Number* to = p.out + (row + m) * p.outs + out;
    for (int n = 0; n < Outs; ++n) write(p.bias == nullptr ? totals[n] : totals[n] + read(p.bias[out + n]), to[n]);
  }
}

template <typename Lanes, int Rows, int Outs, typename Number>
GUIDED_INLINE void tiles(const Product<Number>& p, int64_t row, int64_t last_row, int64_t out) {
  for (; row + Rows <= last_row; row += Rows) tile<Lanes, Rows, Outs>(p, row, out);
  if constexpr (Rows > 1) tiles<Lanes, Rows - 1, Outs>(p, row, last_row, out);
}

struct Range {
  int64_t first, last;
};

template <typename Lanes, int Rows, int Outs, typename Number>
GUIDED_INLINE void part(const Product<Number>& p, Range outs) {
  const int64_t bytes = std::max<int64_t>(1, p.ins * static_cast<int64_t>(sizeof(Number)));
  const int64_t near = std::max<int64_t>(Rows, kCached / bytes / Rows * Rows);
  for (int64_t row = 0; row < p.rows; row += near) {
    const int64_t last = std::min(p.rows, row + near);
    int64_t out = outs.first;
    for (; out + Outs <= outs.last; out += Outs) tiles<Lanes, Rows, Outs>(p, row, last, out);
    for (; out < outs.last; ++out) tiles<Lanes, Rows, 1>(p, row, last, out);
  }
}

// As many accumulators as there are registers for, on each kind of processor.
template <typename Number>
using Part = void (*)(const Product<Number>&, Range);

#if defined(GUIDED_X86_CLONES)
template <typename Number>
GUIDED_V3 void part_v3(const Product<Number>& p, Range outs) {
  part<Singles<Number>, 2, 2>(p, outs);
}
template <typename Number>
GUIDED_V4 void part_v4(const Product<Number>& p, Range outs) {
  part<Singles<Number>, 6, 4>(p, outs);
}
GUIDED_V4 void part_bf16(const Product<bfloat16>& p, Range outs) { part<Pairs, 6, 4>(p, outs); }
#endif

template <typename Number>
void part_base(const Product<Number>& p, Range outs) {
  part<Singles<Number>, 2, 2>(p, outs);
}

template <typename Number>
Part<Number> choose() {
#if defined(GUIDED_X86_CLONES)
  if constexpr (std::is_same_v<Number, bfloat16>)
    if (__builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16")) return part_bf16;
  if (__builtin_cpu_supports("x86-64-v4")) return part_v4<Number>;
  if (__builtin_cpu_supports("x86-64-v3")) return part_v3<Number>;
#endif
  return part_base<Number>;
}

}  // namespace

template <typename Number>
void multiply(const Product<Number>& product, int64_t threads) {
  static const Part<Number> part_of = choose<Number>();
  if (product.rows * product.outs * product.ins < kFewProducts) threads = 1;
  share((product.outs + kShare - 1) / kShare, threads,
        [&](int64_t i) { part_of(product, {i * kShare, std::min(product.outs, (i + 1) * kShare)}); });
}
template void multiply(const Product<float>&, int64_t);
template void multiply(const Product<bfloat16>&, int64_t);

}  // namespace guided
