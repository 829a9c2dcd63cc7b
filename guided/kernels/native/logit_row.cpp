#include "logit_row.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "numbers.hpp"
#include "vectors.hpp"

namespace guided {
namespace {

// If the greatest allowed logit is at most this far below the maximum, both sums use the same exponentials.
constexpr float kMaxDistance = 16.0F;
constexpr uint32_t kInfinity = 0x7F800000;  // the bits of infinity; greater bit patterns are NaN
constexpr int64_t kGroups = kBlock / kLanes;
constexpr Integers kBitOfLane = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};

// A group is sixteen logits. The last group is padded with -inf, which no bit allows.
GUIDED_INLINE int64_t groups_of(const Logits& logits) { return (logits.size + kLanes - 1) / kLanes; }

GUIDED_INLINE uint32_t bits_at(const Logits& logits, int64_t group) {
  const uint32_t bits = logits.bits[group / 2] >> (group % 2 * kLanes) & 0xFFFFU;
  const int64_t count = logits.size - group * kLanes;
  return count >= kLanes ? bits : bits & ((1U << count) - 1);
}

GUIDED_INLINE void read_group(const Logits& logits, int64_t group, Vector& out) {
  const int64_t count = logits.size - group * kLanes;
  if (count >= kLanes) {
    load(logits.row + group * kLanes, out);
  } else {
    float padded[kLanes];
    std::fill(padded, padded + kLanes, kNothing);
    std::copy_n(logits.row + group * kLanes, count, padded);
    load(padded, out);
  }
}

// Replaces logits that are not allowed with `other`.
GUIDED_INLINE void keep_allowed(const Vector& x, uint32_t bits, float other, Vector& out) {
  const Integers set = (kBitOfLane & static_cast<int32_t>(bits)) != 0;
  out = set ? x : Vector{} + other;
}

// Keeps the `count` greatest entries, the smallest of them last.
void keep_greatest(std::vector<Entry>& entries, size_t count) {
  std::nth_element(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count) - 1, entries.end(),
                   is_greater);
  entries.resize(count);
}

GUIDED_INLINE void raise_maximum(Vector& top, const Vector& x) { top = x > top ? x : top; }

// The bitwise OR of all lanes.
GUIDED_INLINE uint32_t or_lanes(const Integers& v) {
  uint64_t pairs[kLanes / 2], out = 0;
  std::memcpy(pairs, &v, sizeof v);
  for (const uint64_t pair : pairs) out |= pair;
  return static_cast<uint32_t>(out | out >> 32);
}

GUIDED_INLINE float max_lane(const Vector& v) {
  float out = v[0];
  for (int i = 1; i < kLanes; ++i) out = std::max(out, static_cast<float>(v[i]));
  return out;
}

// A sum of exponentials, stored as sum * e ** top.
struct Mass {
  float top = kNothing;
  double sum = 0;

  void add(float other_top, double other_sum) {
    if (other_top > top) {
      sum *= top == kNothing ? 0.0 : std::exp(static_cast<double>(top) - other_top);
      top = other_top;
    } else {
      other_sum *= std::exp(static_cast<double>(other_top) - top);
    }
    sum += other_sum;
  }

  double log() const { return top == kNothing ? kNothing : top + std::log(sum); }
};

// The sum of the exponentials of the allowed logits in groups `first` to `last` (exclusive), relative to their maximum
// `top`.
GUIDED_INLINE double sum_of_allowed(const Logits& logits, int64_t first, int64_t last, float top) {
  Vector sums{};
  for (int64_t i = first; i < last; ++i) {
    const uint32_t bits = bits_at(logits, i);
    if (bits == 0) continue;
    Vector x, power, allowed_power;
    read_group(logits, i, x);
    exponential_to<Words>(x - top, power);
    keep_allowed(power, bits, 0.0F, allowed_power);
    sums += allowed_power;
  }
  return static_cast<double>(sum_of(sums));
}

// Adds the masses of groups `first` to `last` (exclusive). If the allowed logits are far below the maximum, their
// exponentials are computed separately.
GUIDED_INLINE void add_block(const Logits& logits, int64_t first, int64_t last, Mass& all, Mass& allowed) {
  Vector tops = Vector{} + kNothing, allowed_tops = tops;
  for (int64_t i = first; i < last; ++i) {
    Vector x, allowed_x;
    read_group(logits, i, x);
    keep_allowed(x, bits_at(logits, i), kNothing, allowed_x);
    raise_maximum(tops, x);
    raise_maximum(allowed_tops, allowed_x);
  }
  const float top = max_lane(tops), allowed_top = max_lane(allowed_tops);
  if (top == kNothing) {  // no logit above -inf; a NaN makes the mass NaN
    for (int64_t i = first * kLanes; i < std::min(logits.size, last * kLanes); ++i)
      if (std::isnan(logits.row[i])) all.add(0.0F, std::nan(""));
    return;
  }
  Vector sums{}, allowed_sums{};
  for (int64_t i = first; i < last; ++i) {
    Vector x, power, allowed_power;
    read_group(logits, i, x);
    exponential_to<Words>(x - top, power);
    keep_allowed(power, bits_at(logits, i), 0.0F, allowed_power);
    sums += power;
    allowed_sums += allowed_power;
  }
  all.add(top, static_cast<double>(sum_of(sums)));
  if (allowed_top > top - kMaxDistance)
    allowed.add(top, static_cast<double>(sum_of(allowed_sums)));
  else if (allowed_top != kNothing)
    allowed.add(allowed_top, sum_of_allowed(logits, first, last, allowed_top));
}

bool is_set(const Logits& logits, int64_t id) { return (logits.bits[id / 32] >> (id % 32) & 1U) != 0; }

