// Passes over a row of logits, under a bitmask: how much probability is left, the greatest ones, weights at a temperature.
//
// In: float32 logits (size,), and a bitmask with bit `id % 32` of word `id // 32` for each of them, 1 = allowed; bits behind
// the last logit are ignored. Logits are only read. Each pass reads them once, sixteen at a time. What is -inf is never
// found, whatever its bit. Additions are in a fixed order.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace guided {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Logits {
  const float* row;
  int64_t size;
  const uint32_t* bits;
};

struct LogMasses {
  double all;   // log of the sum of exponentials of all logits; -inf: there are none, NaN: one of them is NaN
  double kept;  // the same of those that are allowed
};

// `behind`: so many logits more, which no bit speaks of, count for `all`.
LogMasses log_masses(const Logits& logits, int64_t behind);

struct Best {
  int64_t id;      // the first of the greatest
  float logit;     // -inf: nothing is allowed
  bool is_number;  // none that is allowed is NaN
};
Best best_logit(const Logits& logits);

struct Entry {
  float number;  // a logit, or its weight
  int32_t id;
};
inline bool is_greater(const Entry& a, const Entry& b) {
  return a.number > b.number || (a.number == b.number && a.id < b.id);
}

// The `count` greatest, in any order; fewer where there are not so many. The lower id is the greater one among equals.
// Cost: one pass, and two comparisons for each that is among the `count` greatest so far.
void greatest_logits(const Logits& logits, int64_t count, std::vector<Entry>& out);

// How tokens are weighted for a draw: e ** ((logit - highest) * scale), where this exponent is at least `lowest`, else 0.
struct Weighting {
  float highest;
  float scale;   // 1 / temperature
  float lowest;  // at least -87
};
float weight_of(float logit, const Weighting& weighting);

// The sum of weights, in each of the blocks of kBlock logits and in all.
constexpr int64_t kBlock = 2048;
double weigh(const Logits& logits, const Weighting& weighting, std::vector<double>& blocks);

// The first id up to which the weights sum to more than `target`; `blocks` are those of `weigh`. -1: there are no weights.
int64_t find_weight(const Logits& logits, const Weighting& weighting, const std::vector<double>& blocks, double target);

}  // namespace guided
