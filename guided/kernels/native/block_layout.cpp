#include "block_layout.hpp"

#include <algorithm>
#include <cstring>

#include "block_format.hpp"
#include "numbers.hpp"
#include "team.hpp"

namespace guided {
namespace {

// A block of one row in a form that does not depend on its format.
struct PlainBlock {
  uint8_t numbers[256];
  uint16_t scale = 0, offset = 0;  // float16
  uint8_t scales[16] = {}, offsets[16] = {};
};

uint16_t read_half(const uint8_t* from) {
  uint16_t out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

void unpack_nibbles(const uint8_t* from, int count, uint8_t* out) {  // the low nibbles, then the high ones
  for (int i = 0; i < count; ++i) {
    out[i] = from[i] & 15;
    out[count + i] = from[i] >> 4;
  }
}

// Fields: scale, in some formats an offset, in some 32 fifth bits, 16 bytes of nibbles (Q8_0: 32 bytes of numbers).
template <Format F>
void read_small(const uint8_t* block, PlainBlock& out) {
  out.scale = read_half(block);
  block += 2;
  if (F.scales == Scales::HalfOffset) {
    out.offset = read_half(block);
    block += 2;
  }
  if (F.low_bits == 8) {
    for (int i = 0; i < 32; ++i) out.numbers[i] = block[i] ^ 0x80;
    return;
  }
  uint32_t fifth_bits = 0;
  if (F.high_bits) {
    std::memcpy(&fifth_bits, block, sizeof fifth_bits);
    block += 4;
  }
  unpack_nibbles(block, 16, out.numbers);
  for (int i = 0; F.high_bits && i < 32; ++i) out.numbers[i] |= static_cast<uint8_t>((fifth_bits >> i & 1) << 4);
}

// Unpacks 2-bit numbers: 32 bytes hold four runs of 32 numbers, the lowest bits first.
void unpack_pairs(const uint8_t* from, uint8_t* out) {
  for (int half = 0; half < 2; ++half)
    for (int run = 0; run < 4; ++run)
      for (int i = 0; i < 32; ++i) out[128 * half + 32 * run + i] = from[32 * half + i] >> (2 * run) & 3;
}

// Fields: 16 scales and offsets of 4 bits, 64 bytes of numbers, scale, offset.
void read_q2_k(const uint8_t* block, PlainBlock& out) {
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = block[g] & 15;
    out.offsets[g] = block[g] >> 4;
  }
  unpack_pairs(block + 16, out.numbers);
  out.scale = read_half(block + 80);
  out.offset = read_half(block + 82);
}

// Fields: 32 bytes of third bits, 64 of two low bits, 12 of scales (four low bits, then two high), scale.
void read_q3_k(const uint8_t* block, PlainBlock& out) {
  unpack_pairs(block + 32, out.numbers);
  for (int run = 0; run < 8; ++run)
    for (int i = 0; i < 32; ++i) out.numbers[32 * run + i] |= static_cast<uint8_t>((block[i] >> run & 1) << 2);
  const uint8_t* scales = block + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    out.scales[g] = static_cast<uint8_t>((low | (scales[8 + g % 4] >> (2 * (g / 4)) & 3) << 4) - 32);
  }
  out.scale = read_half(block + 108);
}

// Fields: scale, offset, 12 bytes of scales and offsets, in Q5_K 32 bytes of fifth bits, 128 bytes of four low bits.
// Bytes 0 to 3 of the 12 hold scales 0 to 3 and, above these, the two high bits of scales 4 to 7. Bytes 4 to 7 hold the
// offsets in the same way. Bytes 8 to 11 hold the low four bits of scales 4 to 7 in their low nibbles, and those of
// offsets 4 to 7 in their high nibbles.
template <Format F>
void read_q45_k(const uint8_t* block, PlainBlock& out) {
  out.scale = read_half(block);
  out.offset = read_half(block + 2);
  const uint8_t* small = block + 4;
  for (int g = 0; g < 4; ++g) {
    out.scales[g] = small[g] & 63;
    out.offsets[g] = small[4 + g] & 63;
    out.scales[4 + g] = static_cast<uint8_t>((small[8 + g] & 15) | (small[g] >> 6) << 4);
    out.offsets[4 + g] = static_cast<uint8_t>(small[8 + g] >> 4 | (small[4 + g] >> 6) << 4);
  }
  const uint8_t* numbers = block + (F.high_bits ? 48 : 16);
  for (int pair = 0; pair < 4; ++pair) unpack_nibbles(numbers + 32 * pair, 32, out.numbers + 64 * pair);
  for (int run = 0; F.high_bits && run < 8; ++run)
    for (int i = 0; i < 32; ++i) out.numbers[32 * run + i] |= static_cast<uint8_t>((block[16 + i] >> run & 1) << 4);
}

// Fields: 128 bytes of four low bits, 64 of two high bits, 16 scales, scale.
void read_q6_k(const uint8_t* block, PlainBlock& out) {
  uint8_t high[256];
  unpack_pairs(block + 128, high);
  for (int half = 0; half < 2; ++half) unpack_nibbles(block + 64 * half, 64, out.numbers + 128 * half);
  for (int i = 0; i < 256; ++i) out.numbers[i] |= static_cast<uint8_t>(high[i] << 4);
  std::memcpy(out.scales, block + 192, 16);
  out.scale = read_half(block + 208);
}

// Fields: scale, 16 bits and 4 bytes of scales (two high bits, four low bits), 128 bytes of numbers.
void read_iq4_xs(const uint8_t* block, PlainBlock& out) {
  out.scale = read_half(block);
  const int high = read_half(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = block[4 + g / 2] >> (4 * (g % 2)) & 15;
    out.scales[g] = static_cast<uint8_t>((low | (high >> (2 * g) & 3) << 4) - 32);
    unpack_nibbles(block + 8 + 16 * g, 16, out.numbers + 32 * g);
  }
}

template <Format F>
void read_block(const uint8_t* block, PlainBlock& out) {
  if constexpr (F == kQ2_K)
    read_q2_k(block, out);
  else if constexpr (F == kQ3_K)
    read_q3_k(block, out);
  else if constexpr (F == kQ4_K || F == kQ5_K)
    read_q45_k<F>(block, out);
  else if constexpr (F == kQ6_K)
    read_q6_k(block, out);
  else if constexpr (F == kIQ4_XS)
    read_iq4_xs(block, out);
  else
    read_small<F>(block, out);
}

// Writes one row of a plane of `Bits` bits for 32 columns: the bits of `numbers` from bit `shift` on. It handles four
// bytes at a time, since the masked bits never cross a byte.
template <int Bits>
void write_plane(const uint8_t* numbers, int shift, int row, uint8_t* plane) {
  constexpr uint32_t mask = ((1U << Bits) - 1) * 0x01010101U;
  for (int line = 0; line < Bits; ++line) {
    uint32_t out = 0;
    for (int k = 0; k < 8 / Bits; ++k) {
      uint32_t four;
      std::memcpy(&four, numbers + 4 * (line + Bits * k), sizeof four);
      out |= (four >> shift & mask) << (Bits * k);
    }
    std::memcpy(plane + 64 * line + 4 * row, &out, sizeof out);
  }
}
template <int Bits>
void read_plane(const uint8_t* plane, int shift, int row, uint8_t* numbers) {
  constexpr uint32_t mask = ((1U << Bits) - 1) * 0x01010101U;
  for (int v = 0; v < 8; ++v) {
    uint32_t four, out;
    std::memcpy(&four, plane + 64 * (v % Bits) + 4 * row, sizeof four);
    std::memcpy(&out, numbers + 4 * v, sizeof out);
    out |= (four >> (Bits * (v / Bits)) & mask) << shift;
    std::memcpy(numbers + 4 * v, &out, sizeof out);
  }
}

template <Format F>
void write_scales(const PlainBlock& from, int row, uint8_t* out) {
  std::memcpy(out + 2 * row, &from.scale, 2);
  if (F.scales == Scales::Half) return;
  if (F.scales != Scales::Small) std::memcpy(out + 32 + 2 * row, &from.offset, 2);
  if (F.scales == Scales::HalfOffset) return;
  uint8_t* small = out + (F.scales == Scales::Small ? 32 : 64);
  for (int g = 0; g < F.groups(); ++g) {
    if (F.scales == Scales::NibblesOffset) {
      small[16 * g + row] = static_cast<uint8_t>(from.scales[g] | from.offsets[g] << 4);
    } else {
      small[16 * g + row] = from.scales[g];
      if (F.scales == Scales::SmallOffset) small[16 * (F.groups() + g) + row] = from.offsets[g];
    }
  }
}

template <Format F>
void arrange_tile(const Arrangement& a, int64_t tile) {
  const int64_t blocks = a.columns / F.columns;
  uint8_t* out = a.out + tile * blocks * F.tile_bytes();
  const int64_t first = tile * kTileRows, rows = std::min(kTileRows, a.count - first);
  std::memset(out, 0, static_cast<size_t>(blocks * F.tile_bytes()));
  for (int64_t b = 0; b < blocks; ++b, out += F.tile_bytes())
    for (int row = 0; row < rows; ++row) {
      const int64_t source_row = a.order == nullptr ? first + row : a.order[first + row];
      PlainBlock plain;
      read_block<F>(a.rows + (source_row * blocks + b) * F.bytes, plain);
      write_scales<F>(plain, row, out);
      uint8_t* planes = out + F.scale_bytes();
      for (int c = 0; c < F.columns; c += 32, planes += F.plane_bytes()) {
        write_plane<F.low_bits>(plain.numbers + c, 0, row, planes);
        if constexpr (F.high_bits > 0)
          write_plane<F.high_bits>(plain.numbers + c, F.low_bits, row, planes + 64 * F.low_bits);
      }
    }
}

// The scale and offset of a row's group, computed as in block_product.cpp.
template <Format F>
std::pair<float, float> compute_factors(const uint8_t* scales, int row, int group) {
  const float scale = half_to_float(read_half(scales + 2 * row));
  if (F.scales == Scales::Half) return {scale, 0.0F};
  const float offset = F.scales == Scales::Small ? 0.0F : half_to_float(read_half(scales + 32 + 2 * row));
  if (F.scales == Scales::HalfOffset) return {scale, offset};
  const uint8_t* small = scales + (F.scales == Scales::Small ? 32 : 64);
  const uint8_t packed = small[16 * group + row];
  if (F.scales == Scales::Small) return {scale * static_cast<float>(static_cast<int8_t>(packed)), 0.0F};
  if (F.scales == Scales::NibblesOffset)
    return {scale * static_cast<float>(packed & 15), -offset * static_cast<float>(packed >> 4)};
  return {scale * static_cast<float>(packed), -offset * static_cast<float>(small[16 * (F.groups() + group) + row])};
}

template <Format F>
void read_row_values(const uint8_t* tiles, int64_t columns, int64_t row, float* out) {
  const int64_t blocks = columns / F.columns;
  const uint8_t* tile_block = tiles + row / kTileRows * blocks * F.tile_bytes();
  const auto lane = static_cast<int>(row % kTileRows);
  for (int64_t b = 0; b < blocks; ++b, tile_block += F.tile_bytes())
    for (int c = 0; c < F.columns; c += 32) {
      uint8_t numbers[32] = {};
      const uint8_t* planes = tile_block + F.scale_bytes() + c / 32 * F.plane_bytes();
      read_plane<F.low_bits>(planes, 0, lane, numbers);
      if constexpr (F.high_bits > 0) read_plane<F.high_bits>(planes + 64 * F.low_bits, F.low_bits, lane, numbers);
      for (int i = 0; i < 32; ++i) {
        const auto [scale, offset] = compute_factors<F>(tile_block, lane, (c + i) / F.group);
        const int number = F.has_table ? kTable[numbers[i]] : numbers[i];
        *out++ = static_cast<float>(number - F.zero_point) * scale + offset;
      }
    }
}

}  // namespace

int64_t count_tile_bytes(int32_t ggml_type, int64_t count, int64_t columns) {
  int64_t out = -1;
  with_format(ggml_type, [&]<Format F>() {
    if (columns % F.columns == 0) out = (count + kTileRows - 1) / kTileRows * (columns / F.columns) * F.tile_bytes();
  });
  return out;
}

void arrange(const Arrangement& arrangement, int64_t threads) {
  with_format(arrangement.ggml_type, [&]<Format F>() {
    const int64_t tiles = (arrangement.count + kTileRows - 1) / kTileRows;
    share(tiles, threads, [&](int64_t tile) { arrange_tile<F>(arrangement, tile); });
  });
}

void read_row(const uint8_t* tiles, int32_t ggml_type, int64_t columns, int64_t row, float* out) {
  with_format(ggml_type, [&]<Format F>() { read_row_values<F>(tiles, columns, row, out); });
}

}  // namespace guided
