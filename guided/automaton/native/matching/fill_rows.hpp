// Fills the masks of many matchers on several OS threads.
#pragma once

#include <cstdint>
#include <vector>

#include "matching/matcher.hpp"

namespace guided {

// Fills row rows[i] of `mask` (rows are `words` words long) from matchers[i], on up to `threads` OS threads. Starts
// additional threads only after 0.1 ms. `max_tokens`: as in Matcher::fill.
void fill_rows(const std::vector<Matcher*>& matchers, uint32_t* mask, const std::vector<int64_t>& rows, int64_t words,
               int64_t max_tokens, int threads);

}  // namespace guided
