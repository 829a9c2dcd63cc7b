#include "attend_prompt.hpp"

#include <algorithm>
#include <vector>

#include "heads.hpp"
#include "team.hpp"

namespace guided {
namespace {

constexpr int64_t kRows = 24;   // queries, of one or more positions, that a thread takes at once
constexpr int64_t kNear = 64;   // positions whose values stay in the cache while these queries read them
constexpr int64_t kBlock = 16;  // positions whose keys are interleaved

// The keys and values of a KV head in float32, in chunks of sixteen numbers.
struct Panel {
  std::vector<Line> keys;                       // (blocks, 16 * chunks): one number of each of sixteen positions
  std::vector<Line> values;                     // (positions, chunks)
  std::vector<float> key_scales, value_scales;  // (positions): of packed rows
  int64_t chunks = 0;

  void make_room(int64_t positions, int64_t head_dim) {
    chunks = chunks_of(head_dim);
    const int64_t blocks = (positions + kBlock - 1) / kBlock;
    keys.resize(static_cast<size_t>(blocks * 16 * chunks));
    values.resize(static_cast<size_t>(positions * chunks));
    key_scales.resize(static_cast<size_t>(blocks * kBlock));
    value_scales.resize(static_cast<size_t>(positions));
  }
};

// Whether `load_chunk` reads heads of this size.
GUIDED_INLINE bool is_common(int64_t size) { return size == 64 || size == 128 || size == 256; }

template <typename Stored>
GUIDED_INLINE void load_any(const Stored* row, int64_t chunk, int64_t size, Vector& out) {
  if (is_common(size))
    load_chunk(row, static_cast<int>(chunk), out);
  else
    load_some(row, chunk, size, out);
}

// Fills sixteen positions.
template <typename Stored>
GUIDED_INLINE void fill(Panel& panel, const Past<Stored>& past, int64_t size, int64_t block) {
  Line* keys = panel.keys.data() + block * 16 * panel.chunks;
  for (int64_t i = 0; i < kBlock; ++i) {
    const int64_t at = block * kBlock + i;
    if (at >= past.sequence.total) {
      for (int64_t d = 0; d < 16 * panel.chunks; ++d) keys[d].numbers[i] = 0;
      continue;
    }
    const Stored *key = past.keys + past.offset(at), *value = past.values + past.offset(at);
    for (int64_t c = 0; c < panel.chunks; ++c) {
      Vector numbers;
      load_any(key, c, size, numbers);
      for (int lane = 0; lane < 16; ++lane) keys[16 * c + lane].numbers[i] = numbers[lane];
      load_any(value, c, size, numbers);
      std::memcpy(panel.values.data() + at * panel.chunks + c, &numbers, sizeof numbers);
    }
    panel.key_scales[static_cast<size_t>(at)] = scale_of(key, size);
    panel.value_scales[static_cast<size_t>(at)] = scale_of(value, size);
  }
}

// One lane of the scores of `Rows` queries, `stride` apart, with sixteen keys. It is added in the same order as the
// lane of one key in attend_slots.cpp.
template <int Rows>
GUIDED_INLINE void add_lane(const float* queries, int64_t stride, const Line* keys, int64_t chunks, int lane,
                            Vector* sums) {
  for (int r = 0; r < Rows; ++r) sums[r] = Vector{};
  for (int64_t c = 0; c < chunks; ++c) {
    Vector key;
    load(keys[16 * c + lane].numbers, key);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) sums[r] += queries[r * stride + 16 * c + lane] * key;
  }
}

// The scores of `Rows` queries with sixteen keys. Lanes are added in the order of `sum_of`.
template <int Rows>
GUIDED_INLINE void score(const float* queries, int64_t stride, const Line* keys, int64_t chunks, Vector* scores) {
  Vector lanes[4][Rows], pairs[2][Rows];
#pragma GCC unroll 2
  for (int odd = 0; odd < 2; ++odd) {
#pragma GCC unroll 2
    for (int two = 0; two < 2; ++two) {
      const int first = odd + 2 * two;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        add_lane<Rows>(queries, stride, keys, chunks, first + 8 * (i % 2) + 4 * (i / 2), lanes[i]);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const Vector quarter = (lanes[0][r] + lanes[1][r]) + (lanes[2][r] + lanes[3][r]);
        pairs[odd][r] = two == 0 ? quarter : pairs[odd][r] + quarter;
      }
    }
  }
  for (int r = 0; r < Rows; ++r) scores[r] = pairs[0][r] + pairs[1][r];
}

