// A hash table that grows a little at a time: open addressing with linear probing; nothing is removed.
//
// For tables that grow during a step. Rehashing a whole table at once would delay some steps by milliseconds. In: slots
// that compute their own hashes. A slot of zero bytes is free. When a table of twice the size replaces a full one, each
// addition moves a few old slots. Until all have moved, look-ups search both tables.
// Cost: a look-up reads one or two cache lines, twice as many during growth; an addition moves at most kMoved slots.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace guided {

// Slot: trivially copyable, with `uint64_t hash() const` and `bool free() const`.
template <class Slot>
class SlotTable {
 public:
  // The slot with this hash for which `match` is true, or null. Valid until the next addition.
  template <class Match>
  Slot* find(uint64_t hash, Match&& match) const {
    if (Slot* found = look(slots_, size_, hash, match)) return found;
    return moved_ < old_size_ ? look(old_, old_size_, hash, match) : nullptr;
  }
  // Adds a slot that is not in the table.
  void add(const Slot& slot) {
    if ((count_ + 1) * 3 > size_ * 2) grow();
    ++count_;
    put(slot);
    for (int n = 0; n < kMoved && moved_ < old_size_; ++n, ++moved_)
      if (!old_[moved_].free()) put(old_[moved_]);
    if (old_ && moved_ == old_size_) old_.reset();
  }

 private:
  static constexpr int kMoved = 4;  // 2 would suffice: the n old slots are visited while 2n / 3 entries are added
  struct Release {
    void operator()(Slot* slots) const { std::free(slots); }
  };
  using Slots = std::unique_ptr<Slot[], Release>;

  template <class Match>
  static Slot* look(const Slots& slots, size_t size, uint64_t hash, Match& match) {
    if (size == 0) return nullptr;
    for (size_t at = hash & (size - 1); !slots[at].free(); at = (at + 1) & (size - 1))
      if (match(slots[at])) return &slots[at];
    return nullptr;
  }
  void put(const Slot& slot) {
    size_t at = slot.hash() & (size_ - 1);
    while (!slots_[at].free()) at = (at + 1) & (size_ - 1);
    slots_[at] = slot;
  }
  void grow() {
    const size_t size = size_ == 0 ? 64 : size_ * 2;
    auto* bigger = static_cast<Slot*>(std::calloc(size, sizeof(Slot)));  // untouched pages cost nothing
    if (!bigger) throw std::bad_alloc();
    old_ = std::exchange(slots_, Slots(bigger));
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
    const auto part = static_cast<uint32_t>(hash);
    const Numbered* found = table_.find(part, [&](const Numbered& n) { return n.part == part && match(n.number - 1); });
    return found ? found->number - 1 : -1;
  }
  // Adds a number that is not in the table.
  void add(uint64_t hash, int32_t number) { table_.add({number + 1, static_cast<uint32_t>(hash)}); }

 private:
  struct Numbered {
    int32_t number;  // the number plus 1; 0: the slot is free
    uint32_t part;   // the lower half of the hash
    uint64_t hash() const { return part; }
    bool free() const { return number == 0; }
  };
  SlotTable<Numbered> table_;
};

}  // namespace guided
