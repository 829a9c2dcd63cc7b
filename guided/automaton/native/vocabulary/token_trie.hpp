// A trie over byte strings, laid out for walking together with an automaton.
//
// In: (bytes, payload) pairs in any order. Out: nodes in breadth-first order, so that the children of a node are
// neighbours, sorted by byte. A walk asks only for the bytes that the automaton can read: nodes with many children
// carry a bit set of their bytes, and a child's place is a popcount. The payloads lie in the order of their strings, so
// that all below a node are one stretch; each node knows which character classes occur below it, so that a walk that
// finds itself in a loop over those character classes takes the stretch and goes no further.
// For walks that meet most of it there is a second layout, depth first: a loop over an array that is read in order.
// Cost: building sorts the strings once, O(total bytes); 32 bytes a node, and 24 for the second layout.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/common.hpp"

namespace guided {

// CharClasses of characters, as a set: each small letter, digits, two character classes of capitals, each ASCII sign,
// the white space of JSON past the space itself, other controls. Characters past ASCII are one class, but for white
// space; that, bytes that are no character, and those of which a token holds only a part are another.
using CharClasses = uint64_t;
constexpr CharClasses kWholeCharacters = CharClasses{1} << 62, kBrokenBytes = CharClasses{1} << 63;
inline CharClasses char_class_of_ascii(uint8_t b) {
  if (b >= 'a' && b <= 'z') return CharClasses{1} << (b - 'a');
  if (b >= 'A' && b <= 'Z') return CharClasses{1} << (b <= 'F' ? 26 : 27);
  if (b >= '0' && b <= '9') return CharClasses{1} << 28;
  if (b == '\t' || b == '\n' || b == '\r') return CharClasses{1} << 61;
  if (b < 0x20 || b == 0x7F) return CharClasses{1} << 29;
  const int sign = b < '0' ? b - ' ' : b < 'A' ? b - ':' + 16 : b < 'a' ? b - '[' + 23 : b - '{' + 29;  // 0..32
  return CharClasses{1} << std::min(30 + sign, 60);  // the last three, |, } and ~, are one
}

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
    bool inside = false;    // of a character past ASCII, or after what is none of kWholeCharacters
    uint8_t longest = 0;    // of what is strictly below, in characters; 255 stands for more, too
    CharClasses below = 0;  // strictly below
  };

  // Depth first: what lies below node i is i+1 .. skip.
  struct Line {
    int32_t skip;
    int32_t payload_lo;  // of the node; its own end where those of the next line begin
    uint16_t depth;
    uint8_t byte;
    uint8_t longest;  // of what is strictly below, in characters; 255 stands for more, too
  };

  void build(std::vector<TrieEntry> entries);
  void add_lines();
  // With one more at the end.
  const std::vector<Line>& lines() const { return lines_; }
  CharClasses below(int32_t line) const { return below_[line]; }  // of characters, strictly below
  int32_t line_of(int32_t node) const { return line_of_[node]; }
  // Where a payload (0, 1, ...) is among payloads().
  int32_t payload_index(int32_t payload) const { return payload_index_[payload]; }
  // How many strings hold a character of each class, by bit.
  const std::array<int32_t, 64>& with_char_class() const { return with_char_class_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int32_t>& payloads() const { return payloads_; }
  const std::vector<uint16_t>& lengths() const { return lengths_; }  // in characters, in the order of the payloads
  size_t bytes() const {
    return nodes_.size() * sizeof(Node) + payloads_.size() * 6 + wide_.size() * sizeof(ByteSet) +
           lines_.size() * (sizeof(Line) + sizeof(CharClasses)) + (line_of_.size() + payload_index_.size()) * 4;
  }

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
  std::vector<int32_t> payloads_;
  std::vector<uint16_t> lengths_;
  std::vector<Line> lines_;
  std::vector<CharClasses> below_;  // by line
  std::vector<int32_t> line_of_, payload_index_;
  std::array<int32_t, 64> with_char_class_{};
  std::vector<ByteSet> wide_;
  // node -> index into wide_, for the first nodes only (wide nodes are near the root)
  std::vector<int32_t> wide_index_;
};

}  // namespace guided
