#include "attend_prompt.hpp"

#include <algorithm>
#include <vector>

#include "heads.hpp"
#include "team.hpp"

namespace guided {
namespace {

constexpr int64_t kRowsPerTile = 24;     // query rows that a thread takes at once
constexpr int64_t kValuePositions = 64;  // positions whose values stay in the CPU cache while a tile reads them
constexpr int64_t kBlock = 16;           // positions whose keys are interleaved

// The keys and values of a KV head, converted to float32, in chunks of sixteen numbers.
struct Panel {
  std::vector<Line> keys;    // (blocks, 16 * chunks); a line has one number of each of sixteen positions
  std::vector<Line> values;  // (positions, chunks)
  std::vector<float> key_scales, value_scales;  // (positions); 1 unless rows are packed
  int64_t chunks = 0;

  void resize(int64_t positions, int64_t head_dim) {
    chunks = chunks_of(head_dim);
    const int64_t blocks = (positions + kBlock - 1) / kBlock;
    keys.resize(static_cast<size_t>(blocks * 16 * chunks));
    values.resize(static_cast<size_t>(positions * chunks));
    key_scales.resize(static_cast<size_t>(blocks * kBlock));
    value_scales.resize(static_cast<size_t>(positions));
  }
};

// Whether `load_chunk` reads heads of this size.
GUIDED_INLINE bool is_common_size(int64_t size) { return size == 64 || size == 128 || size == 256; }

template <typename Stored>
GUIDED_INLINE void load_chunk_of_any_size(const Stored* row, int64_t chunk, int64_t size, Vector& out) {
  if (is_common_size(size))
    load_chunk(row, static_cast<int>(chunk), out);
  else
    load_padded_chunk(row, chunk, size, out);
}

// Converts the keys and values of sixteen positions.
template <typename Stored>
GUIDED_INLINE void fill(Panel& panel, const KvHead<Stored>& kv, int64_t size, int64_t block) {
  Line* keys = panel.keys.data() + block * 16 * panel.chunks;
  for (int64_t i = 0; i < kBlock; ++i) {
    const int64_t position = block * kBlock + i;
    if (position >= kv.sequence.total) {
      for (int64_t d = 0; d < 16 * panel.chunks; ++d) keys[d].numbers[i] = 0;
      continue;
    }
    const Stored *key = kv.keys + kv.offset(position), *value = kv.values + kv.offset(position);
    for (int64_t c = 0; c < panel.chunks; ++c) {
      Vector numbers;
      load_chunk_of_any_size(key, c, size, numbers);
      for (int lane = 0; lane < 16; ++lane) keys[16 * c + lane].numbers[i] = numbers[lane];
      load_chunk_of_any_size(value, c, size, numbers);
      std::memcpy(panel.values.data() + position * panel.chunks + c, &numbers, sizeof numbers);
    }
    panel.key_scales[static_cast<size_t>(position)] = scale_of(key, size);
    panel.value_scales[static_cast<size_t>(position)] = scale_of(value, size);
  }
}

// One lane of the scores of `Rows` queries, `stride` apart, with sixteen keys. It is summed in the same order as a lane
// of a score in attend_slots.cpp.
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

// The scores of `Rows` queries with sixteen keys. Lanes are added in the same order as in `sum_of` (vectors.hpp).
template <int Rows>
GUIDED_INLINE void score(const float* queries, int64_t stride, const Line* keys, int64_t chunks, Vector* scores) {
  Vector lanes[4][Rows], pairs[2][Rows];
#pragma GCC unroll 2
  for (int odd = 0; odd < 2; ++odd) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int first = odd + 2 * half;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        add_lane<Rows>(queries, stride, keys, chunks, first + 8 * (i % 2) + 4 * (i / 2), lanes[i]);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const Vector quarter = (lanes[0][r] + lanes[1][r]) + (lanes[2][r] + lanes[3][r]);
        pairs[odd][r] = half == 0 ? quarter : pairs[odd][r] + quarter;
      }
    }
  }
  for (int r = 0; r < Rows; ++r) scores[r] = pairs[0][r] + pairs[1][r];
}

