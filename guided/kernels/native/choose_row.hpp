// Chooses a token from a row of logits: masks, bans, bias and penalties, temperature, min-p, top-k, top-p, and the
// requested log probabilities.
//
// In: a `Choice` with a row of float32 logits, which is only read. Out: a `Chosen`. The order of the steps is
// documented in SamplingParams (guided/sampling/params.py); guided/sampling/choosing.py does the same in torch.
// Temperature 0 takes the greatest logit. Otherwise, the token is the first at which the cumulative distribution
// exceeds a uniform number from the caller, so a choice depends only on its arguments. Cost: two to four passes over
// the row, and a copy if logits are changed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "logit_row.hpp"

namespace guided {

// The changes of a request in addition to its mask. Ids are below the vocabulary size.
struct Changes {
  const uint32_t* permitted = nullptr;  // a bitmask: only these may be chosen; null: all may
  std::vector<int32_t> banned;          // may not be chosen
  std::vector<int32_t> ends;            // may be chosen only if nothing else may
  const int32_t* biased = nullptr;      // tokens to whose logits a bias is added
  const float* bias = nullptr;
  int64_t biases = 0;
  const int32_t* seen = nullptr;  // tokens of the prompt and the output
  const float* counts = nullptr;  // how often each is in the output
  int64_t seen_count = 0;
  float repetition = 1;  // divides positive logits of seen tokens, multiplies the others
  float presence = 0;    // is subtracted from the logits of tokens in the output
  float frequency = 0;   // is subtracted once for each occurrence
};

struct Choice {
  const float* logits;
  int64_t width;                         // of the row
  int64_t size;                          // of the vocabulary: ids from here on are never chosen
  const uint32_t* allowed = nullptr;     // a bitmask; null: everything is allowed
  const uint32_t* unbudgeted = nullptr;  // the mask without its budget; null: the budget removed nothing
  const uint32_t* ramped = nullptr;      // tokens whose logits are lowered by `ramp`
  float ramp = 0;
  std::optional<Changes> changes;
  double temperature = 0;
  int64_t top_k = 0;       // 0: all
  double top_p = 1;        // 1: all
  double min_p = 0;        // 0: all
  double uniform = 0;      // in [0, 1)
  int64_t scores = -1;     // how many of the most likely tokens to return; -1: no log probabilities at all
  bool raw_scores = true;  // for the model's own logits, not for the changed ones
};

enum class Refusal : int32_t { kNone, kNoNumber, kAllBanned };

struct Chosen {
  Refusal refusal = Refusal::kNone;
  int64_t token = -1;
  double highest = 0;               // with kNoNumber: -inf (nothing is allowed), inf or NaN
  double removed = 0;               // -log of the probability that the mask left; 0: no mask
  std::optional<double> by_budget;  // the probability that the budget and the ramp removed
  double logprob = 0;               // of the token
  double mass = 0;                  // log of the sum of exponentials to which log probabilities are relative
  double by_model = 0;              // log of the model's probability of the token; 0: no mask
  int64_t preferred = -1;           // the model's most likely token if the mask forbids it
  std::vector<Entry> top;           // the most likely tokens and their logits
};

Chosen choose_row(const Choice& choice);

}  // namespace guided
