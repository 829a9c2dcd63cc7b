#include "attend_slots.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

namespace guided {
namespace {

constexpr int64_t kAhead = 16, kLine = 64;  // rows that are fetched ahead; bytes of a cache line

// Sixteen numbers at once; the compiler splits them where registers are smaller. Passed by reference: by value their
// place would differ between instruction sets.
using Vector = float __attribute__((vector_size(64)));
using Words = uint32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));
using Integers = int32_t __attribute__((vector_size(64)));

GUIDED_INLINE void load(const float* from, Vector& out) { std::memcpy(&out, from, sizeof out); }
GUIDED_INLINE void load(const bfloat16* from, Vector& out) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words) << 16;
  std::memcpy(&out, &words, sizeof out);
}

// Sixteen numbers of a row. Of bytes, those at one place of each of sixteen words: two shifts, and no shuffle.
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

// Where number d of some heads is, once they are read by chunks.
template <typename Stored, int Chunks>
GUIDED_INLINE int64_t lane_of(int64_t d) {
  static_assert(std::endian::native == std::endian::little);
  return Chunks > 0 && std::is_same_v<Stored, int8_t> ? d / 64 * 64 + d % 4 * 16 + d % 64 / 4 : d;
}

// What a row of numbers is multiplied by, and how many elements behind the numbers say so.
template <typename Stored>
constexpr int64_t kTail = std::is_same_v<Stored, int8_t> ? sizeof(float) : 0;

template <typename Stored>
GUIDED_INLINE float scale_of(const Stored* row, int64_t size) {
  float scale = 1;
  if constexpr (kTail<Stored> > 0) std::memcpy(&scale, row + size, sizeof scale);
  return scale;
}

