// Chooses a token from a row of logits: masks, bans, bias and penalties, temperature, min-p, top-k, top-p, and the log
// probabilities that are asked for.
//
// In: a row of float32 logits, which is only read, and a `Choice`. Out: a `Chosen`. The order is that of SamplingParams
// (guided/sampling/params.py); guided/sampling/choosing.py has the same in torch. Temperature 0 takes the greatest logit;
// else the token is where the cumulative distribution exceeds a uniform number that the caller gives, so a choice depends on
// its arguments alone. Cost: two to four passes over the row, and a copy where something changes logits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "logit_row.hpp"

namespace guided {

// What a request changes besides its mask. Ids are below the size of the vocabulary.
struct Changes {
  const uint32_t* permitted = nullptr;  // a bitmask: no others may come; null: all may
  std::vector<int32_t> banned;          // may not come
  std::vector<int32_t> ends;            // may come only where nothing else may
  const int32_t* biased = nullptr;      // a bias is added to the logits of these
  const float* bias = nullptr;
  int64_t biases = 0;
  const int32_t* seen = nullptr;  // tokens of the prompt and the output
  const float* counts = nullptr;  // how often each is in the output
  int64_t seen_count = 0;
  float repetition = 1;  // divides logits above 0 of what was seen, multiplies others
  float presence = 0;    // is subtracted from the logits of what is in the output
  float frequency = 0;   // and this as often as it is there
};

struct Choice {
  const float* logits;
  int64_t width;                         // of the row
  int64_t size;                          // of the vocabulary: ids from here on are never chosen
  const uint32_t* allowed = nullptr;     // a bitmask; null: everything is
  const uint32_t* unbudgeted = nullptr;  // the mask without its budget, where that removed something
  const uint32_t* ramped = nullptr;      // tokens whose logits are lowered by `ramp`
  float ramp = 0;
  std::optional<Changes> changes;
  double temperature = 0;
  int64_t top_k = 0;       // 0: all
  double top_p = 1;        // 1: all
  double min_p = 0;        // 0: all
  double uniform = 0;      // in [0, 1)
  int64_t scores = -1;     // how many of the most likely tokens to return; -1: no log probabilities at all
  bool raw_scores = true;  // by the model's own logits, not by those that the choice is made from
};

enum class Refusal : int32_t { kNone, kNoNumber, kAllBanned };

struct Chosen {
  Refusal refusal = Refusal::kNone;
  int64_t token = -1;
  double highest = 0;               // of logits without a number: -inf (nothing is allowed), inf or NaN
  double removed = 0;               // -log of the probability that the mask left; 0: there is none
  std::optional<double> by_budget;  // the probability that the budget and the ramp took
  double logprob = 0;               // of the token
  double mass = 0;                  // log of the sum of exponentials that log probabilities are relative to
  std::vector<Entry> top;           // the most likely tokens and their logits
};

Chosen choose_row(const Choice& choice);

}  // namespace guided
