#include "attend_slots.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "heads.hpp"

namespace guided {
namespace {

constexpr int64_t kPrefetchRows = 16, kCacheLineBytes = 64;  // prefetch distance in rows; bytes of a cache line

// `Queries` query heads with `16 * Chunks` numbers that read the same rows of keys or values. Numbers are in the order
// of `lane_of` (heads.hpp).
template <typename Stored, int Chunks, int Queries, bool Unrolled>
struct Heads16 {
  static constexpr int64_t kSize = 16 * Chunks;

  // Calls work(chunk) for each chunk. Without unrolling, the code compiles in a fraction of the time. It is as fast if
  // there are too few registers for all chunks anyway.
  template <typename Work>
  static GUIDED_INLINE void each_chunk(const Work& work) {
    if constexpr (Unrolled) {
      for (int c = 0; c < Chunks; ++c) work(c);
    } else {
#pragma GCC unroll 1
      for (int c = 0; c < Chunks; ++c) work(c);
    }
  }

  template <typename Row>
  static GUIDED_INLINE void score(const float* queries, int64_t visible_count, float* scores, const Row& row_at) {
    Vector query[Queries][Chunks];
    each_chunk([&](int c) __attribute__((always_inline)) {
      for (int g = 0; g < Queries; ++g) load(queries + g * kSize + 16 * c, query[g][c]);
    });
    for (int64_t position = 0; position < visible_count; ++position) {
      const Stored* row = row_at(position);
      Vector sums[Queries] = {};
      each_chunk([&](int c) __attribute__((always_inline)) {
        Vector key;
        load_chunk(row, c, key);
        for (int g = 0; g < Queries; ++g) sums[g] += query[g][c] * key;
      });
      const float scale = scale_of(row, kSize);
      for (int g = 0; g < Queries; ++g) scores[g * visible_count + position] = sum_of(sums[g]) * scale;
    }
  }

  template <typename Row>
  static GUIDED_INLINE void add(const float* weights, int64_t visible_count, float* out, const Row& row_at) {
    Vector sums[Queries][Chunks] = {};
    for (int64_t position = 0; position < visible_count; ++position) {
      const Stored* row = row_at(position);
      const float scale = scale_of(row, kSize);
      float scaled_weights[Queries];
      for (int g = 0; g < Queries; ++g) scaled_weights[g] = weights[g * visible_count + position] * scale;
      each_chunk([&](int c) __attribute__((always_inline)) {
        Vector value;
        load_chunk(row, c, value);
        for (int g = 0; g < Queries; ++g) sums[g][c] += scaled_weights[g] * value;
      });
    }
    std::memcpy(out, sums, sizeof sums);
  }
};

// Like Heads16, for heads of any size, one at a time.
template <typename Stored>
struct HeadOfAnySize {
  template <typename Row>
  static GUIDED_INLINE void score(const float* query, int64_t size, int64_t visible_count, float* scores,
                                  const Row& row_at) {
    for (int64_t position = 0; position < visible_count; ++position) {
      const Stored* row = row_at(position);
      Vector sum = {};
      for (int64_t c = 0; c < chunks_of(size); ++c) {
        Vector number, key;
        load(query + 16 * c, number);
        load_padded_chunk(row, c, size, key);
        sum += number * key;
      }
      scores[position] = sum_of(sum) * scale_of(row, size);
    }
  }

  template <typename Row>
  static GUIDED_INLINE void add(const float* weights, int64_t size, int64_t visible_count, float* out,
                                const Row& row_at) {
    std::fill(out, out + 16 * chunks_of(size), 0.0F);
    for (int64_t position = 0; position < visible_count; ++position) {
      const Stored* row = row_at(position);
      const float weight = weights[position] * scale_of(row, size);
      for (int64_t c = 0; c < chunks_of(size); ++c) {
        Vector sum, value;
        load(out + 16 * c, sum);
        load_padded_chunk(row, c, size, value);
        sum += weight * value;
        std::memcpy(out + 16 * c, &sum, sizeof sum);
      }
    }
  }
};

struct Scratch {
  std::vector<float> scores, queries, sums;

