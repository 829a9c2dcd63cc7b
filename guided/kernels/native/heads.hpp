// Reads rows of keys and values, and has other code that both attention kernels share (attend_slots.hpp,
// attend_prompt.hpp).
//
// In: pointers into a cache of float32, bfloat16 or packed 8-bit numbers (rows.hpp). Out: vectors of sixteen float32
// numbers, the scale of a row, and the exponentials of scores. Cost: a head's numbers are loaded once; 8-bit numbers
// take two shifts and a conversion for each vector.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "attend_slots.hpp"
#include "vectors.hpp"

namespace guided {

// Loads sixteen numbers of a row. In a row of bytes, they are the bytes with the same position in sixteen 32-bit words,
// so two shifts extract them without a shuffle.
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

// The index of number d of a head in the order in which `load_chunk` reads the numbers.
template <typename Stored, int Chunks>
GUIDED_INLINE int64_t lane_of(int64_t d) {
  static_assert(std::endian::native == std::endian::little);
  return Chunks > 0 && std::is_same_v<Stored, int8_t> ? d / 64 * 64 + d % 4 * 16 + d % 64 / 4 : d;
}

// Loads sixteen numbers of a head of any size in order, with zeros after its end.
template <typename Stored>
GUIDED_INLINE void load_padded_chunk(const Stored* row, int64_t chunk, int64_t size, Vector& out) {
  const int64_t remaining = size - 16 * chunk;
  Stored numbers[16] = {};
  std::memcpy(numbers, row + 16 * chunk, static_cast<size_t>(remaining < 16 ? remaining : 16) * sizeof(Stored));
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

// kTail: the number of elements after a row that hold its scale. scale_of: this scale, or 1 if there is none.
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
struct KvHead {
  const Stored *keys, *values;
  int64_t row_elements;  // elements between two slots
  const Sequence& sequence;

  GUIDED_INLINE KvHead(const Sequence& kv_sequence, const Heads& shape, int64_t layer, int64_t head)
      : row_elements(shape.kv_heads * (shape.head_dim + kTail<Stored>)), sequence(kv_sequence) {
    const int64_t first = layer * kv_sequence.layer_stride + head * (shape.head_dim + kTail<Stored>);
    keys = static_cast<const Stored*>(kv_sequence.keys) + first;
    values = static_cast<const Stored*>(kv_sequence.values) + first;
  }
  GUIDED_INLINE int64_t offset(int64_t position) const {
    return (sequence.slots == nullptr ? sequence.start + position : sequence.slots[position]) * row_elements;
  }
};

struct alignas(64) Line {  // a cache line
  float numbers[16];
};

// Caps the scores (see `Kind`), subtracts their maximum, and replaces them with exponentials. Returns the sum of the
// exponentials.
float softmax(float* scores, int64_t count, float softcap);

}  // namespace guided
