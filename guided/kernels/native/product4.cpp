#include "product4.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "team.hpp"
#include "vectors.hpp"

namespace guided {
namespace {

constexpr int64_t kShare = 4;            // times sixteen outputs, that a thread takes at once
constexpr int64_t kFewProducts = 65536;  // below these a second thread starts too late to help
constexpr int64_t kCached = 256 << 10;   // bytes of x that stay near while the weights pass by

struct alignas(64) Line {  // of memory, for what is unpacked
  uint8_t bytes[64];
};

// How a lane takes in inputs: one at a time, in float32. `Input`: what is kept of x; `Operand`: numbers of 16 outputs.
struct Singles {
  using Input = float;
  using Operand = Vector;
  static constexpr int64_t kInputs = 1;
  // Of input 8 u + i, i from 0 to 7; `high`: it counts sixteen times.
  template <int I>
  static GUIDED_INLINE void unpack(const Words& words, bool high, Operand& out) {
    constexpr int kNibble = I / 2 + 4 * (I % 2);
    Integers number;
    std::memcpy(&number, &words, sizeof number);
    number = (number << (28 - 4 * kNibble)) >> (high ? 24 : 28);
    if (high) number &= ~15;
    out = __builtin_convertvector(number, Vector);
  }
  static GUIDED_INLINE void add(const Input* x, const Operand& numbers, Vector& sum) { sum += *x * numbers; }
};

#if defined(GUIDED_X86_CLONES)
// Two at a time, in bfloat16, by an instruction.
struct Pairs {
  using Input = bfloat16;
  using Operand = Words;
  static constexpr int64_t kInputs = 2;
  using Table = std::array<uint16_t, 32>;  // bits of the numbers, twice: the instruction looks at five bits

  static constexpr Table table(int step) {
    Table out{};
    for (int i = 0; i < 32; ++i)
      out[static_cast<size_t>(i)] =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(step * ((i % 16 + 8) % 16 - 8))) >> 16);
    return out;
  }
  template <int I>
  static GUIDED_INLINE void unpack(const Words& words, bool high, Operand& out) {
    alignas(64) static constexpr Table kLow = table(1), kHigh = table(16);
    Words values;
    std::memcpy(&values, (high ? kHigh : kLow).data(), sizeof values);
    const Words nibbles = words >> (2 * I);  // the bits that come from the upper half are not looked at
    asm("vpermw %1, %2, %0" : "=v"(out) : "v"(values), "v"(nibbles));
  }
  static GUIDED_INLINE void add(const Input* x, const Operand& numbers, Vector& sum) {
    uint32_t pair;
    std::memcpy(&pair, x, sizeof pair);
    const Words both = Words{} + pair;
    Vector in_register = sum;  // whose address is not taken
    asm("vdpbf16ps %2, %1, %0" : "+v"(in_register) : "v"(numbers), "v"(both));
    sum = in_register;
  }
};
#endif

// Where the numbers of a group come from: the weights as they are,
template <typename Lanes>
struct Packed {
  const uint8_t* group;
  template <int I>
  GUIDED_INLINE void take(int64_t u, bool high, typename Lanes::Operand& out) const {
    Words words;
    std::memcpy(&words, group + (high ? 256 : 0) + 64 * u, sizeof words);
    Lanes::template unpack<I>(words, high, out);
  }
};
// or unpacked before, in the order in which they are taken.
template <typename Lanes>
struct Unpacked {
  const typename Lanes::Operand* group;
  template <int I>
  GUIDED_INLINE void take(int64_t u, bool high, typename Lanes::Operand& out) const {
    out = group[((high ? 4 : 0) + u) * (8 / Lanes::kInputs) + I / Lanes::kInputs];
  }
};

struct Inputs {
  const void* x;      // (rows, ins) of Lanes::Input
  const float* sums;  // (rows, groups) of x
};

template <typename Lanes, int Rows, int I, typename Source>
GUIDED_INLINE void take_eight(const typename Lanes::Input* x, int64_t stride, const Source& source, int64_t u,
                              bool high, Vector* sums) {
  if constexpr (I < 8) {
    typename Lanes::Operand numbers;
    source.template take<I>(u, high, numbers);
#pragma GCC unroll 16
    for (int m = 0; m < Rows; ++m) Lanes::add(x + m * stride + 8 * u + I, numbers, sums[m]);
    take_eight<Lanes, Rows, I + static_cast<int>(Lanes::kInputs)>(x, stride, source, u, high, sums);
  }
}

