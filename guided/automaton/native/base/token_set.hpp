// A set of token ids.
//
// In: ids in any order, or a mask row. Out: a bitmask if there are many ids, otherwise a sorted list. `add_to` adds the
// set to a mask row by OR.
// Cost: O(n log n) for fewer than 64 ids, otherwise O(n + words of a row).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace guided {

// A set with at least this many ids, or with fewer in a small vocabulary, is stored as a bitmask.
constexpr size_t kMinDense = 600;

inline void set_bit(uint32_t* row, int32_t id) { row[id >> 5] |= 1u << (id & 31); }
inline void clear_bit(uint32_t* row, int32_t id) { row[id >> 5] &= ~(1u << (id & 31)); }

struct TokenSet {
  std::vector<uint32_t> dense;  // words of a mask row, or empty
  std::vector<int32_t> sparse;  // sorted ids; empty if dense
  bool has(int32_t id) const {
    if (dense.empty()) return std::binary_search(sparse.begin(), sparse.end(), id);
    return dense[static_cast<size_t>(id) >> 5] >> (id & 31) & 1;
  }
  template <class Visit>
  void each(Visit&& visit) const {
    for (size_t w = 0; w < dense.size(); ++w)
      for (uint32_t x = dense[w]; x; x &= x - 1) visit(static_cast<int32_t>(w * 32) + __builtin_ctz(x));
    for (int32_t id : sparse) visit(id);
  }
  void add_to(uint32_t* row) const {
    for (size_t w = 0; w < dense.size(); ++w) row[w] |= dense[w];
    for (int32_t id : sparse) set_bit(row, id);
  }
  size_t bytes() const { return sizeof(TokenSet) + dense.size() * 4 + sparse.size() * 4; }
};
TokenSet make_token_set(std::vector<int32_t> ids, int32_t words);
TokenSet make_token_set(std::vector<uint32_t> bits);  // from a mask row

}  // namespace guided
