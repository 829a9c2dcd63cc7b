// Fills the mask rows that an engine needs to choose a token under a budget, and advances matchers by one step.
//
// In: a matcher and the remaining budget. Out: three rows of the vocabulary's width:
//   allowed:    the mask under the budget
//   unbudgeted: the mask without a budget, if the budget removed tokens
//   longer:     only if half of the budget is too small to complete the output: the allowed tokens after which the
//               shortest completion becomes longer. They are the tokens of the budget ramp (guided/engine/masks.py).
// Cost: one mask while half of the budget suffices, up to four otherwise.
#pragma once

#include <cstdint>
#include <exception>

#include "matching/matcher.hpp"

namespace guided {

struct BudgetRows {
  bool has_unbudgeted = false;
  int64_t ramp_length = 0;  // the length of the shortest completion if there is a row `longer`, otherwise 0
  double seconds = 0;       // the wall time for the row `allowed`
};

// Fills up to three rows of `words` words each, one after the other. `has_ramp`: whether to compute `longer`. Throws
// BudgetFailure if not even the shortest output fits into `max_tokens`.
BudgetRows fill_budget_rows(Matcher& matcher, uint32_t* rows, int64_t max_tokens, bool has_ramp);

// How far the step of a matcher went. Each status includes the ones before it.
enum class StepStatus : uint8_t {
  kRejected,  // nothing has changed
  kAccepted,  // the token was accepted; something is forced after it, or the output has ended
  kUnforced,  // nothing is forced, but the rows are not filled
  kFilled,    // the rows are filled
};

// The step of a matcher: it accepts a token; unless something is forced then, or the output has ended, it fills rows.
struct StepRequest {
  Matcher* matcher;
  int32_t token;  // -1: none
  uint32_t* rows;
  int64_t max_tokens;  // after the token
  bool has_ramp;
};
struct StepResult {
  StepStatus status = StepStatus::kRejected;
  BudgetRows rows;
  double seconds = 0;        // of thread time
  std::exception_ptr error;  // what ended the step early
};

// Runs a step that fills all rows. An error is not thrown here: the caller repeats what is missing, which usually throws
// it again.
StepResult advance_matcher(const StepRequest& request);

// Runs a step that fills only one row, for a choice that needs nothing else: the budget removes nothing from it, half of
// the budget can complete the output, and some allowed token does not end the output. Otherwise, the status is at most
// kUnforced. This is the step of a sequence in the middle of its output, which Python need not see
// (guided/engine/runs.py). Does not throw either.
StepResult advance_row(const StepRequest& request);

}  // namespace guided
