// A hash table from 64-bit keys, such as two packed int32 values, to 32-bit values. It grows incrementally
// (slot_table.hpp); nothing is removed.
//
// Cost: a look-up reads one or two cache lines; 24 to 48 bytes of memory per entry.
#pragma once

#include <cstdint>

#include "base/common.hpp"
#include "base/slot_table.hpp"

namespace guided {

class PairMap {
 public:
  // Null if the key is missing. The pointer is valid until the next change.
  const int32_t* find(uint64_t key) const {
    const Slot* match = find_slot(key);
    return match ? &match->value : nullptr;
  }
  // `key` must not be all ones.
  void set(uint64_t key, int32_t value) {
    if (Slot* match = find_slot(key))
      match->value = value;
    else
      table_.add({~key, value});
  }

 private:
  struct Slot {
    uint64_t inverted_key;  // 0 means that the slot is free
    int32_t value;
    uint64_t hash() const { return mix(~inverted_key); }
    bool is_free() const { return inverted_key == 0; }
  };
  Slot* find_slot(uint64_t key) const {
    return table_.find(mix(key), [key](const Slot& s) { return s.inverted_key == ~key; });
  }
  SlotTable<Slot> table_;
};

}  // namespace guided
