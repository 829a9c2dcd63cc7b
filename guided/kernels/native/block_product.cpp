#include "block_product.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "block_format.hpp"
#include "team.hpp"

#if defined(GUIDED_NEON) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace guided {
namespace {

constexpr int64_t kTilesPerTask = 4;       // tiles that a thread takes at once
constexpr int64_t kFewProducts = 1 << 17;  // with fewer multiplications, a second thread starts too late to help
constexpr float kNegligible = 1e-30F;      // magnitudes up to this count as 0
constexpr int64_t kFewRows = 4;            // up to this many rows of x, reading weights takes longer than multiplying
constexpr int64_t kPrefetchBytes = 8192;   // prefetch distance, in bytes
constexpr int64_t kCachedInputBytes = 256 << 10;  // bytes of x that stay in the cache while the weights are read

// Rows of x, quantised to 8-bit integers.
struct Inputs {
  std::vector<int8_t> numbers;  // (rows, ins)
  std::vector<float> scales;    // (rows, ins / 32)
  std::vector<int32_t> sums;    // (rows, ins / 16)
};

template <int Lanes>
struct Types {
  typedef float Float __attribute__((vector_size(4 * Lanes)));
  typedef int32_t Int __attribute__((vector_size(4 * Lanes)));
  typedef uint32_t Word __attribute__((vector_size(4 * Lanes)));
  typedef uint16_t Half __attribute__((vector_size(2 * Lanes)));
  typedef uint8_t Byte __attribute__((vector_size(4 * Lanes)));
};

// The operations that differ between processors. `add` adds four products in each lane to `sum`. The numbers of x are
// signed. `numbers`, from the weights, are signed only if kSigned: Format::zero_point has then been subtracted. `Wide`:
// `numbers` may have 8 bits. V: the index of the vector in 32 columns. `load_bytes` widens signed bytes with one
// instruction; GCC 12 would generate one instruction per byte.
struct PlainInstructions {
  static constexpr int kLanes = 4;
  static constexpr bool kSigned = false;
  using T = Types<kLanes>;
  template <bool Wide, int>
  static GUIDED_INLINE void add(const T::Word& numbers, const int8_t* x, T::Int& sum) {
    for (int i = 0; i < 4; ++i) {
      const T::Word each = (numbers >> (8 * i)) & 0xFF;
      sum += __builtin_convertvector(each, T::Int) * int32_t{x[i]};
    }
  }
  static GUIDED_INLINE void look_up(T::Word& numbers) {
    uint8_t bytes[4 * kLanes];
    std::memcpy(bytes, &numbers, sizeof bytes);
    for (uint8_t& byte : bytes) byte = kTable[byte];
    std::memcpy(&numbers, bytes, sizeof bytes);
  }
  static GUIDED_INLINE void load_bytes(const uint8_t* from, T::Int& out) {
    for (int i = 0; i < kLanes; ++i) out[i] = static_cast<int8_t>(from[i]);
  }
  static GUIDED_INLINE void load_halves(const uint8_t* from, T::Float& out) {
    uint16_t halves[kLanes];
    std::memcpy(halves, from, sizeof halves);
    float numbers[kLanes];
    for (int i = 0; i < kLanes; ++i) numbers[i] = half_to_float(halves[i]);
    std::memcpy(&out, numbers, sizeof out);
  }
};

#if defined(GUIDED_X86_CLONES)
struct Avx2 {
  static constexpr int kLanes = 8;
  static constexpr bool kSigned = false;
  using T = Types<kLanes>;
  template <bool Wide, int>
  static GUIDED_INLINE void add(const T::Word& numbers, const int8_t* x, T::Int& sum) {
    using Shorts = int16_t __attribute__((vector_size(32)));
    uint32_t four;
    std::memcpy(&four, x, sizeof four);
    const T::Word broadcast = T::Word{} + four;
    const Shorts ones = Shorts{} + 1;
    // vpmaddubsw adds two products in 16 bits. The sum fits if `numbers` have 7 bits, or only the eighth bit.
    const T::Word low = Wide ? numbers & 0x7F7F7F7F : numbers;
    T::Int products;
    asm("vpmaddubsw %2, %1, %0" : "=x"(products) : "x"(low), "x"(broadcast));
    asm("vpmaddwd %2, %1, %0" : "=x"(products) : "x"(products), "x"(ones));
    sum += products;
    if constexpr (Wide) {
      const T::Word high = numbers & 0x80808080;
      asm("vpmaddubsw %2, %1, %0" : "=x"(products) : "x"(high), "x"(broadcast));
      asm("vpmaddwd %2, %1, %0" : "=x"(products) : "x"(products), "x"(ones));
      sum += products;
    }
  }
  static GUIDED_INLINE void look_up(T::Word& numbers) {
    T::Word table;
    std::memcpy(&table, kTable, 16);
    std::memcpy(reinterpret_cast<char*>(&table) + 16, kTable, 16);
    asm("vpshufb %1, %2, %0" : "=x"(numbers) : "x"(numbers), "x"(table));
  }
  static GUIDED_INLINE void load_halves(const uint8_t* from, T::Float& out) {
    T::Half halves;
    std::memcpy(&halves, from, sizeof halves);
    asm("vcvtph2ps %1, %0" : "=x"(out) : "x"(halves));
  }
  static GUIDED_INLINE void load_bytes(const uint8_t* from, T::Int& out) {
    asm("vpmovsxbd %1, %0" : "=x"(out) : "m"(*reinterpret_cast<const uint8_t (*)[kLanes]>(from)));
  }
};

struct AvxVnni : Avx2 {
  template <bool Wide, int>
  static GUIDED_INLINE void add(const T::Word& numbers, const int8_t* x, T::Int& sum) {
    uint32_t four;
    std::memcpy(&four, x, sizeof four);
    const T::Word broadcast = T::Word{} + four;
    T::Int in_register = sum;  // a copy whose address is not taken stays in a register
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(in_register) : "x"(numbers), "x"(broadcast));
    sum = in_register;
  }
};

