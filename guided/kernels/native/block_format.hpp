// ggml's quantised formats, and the layout of their blocks in memory for the kernel (block_product.hpp).
//
// A weight is (number - zero) * scale + rest. `number` has 2 to 8 bits, or is an index into a table of numbers. 16 or
// 32 neighbours share a scale, and in some formats a rest. In K formats, a scale is a small integer times the scale of
// the block.
//
// Layout: a tile is 16 rows of the matrix. For each block of 32 or 256 columns, it has the scales of the 16 rows side
// by side, then the numbers, as planes of 8, 4, 2 or 1 bits. 32 columns are eight vectors of 64 bytes: vector v has
// columns 4 v to 4 v + 3 of row 0, then of row 1, and so on. A plane of b bits takes 64 b bytes. Its line w has, from
// the low bits up, vectors w, w + b, w + 2 b and so on. So tiles take as many bytes as the file, except that scales of
// 6 bits (Q3_K to Q5_K, IQ4_XS) become 8 bits: 2 to 4 percent more.
//
// Source: the structs in https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h.
#pragma once

#include <cstdint>

namespace guided {

constexpr int64_t kTileRows = 16, kColumns = 32;  // kColumns: columns that share a scale of the activations

enum class Scales : uint8_t {
  Half,         // a float16
  HalfRest,     // a float16, and the rest, another float16
  Small,        // a float16 of the block times an int8 of the group
  SmallRest,    // the same, minus another float16 of the block times a uint8 of the group
  NibblesRest,  // the same, with 4 bits instead of 8
};

struct Format {
  int32_t type;     // its number in ggml
  int32_t columns;  // of a block: 32 or 256
  int32_t bytes;    // of a block in the file
  int32_t group;    // columns of one scale: 16 or 32
  int32_t low;      // bits of a number's lower plane
  int32_t high;     // bits of its upper plane; 0: none
  int32_t zero;     // the number that represents 0
  Scales scales;
  bool table = false;  // numbers are looked up in kTable

  constexpr bool operator==(const Format&) const = default;
  constexpr int32_t groups() const { return columns / group; }
  // Of a block of a tile.
  constexpr int32_t scale_bytes() const {
    switch (scales) {
      case Scales::Half:
        return 32;
      case Scales::HalfRest:
        return 64;
      case Scales::Small:
        return 32 + 16 * groups();
      case Scales::SmallRest:
        return 64 + 32 * groups();
      default:
        return 64 + 16 * groups();
    }
  }
  constexpr int32_t plane_bytes() const { return 64 * (low + high); }  // of 32 columns
  constexpr int32_t tile_bytes() const { return scale_bytes() + columns / 32 * plane_bytes(); }
};

constexpr Format kQ4_0{2, 32, 18, 32, 4, 0, 8, Scales::Half};
constexpr Format kQ4_1{3, 32, 20, 32, 4, 0, 0, Scales::HalfRest};
constexpr Format kQ5_0{6, 32, 22, 32, 4, 1, 16, Scales::Half};
constexpr Format kQ5_1{7, 32, 24, 32, 4, 1, 0, Scales::HalfRest};
constexpr Format kQ8_0{8, 32, 34, 32, 8, 0, 128, Scales::Half};
constexpr Format kQ2_K{10, 256, 84, 16, 2, 0, 0, Scales::NibblesRest};
constexpr Format kQ3_K{11, 256, 110, 16, 2, 1, 4, Scales::Small};
constexpr Format kQ4_K{12, 256, 144, 32, 4, 0, 0, Scales::SmallRest};
constexpr Format kQ5_K{13, 256, 176, 32, 4, 1, 0, Scales::SmallRest};
constexpr Format kQ6_K{14, 256, 210, 16, 4, 2, 32, Scales::Small};
constexpr Format kIQ4_NL{20, 32, 18, 32, 4, 0, 128, Scales::Half, true};
constexpr Format kIQ4_XS{23, 256, 136, 32, 4, 0, 128, Scales::Small, true};

// The numbers of IQ4_NL and IQ4_XS, each with 128 added.
alignas(16) constexpr uint8_t kTable[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

template <Format... formats, typename Work>
bool with_one_of(int32_t ggml_type, const Work& work) {
  return ((formats.type == ggml_type && (work.template operator()<formats>(), true)) || ...);
}

// Calls work.template operator()<format>() for a ggml type. Returns false if it is none of these.
template <typename Work>
bool with_format(int32_t ggml_type, const Work& work) {
  return with_one_of<kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_NL, kIQ4_XS>(ggml_type,
                                                                                                             work);
}

}  // namespace guided