// Adds the weighted values of positions `first` to `last` (exclusive) to the sums of `Rows` queries, for `Chunks`
// chunks.
template <int Rows, int Chunks>
GUIDED_INLINE void add_values(const float* weights, int64_t stride, const Line* values, int64_t chunks, int64_t first,
                              int64_t last, Line* sums) {
  Vector out[Rows][Chunks];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < Chunks; ++c) load(sums[r * chunks + c].numbers, out[r][c]);
  for (int64_t position = first; position < last; ++position) {
    Vector value[Chunks];
#pragma GCC unroll 4
    for (int c = 0; c < Chunks; ++c) load(values[position * chunks + c].numbers, value[c]);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < Chunks; ++c) out[r][c] += weights[r * stride + position] * value[c];
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

// Calls work<n>(row) for each group of n rows. n is `Rows` while enough rows are left, then smaller.
template <int Rows, typename Work>
GUIDED_INLINE void for_each_group(int64_t row, int64_t rows, const Work& work) {
  for (; row + Rows <= rows; row += Rows) work.template operator()<Rows>(row);
  if constexpr (Rows > 1) for_each_group<Rows - 1>(row, rows, work);
}

struct Scratch {
  std::vector<Line> queries, scores, sums;
  std::vector<float> totals;
};

// Computes the outputs of the new positions `first` to `last` (exclusive) for one KV head.
template <typename Number, typename Stored, int ScoreRows, int ValueRows>
GUIDED_INLINE void attend(const Panel& panel, const Sequence& sequence, const Heads& shape, const Kind& kind,
                          int64_t head, const Queries<Number>& in, int64_t first, int64_t last, Scratch& scratch) {
  const int64_t size = shape.head_dim, group = shape.heads / shape.kv_heads, rows = (last - first) * group;
  const int64_t chunks = panel.chunks, past_count = sequence.total - sequence.count;
  const int64_t blocks = (past_count + last + kBlock - 1) / kBlock, stride = 16 * chunks, width = blocks * kBlock;
  const auto lane = [&](int64_t d) { return is_common_size(size) ? lane_of<Stored, 4>(d) : d; };
  const auto visible_count = [&](int64_t row) { return past_count + first + row / group + 1; };
  const auto first_visible = [&](int64_t row) { return kind.first_in_window(visible_count(row)); };
  const int64_t skipped_blocks = first_visible(0) / kBlock;  // all windows begin after these blocks
  scratch.queries.assign(static_cast<size_t>(rows * chunks), Line{});
  scratch.sums.assign(static_cast<size_t>(rows * chunks), Line{});
  scratch.scores.resize(static_cast<size_t>(rows * blocks));
  float* const queries = scratch.queries.data()->numbers;
  float* const scores = scratch.scores.data()->numbers;
  for (int64_t row = 0; row < rows; ++row) {
    const Number* q = in.q + (sequence.first + first + row / group) * in.stride + (head * group + row % group) * size;
    for (int64_t d = 0; d < size; ++d) queries[row * stride + lane(d)] = read(q[d]) * kind.scale;
  }
  for (int64_t block = skipped_blocks; block < blocks; ++block) {
    const Line* keys = panel.keys.data() + block * stride;
    Vector scales;
    load(panel.key_scales.data() + block * kBlock, scales);
    for_each_group<ScoreRows>(0, rows, [&]<int N>(int64_t row) __attribute__((always_inline)) {
      Vector block_scores[N];
      score<N>(queries + row * stride, stride, keys, chunks, block_scores);
      for (int r = 0; r < N; ++r) {
        if (kTail<Stored> > 0) block_scores[r] *= scales;
        std::memcpy(scores + (row + r) * width + block * kBlock, &block_scores[r], sizeof(Vector));
      }
    });
  }
  scratch.totals.resize(static_cast<size_t>(rows));
  float* const totals = scratch.totals.data();
  for (int64_t row = 0; row < rows; ++row) {
    float* row_scores = scores + row * width;
    totals[row] = softmax(row_scores + first_visible(row), visible_count(row) - first_visible(row), kind.softcap);
    if (kTail<Stored> > 0)
      for (int64_t position = first_visible(row); position < visible_count(row); ++position)
        row_scores[position] *= panel.value_scales[static_cast<size_t>(position)];
  }
  // The rows of a group read their common positions together: from the first position of the last row's window to the
  // last position that the first row reads. Each row reads its other positions alone.
  const auto add_row_values = [&](int64_t row, int64_t begin, int64_t end) __attribute__((always_inline)) {
    add_values<1>(scores + row * width, width, panel, begin, end, scratch.sums.data() + row * chunks);
  };
  const auto first_of_group = [](int64_t row) { return row / ValueRows * ValueRows; };
  const auto last_of_group = [&](int64_t row) { return std::min(first_of_group(row) + ValueRows, rows) - 1; };
  if (first_visible(rows - 1) > 0)
    for (int64_t row = 0; row < rows; ++row)
      add_row_values(row, first_visible(row), std::min(first_visible(last_of_group(row)), visible_count(row)));
  for (int64_t range_begin = skipped_blocks * kBlock / kValuePositions * kValuePositions; range_begin < width;
       range_begin += kValuePositions)
    for_each_group<ValueRows>(0, rows, [&]<int N>(int64_t row) __attribute__((always_inline)) {
      const int64_t begin = std::max(first_visible(row + N - 1), range_begin),
                    end = std::min(visible_count(row), range_begin + kValuePositions);
      if (begin < end)
        add_values<N>(scores + row * width, width, panel, begin, end, scratch.sums.data() + row * chunks);
    });
  for (int64_t row = 0; row < rows; ++row)
    add_row_values(row, std::max(first_visible(last_of_group(row)), visible_count(first_of_group(row))),
                   visible_count(row));
  for (int64_t row = 0; row < rows; ++row) {
    const float* sums = scratch.sums[static_cast<size_t>(row * chunks)].numbers;
    Number* out = in.out + ((sequence.first + first + row / group) * shape.heads + head * group + row % group) * size;
    for (int64_t d = 0; d < size; ++d) write(sums[lane(d)] / totals[row], out[d]);
  }
}

