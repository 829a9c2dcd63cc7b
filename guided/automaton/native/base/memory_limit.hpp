// The limit on the memory of the states of a grammar.
//
// Fresh states replace states that exceed it, and matchers carry their own states over. If the carried states alone
// left no memory for more, every step would start over. So the limit is at least twice the memory of the carried
// states. No other states raise it: otherwise each matcher that was idle for long would double the memory once more.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace guided {

class MemoryLimit {
 public:
  explicit MemoryLimit(size_t limit) : limit_(limit) {}
  operator size_t() const { return limit_.load(std::memory_order_relaxed); }
  // Call this with the lock of the states held: for the first states, and for states that a matcher has carried over.
  void add_carried(size_t bytes) {
    carried_ += bytes;
    limit_.store(std::max<size_t>(*this, 2 * carried_), std::memory_order_relaxed);
  }

 private:
  std::atomic<size_t> limit_;
  size_t carried_ = 0;
};

}  // namespace guided
