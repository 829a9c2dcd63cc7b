// Persistent sets of byte strings. All sets share the nodes of one trie, and a set is the number of its root.
//
// In: strings, one at a time. Out: the root of a trie with one node per common prefix. Each node stores how many
// strings end at or below it. Nodes never change: adding a string copies the nodes on its path, which gives a new set.
//
// Cost: adding a string creates one node per byte plus one, and copies the child lists on its path. A look-up does one
// binary search per byte.
#pragma once

#include <string_view>
#include <vector>

#include "base/common.hpp"

namespace guided {

class PersistentTrie {
 public:
  static constexpr int32_t kEmpty = 0, kNoNode = -1;
  struct Child {
    int32_t node;
    uint8_t byte;
  };
  struct Children {
    const Child *from, *to;
    const Child* begin() const { return from; }
    const Child* end() const { return to; }
  };

  PersistentTrie() : nodes_{{0, 0, false, 0}} {}
  int32_t insert(int32_t root, std::string_view string);  // returns the set with this string added
  int32_t child(int32_t node, uint8_t byte) const;        // kNoNode: no string continues with this byte
  // The node that `string` leads to, or kNoNode.
  int32_t descend(int32_t node, std::string_view string) const {
    for (size_t i = 0; i < string.size() && node >= 0; ++i) node = child(node, static_cast<uint8_t>(string[i]));
    return node;
  }
  bool has(int32_t root, std::string_view string) const {
    const int32_t node = descend(root, string);
    return node >= 0 && is_end(node);
  }
  bool is_end(int32_t node) const { return nodes_[node].is_end; }   // whether a string ends here
  int32_t count(int32_t node) const { return nodes_[node].count; }  // the number of strings that end here or below
  Children children(int32_t node) const {
    const Node& n = nodes_[node];
    return {children_.data() + n.first_child, children_.data() + n.first_child + n.child_count};
  }
  size_t bytes() const { return nodes_.size() * sizeof(Node) + children_.size() * sizeof(Child); }

 private:
  struct Node {
    uint32_t first_child;
    uint16_t child_count;
    bool is_end;
    int32_t count;
  };
  std::vector<Node> nodes_;
  std::vector<Child> children_;  // the children of a node are adjacent, sorted by byte
};

}  // namespace guided
