// The masks of many matchers, on threads.
#pragma once

#include <cstdint>
#include <vector>

#include "matching/matcher.hpp"

namespace guided {

// Fills rows[i] of `mask` (row stride `words`) from matchers[i] on up to `threads` threads; all but the caller's join
// once that has worked for 0.1 ms.
void fill_rows(const std::vector<Matcher*>& matchers, uint32_t* mask, const std::vector<int64_t>& rows, int64_t words,
               int64_t max_tokens, int threads);

// Does what matchers[i] must find out for a mask with max_tokens = budgets[i]. The grammar remembers it, so `fill` is
// quick then. Errors are left to `fill`. The seconds of thread time for each matcher.
std::vector<double> prepare_rows(const std::vector<Matcher*>& matchers, const std::vector<int64_t>& budgets);

}  // namespace guided
