// Computes the masks of an existing output, for trainers and audits.
//
// In: a matcher in the state before the output, the output's token ids, and its budget. Out: how many ids are allowed,
// or all masks: each distinct row once, and for each position the number of its row. JSON has few distinct rows: all
// positions inside strings share one.
//
// How: the matcher accepts exactly the tokens that its mask without a budget allows. So `accept_output` takes steps,
// which are cached, and fills a mask only if the budget may remove tokens there. `output_masks` recognises a row by the
// digest of the state's mask (mask_digests.hpp), and fills each distinct row once. If the budget may remove tokens at a
// position, it fills the row of this position to compute the digest.
//
// Cost in states that were visited before: 0.1 us per token, and about 3 us per distinct row of 16 KB.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "matching/matcher.hpp"

namespace guided {

// Accepts ids as long as they are allowed, and returns the number of accepted ids. `budget`: the budget at the first
// id, as in Matcher::fill; it shrinks by 1 with each id. Throws BudgetFailure if no output fits.
size_t accept_output(Matcher& matcher, std::span<const int64_t> ids, int64_t budget);

struct OutputMasks {
  std::vector<uint32_t> rows;    // the distinct rows
  std::vector<int32_t> numbers;  // for each position: the index of its row; a row without tokens after a refused id
};

// Accepts ids like `accept_output`. Throws LimitFailure if the rows take more memory than one call may use.
OutputMasks output_masks(Matcher& matcher, std::span<const int64_t> ids, int64_t budget);

}  // namespace guided
