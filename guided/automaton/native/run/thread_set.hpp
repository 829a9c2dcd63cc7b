// Threads (arena.hpp) and sets of them.
//
// In: threads. Out: whether a thread is new to a set (`ThreadSet`), or the value that belongs to it (`ThreadMap`).
// How: hash tables with open addressing. A set is cleared by changing its stamp, since each step of the automaton needs
// an empty set. Cost: one look-up per thread; for up to `kMaxLinear` threads, a linear search, which is faster.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "base/slot_table.hpp"
#include "values/uniqueness.hpp"

namespace guided {

struct Thread {
  int32_t pos, reg, ret, mem = kOutside;  // position, register, return configuration, uniqueness state
  bool operator==(const Thread& o) const { return pos == o.pos && reg == o.reg && ret == o.ret && mem == o.mem; }
  bool operator<(const Thread& o) const {
    return pos != o.pos ? pos < o.pos : reg != o.reg ? reg < o.reg : mem != o.mem ? mem < o.mem : ret < o.ret;
  }
};

struct ThreadHash {
  size_t operator()(const Thread& t) const {
    return static_cast<size_t>(combine(combine(0, pair_key(t.pos, t.reg)), pair_key(t.ret, t.mem)));
  }
};

// A map from threads to values. References to values stay valid.
template <class Value>
class ThreadMap {
 public:
  // Null if there is no value.
  Value* find(const Thread& thread) {
    const int32_t index = index_of(thread);
    return index < 0 ? nullptr : &items_[static_cast<size_t>(index)].second;
  }
  // `thread` must not be in the map.
  Value& add(const Thread& thread, Value value) {
    indices_.add(ThreadHash()(thread), static_cast<int32_t>(items_.size()));
    return items_.emplace_back(thread, std::move(value)).second;
  }

 private:
  int32_t index_of(const Thread& thread) const {
    return indices_.find(ThreadHash()(thread),
                         [&](int32_t index) { return items_[static_cast<size_t>(index)].first == thread; });
  }
  NumberTable indices_;
  std::deque<std::pair<Thread, Value>> items_;
};

uint64_t hash_threads(const Thread* threads, size_t count, bool is_closed);

// A set of threads that can be cleared at no cost. A small set is searched linearly; a large set is hashed.
class ThreadSet {
 public:
  bool add(const Thread& t);
  size_t size() const { return items_.size(); }
  void clear() {
    items_.clear();
    if (++stamp_ == 0) {
      slots_.clear();
      stamp_ = 1;
    }
  }

 private:
  static constexpr size_t kMaxLinear = 24;
  struct Slot {
    uint32_t stamp = 0, index = 0;
  };
  Slot& find(const Thread& t);
  void rebuild_index();
  std::vector<Thread> items_;
  std::vector<Slot> slots_;  // the size is a power of two; a slot with another stamp is free
  uint32_t stamp_ = 1;
};

}  // namespace guided
