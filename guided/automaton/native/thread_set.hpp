// Threads (arena.hpp) and sets of them.
#pragma once

#include <vector>

#include "memory.hpp"

namespace guided {

struct Thread {
  int32_t pos, reg, ret, mem = kOutside;
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

uint64_t hash_threads(const Thread* threads, size_t count, bool closed);

// Some threads, each once; emptied at no cost. Searched from end to end while few, by hash when many.
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
  static constexpr size_t kFew = 24;
  struct Slot {
    uint32_t stamp = 0, index = 0;
  };
  Slot& find(const Thread& t);
  void index_all();
  std::vector<Thread> items_;
  std::vector<Slot> slots_;  // a power of two; a slot with another stamp is free
  uint32_t stamp_ = 1;
};

}  // namespace guided