// Unrolled for one or two rows only: with more the loop costs next to nothing, and is a quarter of the code.
template <typename Lanes, int Rows, typename Source>
GUIDED_INLINE void take_group(const typename Lanes::Input* x, int64_t stride, const Source& source, bool high,
                              Vector* sums) {
  if constexpr (Rows <= 2) {
#pragma GCC unroll 4
    for (int64_t u = 0; u < 4; ++u) take_eight<Lanes, Rows, 0>(x, stride, source, u, high, sums);
  } else {
#pragma GCC unroll 1
    for (int64_t u = 0; u < 4; ++u) take_eight<Lanes, Rows, 0>(x, stride, source, u, high, sums);
  }
}

// Sixteen outputs of `Rows` rows.
template <typename Lanes, int Rows, typename Source>
GUIDED_INLINE void tile(const Product4& p, const Inputs& in, int64_t row, int64_t block, const uint8_t* weights,
                        const typename Lanes::Operand* unpacked) {
  using Input = typename Lanes::Input;
  const int64_t groups = p.ins / kGroup, bytes = p.group_bytes();
  const auto* x = static_cast<const Input*>(in.x) + row * p.ins;
  const float* x_sums = in.sums + row * groups;
  Vector totals[Rows] = {};
  for (int64_t g = 0; g < groups; ++g, weights += bytes, x += kGroup) {
    Vector sums[Rows] = {};
    Source source;
    if constexpr (std::is_same_v<Source, Packed<Lanes>>)
      source = {weights};
    else
      source = {unpacked + g * p.planes * kGroup / Lanes::kInputs};
    take_group<Lanes, Rows>(x, p.ins, source, false, sums);
    if (p.planes == 2) take_group<Lanes, Rows>(x, p.ins, source, true, sums);
    Vector scale, rest;
    const auto* factors = reinterpret_cast<const bfloat16*>(weights + bytes - 64);
    load(factors, scale);
    load(factors + kOutputs, rest);
#pragma GCC unroll 16
    for (int m = 0; m < Rows; ++m) {
      totals[m] += scale * sums[m];
      totals[m] += rest * x_sums[m * groups + g];
    }
  }
  for (int m = 0; m < Rows; ++m)
    for (int64_t n = 0; n < kOutputs; ++n) {
      const float total = totals[m][n];
      write(p.bias == nullptr ? total : total + read(p.bias[block * kOutputs + n]),
            p.out[(row + m) * p.outs + block * kOutputs + n]);
    }
}

// The rows from `row` on, fewer than `Rows + 1`, by the weights as they are.
template <typename Lanes, int Rows>
GUIDED_INLINE void few_rows(const Product4& p, const Inputs& in, int64_t row, int64_t block, const uint8_t* weights) {
  if (row + Rows == p.rows) return tile<Lanes, Rows, Packed<Lanes>>(p, in, row, block, weights, nullptr);
  if constexpr (Rows > 1) few_rows<Lanes, Rows - 1>(p, in, row, block, weights);
}

template <typename Lanes, int I>
GUIDED_INLINE void unpack_eight(const Words& words, bool high, typename Lanes::Operand* out) {
  if constexpr (I < 8) {
    Lanes::template unpack<I>(words, high, out[I / Lanes::kInputs]);
    unpack_eight<Lanes, I + static_cast<int>(Lanes::kInputs)>(words, high, out);
  }
}