struct Avx512 {
  static constexpr int kLanes = 16;
  static constexpr bool kSigned = false;
  using T = Types<kLanes>;
  template <bool Wide, int>
  static GUIDED_INLINE void add(const T::Word& numbers, const int8_t* x, T::Int& sum) {
    T::Int in_register = sum;
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(in_register)
        : "v"(numbers), "m"(*reinterpret_cast<const uint32_t (*)[1]>(x)));
    sum = in_register;
  }
  static GUIDED_INLINE void look_up(T::Word& numbers) {
    T::Word table;
    for (int i = 0; i < 4; ++i) std::memcpy(reinterpret_cast<char*>(&table) + 16 * i, kTable, 16);
    asm("vpshufb %1, %2, %0" : "=v"(numbers) : "v"(numbers), "v"(table));
  }
  static GUIDED_INLINE void load_halves(const uint8_t* from, T::Float& out) {
    T::Half halves;
    std::memcpy(&halves, from, sizeof halves);
    asm("vcvtph2ps %1, %0" : "=v"(out) : "v"(halves));
  }
  static GUIDED_INLINE void load_bytes(const uint8_t* from, T::Int& out) {
    asm("vpmovsxbd %1, %0" : "=v"(out) : "m"(*reinterpret_cast<const uint8_t (*)[kLanes]>(from)));
  }
};
#endif

