// Sets of byte strings that share what they have in common: a set is a number, one more string makes a new set.
//
// In: strings, one by one. Out: the root of a trie with one node for each common beginning; a node knows how many
// strings lie below it. Nodes are never changed: a new set copies those on the way of the new string.
//
// Cost: a new string takes as many small nodes as it is long, and a copy of the children of those that others share
// with it; a look-up is a search among the children for each byte.
#pragma once

#include <string_view>
#include <vector>

#include "base/common.hpp"

namespace guided {

class PersistentTrie {
 public:
  static constexpr int32_t kEmpty = 0, kNowhere = -1;
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
  int32_t with(int32_t root, std::string_view text);  // the set and this string
  int32_t child(int32_t node, uint8_t byte) const;    // kNowhere: no string goes on so
  int32_t at(int32_t node, std::string_view text) const {
    for (size_t i = 0; i < text.size() && node >= 0; ++i) node = child(node, static_cast<uint8_t>(text[i]));
    return node;
  }
  bool has(int32_t root, std::string_view text) const {
    const int32_t node = at(root, text);
    return node >= 0 && ends(node);
  }
  bool ends(int32_t node) const { return nodes_[node].end; }        // a string ends here
  int32_t count(int32_t node) const { return nodes_[node].count; }  // how many strings end here or below
  Children children(int32_t node) const {
    const Node& n = nodes_[node];
    return {children_.data() + n.first, children_.data() + n.first + n.children};
  }
  size_t bytes() const { return nodes_.size() * sizeof(Node) + children_.size() * sizeof(Child); }

 private:
  struct Node {
    uint32_t first;
    uint16_t children;
    bool end;
    int32_t count;
  };
  std::vector<Node> nodes_;
  std::vector<Child> children_;  // those of a node are neighbours, sorted by byte
};

}  // namespace guided
