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

  Matcher& matcher_;
  uint32_t* allowed_;
  int32_t words_;
  int64_t max_tokens_;
  bool is_bound_ = false, half_is_too_small_ = false;
  BudgetRows result_;
};

// Whether a row allows no token except end tokens.
bool allows_only_ends(const TokenVocabulary& vocabulary, const uint32_t* row) {
  const auto count = [](uint32_t word) { return std::popcount(word); };
  const int64_t allowed = std::transform_reduce(row, row + vocabulary.words, int64_t{0}, std::plus<>(), count);
  const auto& ends = vocabulary.end_tokens;
  return allowed == std::count_if(ends.begin(), ends.end(), [&](int32_t id) { return row[id / 32] >> (id % 32) & 1; });
}

// Fills the row under the budget. Returns false if the budget removes tokens, if it is so small that there may be a row
// `longer`, or if the output has to end.
bool fill_ample_row(const RowRequest& request) {
  Matcher& matcher = *request.matcher;
  bool is_ample = false;
  try {
    if (request.has_ramp) {
      fill_row(matcher, request.row, request.max_tokens / 2);
      is_ample = !matcher.budget_bound();
    }
    if (!is_ample) {
      fill_row(matcher, request.row, request.max_tokens);
      is_ample = !matcher.budget_bound();
    }
  } catch (const BudgetFailure&) {
    return false;
  }
  return is_ample && !(matcher.accepting() && allows_only_ends(*matcher.compiled().vocabulary, request.row));
}

}  // namespace

BudgetRows fill_budget_rows(Matcher& matcher, uint32_t* rows, int64_t max_tokens, bool has_ramp) {
  return RowFiller(matcher, rows, max_tokens).fill(has_ramp);
}

std::vector<StepResult> advance_matchers(const std::vector<StepRequest>& requests) {
  std::vector<StepResult> results(requests.size());
  double begin = thread_seconds();
  for (size_t i = 0; i < requests.size(); ++i) {
    const StepRequest& request = requests[i];
    StepResult& result = results[i];
    Matcher& matcher = *request.matcher;
    try {
      result.is_accepted = request.token < 0 || matcher.accept_token(request.token);
      result.is_unforced =
          result.is_accepted && (request.token < 0 || (!matcher.terminated() && matcher.forced(1).empty()));
      if (result.is_unforced) {
        result.rows = fill_budget_rows(matcher, request.rows, request.max_tokens, request.has_ramp);
        result.is_filled = true;
      }
    } catch (...) {
      result.error = std::current_exception();
    }
    const double end = thread_seconds();
    result.seconds = end - begin;
    begin = end;
  }
  return results;
}

RowResult advance_row(const RowRequest& request) {
  RowResult result;
  const double begin = thread_seconds();
  Matcher& matcher = *request.matcher;
  try {
    if (matcher.accept_token(request.token)) {
      result.status = RowStatus::kAccepted;
      if (!matcher.terminated() && matcher.forced(1).empty()) {
        result.status = RowStatus::kUnforced;
        const auto fill_begin = std::chrono::steady_clock::now();
        if (fill_ample_row(request)) result.status = RowStatus::kFilled;
        result.fill_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - fill_begin).count();
      }
    }
  } catch (...) {
    result.error = std::current_exception();
  }
  result.seconds = thread_seconds() - begin;
  return result;
}

}  // namespace guided
