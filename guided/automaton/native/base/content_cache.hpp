// A cache of items that are built from some content. The key is the digest of the content.
//
// In: a digest, and an item with a `size()`. Out: the item, shared. Any number of OS threads may use the cache. Two
// generations bound its size: when the younger one is full, it replaces the older one, and items that were not
// requested meanwhile are dropped. Items larger than half a generation are not stored.
// Cost: a look-up under a lock.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/common.hpp"

namespace guided {

template <class Item>
class ContentCache {
 public:
  std::shared_ptr<const Item> find(const Digest& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto it = young_.find(key); it != young_.end()) return it->second;
    auto it = old_.find(key);
    if (it == old_.end()) return nullptr;
    std::shared_ptr<const Item> item = it->second;
    add(key, item);
    return item;
  }
  void insert(const Digest& key, std::shared_ptr<const Item> item) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (item->size() <= kMaxSize / 2) add(key, std::move(item));
  }

 private:
  static constexpr size_t kMaxSize = 150000;  // the size of a generation, in states and ranges
  using Map = std::unordered_map<Digest, std::shared_ptr<const Item>, DigestHash>;

  void add(const Digest& key, std::shared_ptr<const Item> item) {
    if (size_ > kMaxSize) {
      old_ = std::exchange(young_, {});
      size_ = 0;
    }
    std::shared_ptr<const Item>& entry = young_[key];
    if (entry) size_ -= entry->size() + 1;
    size_ += item->size() + 1;
    entry = std::move(item);
  }

  std::mutex mutex_;
  Map young_, old_;
  size_t size_ = 0;  // of the younger generation
};

}  // namespace guided
