#include "attend_slots.hpp"

#include <cmath>
#include <vector>

namespace guided {
namespace {

// A fixed `Size` lets the compiler keep a row in registers; 0 is any size.
template <typename Number, int Size>
struct Head {
  int64_t size;

  int64_t dim() const { return Size == 0 ? size : Size; }

  // Products of a row with each query of a group, into column `at` of the scores.
  GUIDED_INLINE void score(const Number* row, const float* queries, int64_t group, float* scores, int64_t at,
                    int64_t stride) const {
    for (int64_t g = 0; g < group; ++g) {
      const float* query = queries + g * dim();
      float lanes[kLanes] = {};
      int64_t d = 0;
      for (; d + kLanes <= dim(); d += kLanes)
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += query[d + lane] * read(row[d + lane]);
      for (; d < dim(); ++d) lanes[d % kLanes] += query[d] * read(row[d]);
      for (int half = kLanes / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
      scores[g * stride + at] = lanes[0];
    }
  }

  GUIDED_INLINE void add(const Number* row, const float* weights, int64_t group, float* sums, int64_t at,
                  int64_t stride) const {
    for (int64_t g = 0; g < group; ++g) {
      const float weight = weights[g * stride + at];
      float* sum = sums + g * dim();
      for (int64_t d = 0; d < dim(); ++d) sum[d] += weight * read(row[d]);
    }
  }
};

// Exponentials of what each score is below the greatest; returns their sum.
GUIDED_INLINE float softmax(float* scores, int64_t count) {
  float top = scores[0];
  for (int64_t i = 1; i < count; ++i) top = scores[i] > top ? scores[i] : top;
  for (int64_t i = 0; i < count; ++i) scores[i] = exponential(scores[i] - top);
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += scores[i + lane];
  for (; i < count; ++i) lanes[i % kLanes] += scores[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

struct Scratch {
  std::vector<float> scores, queries, sums, totals;
};

template <typename Number, int Size>
GUIDED_INLINE void attend(const Place& place, const Heads& shape, int64_t layer, const Number* q, int64_t q_stride, Number* out,
                   Scratch& scratch) {
  const Head<Number, Size> head{shape.head_dim};
  const int64_t dim = head.dim(), group = shape.heads / shape.kv_heads, row = shape.kv_heads * dim;
  const Number* keys = static_cast<const Number*>(place.keys) + layer * place.layer_stride;
  const Number* values = static_cast<const Number*>(place.values) + layer * place.layer_stride;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  scratch.scores.resize(static_cast<size_t>(group * place.total));
  scratch.queries.resize(static_cast<size_t>(group * dim));
  scratch.sums.resize(static_cast<size_t>(group * dim));
  scratch.totals.resize(static_cast<size_t>(group));
  float *scores = scratch.scores.data(), *queries = scratch.queries.data(), *sums = scratch.sums.data();
  float* totals = scratch.totals.data();
  const auto slot = [&](int64_t at) { return place.slots == nullptr ? place.start + at : place.slots[at]; };
  for (int64_t i = 0; i < place.count; ++i) {
    const int64_t seen = place.total - place.count + i + 1;
    const Number* query = q + (place.first + i) * q_stride;
    Number* result = out + (place.first + i) * shape.heads * dim;
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      for (int64_t d = 0; d < group * dim; ++d) {
        queries[d] = read(query[h * group * dim + d]) * scale;
        sums[d] = 0;
      }
      for (int64_t at = 0; at < seen; ++at)
        head.score(keys + slot(at) * row + h * dim, queries, group, scores, at, seen);
      for (int64_t g = 0; g < group; ++g) totals[g] = softmax(scores + g * seen, seen);
      for (int64_t at = 0; at < seen; ++at)
        head.add(values + slot(at) * row + h * dim, scores, group, sums, at, seen);
      for (int64_t g = 0; g < group; ++g)
        for (int64_t d = 0; d < dim; ++d)
          write(sums[g * dim + d] / totals[g], result[(h * group + g) * dim + d]);
    }
  }
}

// Head sizes that are common get code of their own, for each instruction set.
#define GUIDED_ATTEND(Name, Number, Size)                                                                       \
  GUIDED_FOR_EACH_CPU void Name(const Place& place, const Heads& shape, int64_t layer, const Number* q,         \
                                int64_t q_stride, Number* out, Scratch& scratch) {                              \
    attend<Number, Size>(place, shape, layer, q, q_stride, out, scratch);                                       \
  }
GUIDED_ATTEND(float_64, float, 64)
GUIDED_ATTEND(float_128, float, 128)
GUIDED_ATTEND(float_any, float, 0)
GUIDED_ATTEND(bfloat16_64, bfloat16, 64)
GUIDED_ATTEND(bfloat16_128, bfloat16, 128)
GUIDED_ATTEND(bfloat16_any, bfloat16, 0)

thread_local Scratch scratch;

}  // namespace

template <>
void attend_slots(const Place& place, const Heads& shape, int64_t layer, const float* q, int64_t q_stride, float* out) {
  const auto kernel = shape.head_dim == 64 ? float_64 : shape.head_dim == 128 ? float_128 : float_any;
  kernel(place, shape, layer, q, q_stride, out, scratch);
}

template <>
void attend_slots(const Place& place, const Heads& shape, int64_t layer, const bfloat16* q, int64_t q_stride,
                  bfloat16* out) {
  const auto kernel = shape.head_dim == 64 ? bfloat16_64 : shape.head_dim == 128 ? bfloat16_128 : bfloat16_any;
  kernel(place, shape, layer, q, q_stride, out, scratch);
}

}  // namespace guided