GUIDED_INLINE float sum_of(const Vector& v) {
  using Half = float __attribute__((vector_size(32)));
  using Quarter = float __attribute__((vector_size(16)));
  Half halves[2];
  std::memcpy(halves, &v, sizeof v);
  const Half half = halves[0] + halves[1];
  Quarter quarters[2];
  std::memcpy(quarters, &half, sizeof half);
  const Quarter quarter = quarters[0] + quarters[1];
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

// `Queries` heads of `16 * Chunks` numbers, which read the same row of keys or values; numbers are where `lane_of` says.
template <typename Stored, int Chunks, int Queries>
struct Heads16 {
  static constexpr int64_t kSize = 16 * Chunks;

  template <typename Row>
  static GUIDED_INLINE void score(const float* queries, int64_t seen, float* scores, const Row& row_at) {
    Vector query[Queries][Chunks];
    for (int g = 0; g < Queries; ++g)
      for (int c = 0; c < Chunks; ++c) load(queries + g * kSize + 16 * c, query[g][c]);
    for (int64_t at = 0; at < seen; ++at) {
      const Stored* row = row_at(at);
      Vector sums[Queries] = {};
      for (int c = 0; c < Chunks; ++c) {
        Vector key;
        load_chunk(row, c, key);
        for (int g = 0; g < Queries; ++g) sums[g] += query[g][c] * key;
      }
      const float scale = scale_of(row, kSize);
      for (int g = 0; g < Queries; ++g) scores[g * seen + at] = sum_of(sums[g]) * scale;
    }
  }

  template <typename Row>
  static GUIDED_INLINE void add(const float* weights, int64_t seen, float* out, const Row& row_at) {
    Vector sums[Queries][Chunks] = {};
    for (int64_t at = 0; at < seen; ++at) {
      const Stored* row = row_at(at);
      const float scale = scale_of(row, kSize);
      float shares[Queries];
      for (int g = 0; g < Queries; ++g) shares[g] = weights[g * seen + at] * scale;
      for (int c = 0; c < Chunks; ++c) {
        Vector value;
        load_chunk(row, c, value);
        for (int g = 0; g < Queries; ++g) sums[g][c] += shares[g] * value;
      }
    }
    std::memcpy(out, sums, sizeof sums);
  }
};

// The same for heads of any size, one at a time.
template <typename Stored>
struct HeadOfAnySize {
  template <typename Row>
  static GUIDED_INLINE void score(const float* query, int64_t size, int64_t seen, float* scores, const Row& row_at) {
    for (int64_t at = 0; at < seen; ++at) {
      const Stored* row = row_at(at);
      float sum = 0;
      for (int64_t d = 0; d < size; ++d) sum += query[d] * read(row[d]);
      scores[at] = sum * scale_of(row, size);
    }
  }

  template <typename Row>
  static GUIDED_INLINE void add(const float* weights, int64_t size, int64_t seen, float* out, const Row& row_at) {
    std::fill(out, out + size, 0.0F);
    for (int64_t at = 0; at < seen; ++at) {
      const Stored* row = row_at(at);
      const float share = weights[at] * scale_of(row, size);
      for (int64_t d = 0; d < size; ++d) out[d] += share * read(row[d]);
    }
  }
};

// Exponentials of what each score is below the greatest; returns their sum.
GUIDED_INLINE float softmax(float* scores, int64_t count) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, scores[0]);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = std::max(lanes[lane], scores[i + lane]);
  for (; i < count; ++i) lanes[0] = std::max(lanes[0], scores[i]);
  const float top = *std::max_element(lanes, lanes + kLanes);
  for (i = 0; i < count; ++i) scores[i] = exponential(scores[i] - top);
  std::fill(lanes, lanes + kLanes, 0.0F);
  i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += scores[i + lane];
  for (; i < count; ++i) lanes[i % kLanes] += scores[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

struct Scratch {
  std::vector<float> scores, queries, sums;

  void make_room(int64_t heads, int64_t size, int64_t seen) {
    scores.resize(static_cast<size_t>(heads * seen));
    queries.resize(static_cast<size_t>(heads * size));
    sums.resize(static_cast<size_t>(heads * size));
  }
};

// `Queries` heads of one position, from `query` to `out`; Chunks 0: heads of any size, one at a time.
template <typename Number, typename Stored, int Chunks, int Queries, typename Key, typename Value>
GUIDED_INLINE void read_past(const Number* query, Number* out, int64_t size, int64_t seen, const Key& key,
                             const Value& value, Scratch& scratch) {
  scratch.make_room(Queries, size, seen);
  float *queries = scratch.queries.data(), *scores = scratch.scores.data(), *sums = scratch.sums.data();
  const float scale = 1.0F / std::sqrt(static_cast<float>(size));
  for (int64_t d = 0; d < Queries * size; ++d) queries[lane_of<Stored, Chunks>(d)] = read(query[d]) * scale;
  if constexpr (Chunks > 0)
    Heads16<Stored, Chunks, Queries>::score(queries, seen, scores, key);
  else
    HeadOfAnySize<Stored>::score(queries, size, seen, scores, key);
  float totals[Queries];
  for (int g = 0; g < Queries; ++g) totals[g] = softmax(scores + g * seen, seen);
  if constexpr (Chunks > 0)
    Heads16<Stored, Chunks, Queries>::add(scores, seen, sums, value);
  else
    HeadOfAnySize<Stored>::add(scores, size, seen, sums, value);
  for (int g = 0; g < Queries; ++g)
    for (int64_t d = 0; d < size; ++d)
      write(sums[g * size + lane_of<Stored, Chunks>(d)] / totals[g], out[g * size + d]);
}

template <typename Number, typename Stored, int Chunks>
GUIDED_INLINE void attend(const Place& place, const Heads& shape, int64_t layer, const Number* q, int64_t q_stride,
                          Number* out, Scratch& scratch) {
  const int64_t size = Chunks > 0 ? 16 * Chunks : shape.head_dim, width = size + kTail<Stored>;
  const int64_t group = shape.heads / shape.kv_heads, row = shape.kv_heads * width;
  const Stored* keys = static_cast<const Stored*>(place.keys) + layer * place.layer_stride;
  const Stored* values = static_cast<const Stored*>(place.values) + layer * place.layer_stride;
  const auto slot = [&](int64_t at) { return place.slots == nullptr ? place.start + at : place.slots[at]; };
  const auto row_of = [&](const Stored* base, int64_t at) {
    const Stored* ahead = base + slot(std::min(at + kAhead, place.total - 1)) * row;
    for (int64_t d = 0; d < width; d += kLine / static_cast<int64_t>(sizeof(Stored))) __builtin_prefetch(ahead + d);
    return base + slot(at) * row;
  };
  for (int64_t i = 0; i < place.count; ++i) {
    const int64_t seen = place.total - place.count + i + 1;
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      const auto key = [&](int64_t at) { return row_of(keys + h * width, at); };
      const auto value = [&](int64_t at) { return row_of(values + h * width, at); };
      const Number* query = q + (place.first + i) * q_stride + h * group * size;
      Number* result = out + (place.first + i) * shape.heads * size + h * group * size;
      int64_t g = 0;
      if constexpr (Chunks > 0) {
        for (; g + 3 <= group; g += 3)
          read_past<Number, Stored, Chunks, 3>(query + g * size, result + g * size, size, seen, key, value, scratch);
        for (; g + 2 <= group; g += 2)
          read_past<Number, Stored, Chunks, 2>(query + g * size, result + g * size, size, seen, key, value, scratch);
      }
      for (; g < group; ++g)
        read_past<Number, Stored, Chunks, 1>(query + g * size, result + g * size, size, seen, key, value, scratch);
    }
  }
}

