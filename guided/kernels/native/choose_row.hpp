// Chooses a token from a row of logits: masks, bans, bias and penalties, temperature, min-p, top-k, top-p, and the
// requested log probabilities.
//
// In: a `Choice` with a row of float32 logits, which is only read. Out: a `ChosenToken`. The order of the steps is
// documented in SamplingParams (guided/sampling/params.py); guided/sampling/reference_choice.py implements them in torch. At
// temperature 0, the token with the greatest logit is chosen. Otherwise, it is the first token at which the cumulative
// distribution exceeds a uniform number from the caller, so a choice depends only on its arguments. Cost: two to four
// passes over the row, and a copy if logits are changed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "logit_row.hpp"

namespace guided {

// What a request changes in addition to its mask. Ids are below the vocabulary size.
struct Changes {
  const uint32_t* permitted = nullptr;  // a bitmask of the tokens that may be chosen; null: all
  std::vector<int32_t> banned;          // tokens that may not be chosen
  std::vector<int32_t> ends;            // tokens that may be chosen only if no other token may
  const int32_t* biased = nullptr;      // tokens to whose logits a bias is added
  const float* bias = nullptr;
  int64_t bias_count = 0;
  const int32_t* seen = nullptr;  // tokens of the prompt and the output
  const float* counts = nullptr;  // how often each of them is in the output
  int64_t seen_count = 0;
  float repetition = 1;  // divides positive logits of seen tokens, multiplies their other logits
  float presence = 0;    // subtracted from the logits of tokens in the output
  float frequency = 0;   // subtracted once for each occurrence
};

struct Choice {
  const float* logits;
  int64_t width;                         // the number of logits in the row
  int64_t size;                          // of the vocabulary; ids from here on are never chosen
  const uint32_t* allowed = nullptr;     // a bitmask; null: all tokens are allowed
  const uint32_t* unbudgeted = nullptr;  // the mask without its budget; null: the budget removed nothing
  const uint32_t* ramped = nullptr;      // tokens whose logits are lowered by `ramp`
  float ramp = 0;
  std::optional<Changes> changes;
  double temperature = 0;
  int64_t top_k = 0;       // 0: all
  double top_p = 1;        // 1: all
  double min_p = 0;        // 0: all
  double uniform = 0;      // in [0, 1)
  int64_t scores = -1;     // the number of most likely tokens to return; -1: no log probabilities
  bool raw_scores = true;  // log probabilities from the model's logits, not from the changed ones
};

enum class Refusal : int32_t { kNone, kNoNumber, kAllBanned };

struct ChosenToken {
  Refusal refusal = Refusal::kNone;
  int64_t token = -1;
  double highest = 0;                 // with kNoNumber: -inf (no token is allowed), inf or NaN
  double removed_log_mass = 0;        // -log of the total probability of the allowed tokens; 0: no mask
  std::optional<double> budget_mass;  // the probability that the budget and the ramp removed
  double logprob = 0;                 // of the token
  double mass = 0;                    // log of the sum of exponentials to which log probabilities are relative
  double model_logprob = 0;           // log of the model's probability of the token; 0: no mask
  int64_t preferred = -1;             // the model's most likely token if the mask forbids it
  std::vector<Entry> top;             // the most likely tokens and their logits
};

ChosenToken choose_row(const Choice& choice);

}  // namespace guided
