// A hash table from 64-bit keys to 32-bit values: open addressing with linear probing, nothing is removed.
//
// For tables that grow inside of a step: to grow copies 12 bytes an entry, in order, where a table of nodes visits
// each.
// Cost: a look-up reads one or two cache lines; memory 17 to 34 bytes an entry.
#pragma once

#include <cstdint>
#include <vector>

#include "common.hpp"

namespace guided {

class PairMap {
 public:
  // Null where there is none; valid until the next change.
  const int32_t* find(uint64_t key) const {
    if (keys_.empty()) return nullptr;
    const size_t at = slot(key);
    return keys_[at] == key ? &values_[at] : nullptr;
  }
  // `key`: not all ones.
  void set(uint64_t key, int32_t value) {
    if ((count_ + 1) * 10 > keys_.size() * 7) grow();
    const size_t at = slot(key);
    count_ += keys_[at] == kNone;
    keys_[at] = key;
    values_[at] = value;
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};

  // Where a key is, or belongs.
  size_t slot(uint64_t key) const {
    const size_t last = keys_.size() - 1;
    size_t at = mix(key) & last;
    while (keys_[at] != key && keys_[at] != kNone) at = (at + 1) & last;
    return at;
  }
  void grow() {
    std::vector<uint64_t> keys(keys_.empty() ? 64 : keys_.size() * 2, kNone);
    std::vector<int32_t> values(keys.size());
    keys.swap(keys_);
    values.swap(values_);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == kNone) continue;
      const size_t at = slot(keys[i]);
      keys_[at] = keys[i];
      values_[at] = values[i];
    }
  }

  std::vector<uint64_t> keys_;
  std::vector<int32_t> values_;
  size_t count_ = 0;
};

}  // namespace guided
