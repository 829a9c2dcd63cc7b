#include "matching/budget_rows.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <ctime>
#include <functional>
#include <numeric>

#include "vocabulary/vocabulary.hpp"

namespace guided {

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void fill_row(Matcher& matcher, uint32_t* row, int64_t max_tokens) {
  if (matcher.fill(row, max_tokens)) return;
  const TokenVocabulary& vocabulary = *matcher.compiled().vocabulary;
  std::fill_n(row, vocabulary.words, ~0u);
  if (vocabulary.size % 32 != 0) row[vocabulary.words - 1] = (1u << (vocabulary.size % 32)) - 1;
}

class RowFiller {
 public:
  RowFiller(Matcher& matcher, uint32_t* rows, int64_t max_tokens)
      : matcher_(matcher), allowed_(rows), words_(matcher.compiled().vocabulary->words), max_tokens_(max_tokens) {}

  BudgetRows fill(bool has_ramp) {
    if (has_ramp && fill_with_half()) return result_;
    fill_allowed(max_tokens_);
    if (half_is_too_small_) fill_longer();
    if (is_bound_) {
      uint32_t* unbudgeted = allowed_ + words_;
      fill_row(matcher_, unbudgeted, -1);
      result_.has_unbudgeted = !std::equal(allowed_, allowed_ + words_, unbudgeted);
    }
    return result_;
  }

  // Fills only the first row. Returns whether a choice needs nothing else.
  bool fill_alone(bool has_ramp) {
    const bool is_ample = has_ramp && fill_with_half();
    if (half_is_too_small_) return false;
    if (!is_ample) fill_allowed(max_tokens_);
    return !is_bound_ && !(matcher_.accepting() && allows_only_ends());
  }

  const BudgetRows& result() const { return result_; }

 private:
  // Whether half of the budget removes no token. Then the row equals the one under the whole budget.
  bool fill_with_half() {
    try {
      fill_allowed(max_tokens_ / 2);
      return !is_bound_;
    } catch (const BudgetFailure&) {
      half_is_too_small_ = true;
      return false;
    }
  }

  void fill_allowed(int64_t max_tokens) {
    const auto begin = std::chrono::steady_clock::now();
    fill_row(matcher_, allowed_, max_tokens);
    is_bound_ = matcher_.budget_bound();
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void fill_longer() {
    const int64_t length = matcher_.min_tokens();
    uint32_t* longer = allowed_ + 2 * words_;
    fill_row(matcher_, longer, length);
    bool is_empty = true;
    for (int32_t w = 0; w < words_; ++w) {
      longer[w] = allowed_[w] & ~longer[w];
      is_empty = is_empty && longer[w] == 0;
    }
    if (!is_empty) result_.ramp_length = length;
  }

  bool allows_only_ends() const {
    const TokenVocabulary& vocabulary = *matcher_.compiled().vocabulary;
    const auto count = [](uint32_t word) { return std::popcount(word); };
    const int64_t allowed = std::transform_reduce(allowed_, allowed_ + words_, int64_t{0}, std::plus<>(), count);
    const auto& ends = vocabulary.end_tokens;
    const auto is_allowed = [&](int32_t id) { return allowed_[id / 32] >> (id % 32) & 1; };
    return allowed == std::count_if(ends.begin(), ends.end(), is_allowed);
  }

  Matcher& matcher_;
  uint32_t* allowed_;
  int32_t words_;
  int64_t max_tokens_;
  bool is_bound_ = false, half_is_too_small_ = false;
  BudgetRows result_;
};

// Runs a step: accepts the token, and calls `fill`, which returns whether the rows are filled.
template <class Fill>
StepResult run_step(const StepRequest& request, Fill fill) {
  StepResult result;
  const double begin = thread_seconds();
  Matcher& matcher = *request.matcher;
  try {
    const bool has_token = request.token >= 0;
    if (!has_token || matcher.accept_token(request.token)) {
      result.status = StepStatus::kAccepted;
      if (!has_token || (!matcher.terminated() && matcher.forced(1).empty())) {
        result.status = StepStatus::kUnforced;
        if (fill(result.rows)) result.status = StepStatus::kFilled;
      }
    }
  } catch (...) {
    result.error = std::current_exception();
  }
  result.seconds = thread_seconds() - begin;
  return result;
}

}  // namespace

BudgetRows fill_budget_rows(Matcher& matcher, uint32_t* rows, int64_t max_tokens, bool has_ramp) {
  return RowFiller(matcher, rows, max_tokens).fill(has_ramp);
}

StepResult advance_matcher(const StepRequest& request) {
  return run_step(request, [&](BudgetRows& rows) {
    rows = fill_budget_rows(*request.matcher, request.rows, request.max_tokens, request.has_ramp);
    return true;
  });
}

StepResult advance_row(const StepRequest& request) {
  return run_step(request, [&](BudgetRows& rows) {
    RowFiller filler(*request.matcher, request.rows, request.max_tokens);
    try {
      const bool is_filled = filler.fill_alone(request.has_ramp);
      rows = filler.result();
      return is_filled;
    } catch (const BudgetFailure&) {
      return false;
    }
  });
}

}  // namespace guided
