#include "token_trie.hpp"

#include <algorithm>
#include <cstring>

namespace guided {

void TokenTrie::build(std::vector<TrieEntry> entries) {
  // Sort by the first eight bytes as one number, then by the rest.
  struct Keyed {
    uint64_t key;
    TrieEntry entry;
  };
  std::vector<Keyed> sorted;
  sorted.reserve(entries.size());
  for (const TrieEntry& e : entries) {
    uint64_t key = 0;
    for (int i = 0; i < 8; ++i) key = key << 8 | (i < e.size ? e.bytes[i] : 0);
    sorted.push_back({key, e});
  }
  std::sort(sorted.begin(), sorted.end(), [](const Keyed& x, const Keyed& y) {
    if (x.key != y.key) return x.key < y.key;
    int32_t n = std::min(x.entry.size, y.entry.size);
    int order = n > 8 ? std::memcmp(x.entry.bytes + 8, y.entry.bytes + 8, static_cast<size_t>(n - 8)) : 0;
    if (order) return order < 0;
    if (x.entry.size != y.entry.size) return x.entry.size < y.entry.size;
    return x.entry.payload < y.entry.payload;
  });

  struct Task {
    int32_t lo, hi, depth;  // entries that share their first `depth` bytes
  };
  std::vector<Task> tasks{{0, static_cast<int32_t>(sorted.size()), 0}};
  nodes_.assign(1, Node{});
  payloads_.clear();
  payloads_.reserve(sorted.size());
  sizes_.clear();
  sizes_.reserve(sorted.size());
  for (const Keyed& k : sorted) {
    payloads_.push_back(k.entry.payload);
    sizes_.push_back(k.entry.size);
  }
  wide_.clear();
  wide_index_.clear();
  for (size_t node = 0; node < nodes_.size(); ++node) {
    Task task = tasks[node];
    int32_t i = task.lo;
    nodes_[node].payload_lo = i;
    while (i < task.hi && sorted[i].entry.size == task.depth) ++i;
    nodes_[node].payload_hi = i;
    nodes_[node].subtree_hi = task.hi;
    nodes_[node].first_child = static_cast<int32_t>(nodes_.size());
    ByteSet have;
    while (i < task.hi) {
      uint8_t byte = sorted[i].entry.bytes[task.depth];
      int32_t j = i + 1;
      while (j < task.hi && sorted[j].entry.bytes[task.depth] == byte) ++j;
      Node child;
      child.byte = byte;
      nodes_.push_back(child);
      tasks.push_back({i, j, task.depth + 1});
      have.add(byte);
      i = j;
    }
    int32_t count = static_cast<int32_t>(nodes_.size()) - nodes_[node].first_child;
    nodes_[node].children = static_cast<uint16_t>(count);
    if (count > kNarrow) {
      wide_index_.resize(node + 1, -1);
      wide_index_[node] = static_cast<int32_t>(wide_.size());
      wide_.push_back(have);
    }
  }
  for (size_t node = nodes_.size(); node-- > 0;)
    for (int32_t c = nodes_[node].first_child; c < nodes_[node].first_child + nodes_[node].children; ++c)
      nodes_[node].below |= kind(nodes_[c].byte) | nodes_[c].below;
}

}  // namespace guided