#if defined(GUIDED_NEON)
struct Neon : PlainInstructions {
  static constexpr bool kSigned = true;
  template <bool Wide, int V>
  static GUIDED_INLINE void add(const T::Word& numbers, const int8_t* x, T::Int& sum) {
    T::Word sixteen;  // shared by four vectors, so the compiler loads it once
    std::memcpy(&sixteen, x - 4 * (V % 4), sizeof sixteen);
    T::Int in_register = sum;
    asm("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(in_register) : "w"(numbers), "w"(sixteen), "i"(V % 4));
    sum = in_register;
  }
  static GUIDED_INLINE void look_up(T::Word& numbers) {
    T::Word table;
    std::memcpy(&table, kTable, sizeof table);
    table ^= 0x80808080;  // subtracts 128
    asm("tbl %0.16b, {%2.16b}, %1.16b" : "=w"(numbers) : "w"(numbers), "w"(table));
  }
  static GUIDED_INLINE void load_halves(const uint8_t* from, T::Float& out) {
    T::Half halves;
    std::memcpy(&halves, from, sizeof halves);
    asm("fcvtl %0.4s, %1.4h" : "=w"(out) : "w"(halves));
  }
  static GUIDED_INLINE void load_bytes(const uint8_t* from, T::Int& out) {
    uint32_t four;
    std::memcpy(&four, from, sizeof four);
    out = (T::Int)((T::Word{} + four) << T::Word{24, 16, 8, 0}) >> 24;
  }
};
#endif

// Unpacks vector V of the numbers in 32 columns. `planes`: the planes of these columns, from the first output to
// compute.
template <typename Isa, Format F, int V>
GUIDED_INLINE void unpack_numbers(const uint8_t* planes, typename Isa::T::Word& out) {
  using Word = typename Isa::T::Word;
  constexpr uint32_t kEveryByte = 0x01010101;
  std::memcpy(&out, planes + 64 * (V % F.low_bits), sizeof out);
  if constexpr (F.low_bits < 8) out = (out >> (V / F.low_bits * F.low_bits)) & (((1U << F.low_bits) - 1) * kEveryByte);
  if constexpr (F.high_bits > 0) {
    Word high;
    std::memcpy(&high, planes + 64 * F.low_bits + 64 * (V % F.high_bits), sizeof high);
    constexpr int kShift = V / F.high_bits * F.high_bits - F.low_bits;
    if constexpr (kShift >= 0)
      high >>= kShift;
    else
      high <<= -kShift;
    out |= high & ((((1U << F.high_bits) - 1) << F.low_bits) * kEveryByte);
  }
  if constexpr (F.has_table)
    Isa::look_up(out);
  else if constexpr (Isa::kSigned && F.zero_point > 0)
    out = (Word)((typename Isa::T::Byte)out - static_cast<uint8_t>(F.zero_point));
}

// For each group of columns: the scale, which multiplies the sums of products, and the offset, which multiplies the sum
// of x.
template <typename Isa, Format F>
struct Factors {
  using T = typename Isa::T;
  typename T::Float block_scale, block_offset;
  const uint8_t* small;

