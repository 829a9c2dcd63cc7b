// One value per state of an arena, stored by the part of the core that computes it.
//
// In: states, numbered from 0, and values. Out: the value of a state, or `unset` if none has been set. Layout: chunks
// that never move, each twice as large as the one before, allocated when a value is first set in them. So readers need
// no lock; `set` needs the arena's lock. Cost: one more load than for a field of the state itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace guided {

template <class T>
class ByState {
 public:
  explicit ByState(T unset) : unset_(unset) {}
  ByState(const ByState&) = delete;
  ~ByState() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }
  T get(int32_t state) const {
    const Location location = locate(state);
    const std::atomic<T>* chunk = chunks_[location.chunk].load(std::memory_order_acquire);
    return chunk ? chunk[location.index].load(std::memory_order_acquire) : unset_;
  }
  // Returns the number of bytes that were allocated.
  size_t set(int32_t state, T value) {
    const Location location = locate(state);
    std::atomic<T>* chunk = chunks_[location.chunk].load(std::memory_order_relaxed);
    size_t allocated = 0;
    if (!chunk) {
      const size_t size = size_t{1} << (location.chunk + kLog2FirstChunk);
      chunk = new std::atomic<T>[size];
      for (size_t i = 0; i < size; ++i) chunk[i].store(unset_, std::memory_order_relaxed);
      chunks_[location.chunk].store(chunk, std::memory_order_release);
      allocated = size * sizeof(T);
    }
    chunk[location.index].store(value, std::memory_order_release);
    return allocated;
  }
  // Calls visit(value) for all values that have been set.
  template <class Visit>
  void each(Visit&& visit) const {
    for (size_t c = 0; c < kChunks; ++c)
      if (const std::atomic<T>* chunk = chunks_[c].load(std::memory_order_relaxed))
        for (size_t i = 0; i < size_t{1} << (c + kLog2FirstChunk); ++i)
          if (const T value = chunk[i].load(std::memory_order_relaxed); value != unset_) visit(value);
  }

 private:
  static constexpr size_t kLog2FirstChunk = 5;  // log2 of the first chunk's size
  static constexpr size_t kChunks = 26;
  struct Location {
    size_t chunk, index;
  };
  static Location locate(int32_t state) {
    const uint32_t x = static_cast<uint32_t>(state) + (1u << kLog2FirstChunk);
    const int top = 31 - __builtin_clz(x);
    return {.chunk = static_cast<size_t>(top) - kLog2FirstChunk, .index = x - (1u << top)};
  }
  const T unset_;
  std::atomic<std::atomic<T>*> chunks_[kChunks] = {};
};

}  // namespace guided