// Head sizes that are common get code of their own, for each instruction set.
template <typename Number, typename Stored, int Chunks>
void attend_as(const Place& place, const Heads& shape, int64_t layer, const Number* q, int64_t q_stride, Number* out,
               Scratch& scratch);

#define GUIDED_ATTEND(Number, Stored, Chunks)                                                            \
  template <>                                                                                            \
  GUIDED_FOR_EACH_CPU void attend_as<Number, Stored, Chunks>(                                            \
      const Place& place, const Heads& shape, int64_t layer, const Number* q, int64_t q_stride,          \
      Number* out, Scratch& scratch) {                                                                   \
    attend<Number, Stored, Chunks>(place, shape, layer, q, q_stride, out, scratch);                      \
  }
#define GUIDED_ATTEND_SIZES(Number, Stored) \
  GUIDED_ATTEND(Number, Stored, 4)          \
  GUIDED_ATTEND(Number, Stored, 8)          \
  GUIDED_ATTEND(Number, Stored, 0)
GUIDED_ATTEND_SIZES(float, float)
GUIDED_ATTEND_SIZES(bfloat16, bfloat16)
GUIDED_ATTEND_SIZES(float, int8_t)
GUIDED_ATTEND_SIZES(bfloat16, int8_t)

thread_local Scratch scratch;

}  // namespace

template <typename Number, typename Stored>
void attend_slots(const Place& place, const Heads& shape, int64_t layer, const Number* q, int64_t q_stride, Number* out) {
  const auto kernel = shape.head_dim == 64    ? attend_as<Number, Stored, 4>
                      : shape.head_dim == 128 ? attend_as<Number, Stored, 8>
                                              : attend_as<Number, Stored, 0>;
  kernel(place, shape, layer, q, q_stride, out, scratch);
}
template void attend_slots<float, float>(const Place&, const Heads&, int64_t, const float*, int64_t, float*);
template void attend_slots<float, int8_t>(const Place&, const Heads&, int64_t, const float*, int64_t, float*);
template void attend_slots<bfloat16, bfloat16>(const Place&, const Heads&, int64_t, const bfloat16*, int64_t, bfloat16*);
template void attend_slots<bfloat16, int8_t>(const Place&, const Heads&, int64_t, const bfloat16*, int64_t, bfloat16*);

}  // namespace guided