// Adds the weighted values of positions `first` to `last` to the sums of `Rows` queries, for `Chunks` chunks.
template <int Rows, int Chunks>
GUIDED_INLINE void add_values(const float* weights, int64_t stride, const Line* values, int64_t chunks, int64_t first,
                              int64_t last, Line* sums) {
  Vector out[Rows][Chunks];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < Chunks; ++c) load(sums[r * chunks + c].numbers, out[r][c]);
  for (int64_t at = first; at < last; ++at) {
    Vector value[Chunks];
#pragma GCC unroll 4
    for (int c = 0; c < Chunks; ++c) load(values[at * chunks + c].numbers, value[c]);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < Chunks; ++c) out[r][c] += weights[r * stride + at] * value[c];
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < Chunks; ++c) std::memcpy(sums + r * chunks + c, &out[r][c], sizeof(Vector));
}

template <int Rows>
GUIDED_INLINE void add_values(const float* weights, int64_t stride, const Panel& panel, int64_t first, int64_t last,
                              Line* sums) {
  int64_t c = 0;
  for (; c + 4 <= panel.chunks; c += 4)
    add_values<Rows, 4>(weights, stride, panel.values.data() + c, panel.chunks, first, last, sums + c);
  for (; c < panel.chunks; ++c)
    add_values<Rows, 1>(weights, stride, panel.values.data() + c, panel.chunks, first, last, sums + c);
}

// Calls work<n>(row) for each group of n rows: n is `Rows` while enough rows are left, then smaller.
template <int Rows, typename Work>
GUIDED_INLINE void by(int64_t row, int64_t rows, const Work& work) {
  for (; row + Rows <= rows; row += Rows) work.template operator()<Rows>(row);
  if constexpr (Rows > 1) by<Rows - 1>(row, rows, work);
}

struct Scratch {
  std::vector<Line> queries, scores, sums;
  std::vector<float> totals;
};

// Computes the new positions from `first` to `last` for one KV head.
template <typename Number, typename Stored, int ScoreRows, int ValueRows>
GUIDED_INLINE void attend(const Panel& panel, const Sequence& sequence, const Heads& shape, const Kind& kind,
                          int64_t head, const Queries<Number>& in, int64_t first, int64_t last, Scratch& scratch) {
  const int64_t size = shape.head_dim, group = shape.heads / shape.kv_heads, rows = (last - first) * group;
  const int64_t chunks = panel.chunks, past = sequence.total - sequence.count;
  const int64_t blocks = (past + last + kBlock - 1) / kBlock, stride = 16 * chunks, width = blocks * kBlock;
  const auto lane = [&](int64_t d) { return is_common(size) ? lane_of<Stored, 4>(d) : d; };
  const auto seen = [&](int64_t row) { return past + first + row / group + 1; };
  const auto start = [&](int64_t row) { return kind.first_of(seen(row)); };
  const int64_t skipped = start(0) / kBlock;  // blocks before all windows
  scratch.queries.assign(static_cast<size_t>(rows * chunks), Line{});
  scratch.sums.assign(static_cast<size_t>(rows * chunks), Line{});
  scratch.scores.resize(static_cast<size_t>(rows * blocks));
  float* const queries = scratch.queries.data()->numbers;
  float* const scores = scratch.scores.data()->numbers;
  for (int64_t row = 0; row < rows; ++row) {
    const Number* q = in.q + (sequence.first + first + row / group) * in.stride + (head * group + row % group) * size;
    for (int64_t d = 0; d < size; ++d) queries[row * stride + lane(d)] = read(q[d]) * kind.scale;
  }
  for (int64_t block = skipped; block < blocks; ++block) {
    const Line* keys = panel.keys.data() + block * stride;
    Vector scales;
    load(panel.key_scales.data() + block * kBlock, scales);
    by<ScoreRows>(0, rows, [&]<int N>(int64_t row) __attribute__((always_inline)) {
      Vector some[N];
      score<N>(queries + row * stride, stride, keys, chunks, some);
      for (int r = 0; r < N; ++r) {
        if (kTail<Stored> > 0) some[r] *= scales;
        std::memcpy(scores + (row + r) * width + block * kBlock, &some[r], sizeof(Vector));
      }
    });
  }
  scratch.totals.resize(static_cast<size_t>(rows));
  float* const totals = scratch.totals.data();
  for (int64_t row = 0; row < rows; ++row) {
    float* mine = scores + row * width;
    totals[row] = softmax(mine + start(row), seen(row) - start(row), kind.softcap);
    if (kTail<Stored> > 0)
      for (int64_t at = start(row); at < seen(row); ++at) mine[at] *= panel.value_scales[static_cast<size_t>(at)];
  }
  // The rows of a group share the positions from the start of the last row to the end of the first. Each row reads the
  // positions before and after these alone.
  const auto add_alone = [&](int64_t row, int64_t from, int64_t to) __attribute__((always_inline)) {
    add_values<1>(scores + row * width, width, panel, from, to, scratch.sums.data() + row * chunks);
  };
  const auto first_beside = [](int64_t row) { return row / ValueRows * ValueRows; };
  const auto last_beside = [&](int64_t row) { return std::min(first_beside(row) + ValueRows, rows) - 1; };
  if (start(rows - 1) > 0)
    for (int64_t row = 0; row < rows; ++row) add_alone(row, start(row), std::min(start(last_beside(row)), seen(row)));
  for (int64_t near = skipped * kBlock / kNear * kNear; near < width; near += kNear)
    by<ValueRows>(0, rows, [&]<int N>(int64_t row) __attribute__((always_inline)) {
      const int64_t from = std::max(start(row + N - 1), near), to = std::min(seen(row), near + kNear);
      if (from < to) add_values<N>(scores + row * width, width, panel, from, to, scratch.sums.data() + row * chunks);
    });
  for (int64_t row = 0; row < rows; ++row)
    add_alone(row, std::max(start(last_beside(row)), seen(first_beside(row))), seen(row));
  for (int64_t row = 0; row < rows; ++row) {
    const float* sums = scratch.sums[static_cast<size_t>(row * chunks)].numbers;
    Number* out = in.out + ((sequence.first + first + row / group) * shape.heads + head * group + row % group) * size;
    for (int64_t d = 0; d < size; ++d) write(sums[lane(d)] / totals[row], out[d]);
  }
}

