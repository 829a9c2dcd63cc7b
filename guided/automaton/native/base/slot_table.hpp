// A hash table that grows incrementally. It uses open addressing with linear probing, and nothing is removed.
//
// It is for tables that grow during a step, where rehashing a whole table at once would delay some steps by
// milliseconds. In: slots that compute their own hashes. A slot whose bytes are all zero is free. When a table of twice
// the size replaces a full one, each addition moves a few old slots. Until all have moved, look-ups search both tables.
// Cost: a look-up reads one or two cache lines, twice as many during growth; an addition moves at most
// kMovesPerAddition slots.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace guided {

// Slot: trivially copyable, with `uint64_t hash() const` and `bool is_free() const`.
template <class Slot>
class SlotTable {
 public:
  // The slot with this hash for which `match` is true, or null. Valid until the next addition.
  template <class Match>
  Slot* find(uint64_t hash, Match&& match) const {
    if (Slot* match_slot = find_in(slots_, size_, hash, match)) return match_slot;
    return moved_ < old_size_ ? find_in(old_, old_size_, hash, match) : nullptr;
  }
  // Adds a slot that is not in the table.
  void add(const Slot& slot) {
    if ((count_ + 1) * 3 > size_ * 2) grow();
    ++count_;
    insert(slot);
    for (int n = 0; n < kMovesPerAddition && moved_ < old_size_; ++n, ++moved_)
      if (!old_[moved_].is_free()) insert(old_[moved_]);
    if (old_ && moved_ == old_size_) old_.reset();
  }

 private:
  // 2 would suffice, because the n old slots are visited while 2n / 3 entries are added.
  static constexpr int kMovesPerAddition = 4;
  struct FreeSlots {
    void operator()(Slot* slots) const { std::free(slots); }
  };
  using Slots = std::unique_ptr<Slot[], FreeSlots>;

  template <class Match>
  static Slot* find_in(const Slots& slots, size_t size, uint64_t hash, Match& match) {
    if (size == 0) return nullptr;
    for (size_t i = hash & (size - 1); !slots[i].is_free(); i = (i + 1) & (size - 1))
      if (match(slots[i])) return &slots[i];
    return nullptr;
  }
  void insert(const Slot& slot) {
    size_t i = slot.hash() & (size_ - 1);
    while (!slots_[i].is_free()) i = (i + 1) & (size_ - 1);
    slots_[i] = slot;
  }
  void grow() {
    const size_t size = size_ == 0 ? 64 : size_ * 2;
    auto* new_slots = static_cast<Slot*>(std::calloc(size, sizeof(Slot)));  // untouched pages cost nothing
    if (!new_slots) throw std::bad_alloc();
    old_ = std::exchange(slots_, Slots(new_slots));
    old_size_ = std::exchange(size_, size);
    moved_ = 0;
  }

  Slots slots_, old_;
  size_t size_ = 0, old_size_ = 0, moved_ = 0, count_ = 0;
};

// Maps the hashes of objects that are stored elsewhere to the numbers of these objects.
class NumberTable {
 public:
  // The number with this hash for which `match` is true, or -1.
  template <class Match>
  int32_t find(uint64_t hash, Match&& match) const {
    const auto half_hash = static_cast<uint32_t>(hash);
    const NumberSlot* match_slot =
        table_.find(half_hash, [&](const NumberSlot& n) { return n.half_hash == half_hash && match(n.number - 1); });
    return match_slot ? match_slot->number - 1 : -1;
  }
  // Adds a number that is not in the table.
  void add(uint64_t hash, int32_t number) { table_.add({number + 1, static_cast<uint32_t>(hash)}); }

 private:
  struct NumberSlot {
    int32_t number;      // the number plus 1; 0: the slot is free
    uint32_t half_hash;  // the lower half of the hash
    uint64_t hash() const { return half_hash; }
    bool is_free() const { return number == 0; }
  };
  SlotTable<NumberSlot> table_;
};

}  // namespace guided
