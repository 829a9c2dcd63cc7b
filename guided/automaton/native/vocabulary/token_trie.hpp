// A trie of tokens, stored so that it can be walked quickly together with an automaton.
//
// In: (bytes, payload) pairs in any order. Out: two layouts of one trie.
//
// 1. Nodes in breadth-first order: the children of a node are adjacent and sorted by byte. A walk visits only the
//    children whose bytes the automaton can read; a node with many children has a set of their bytes, and the index of
//    a child is a popcount in it. Payloads are sorted by their strings, so those of a whole subtree are one range:
//
//        tokens a, an, and, b        nodes     0: root   1: a   2: b   3: an   4: and
//                                    payloads  a  an  and  b
//                                              |--- of node 1 and below ---|: a, an, and
//
//    Each node stores which character classes occur below it. A walk that is in a loop over all of these classes takes
//    the whole range of payloads and does not descend.
// 2. Lines in depth-first order, with the index at which each subtree ends. A walk that visits most of the trie is a
//    loop over this array, read in order.
//
// Cost: the strings are sorted once; then O(total bytes). 32 bytes for each node, 24 more for its line.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/common.hpp"

namespace guided {

// A set of character classes, one bit for each. The classes are coarse enough for 64 bits and fine enough that a
// pattern which distinguishes two letters does not spoil all others: each small letter (0 to 25), the capitals A-F and
// G-Z, digits, control characters, each ASCII sign, and the tab and line breaks of JSON. All non-ASCII characters but
// white space are one class; the last one has white space, bytes that are not UTF-8, and characters that a token
// contains only in part.
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
    bool inside = false;    // inside a non-ASCII character, or after bytes that are not one of kWholeCharacters
    uint8_t longest = 0;    // the longest string strictly below, in characters after this node; 255: or more
    CharClasses below = 0;  // the classes that occur strictly below
  };

  // A node in depth-first order: the lines below line i are i + 1 up to, not including, `skip`.
  struct Line {
    int32_t skip;
    int32_t payload_lo;  // of the node; they end where those of the next line start
    uint16_t depth;
    uint8_t byte;
    uint8_t longest;  // as in Node
  };

  void build(std::vector<TrieEntry> entries);
  void add_lines();  // builds the second layout
  // The second layout, with one more line at the end as a sentinel.
  const std::vector<Line>& lines() const { return lines_; }
  CharClasses below(int32_t line) const { return below_[line]; }  // the classes that occur strictly below
  int32_t line_of(int32_t node) const { return line_of_[node]; }
  // The index of a payload (0, 1, ...) in payloads().
  int32_t payload_index(int32_t payload) const { return payload_index_[payload]; }
  // By class (bit number): how many strings contain a character of it.
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
  static constexpr int kNarrow = 6;  // a node with more children has a set of their bytes
  std::vector<Node> nodes_;
  std::vector<int32_t> payloads_;
  std::vector<uint16_t> lengths_;
  std::vector<Line> lines_;
  std::vector<CharClasses> below_;  // by line
  std::vector<int32_t> line_of_, payload_index_;
  std::array<int32_t, 64> with_char_class_{};
  std::vector<ByteSet> wide_;
  // node -> index into wide_; as long as the last wide node needs (they are near the root)
  std::vector<int32_t> wide_index_;
};

}  // namespace guided
