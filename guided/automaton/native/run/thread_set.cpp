#include "run/thread_set.hpp"

#include <algorithm>

namespace guided {

uint64_t hash_threads(const Thread* t, size_t n, bool is_closed) {
  uint64_t h = n * 2 + is_closed;
  for (size_t i = 0; i < n; ++i) {
    h = combine(h, pair_key(t[i].pos, t[i].reg));
    h = combine(h, pair_key(t[i].mem, t[i].ret));
  }
  return h;
}

bool ThreadSet::add(const Thread& t) {
  if (items_.size() < kMaxLinear) {
    if (std::find(items_.begin(), items_.end(), t) != items_.end()) return false;
    items_.push_back(t);
    if (items_.size() == kMaxLinear) rebuild_index();
    return true;
  }
  Slot& slot = find(t);
  if (slot.stamp == stamp_) return false;
  slot = {stamp_, static_cast<uint32_t>(items_.size())};
  items_.push_back(t);
  if (items_.size() * 2 > slots_.size()) rebuild_index();
  return true;
}

ThreadSet::Slot& ThreadSet::find(const Thread& t) {
  size_t mask = slots_.size() - 1, i = hash_threads(&t, 1, false) & mask;
  while (slots_[i].stamp == stamp_ && !(items_[slots_[i].index] == t)) i = (i + 1) & mask;
  return slots_[i];
}

void ThreadSet::rebuild_index() {
  size_t size = std::max<size_t>(256, slots_.size());
  while (size < items_.size() * 4) size *= 2;
  if (size > slots_.size()) slots_.assign(size, {});
  for (size_t i = 0; i < items_.size(); ++i) find(items_[i]) = {stamp_, static_cast<uint32_t>(i)};
}

}  // namespace guided
