// How rows of keys and values are read, and other code that both forms of attention share (attend_slots.hpp,
// attend_prompt.hpp).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "attend_slots.hpp"
#include "vectors.hpp"

namespace guided {

// Loads sixteen numbers of a row. In a row of bytes, these have the same position in sixteen 32-bit words: two shifts
// extract them, without a shuffle.
template <typename Stored>
GUIDED_INLINE void load_chunk(const Stored* row, int chunk, Vector& out) {
  if constexpr (std::is_same_v<Stored, int8_t>) {
    Integers words;
    std::memcpy(&words, row + chunk / 4 * 64, sizeof words);
    out = __builtin_convertvector((words << (24 - chunk % 4 * 8)) >> 24, Vector);
  } else {
    load(row + 16 * chunk, out);
  }
}

// The position of number d of some heads after `load_chunk` has read them.
template <typename Stored, int Chunks>
GUIDED_INLINE int64_t lane_of(int64_t d) {
  static_assert(std::endian::native == std::endian::little);
  return Chunks > 0 && std::is_same_v<Stored, int8_t> ? d / 64 * 64 + d % 4 * 16 + d % 64 / 4 : d;
}

// Loads sixteen numbers of a head of any size in order, with zeros after its end.
template <typename Stored>
GUIDED_INLINE void load_some(const Stored* row, int64_t chunk, int64_t size, Vector& out) {
  const int64_t left = size - 16 * chunk;
  Stored numbers[16] = {};
  std::memcpy(numbers, row + 16 * chunk, static_cast<size_t>(left < 16 ? left : 16) * sizeof(Stored));
  if constexpr (std::is_same_v<Stored, int8_t>) {
    using Bytes = int8_t __attribute__((vector_size(16)));
    Bytes bytes;
    std::memcpy(&bytes, numbers, sizeof bytes);
    out = __builtin_convertvector(bytes, Vector);
  } else {
    load(numbers, out);
  }
}

GUIDED_INLINE int64_t chunks_of(int64_t size) { return (size + 15) / 16; }

// kTail: how many elements after a row of numbers hold its scale. scale_of: this scale, or 1.
template <typename Stored>
constexpr int64_t kTail = std::is_same_v<Stored, int8_t> ? sizeof(float) : 0;

template <typename Stored>
GUIDED_INLINE float scale_of(const Stored* row, int64_t size) {
  float scale = 1;
  if constexpr (kTail<Stored> > 0) std::memcpy(&scale, row + size, sizeof scale);
  return scale;
}

// The keys and values of a sequence for one KV head.
template <typename Stored>
struct Past {
  const Stored *keys, *values;
  int64_t row;  // elements between two slots
  const Sequence& sequence;

  GUIDED_INLINE Past(const Sequence& of, const Heads& shape, int64_t layer, int64_t head)
      : row(shape.kv_heads * (shape.head_dim + kTail<Stored>)), sequence(of) {
    const int64_t first = layer * of.layer_stride + head * (shape.head_dim + kTail<Stored>);
    keys = static_cast<const Stored*>(of.keys) + first;
    values = static_cast<const Stored*>(of.values) + first;
  }
  GUIDED_INLINE int64_t offset(int64_t at) const {
    return (sequence.slots == nullptr ? sequence.start + at : sequence.slots[at]) * row;
  }
};

struct alignas(64) Line {  // a cache line
  float numbers[16];
};

// Caps the scores (`Kind`), subtracts their maximum, and replaces them by exponentials. Returns the sum of these.
float softmax(float* scores, int64_t count, float softcap);

}  // namespace guided
