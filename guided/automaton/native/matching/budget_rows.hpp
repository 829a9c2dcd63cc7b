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
#include <vector>

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

// What a matcher does in advance_matchers.
struct StepRequest {
  Matcher* matcher;
  int32_t token;  // accepted first; -1: none
  uint32_t* rows;
  int64_t max_tokens;  // after the token
  bool has_ramp;
};
struct StepResult {
  bool is_accepted = false;  // the token was accepted
  bool is_unforced = false;  // and nothing is forced after it
  bool is_filled = false;    // and the rows are filled
  BudgetRows rows;
  double seconds = 0;        // of thread time
  std::exception_ptr error;  // what ended the step early
};

// Runs the steps one after the other. Each accepts a token; unless something is forced then, or the output has ended,
// it fills the rows. An error is not thrown here: the caller repeats what is missing, which usually throws it again.
std::vector<StepResult> advance_matchers(const std::vector<StepRequest>& requests);

// What a matcher does in advance_row.
struct RowRequest {
  Matcher* matcher;
  int32_t token;
  uint32_t* row;
  int64_t max_tokens;  // after the token
  bool has_ramp;
};
// How far the step went. Each status includes the ones before it.
enum class RowStatus : uint8_t {
  kRejected,  // nothing has changed
  kAccepted,  // the token was accepted; something is forced after it, or the output has ended
  kUnforced,  // nothing is forced, but the row is not filled, or more rows are needed
  kFilled,    // the row is filled; the budget removes nothing from it, and some token does not end the output
};
struct RowResult {
  RowStatus status = RowStatus::kRejected;
  double fill_seconds = 0;   // the wall time for the row
  double seconds = 0;        // of thread time
  std::exception_ptr error;  // what ended the step early
};

// Accepts a token, and fills one row for the next choice if that choice needs nothing else. This is the step of a
// sequence in the middle of its output, which Python need not see (guided/engine/runs.py). Does not throw.
RowResult advance_row(const RowRequest& request);

}  // namespace guided