template <typename Bits, typename Number>
GUIDED_INLINE void compute_weight(const Number& x, const Weighting& weighting, Number& out) {
  const Number exponent = (x - weighting.highest) * weighting.scale;
  Number power;
  exponential_to<Bits>(exponent, power);
  out = exponent >= weighting.lowest ? power : Number{};
}

}  // namespace

float weight_of(float logit, const Weighting& weighting) {
  float out;
  compute_weight<uint32_t>(logit, weighting, out);
  return out;
}

GUIDED_FOR_EACH_CPU LogMasses log_masses(const Logits& logits, int64_t extra_count) {
  Mass all, allowed;
  const int64_t groups = groups_of(logits);
  for (int64_t first = 0; first < groups; first += kGroups)
    add_block(logits, first, std::min(groups, first + kGroups), all, allowed);
  for (int64_t i = logits.size; i < logits.size + extra_count; ++i)
    if (logits.row[i] != kNothing) all.add(logits.row[i], 1.0);
  return {all.log(), allowed.log()};
}

GUIDED_FOR_EACH_CPU Best best_logit(const Logits& logits) {
  Best best{0, kNothing, true};
  Words magnitudes{};
  const int64_t groups = groups_of(logits);
  for (int64_t first = 0; first < groups; first += kGroups) {
    const int64_t last = std::min(groups, first + kGroups);
    Vector tops = Vector{} + kNothing;
    for (int64_t i = first; i < last; ++i) {
      const uint32_t bits = bits_at(logits, i);
      if (bits == 0) continue;
      Vector x, allowed_x;
      read_group(logits, i, x);
      keep_allowed(x, bits, kNothing, allowed_x);
      raise_maximum(tops, allowed_x);
      Words magnitude;
      std::memcpy(&magnitude, &allowed_x, sizeof magnitude);
      magnitude &= 0x7FFFFFFFU;
      magnitudes = magnitude > magnitudes ? magnitude : magnitudes;
    }
    const float top = max_lane(tops);
    if (top <= best.logit) continue;
    best.logit = top;
    best.id = first * kLanes;
    while (logits.row[best.id] != top || !is_set(logits, best.id)) ++best.id;
  }
  for (int lane = 0; lane < kLanes; ++lane) best.is_number = best.is_number && magnitudes[lane] <= kInfinity;
  return best;
}

GUIDED_FOR_EACH_CPU void greatest_logits(const Logits& logits, int64_t count, std::vector<Entry>& out) {
  const auto max_count = static_cast<size_t>(std::min(count, logits.size)), capacity = 2 * max_count + kLanes;
  float threshold = kNothing;  // only greater logits are collected
  out.clear();
  if (max_count == 0) return;
  const int64_t groups = groups_of(logits);
  for (int64_t i = 0; i < groups; ++i) {
    const uint32_t allowed = bits_at(logits, i);
    if (allowed == 0) continue;
    Vector x;
    read_group(logits, i, x);
    const Integers greater = x > threshold ? kBitOfLane : Integers{};
    for (uint32_t bits = or_lanes(greater) & allowed; bits != 0; bits &= bits - 1) {
      const int64_t id = i * kLanes + std::countr_zero(bits);
      out.push_back({logits.row[id], static_cast<int32_t>(id)});
    }
    if (out.size() < capacity) continue;
    keep_greatest(out, max_count);
    threshold = out.back().number;
  }
  if (out.size() > max_count) keep_greatest(out, max_count);
}

GUIDED_FOR_EACH_CPU double weigh(const Logits& logits, const Weighting& weighting, std::vector<double>& blocks) {
  double total = 0;
  blocks.clear();
  const int64_t groups = groups_of(logits);
  for (int64_t first = 0; first < groups; first += kGroups) {
    const int64_t last = std::min(groups, first + kGroups);
    Vector sums{};
    for (int64_t i = first; i < last; ++i) {
      const uint32_t bits = bits_at(logits, i);
      if (bits == 0) continue;
      Vector x, allowed_x, weight;
      read_group(logits, i, x);
      keep_allowed(x, bits, kNothing, allowed_x);
      compute_weight<Words>(allowed_x, weighting, weight);
      sums += weight;
    }
    blocks.push_back(static_cast<double>(sum_of(sums)));
    total += blocks.back();
  }
  return total;
}

// Within a block, the weights are added in a different order than in `weigh`. If rounding keeps their sum below the
// target, the result is the last token with a nonzero weight.
GUIDED_FOR_EACH_CPU int64_t find_weight(const Logits& logits, const Weighting& weighting,
                                        const std::vector<double>& blocks, double target) {
  double sum_before = 0;
  int64_t block = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] == 0) continue;
    block = static_cast<int64_t>(i);
    if (sum_before + blocks[i] > target) break;
    sum_before += blocks[i];
  }
  int64_t found_id = -1;
  const int64_t last = std::min(groups_of(logits), (block + 1) * kGroups);
  for (int64_t i = block * kGroups; i < last && sum_before <= target; ++i) {
    const uint32_t allowed = bits_at(logits, i);
    if (allowed == 0) continue;
    Vector x, weight;
    read_group(logits, i, x);
    compute_weight<Words>(x, weighting, weight);
    float weights[kLanes];
    std::memcpy(weights, &weight, sizeof weights);
    for (uint32_t bits = allowed; bits != 0 && sum_before <= target; bits &= bits - 1) {
      const int lane = std::countr_zero(bits);
      sum_before += static_cast<double>(weights[lane]);
      if (weights[lane] > 0) found_id = i * kLanes + lane;
    }
  }
  return found_id;
}

}  // namespace guided
