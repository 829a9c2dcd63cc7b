// What the bindings of matchers share: bitmasks as arguments, and budgets that may be negative.
#pragma once

#include <nanobind/ndarray.h>

#include <algorithm>
#include <string>

#include "matching/budget_rows.hpp"
#include "python/bindings.hpp"

namespace guided {

// Bitmasks are never converted: nanobind would fill a temporary copy and discard it.
using MaskArray = nanobind::ndarray<int32_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

inline uint32_t* row_of(const Matcher& matcher, const MaskArray& mask, int64_t row) {
  int32_t words = const_cast<Matcher&>(matcher).compiled().vocabulary->words;
  if (static_cast<int64_t>(mask.shape(1)) != words)
    throw nanobind::value_error(("bitmask has " + std::to_string(mask.shape(1)) +
                                 " words in a row, but the vocabulary needs " + std::to_string(words))
                                    .c_str());
  if (row < 0 || row >= static_cast<int64_t>(mask.shape(0))) throw nanobind::index_error("row outside the bitmask");
  if (mask.data() == nullptr) throw nanobind::value_error("the bitmask has no memory: its storage has been freed");
  return reinterpret_cast<uint32_t*>(mask.data()) + row * words;
}

// Calls `fill` with the budget, or with 0 if it is negative. The error reports the caller's value.
template <class Fill>
auto with_budget(int64_t max_tokens, const Fill& fill) {
  try {
    return fill(std::max<int64_t>(max_tokens, 0));
  } catch (const BudgetFailure& failure) {
    throw BudgetFailure(failure.needed, max_tokens);
  }
}

// The first of at least three consecutive rows.
inline uint32_t* three_rows_of(const Matcher& matcher, const MaskArray& mask) {
  row_of(matcher, mask, 2);
  return row_of(matcher, mask, 0);
}

inline nanobind::tuple to_tuple(const BudgetRows& rows) {
  return nanobind::make_tuple(rows.has_unbudgeted, rows.ramp_length, rows.seconds);
}

}  // namespace guided
