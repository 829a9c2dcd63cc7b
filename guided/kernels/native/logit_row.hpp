// Passes over a row of logits under a bitmask: the probability mass of the allowed tokens, the greatest allowed logits,
// and sampling weights at a temperature.
//
// In: float32 logits (size,), and a bitmask in which bit `id % 32` of word `id // 32` is 1 if the token is allowed;
// bits after the last logit are ignored. Logits are only read. Each pass reads them from memory once, sixteen at a
// time. A logit of -inf is never chosen, even if its bit is set. Additions are in a fixed order.
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
  double all;      // log of the sum of exponentials of all logits; -inf: all are -inf; NaN: a logit is NaN
  double allowed;  // log of the sum of exponentials of the allowed logits
};

// `extra_count`: the number of logits after the row that have no bit in the mask. They count only for `all`.
LogMasses log_masses(const Logits& logits, int64_t extra_count);

struct Best {
  int64_t id;      // the lowest id with the greatest allowed logit
  float logit;     // -inf: no token is allowed
  bool is_number;  // whether no allowed logit is NaN
};
Best best_logit(const Logits& logits);

struct Entry {
  float number;  // a logit, or its weight
  int32_t id;
};
inline bool is_greater(const Entry& a, const Entry& b) {
  return a.number > b.number || (a.number == b.number && a.id < b.id);
}

// Writes the `count` greatest allowed logits to `out` in any order, or all if there are fewer. Among equal logits, the
// lower id ranks higher. Cost: one pass, and about two comparisons for each logit that is among the `count` greatest
// when it is read.
void greatest_logits(const Logits& logits, int64_t count, std::vector<Entry>& out);

// The weight of a token in a draw: e ** ((logit - highest) * scale), or 0 if this exponent is below `lowest`.
struct Weighting {
  float highest;
  float scale;   // 1 / temperature
  float lowest;  // at least -87
};
float weight_of(float logit, const Weighting& weighting);

// Returns the sum of all weights, and writes the sum of each block of kBlock logits to `blocks`.
constexpr int64_t kBlock = 2048;
double weigh(const Logits& logits, const Weighting& weighting, std::vector<double>& blocks);

// The first id at which the cumulative weight exceeds `target`; -1: all weights are 0. `blocks`: from `weigh`.
int64_t find_weight(const Logits& logits, const Weighting& weighting, const std::vector<double>& blocks, double target);

}  // namespace guided
