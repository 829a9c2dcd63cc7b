// ggml's quantised formats, and the layout of their blocks in memory for the kernel (block_product.hpp).
//
// A weight is (number - zero_point) * scale + offset. `number` has 2 to 8 bits, or is an index into a table of numbers.
// 16 or 32 adjacent weights share a scale, and in some formats an offset. In K formats, a scale is a small integer
// times the scale of the block.
//
// Layout: a tile is 16 rows of the matrix. For each block of 32 or 256 columns, it has the scales of the 16 rows side
// by side, then the numbers as planes of 8, 4, 2 or 1 bits. 32 columns are eight vectors of 64 bytes: vector v has
// columns 4 v to 4 v + 3 of row 0, then of row 1, and so on. A plane of b bits takes 64 b bytes. Line w of a plane has,
// from the low bits up, vectors w, w + b, w + 2 b and so on. So tiles take as many bytes as the file, except that 6-bit
// scales (Q3_K to Q5_K, IQ4_XS) become 8 bits: 2 to 4 percent more.
//
// Source: the structs in https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h.
#pragma once

#include <cstdint>

namespace guided {

constexpr int64_t kTileRows = 16, kColumns = 32;  // kColumns: columns that share a scale of the activations

enum class Scales : uint8_t {
  Half,           // a float16
  HalfOffset,     // a float16, and another float16 as offset
  Small,          // the block's float16 times the group's int8
  SmallOffset,    // like Small; the offset is another float16 times the group's uint8, negated
  NibblesOffset,  // like SmallOffset, with 4 bits instead of 8
};

struct Format {
  int32_t type;        // the number of the format in ggml
  int32_t columns;     // per block: 32 or 256
  int32_t bytes;       // per block in the file
  int32_t group;       // columns per scale: 16 or 32
  int32_t low_bits;    // bits of a number in the lower plane
  int32_t high_bits;   // bits of a number in the upper plane; 0: none
  int32_t zero_point;  // the number that represents 0
  Scales scales;
  bool has_table = false;  // whether numbers are indices into kTable

  constexpr bool operator==(const Format&) const = default;
  constexpr int32_t groups() const { return columns / group; }
  // Per block of a tile.
  constexpr int32_t scale_bytes() const {
    switch (scales) {
      case Scales::Half:
        return 32;
      case Scales::HalfOffset:
        return 64;
      case Scales::Small:
        return 32 + 16 * groups();
      case Scales::SmallOffset:
        return 64 + 32 * groups();
      default:
        return 64 + 16 * groups();
    }
  }
  constexpr int32_t plane_bytes() const { return 64 * (low_bits + high_bits); }  // of 32 columns
  constexpr int32_t tile_bytes() const { return scale_bytes() + columns / 32 * plane_bytes(); }
};

constexpr Format kQ4_0{2, 32, 18, 32, 4, 0, 8, Scales::Half};
constexpr Format kQ4_1{3, 32, 20, 32, 4, 0, 0, Scales::HalfOffset};
constexpr Format kQ5_0{6, 32, 22, 32, 4, 1, 16, Scales::Half};
constexpr Format kQ5_1{7, 32, 24, 32, 4, 1, 0, Scales::HalfOffset};
constexpr Format kQ8_0{8, 32, 34, 32, 8, 0, 128, Scales::Half};
constexpr Format kQ2_K{10, 256, 84, 16, 2, 0, 0, Scales::NibblesOffset};
constexpr Format kQ3_K{11, 256, 110, 16, 2, 1, 4, Scales::Small};
constexpr Format kQ4_K{12, 256, 144, 32, 4, 0, 0, Scales::SmallOffset};
constexpr Format kQ5_K{13, 256, 176, 32, 4, 1, 0, Scales::SmallOffset};
constexpr Format kQ6_K{14, 256, 210, 16, 4, 2, 32, Scales::Small};
constexpr Format kIQ4_NL{20, 32, 18, 32, 4, 0, 128, Scales::Half, true};
constexpr Format kIQ4_XS{23, 256, 136, 32, 4, 0, 128, Scales::Small, true};

// The numbers of IQ4_NL and IQ4_XS, each with 128 added.
alignas(16) constexpr uint8_t kTable[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

template <Format... formats, typename Work>
bool with_one_of(int32_t ggml_type, const Work& work) {
  return ((formats.type == ggml_type && (work.template operator()<formats>(), true)) || ...);
}

// Calls work.template operator()<format>() for a ggml type. Returns false if the type is not in this list.
template <typename Work>
bool with_format(int32_t ggml_type, const Work& work) {
  return with_one_of<kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_NL, kIQ4_XS>(ggml_type,
                                                                                                             work);
}

}  // namespace guided