  GUIDED_INLINE void load_block(const uint8_t* scales, int64_t first_output) {
    Isa::load_halves(scales + 2 * first_output, block_scale);
    if constexpr (F.scales != Scales::Half && F.scales != Scales::Small)
      Isa::load_halves(scales + 32 + 2 * first_output, block_offset);
    small = scales + (F.scales == Scales::Small ? 32 : 64) + first_output;
  }
  GUIDED_INLINE void load_group(int group, typename T::Float& scale, typename T::Float& offset) const {
    if constexpr (F.scales == Scales::Half || F.scales == Scales::HalfOffset) {
      scale = block_scale;
      if constexpr (F.scales == Scales::HalfOffset) offset = block_offset;
      return;
    }
    typename T::Int integers;
    Isa::load_bytes(small + 16 * group, integers);
    if constexpr (F.scales == Scales::NibblesOffset) {
      offset = -(block_offset * __builtin_convertvector((integers >> 4) & 15, typename T::Float));
      integers &= 15;
    }
    scale = block_scale * __builtin_convertvector(integers, typename T::Float);
    if constexpr (F.scales == Scales::SmallOffset) {
      Isa::load_bytes(small + 16 * (F.groups() + group), integers);
      offset = -(block_offset * __builtin_convertvector(integers, typename T::Float));
    }
  }
};

// Consecutive quantised rows of x.
struct Rows {
  const int8_t* numbers;
  const float* scales;
  const int32_t* sums;
  int64_t ins;
};

// Multiplies vectors `First` to `Last` - 1 of 32 columns by the numbers of `Count` rows of x.
template <typename Isa, Format F, int Count, int First, int Last>
GUIDED_INLINE void add_vectors(const uint8_t* planes, const int8_t* x, int64_t stride, typename Isa::T::Int* sums) {
  if constexpr (First < Last) {
    typename Isa::T::Word numbers;
    unpack_numbers<Isa, F, First>(planes, numbers);
#pragma GCC unroll 16
    for (int m = 0; m < Count; ++m)
      Isa::template add<F.low_bits == 8 || F.has_table, First>(numbers, x + m * stride + 4 * First, sums[m]);
    add_vectors<Isa, F, Count, First + 1, Last>(planes, x, stride, sums);
  }
}

// Adds the products of one group of columns. `Half`: if groups have 16 columns, which half of the 32 columns it is.
template <typename Isa, Format F, int Count, int Half>
GUIDED_INLINE void add_group(const uint8_t* planes, const Factors<Isa, F>& factors, int group, const Rows& x,
                             int64_t column, typename Isa::T::Float* totals) {
  using T = typename Isa::T;
  constexpr int kFirst = 4 * Half, kLast = F.group == 32 ? 8 : kFirst + 4;
  constexpr int kZero = Isa::kSigned ? 0 : F.zero_point;
  constexpr bool kHasOffset = F.scales != Scales::Half && F.scales != Scales::Small;
  typename T::Int sums[Count];
  int32_t x_sums[Count];
#pragma GCC unroll 16
  for (int m = 0; m < Count; ++m) {
    const int32_t* s = x.sums + (m * x.ins + column) / 16;
    x_sums[m] = F.group == 32 ? s[0] + s[1] : s[Half];
    sums[m] = typename T::Int{} - kZero * x_sums[m];
  }
  add_vectors<Isa, F, Count, kFirst, kLast>(planes, x.numbers + column, x.ins, sums);
  typename T::Float scale, offset;
  factors.load_group(group, scale, offset);
#pragma GCC unroll 16
  for (int m = 0; m < Count; ++m) {
    const float x_scale = x.scales[(m * x.ins + column) / 32];
    totals[m] += scale * __builtin_convertvector(sums[m], typename T::Float) * x_scale;
    if constexpr (kHasOffset) totals[m] += offset * (x_scale * static_cast<float>(x_sums[m]));
  }
}

// Prefetches the bytes that lie kPrefetchBytes after those of the columns 32 * `index` to 32 * `index` + 31 of a block.
// The hardware prefetcher stops at the end of a page: without this, Q5_K and Q6_K reach only 60 to 70 percent of the
// memory bandwidth (AMD EPYC 9005).
template <Format F>
GUIDED_INLINE void prefetch(const uint8_t* tile, int index) {
  constexpr int kBytes = F.tile_bytes() / (F.columns / 32);
#pragma GCC unroll 16
  for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(tile + kPrefetchBytes + index * kBytes + line);
}

// Computes outputs `first_output` to `first_output` + kLanes - 1 of a tile for `Count` rows of x.
template <typename Isa, Format F, int Count>
GUIDED_INLINE void multiply_tile(const uint8_t* tile, int64_t first_output, const Rows& x,
                                 typename Isa::T::Float* totals) {
  for (int m = 0; m < Count; ++m) totals[m] = typename Isa::T::Float{};
  for (int64_t column = 0; column < x.ins; tile += F.tile_bytes()) {
    Factors<Isa, F> factors;
    factors.load_block(tile, first_output);
    const uint8_t* planes = tile + F.scale_bytes() + 4 * first_output;
#pragma GCC unroll 1
    for (int c = 0; c < F.columns; c += 32, column += 32, planes += F.plane_bytes()) {
      if constexpr (Count <= kFewRows) prefetch<F>(tile, c / 32);
      add_group<Isa, F, Count, 0>(planes, factors, c / F.group, x, column, totals);
      if constexpr (F.group == 16) add_group<Isa, F, Count, 1>(planes, factors, c / 16 + 1, x, column, totals);
    }
  }
}

template <typename Number>
struct Output {
  const Number* bias;  // for the first output of the tile; null: none
  Number* out;
  int64_t stride, outs;  // outs: the outputs of the tile, up to 16
};

// Computes a tile for `Count` rows of x, from `row` on.
template <typename Isa, Format F, int Count, typename Number>
GUIDED_INLINE void multiply_rows(const uint8_t* tile, const Inputs& in, int64_t ins, int64_t row,
                                 const Output<Number>& output) {
  const Rows x{in.numbers.data() + row * ins, in.scales.data() + row * ins / 32, in.sums.data() + row * ins / 16, ins};
  for (int64_t first_output = 0; first_output < output.outs; first_output += Isa::kLanes) {
    typename Isa::T::Float totals[Count];
    multiply_tile<Isa, F, Count>(tile, first_output, x, totals);
    for (int m = 0; m < Count; ++m)
      for (int64_t n = 0; n < Isa::kLanes && first_output + n < output.outs; ++n) {
        const float total = totals[m][n];
        write(output.bias == nullptr ? total : total + read(output.bias[first_output + n]),
              output.out[(row + m) * output.stride + first_output + n]);
      }
  }
}

template <typename Isa, Format F, int MaxRows, typename Number>
GUIDED_INLINE void multiply_all_rows(const uint8_t* tile, const Inputs& in, int64_t ins, int64_t rows,
                                     const Output<Number>& output) {
  int64_t row = 0;
  for (; row + MaxRows <= rows; row += MaxRows) multiply_rows<Isa, F, MaxRows>(tile, in, ins, row, output);
  if constexpr (MaxRows > 4)
    for (; row + 4 <= rows; row += 4) multiply_rows<Isa, F, 4>(tile, in, ins, row, output);
  for (; row + 2 <= rows; row += 2) multiply_rows<Isa, F, 2>(tile, in, ins, row, output);
  if (row < rows) multiply_rows<Isa, F, 1>(tile, in, ins, row, output);
}

#define GUIDED_TILE(name, level, Isa, MaxRows)                                                                      \
  template <Format F, typename Number>                                                                              \
  level void name(const uint8_t* tile, const Inputs& in, int64_t ins, int64_t rows, const Output<Number>& output) { \
    multiply_all_rows<Isa, F, MaxRows>(tile, in, ins, rows, output);                                                \
  }
GUIDED_TILE(tile_plain, , PlainInstructions, 2)
#if defined(GUIDED_X86_CLONES)
GUIDED_TILE(tile_avx2, GUIDED_V3, Avx2, 4)
GUIDED_TILE(tile_avxvnni, GUIDED_V3, AvxVnni, 4)
GUIDED_TILE(tile_avx512, GUIDED_V4, Avx512, 12)
#elif defined(GUIDED_NEON)
GUIDED_TILE(tile_neon, GUIDED_NEON, Neon, 8)
#endif

enum class Level { Plain, Avx2, AvxVnni, Avx512, Neon };

// For tests, the environment variable GUIDED_CPU (avxvnni, avx2 or plain) selects fewer instructions than the processor
// supports.
Level choose_level() {
  const char* setting = std::getenv("GUIDED_CPU");
  const std::string_view highest = setting == nullptr ? "" : setting;
  if (highest == "plain") return Level::Plain;
#if defined(GUIDED_X86_CLONES)
  if (!__builtin_cpu_supports("x86-64-v3")) return Level::Plain;
  if (highest == "avx2") return Level::Avx2;
  if (highest != "avxvnni" && __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni"))
    return Level::Avx512;
#if __GNUC__ >= 12
  if (__builtin_cpu_supports("avxvnni")) return Level::AvxVnni;
#endif
  return Level::Avx2;
#elif defined(GUIDED_NEON) && defined(__linux__)
  constexpr unsigned long kDotProducts = 1 << 20;  // HWCAP_ASIMDDP, which old C libraries do not define
  return getauxval(AT_HWCAP) & kDotProducts ? Level::Neon : Level::Plain;
#elif defined(GUIDED_NEON)
  return Level::Neon;
#else
  return Level::Plain;
#endif
}

Level level() {
  static const Level chosen = choose_level();
  return chosen;
}

template <Format F, typename Number>
void multiply_one(const uint8_t* tile, const Inputs& in, int64_t ins, int64_t rows, const Output<Number>& output) {
#if defined(GUIDED_X86_CLONES)
  if (level() == Level::Avx512) return tile_avx512<F>(tile, in, ins, rows, output);
  if (level() == Level::AvxVnni) return tile_avxvnni<F>(tile, in, ins, rows, output);
  if (level() == Level::Avx2) return tile_avx2<F>(tile, in, ins, rows, output);
#elif defined(GUIDED_NEON)
  if (level() == Level::Neon) return tile_neon<F>(tile, in, ins, rows, output);
#endif
  tile_plain<F>(tile, in, ins, rows, output);
}

// Quantises 32 adjacent numbers at a time. The greatest magnitude becomes 127; the others are rounded to nearest, ties
// to even. If a number is not finite, the scale becomes NaN, and so do all outputs of the row. If no magnitude exceeds
// kNegligible, all numbers become 0.
template <typename Number>
GUIDED_FOR_EACH_CPU void quantise(const Number* x, int64_t size, int8_t* numbers, float* scales, int32_t* sums) {
  for (int64_t k = 0; k < size; k += kColumns) {
    float values[kColumns], greatest = 0.0F;
    int32_t has_non_finite = 0;
    for (int i = 0; i < kColumns; ++i) {
      values[i] = read(x[k + i]);
      const float magnitude = values[i] < 0 ? -values[i] : values[i];
      greatest = magnitude > greatest ? magnitude : greatest;
      has_non_finite |= magnitude <= std::numeric_limits<float>::max() ? 0 : 1;
    }
    for (int i = 0; i < kColumns; ++i) values[i] = has_non_finite ? 0.0F : values[i];
    const float inverse = greatest > kNegligible ? 127.0F / greatest : 0.0F;
    const float scale = has_non_finite ? std::numeric_limits<float>::quiet_NaN()
                        : inverse > 0  ? greatest / 127.0F
                                       : 0.0F;
    int32_t integers[kColumns];
    for (int i = 0; i < kColumns; ++i) integers[i] = static_cast<int32_t>(std::nearbyint(values[i] * inverse));
    int32_t first = 0, second = 0;
    for (int i = 0; i < 16; ++i) {
      first += integers[i];
      second += integers[16 + i];
    }
    for (int i = 0; i < kColumns; ++i) numbers[k + i] = static_cast<int8_t>(integers[i]);
    scales[k / 32] = scale;
    sums[k / 16] = first;
    sums[k / 16 + 1] = second;
  }
}

}  // namespace

template <typename Number>
void multiply_blocks(const BlockProduct& p, const Number* x, const Number* bias, Number* out, int64_t threads) {
  const int64_t rows_at_once = std::max<int64_t>(12, kCachedInputBytes / std::max<int64_t>(1, p.ins) / 12 * 12);
  thread_local Inputs in;
  for (int64_t row = 0; row < p.rows; row += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, p.rows - row), size = rows * p.ins;
    in.numbers.resize(static_cast<size_t>(size));
    in.scales.resize(static_cast<size_t>(size / 32));
    in.sums.resize(static_cast<size_t>(size / 16));
    quantise(x + row * p.ins, size, in.numbers.data(), in.scales.data(), in.sums.data());
    const Inputs& inputs = in;  // every thread reads the caller's inputs
    int64_t first = 0;
    for (const BlockPart& part : *p.parts) {
      with_format(part.ggml_type, [&]<Format F>() {
        const int64_t tiles = (part.outs + kTileRows - 1) / kTileRows, bytes = p.ins / F.columns * F.tile_bytes();
        share((tiles + kTilesPerTask - 1) / kTilesPerTask, size * part.outs < kFewProducts ? 1 : threads,
              [&](int64_t i) {
                for (int64_t t = i * kTilesPerTask; t < std::min(tiles, (i + 1) * kTilesPerTask); ++t) {
                  const int64_t first_out = first + t * kTileRows;
                  const Output<Number> output{bias == nullptr ? nullptr : bias + first_out,
                                              out + row * p.outs + first_out, p.outs,
                                              std::min(kTileRows, part.outs - t * kTileRows)};
                  multiply_one<F>(part.tiles + t * bytes, inputs, p.ins, rows, output);
                }
              });
      });
      first += part.outs;
    }
  }
}

template void multiply_blocks(const BlockProduct&, const float*, const float*, float*, int64_t);
template void multiply_blocks(const BlockProduct&, const bfloat16*, const bfloat16*, bfloat16*, int64_t);

const char* block_instructions() {
  constexpr const char* kNames[] = {"plain", "avx2", "avxvnni", "avx512", "neon"};
  return kNames[static_cast<int>(level())];
}

}  // namespace guided
