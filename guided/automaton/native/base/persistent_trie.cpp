#include "base/persistent_trie.hpp"

#include <algorithm>

namespace guided {

int32_t PersistentTrie::child(int32_t node, uint8_t byte) const {
  const Children all = children(node);
  const Child* match = std::lower_bound(all.from, all.to, byte, [](const Child& c, uint8_t b) { return c.byte < b; });
  return match != all.to && match->byte == byte ? match->node : kNoNode;
}

int32_t PersistentTrie::insert(int32_t root, std::string_view string) {
  if (has(root, string)) return root;
  const auto id = static_cast<int32_t>(nodes_.size());
  int32_t original = root;  // the node that the new one copies; kNoNode: it copies none
  for (size_t i = 0; i <= string.size(); ++i) {
    Node node = original >= 0 ? nodes_[original] : Node{0, 0, false, 0};
    ++node.count;
    if (i == string.size()) {
      node.is_end = true;
      nodes_.push_back(node);
      break;
    }
    const auto byte = static_cast<uint8_t>(string[i]);
    const uint32_t begin = node.first_child, end = node.first_child + node.child_count;
    node.first_child = static_cast<uint32_t>(children_.size());
    const Child next{static_cast<int32_t>(nodes_.size()) + 1, byte};
    original = kNoNode;
    bool is_inserted = false;
    for (uint32_t c = begin; c < end; ++c) {
      const Child other = children_[c];
      if (!is_inserted && other.byte >= byte) {
        children_.push_back(next);
        is_inserted = true;
        if (other.byte == byte) {
          original = other.node;
          continue;
        }
      }
      children_.push_back(other);
    }
    if (!is_inserted) children_.push_back(next);
    node.child_count = static_cast<uint16_t>(children_.size() - node.first_child);
    nodes_.push_back(node);
  }
  return id;
}

}  // namespace guided