// Nothing is unpacked to memory, `scratch`, for `Rows` rows or fewer.
template <typename Lanes, int Rows>
GUIDED_INLINE void part(const Product4& p, const Inputs& in, int64_t first, int64_t last, std::vector<Line>& scratch) {
  using Operand = typename Lanes::Operand;
  const int64_t groups = p.ins / kGroup, bytes = p.group_bytes();
  for (int64_t block = first; block < last; ++block) {
    const uint8_t* weights = p.weights + block * groups * bytes;
    int64_t row = 0;
    if (p.rows > Rows) {
      auto* out = reinterpret_cast<Operand*>(scratch.data());
      for (int64_t at = 0; at < groups * 4 * p.planes; ++at, out += 8 / Lanes::kInputs) {
        const int64_t vector = at % (4 * p.planes);
        Words words;
        std::memcpy(&words, weights + at / (4 * p.planes) * bytes + 64 * vector, sizeof words);
        unpack_eight<Lanes, 0>(words, vector >= 4, out);
      }
      const auto* unpacked = reinterpret_cast<const Operand*>(scratch.data());
      for (; row + Rows <= p.rows; row += Rows)
        tile<Lanes, Rows, Unpacked<Lanes>>(p, in, row, block, weights, unpacked);
    }
    few_rows<Lanes, Rows>(p, in, row, block, weights);
  }
}

// As many accumulators as there are registers for, on each kind of processor.
using Part = void (*)(const Product4&, const Inputs&, int64_t, int64_t, std::vector<Line>&);

#if defined(GUIDED_X86_CLONES)
#define GUIDED_PART(name, level, Lanes, Rows)                                                                     \
  level void name(const Product4& p, const Inputs& in, int64_t first, int64_t last, std::vector<Line>& scratch) { \
    part<Lanes, Rows>(p, in, first, last, scratch);                                                               \
  }
GUIDED_PART(part_v3, GUIDED_V3, Singles, 2)
GUIDED_PART(part_v4, GUIDED_V4, Singles, 12)
GUIDED_PART(part_bf16, GUIDED_V4, Pairs, 12)
#endif

void part_base(const Product4& p, const Inputs& in, int64_t first, int64_t last, std::vector<Line>& scratch) {
  part<Singles, 2>(p, in, first, last, scratch);
}

struct Choice {
  Part part;
  bool pairs;
  int64_t rows;
};

Choice choose() {
#if defined(GUIDED_X86_CLONES)
  if (__builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16")) return {part_bf16, true, 12};
  if (__builtin_cpu_supports("x86-64-v4")) return {part_v4, false, 12};
  if (__builtin_cpu_supports("x86-64-v3")) return {part_v3, false, 2};
#endif
  return {part_base, false, 2};
}

// What is added up of each group, and x in float32.
GUIDED_FOR_EACH_CPU void sum_groups(const bfloat16* x, int64_t size, float* plain, float* sums) {
  for (int64_t k = 0; k < size; k += kGroup) {
    Vector first, second;
    load(x + k, first);
    load(x + k + kLanes, second);
    if (plain != nullptr) {
      std::memcpy(plain + k, &first, sizeof first);
      std::memcpy(plain + k + kLanes, &second, sizeof second);
    }
    first += second;
    sums[k / kGroup] = sum_of(first);
  }
}

thread_local std::vector<Line> unpacked;

}  // namespace

void multiply4(const Product4& product, int64_t threads) {
  static const Choice choice = choose();
  const int64_t near =
      std::max<int64_t>(choice.rows, kCached / std::max<int64_t>(1, 2 * product.ins) / choice.rows * choice.rows);
  if (product.rows > near) {
    for (int64_t row = 0; row < product.rows; row += near) {
      Product4 some = product;
      some.x += row * product.ins;
      some.out += row * product.outs;
      some.rows = std::min(near, product.rows - row);
      multiply4(some, threads);
    }
    return;
  }
  const int64_t size = product.rows * product.ins, blocks = product.outs / kOutputs;
  std::vector<float> sums(static_cast<size_t>(size / kGroup)), plain(choice.pairs ? 0 : static_cast<size_t>(size));
  sum_groups(product.x, size, choice.pairs ? nullptr : plain.data(), sums.data());
  const Inputs inputs{choice.pairs ? static_cast<const void*>(product.x) : plain.data(), sums.data()};
  if (size * product.outs < kFewProducts) threads = 1;
  share((blocks + kShare - 1) / kShare, threads, [&](int64_t i) {
    const int64_t lines = product.ins * product.planes / (choice.pairs ? 2 : 1);
    unpacked.resize(static_cast<size_t>(product.rows <= choice.rows ? 0 : lines));
    choice.part(product, inputs, i * kShare, std::min(blocks, (i + 1) * kShare), unpacked);
  });
}

}  // namespace guided
