#include "base/token_set.hpp"

#include "base/common.hpp"

namespace guided {

// Sorts ids and removes duplicates: in short lists by comparison, in others with a bitmask.
static void sort_ids(std::vector<int32_t>& ids, int32_t words) {
  constexpr size_t kMaxCompared = 64;
  if (ids.size() < kMaxCompared) {
    sort_unique(ids);
    return;
  }
  thread_local std::vector<uint32_t> bits;  // all zeros between calls
  if (bits.size() < static_cast<size_t>(words)) bits.resize(static_cast<size_t>(words));
  for (int32_t id : ids) set_bit(bits.data(), id);
  ids.clear();
  for (int32_t w = 0; w < words; ++w) {
    for (uint32_t x = bits[w]; x; x &= x - 1) ids.push_back(w * 32 + __builtin_ctz(x));
    bits[w] = 0;
  }
}

TokenSet make_token_set(std::vector<int32_t> ids, int32_t words) {
  TokenSet out;
  if (ids.size() < std::min<size_t>(kMinDense, static_cast<size_t>(words) * 2 + 8)) {
    sort_ids(ids, words);
    out.sparse = std::move(ids);
    return out;
  }
  out.dense.assign(static_cast<size_t>(words), 0);
  for (int32_t id : ids) set_bit(out.dense.data(), id);
  return out;
}

TokenSet make_token_set(std::vector<uint32_t> bits) {
  const size_t min_dense_size = std::min<size_t>(kMinDense, bits.size() * 2 + 8);
  size_t count = 0;
  for (size_t w = 0; w < bits.size() && count < min_dense_size; ++w)
    if (bits[w]) count += static_cast<size_t>(__builtin_popcount(bits[w]));
  TokenSet out;
  if (count >= min_dense_size) {
    out.dense = std::move(bits);
    return out;
  }
  for (size_t w = 0; w < bits.size(); ++w)
    for (uint32_t x = bits[w]; x; x &= x - 1) out.sparse.push_back(static_cast<int32_t>(w * 32) + __builtin_ctz(x));
  return out;
}

}  // namespace guided