// One version per instruction set. It computes as many queries at once as registers allow.
template <typename Number, typename Stored>
struct Kernel {
  void (*fill)(Panel&, const KvHead<Stored>&, int64_t, int64_t);
  void (*attend)(const Panel&, const Sequence&, const Heads&, const Kind&, int64_t, const Queries<Number>&, int64_t,
                 int64_t, Scratch&);
};

#define GUIDED_PROMPT(level, target, ScoreRows, ValueRows)                                                           \
  template <typename Stored>                                                                                         \
  target void fill_##level(Panel& panel, const KvHead<Stored>& kv, int64_t size, int64_t block) {                    \
    fill(panel, kv, size, block);                                                                                    \
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
Kernel<Number, Stored> choose_kernel() {
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
  static const auto kernel = choose_kernel<Number, Stored>();
  const int64_t tile_positions = std::max<int64_t>(1, kRowsPerTile / (shape.heads / shape.kv_heads));
  const int64_t blocks = (sequence.total + kBlock - 1) / kBlock,
                tiles = (sequence.count + tile_positions - 1) / tile_positions;
  const int64_t skipped_blocks =
      kind.first_in_window(sequence.total - sequence.count + 1) / kBlock;  // no query reads them
  Panel& shared_panel = panel;  // this thread's panel, which the other threads read
  shared_panel.resize(sequence.total, shape.head_dim);
  for (int64_t head = 0; head < shape.kv_heads; ++head) {
    const KvHead<Stored> kv(sequence, shape, layer, head);
    share(blocks - skipped_blocks, threads,
          [&](int64_t block) { kernel.fill(shared_panel, kv, shape.head_dim, skipped_blocks + block); });
    share(tiles, threads, [&](int64_t tile) {  // tiles that read the most positions come first
      const int64_t first = (tiles - 1 - tile) * tile_positions,
                    last = std::min(sequence.count, first + tile_positions);
      kernel.attend(shared_panel, sequence, shape, kind, head, queries, first, last, scratch);
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
