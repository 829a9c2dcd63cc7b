// Costs of texts: 1,024 for each byte, and 4,096 for each control token, so 4 bytes cost as much as a control token.
//
// In: costs of at most kUnreachable. Out: their sum or product. These saturate: a result above kUnreachable becomes
// kUnreachable, so callers need no checks for overflow. Cost: a comparison or a division.
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
