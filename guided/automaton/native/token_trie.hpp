// A trie over byte strings, laid out for walking together with an automaton.
//
// In: (bytes, payload) pairs in any order. Out: nodes in breadth-first order, so that the children of a node are
// neighbours, sorted by byte. A walk asks only for the bytes that the automaton can read: nodes with many children
// carry a bit set of their bytes, and a child's place is a popcount. The payloads lie in the order of their strings, so
// that all below a node are one stretch; each node knows which kinds of bytes occur below it (a mask of eight kinds), so
// that a walk that finds itself in a loop over those kinds takes the stretch and goes no further.
// Cost: building sorts the strings once, O(total bytes); 20 bytes a node.
#pragma once

#include <cstdint>
#include <vector>

#include "common.hpp"

namespace guided {

struct TrieEntry {
  const uint8_t* bytes;
  int32_t size;
  int32_t payload;
};

class TokenTrie {
 public:
  struct Node {
    int32_t first_child = 0;
    int32_t payload_lo = 0, payload_hi = 0;  // of the node itself
    int32_t subtree_hi = 0;                  // payload_lo..subtree_hi: of the node and all below
    uint16_t children = 0;
    uint8_t byte = 0;
    uint8_t below = 0;  // kinds of bytes strictly below
  };

  // The eight kinds: a-z, A-Z, 0-9, space, quote and backslash, other ASCII, controls, the rest.
  static uint8_t kind(uint8_t b) {
    if (b >= 'a' && b <= 'z') return 1;
    if (b >= 'A' && b <= 'Z') return 2;
    if (b >= '0' && b <= '9') return 4;
    if (b == ' ') return 8;
    if (b == '"' || b == '\\') return 16;
    if (b >= 0x80) return 128;
    return b < 0x20 || b == 0x7F ? 64 : 32;
  }

  void build(std::vector<TrieEntry> entries);
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int32_t>& payloads() const { return payloads_; }
  const std::vector<int32_t>& sizes() const { return sizes_; }  // of the strings, in the order of the payloads
  size_t bytes() const { return nodes_.size() * sizeof(Node) + payloads_.size() * 8 + wide_.size() * sizeof(ByteSet); }

  // Calls visit(child) for the children of `node` whose byte is in `allowed`.
  template <class Visit>
  void children(int32_t node, const ByteSet& allowed, Visit&& visit) const {
    const Node& n = nodes_[node];
    if (n.children <= kNarrow) {
      for (int32_t c = n.first_child; c < n.first_child + n.children; ++c)
        if (allowed.has(nodes_[c].byte)) visit(c);
      return;
    }
    const ByteSet& have = wide_[wide_index_[node]];
    int32_t before = n.first_child;
    for (int w = 0; w < 4; ++w) {
      uint64_t hits = have.w[w] & allowed.w[w];
      while (hits) {
        int bit = __builtin_ctzll(hits);
        hits &= hits - 1;
        visit(before + __builtin_popcountll(have.w[w] & ((uint64_t{1} << bit) - 1)));
      }
      before += __builtin_popcountll(have.w[w]);
    }
  }
  // The child of `node` for `byte`, or -1.
  int32_t child(int32_t node, uint8_t byte) const {
    ByteSet one;
    one.add(byte);
    int32_t found = -1;
    children(node, one, [&](int32_t c) { found = c; });
    return found;
  }

 private:
  static constexpr int kNarrow = 6;
  std::vector<Node> nodes_;
  std::vector<int32_t> payloads_, sizes_;
  std::vector<ByteSet> wide_;
  std::vector<int32_t> wide_index_;  // node -> index into wide_, for the first nodes only (wide nodes are near the root)
};

}  // namespace guided
