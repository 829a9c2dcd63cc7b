#include "base/persistent_trie.hpp"

#include <algorithm>

namespace guided {

int32_t PersistentTrie::child(int32_t node, uint8_t byte) const {
  const Children all = children(node);
  const Child* found = std::lower_bound(all.from, all.to, byte, [](const Child& c, uint8_t b) { return c.byte < b; });
  return found != all.to && found->byte == byte ? found->node : kNowhere;
}

int32_t PersistentTrie::with(int32_t root, std::string_view text) {
  if (has(root, text)) return root;
  const auto id = static_cast<int32_t>(nodes_.size());
  int32_t old = root;  // the node of which the new one is a copy; kNowhere: it is not a copy
  for (size_t i = 0; i <= text.size(); ++i) {
    Node copy = old >= 0 ? nodes_[old] : Node{0, 0, false, 0};
    ++copy.count;
    if (i == text.size()) {
      copy.end = true;
      nodes_.push_back(copy);
      break;
    }
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint32_t from = copy.first, to = copy.first + copy.children;
    copy.first = static_cast<uint32_t>(children_.size());
    const Child next{static_cast<int32_t>(nodes_.size()) + 1, byte};
    old = kNowhere;
    bool placed = false;
    for (uint32_t c = from; c < to; ++c) {
      const Child other = children_[c];
      if (!placed && other.byte >= byte) {
        children_.push_back(next);
        placed = true;
        if (other.byte == byte) {
          old = other.node;
          continue;
        }
      }
      children_.push_back(other);
    }
    if (!placed) children_.push_back(next);
    copy.children = static_cast<uint16_t>(children_.size() - copy.first);
    nodes_.push_back(copy);
  }
  return id;
}

}  // namespace guided
