// A trie of tokens, stored so that it can be walked quickly together with an automaton.
//
// In: (bytes, payload) pairs in any order. Out: two layouts of one trie.
//
// 1. Nodes in breadth-first order: the children of a node are adjacent and sorted by byte. A walk visits only the
//    children whose bytes the automaton can read; a node with many children has a set of their bytes, and the index of
//    a child is a popcount in it. Payloads are sorted by their strings, so the payloads of a whole subtree form one
//    range:
//
//        tokens a, an, and, b        nodes     0: root   1: a   2: b   3: an   4: and
//                                    payloads  a  an  and  b
//                                              |--- of node 1 and below ---|: a, an, and
//
//    Each node stores which character classes occur below it. If the walk is at a position where all of these classes
//    loop, it takes the whole range of payloads and does not descend.
// 2. Lines in depth-first order, with the index at which each subtree ends. A walk that visits most of the trie reads
//    this array in order.
//
// Cost: the strings are sorted once; then O(total bytes). Memory: 32 bytes for each node, and 24 for its line.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/common.hpp"

namespace guided {

// A set of character classes, with one bit for each class. The classes are coarse enough for 64 bits, and fine enough
// that a pattern that distinguishes two letters leaves most classes undivided. The classes are: each lowercase letter
// (0 to 25), the capitals A-F, the capitals G-Z, digits, control characters, the space and each ASCII punctuation
// character (|, } and ~ share one), and JSON's tab and line breaks. All non-ASCII characters except whitespace form
// one class. The last class contains non-ASCII whitespace, bytes that are not valid UTF-8, and characters of which a
// token contains only a part.
using CharClasses = uint64_t;
constexpr CharClasses kNonAscii = CharClasses{1} << 62, kBrokenBytes = CharClasses{1} << 63;
inline CharClasses char_class_of_ascii(uint8_t b) {
  if (b >= 'a' && b <= 'z') return CharClasses{1} << (b - 'a');
  if (b >= 'A' && b <= 'Z') return CharClasses{1} << (b <= 'F' ? 26 : 27);
  if (b >= '0' && b <= '9') return CharClasses{1} << 28;
  if (b == '\t' || b == '\n' || b == '\r') return CharClasses{1} << 61;
  if (b < 0x20 || b == 0x7F) return CharClasses{1} << 29;
  const int sign = b < '0' ? b - ' ' : b < 'A' ? b - ':' + 16 : b < 'a' ? b - '[' + 23 : b - '{' + 29;  // 0..32
  return CharClasses{1} << std::min(30 + sign, 60);  // the last three, |, } and ~, share a class
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
    int32_t subtree_hi = 0;                  // payload_lo..subtree_hi: of the node and all nodes below it
    uint16_t children = 0;
    uint8_t byte = 0;
    // Inside a non-ASCII character, or after an invalid byte or non-ASCII whitespace.
    bool is_inside_character = false;
    // The most characters that a string strictly below adds to this node's string; 255: 255 or more.
    uint8_t max_length_below = 0;
    CharClasses classes_below = 0;  // the classes that occur strictly below
  };

  // A node in depth-first order: the lines below line i are i + 1 up to, not including, `skip`.
  struct Line {
    int32_t skip;
    int32_t payload_lo;  // where the node's payloads start; they end where the next line's payloads start
    uint16_t depth;
    uint8_t byte;
    uint8_t max_length_below;  // as in Node
  };

  void build(std::vector<TrieEntry> entries);
  void add_lines();  // builds the second layout
  // The second layout, with one more line at the end as a sentinel.
  const std::vector<Line>& lines() const { return lines_; }
  // The classes that occur strictly below.
  CharClasses classes_below(int32_t line) const { return classes_below_[line]; }
  int32_t line_of(int32_t node) const { return line_of_[node]; }
  // The index of a payload (0, 1, ...) in payloads().
  int32_t payload_index(int32_t payload) const { return payload_index_[payload]; }
  // By character class (bit number): how many strings contain a character of the class. Here, all non-ASCII bytes count
  // as kNonAscii. Set by add_lines().
  const std::array<int32_t, 64>& string_counts() const { return string_counts_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int32_t>& payloads() const { return payloads_; }
  const std::vector<uint16_t>& lengths() const { return lengths_; }  // in characters, in the order of the payloads
  size_t bytes() const {
    return nodes_.size() * sizeof(Node) + payloads_.size() * 6 + wide_child_bytes_.size() * sizeof(ByteSet) +
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
    const ByteSet& child_bytes = wide_child_bytes_[wide_index_[node]];
    int32_t first_child_of_word = n.first_child;
    for (int w = 0; w < 4; ++w) {
      uint64_t matches = child_bytes.w[w] & allowed.w[w];
      while (matches) {
        int bit = __builtin_ctzll(matches);
        matches &= matches - 1;
        visit(first_child_of_word + __builtin_popcountll(child_bytes.w[w] & ((uint64_t{1} << bit) - 1)));
      }
      first_child_of_word += __builtin_popcountll(child_bytes.w[w]);
    }
  }
  // The child of `node` for `byte`, or -1.
  int32_t child(int32_t node, uint8_t byte) const {
    ByteSet wanted;
    wanted.add(byte);
    int32_t result = -1;
    children(node, wanted, [&](int32_t c) { result = c; });
    return result;
  }

 private:
  static constexpr int kNarrow = 6;  // a node with more children has a set of their bytes
  std::vector<Node> nodes_;
  std::vector<int32_t> payloads_;
  std::vector<uint16_t> lengths_;
  std::vector<Line> lines_;
  std::vector<CharClasses> classes_below_;  // by line
  std::vector<int32_t> line_of_, payload_index_;
  std::array<int32_t, 64> string_counts_{};
  std::vector<ByteSet> wide_child_bytes_;
  // node -> index into wide_child_bytes_. It ends at the last wide node, since wide nodes are near the root.
  std::vector<int32_t> wide_index_;
};

}  // namespace guided
