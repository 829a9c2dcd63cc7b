// Costs of texts. They saturate: a sum or product above kUnreachable becomes kUnreachable.
#pragma once

#include <algorithm>
#include <cstdint>

namespace guided {

constexpr int64_t kUnreachable = INT64_MAX / 8;  // the end cannot be reached
constexpr int64_t kByteCost = 1024, kTokenCost = 4096;

inline int64_t plus(int64_t a, int64_t b) { return std::min(kUnreachable, a + b); }
inline int64_t times(int64_t a, int64_t n) {
  return n == 0 || a == 0 ? 0 : a > kUnreachable / n ? kUnreachable : a * n;
}

}  // namespace guided