// For each instruction set, as many queries at once as registers allow.
template <typename Number, typename Stored>
struct Kernel {
  void (*fill)(Panel&, const Past<Stored>&, int64_t, int64_t);
  void (*attend)(const Panel&, const Sequence&, const Heads&, const Kind&, int64_t, const Queries<Number>&, int64_t,
                 int64_t, Scratch&);
};

#define GUIDED_PROMPT(level, target, ScoreRows, ValueRows)                                                           \
  template <typename Stored>                                                                                         \
  target void fill_##level(Panel& panel, const Past<Stored>& past, int64_t size, int64_t block) {                    \
    fill(panel, past, size, block);                                                                                  \
  }                                                                                                                  \
  template <typename Number, typename Stored>                                                                        \
  target void attend_##level(const Panel& panel, const Sequence& sequence, const Heads& shape, const Kind& kind,     \
                             int64_t head, const Queries<Number>& queries, int64_t first, int64_t last,              \
                             Scratch& scratch) {                                                                     \
    attend<Number, Stored, ScoreRows, ValueRows>(panel, sequence, shape, kind, head, queries, first, last, scratch); \
  }
GUIDED_PROMPT(base, , 1, 1)
#if defined(GUIDED_X86_CLONES)
GUIDED_PROMPT(v3, GUIDED_V3, 2, 1)
GUIDED_PROMPT(v4, GUIDED_V4, 4, 6)
#endif

template <typename Number, typename Stored>
Kernel<Number, Stored> choose() {
#if defined(GUIDED_X86_CLONES)
  if (__builtin_cpu_supports("x86-64-v4")) return {fill_v4<Stored>, attend_v4<Number, Stored>};
  if (__builtin_cpu_supports("x86-64-v3")) return {fill_v3<Stored>, attend_v3<Number, Stored>};
#endif
  return {fill_base<Stored>, attend_base<Number, Stored>};
}

thread_local Scratch scratch;
thread_local Panel panel;

}  // namespace

template <typename Stored, typename Number>
void attend_prompt(const Sequence& sequence, const Heads& shape, const Kind& kind, int64_t layer,
                   const Queries<Number>& queries, int64_t threads) {
  static const auto kernel = choose<Number, Stored>();
  const int64_t positions = std::max<int64_t>(1, kRows / (shape.heads / shape.kv_heads));
  const int64_t blocks = (sequence.total + kBlock - 1) / kBlock, tiles = (sequence.count + positions - 1) / positions;
  const int64_t skipped = kind.first_of(sequence.total - sequence.count + 1) / kBlock;  // no query reads them
  Panel& of_all = panel;  // of this thread; the others read it
  of_all.make_room(sequence.total, shape.head_dim);
  for (int64_t head = 0; head < shape.kv_heads; ++head) {
    const Past<Stored> past(sequence, shape, layer, head);
    share(blocks - skipped, threads,
          [&](int64_t block) { kernel.fill(of_all, past, shape.head_dim, skipped + block); });
    share(tiles, threads, [&](int64_t tile) {  // the tiles that read most come first
      const int64_t first = (tiles - 1 - tile) * positions, last = std::min(sequence.count, first + positions);
      kernel.attend(of_all, sequence, shape, kind, head, queries, first, last, scratch);
    });
  }
}
#define GUIDED_PROMPTS(Number, Stored)                                                                             \
  template void attend_prompt<Stored>(const Sequence&, const Heads&, const Kind&, int64_t, const Queries<Number>&, \
                                      int64_t);
GUIDED_PROMPTS(float, float)
GUIDED_PROMPTS(float, bfloat16)
GUIDED_PROMPTS(float, int8_t)
GUIDED_PROMPTS(bfloat16, bfloat16)
GUIDED_PROMPTS(bfloat16, int8_t)

}  // namespace guided
