// The compiler's interning table: it numbers lists of 32-bit integers in the order of insertion.
//
// All lists share one store and one table with open addressing, so no list needs an allocation of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace guided {

class IntLists {
 public:
  struct Interned {
    int32_t number;
    bool is_new;
  };
  Interned intern(std::span<const int32_t> list) {
    if (static_cast<size_t>(size()) * 2 >= slots_.size()) grow();
    const uint32_t hash = hash_of(list);
    size_t slot = hash & (slots_.size() - 1);
    for (; slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
      const int32_t number = slots_[slot];
      if (hashes_[number] == hash && std::ranges::equal((*this)[number], list)) return {number, false};
    }
    slots_[slot] = size();
    hashes_.push_back(hash);
    integers_.insert(integers_.end(), list.begin(), list.end());
    ends_.push_back(integers_.size());
    return {size() - 1, true};
  }
  // Valid until the next list is added.
  std::span<const int32_t> operator[](int32_t number) const {
    const size_t begin = number ? ends_[number - 1] : 0;
    return {integers_.data() + begin, ends_[number] - begin};
  }
  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  void clear() {
    if (slots_.size() > kMinSlots)
      slots_.assign(kMinSlots, -1);
    else
      std::ranges::fill(slots_, -1);
    integers_.clear();
    ends_.clear();
    hashes_.clear();
  }

 private:
  static constexpr size_t kMinSlots = 64;
  static uint32_t hash_of(std::span<const int32_t> list) {
    uint64_t h = list.size();
    for (int32_t x : list) h = (h ^ static_cast<uint32_t>(x)) * 0x9E3779B97F4A7C15ull + (h >> 29);
    return static_cast<uint32_t>(h ^ h >> 32);
  }
  void grow() {
    slots_.assign(std::max(kMinSlots, slots_.size() * 2), -1);
    for (int32_t number = 0; number < size(); ++number) {
      size_t slot = hashes_[number] & (slots_.size() - 1);
      while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = number;
    }
  }
  std::vector<int32_t> integers_, slots_;
  std::vector<size_t> ends_;
  std::vector<uint32_t> hashes_;
};

}  // namespace guided