  void resize(int64_t heads, int64_t size, int64_t visible_count) {
    scores.resize(static_cast<size_t>(heads * visible_count));
    queries.assign(static_cast<size_t>(heads * size), 0.0F);
    sums.resize(static_cast<size_t>(heads * size));
  }
};

// Computes `Queries` heads of one position. Chunks = 0: heads of any size, one at a time.
template <typename Number, typename Stored, int Chunks, bool Unrolled, int Queries, typename Key, typename Value>
GUIDED_INLINE void attend_heads(const Number* query, Number* out, int64_t size, int64_t visible_count, const Kind& kind,
                                const Key& key, const Value& value, Scratch& scratch) {
  scratch.resize(Queries, 16 * chunks_of(size), visible_count);
  float *queries = scratch.queries.data(), *scores = scratch.scores.data(), *sums = scratch.sums.data();
  for (int64_t d = 0; d < Queries * size; ++d) queries[lane_of<Stored, Chunks>(d)] = read(query[d]) * kind.scale;
  if constexpr (Chunks > 0)
    Heads16<Stored, Chunks, Queries, Unrolled>::score(queries, visible_count, scores, key);
  else
    HeadOfAnySize<Stored>::score(queries, size, visible_count, scores, key);
  float totals[Queries];
  for (int g = 0; g < Queries; ++g) totals[g] = softmax(scores + g * visible_count, visible_count, kind.softcap);
  if constexpr (Chunks > 0)
    Heads16<Stored, Chunks, Queries, Unrolled>::add(scores, visible_count, sums, value);
  else
    HeadOfAnySize<Stored>::add(scores, size, visible_count, sums, value);
  for (int g = 0; g < Queries; ++g)
    for (int64_t d = 0; d < size; ++d)
      write(sums[g * size + lane_of<Stored, Chunks>(d)] / totals[g], out[g * size + d]);
}

// Returns the sequence without its first positions.
GUIDED_INLINE Sequence skip_first(Sequence sequence, int64_t positions) {
  if (sequence.slots == nullptr)
    sequence.start += positions;
  else
    sequence.slots += positions;
  sequence.total -= positions;
  return sequence;
}

template <typename Number, typename Stored, int Chunks, bool Unrolled>
GUIDED_INLINE void attend(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer, int64_t head,
                          const Queries<Number>& queries, Scratch& scratch) {
  const int64_t size = Chunks > 0 ? 16 * Chunks : shape.head_dim, group = shape.heads / shape.kv_heads;
  for (int64_t i = 0; i < sequence.count; ++i) {
    const int64_t end = sequence.total - sequence.count + i + 1, visible_count = std::min(end, kind.window);
    const Sequence window = skip_first(sequence, end - visible_count);
    const KvHead<Stored> kv(window, shape, layer, head);
    const auto row_of = [&](const Stored* base, int64_t position) {
      const Stored* prefetched_row = base + kv.offset(std::min(position + kPrefetchRows, window.total - 1));
      for (int64_t d = 0; d < size + kTail<Stored>; d += kCacheLineBytes / static_cast<int64_t>(sizeof(Stored)))
        __builtin_prefetch(prefetched_row + d);
      return base + kv.offset(position);
    };
    const auto key = [&](int64_t position) { return row_of(kv.keys, position); };
    const auto value = [&](int64_t position) { return row_of(kv.values, position); };
    const Number* query = queries.q + (sequence.first + i) * queries.stride + head * group * size;
    Number* result = queries.out + ((sequence.first + i) * shape.heads + head * group) * size;
    int64_t g = 0;
    if constexpr (Chunks > 0) {
      for (; g + 3 <= group; g += 3)
        attend_heads<Number, Stored, Chunks, Unrolled, 3>(query + g * size, result + g * size, size, visible_count,
                                                          kind, key, value, scratch);
      for (; g + 2 <= group; g += 2)
        attend_heads<Number, Stored, Chunks, Unrolled, 2>(query + g * size, result + g * size, size, visible_count,
                                                          kind, key, value, scratch);
    }
    for (; g < group; ++g)
      attend_heads<Number, Stored, Chunks, Unrolled, 1>(query + g * size, result + g * size, size, visible_count, kind,
                                                        key, value, scratch);
  }
}

// One version per instruction set.
template <typename Number>
using Attend = void (*)(const Sequence&, const Heads&, const Kind&, int64_t, int64_t, const Queries<Number>&, Scratch&);

#define GUIDED_ATTEND(level, target, Unrolled)                                                              \
  template <typename Number, typename Stored, int Chunks>                                                   \
  target void attend_##level(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer, \
                             int64_t head, const Queries<Number>& queries, Scratch& scratch) {              \
    attend<Number, Stored, Chunks, Unrolled>(sequence, shape, kind, layer, head, queries, scratch);         \
  }
#if defined(GUIDED_X86_CLONES)
GUIDED_ATTEND(base, , false)
GUIDED_ATTEND(v3, GUIDED_V3, true)
GUIDED_ATTEND(v4, GUIDED_V4, true)
#else
GUIDED_ATTEND(base, , true)
#endif

template <typename Number, typename Stored, int Chunks>
Attend<Number> choose_kernel() {
#if defined(GUIDED_X86_CLONES)
  if (__builtin_cpu_supports("x86-64-v4")) return attend_v4<Number, Stored, Chunks>;
  if (__builtin_cpu_supports("x86-64-v3")) return attend_v3<Number, Stored, Chunks>;
#endif
  return attend_base<Number, Stored, Chunks>;
}

thread_local Scratch scratch;

}  // namespace

// A separate function, so that both attention kernels compute bitwise equal exponentials.
GUIDED_FOR_EACH_CPU float softmax(float* scores, int64_t count, float softcap) {
  if (softcap > 0)
    for (int64_t position = 0; position < count; ++position)
      scores[position] = softcap * hyperbolic_tangent(scores[position] / softcap);
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

template <typename Stored, typename Number>
void attend_slots(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer, int64_t head,
                  const Queries<Number>& queries) {
  // For the common head sizes, then for any other size.
  static const Attend<Number> kernels[] = {choose_kernel<Number, Stored, 4>(), choose_kernel<Number, Stored, 8>(),
                                           choose_kernel<Number, Stored, 16>(), choose_kernel<Number, Stored, 0>()};
  const int64_t size = shape.head_dim;
  kernels[size == 64 ? 0 : size == 128 ? 1 : size == 256 ? 2 : 3](sequence, shape, kind, layer, head, queries, scratch);
}
#define GUIDED_SLOTS(Number, Stored)                                                               \
  template void attend_slots<Stored>(const Sequence&, const Heads&, const Kind&, int64_t, int64_t, \
                                     const Queries<Number>&);
GUIDED_SLOTS(float, float)
GUIDED_SLOTS(float, bfloat16)
GUIDED_SLOTS(float, int8_t)
GUIDED_SLOTS(bfloat16, bfloat16)
GUIDED_SLOTS(bfloat16, int8_t)

}  // namespace guided
