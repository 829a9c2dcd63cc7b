// Finds all tokens of a vocabulary that consist of characters of given classes, and the trie nodes at which the other
// tokens diverge from them.
//
// Problem: inside a JSON string, nearly every token is allowed, mostly because each of the token's characters leads
// back to the same position. Walking the trie again for each such position of each grammar would be wasted work.
//
// In: a trie and a set of character classes (token_trie.hpp). Out: the tokens made only of these classes, as one
// bitmask that all grammars share, and the *edges* of this part of the trie: the nodes at which a string of these
// classes is followed by a byte of another class, or by an incomplete character. A walk of the remaining tokens starts
// there.
//
// Example: the tokens `ab`, `a"`, `a",`, `"x` and the character classes of letters.
//     tokens  ab          edges by byte:  '"': the node of `a"` (depth 1), the node of `"` (depth 0)
//
// Cost: about 0.4 ms for 128,000 tokens, once for each set of classes that some grammar needs; then a look-up.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "vocabulary/token_trie.hpp"

namespace guided {

struct ClassTokens {
  struct Edge {
    int32_t node;           // the child of a node to which a string of these classes leads
    int32_t depth, length;  // of that string, in bytes and in characters
  };
  std::vector<uint32_t> tokens;              // a bitmask row; empty if the tokens are few
  std::vector<int32_t> ids;                  // the same tokens, sorted, if they are few; otherwise empty
  std::vector<uint64_t> payload_bits;        // the same tokens, by index among the trie's payloads
  std::array<std::vector<Edge>, 256> edges;  // by the byte of Edge::node, in the order of the trie's payloads

  // Calls visit(length, ids) for the tokens of each length in characters. The first call sorts the tokens.
  template <class Visit>
  void each_length(const TokenTrie& trie, Visit&& visit) const {
    std::call_once(sort_once_, [&] { sort_by_length(trie); });
    for (size_t length = 0; length + 1 < length_starts_.size(); ++length)
      if (length_starts_[length] < length_starts_[length + 1])
        visit(static_cast<int32_t>(length),
              std::span(ids_by_length_)
                  .subspan(length_starts_[length], length_starts_[length + 1] - length_starts_[length]));
  }
  // Calls visit(i) for each token of the set whose index i among the trie's payloads satisfies from <= i < to.
  template <class Visit>
  void each_token(int32_t from, int32_t to, Visit&& visit) const {
    for (int32_t w = from >> 6; w << 6 < to; ++w) {
      uint64_t bits = payload_bits[static_cast<size_t>(w)];
      if (w == from >> 6) bits &= ~uint64_t{0} << (from & 63);
      for (; bits; bits &= bits - 1) {
        const int32_t i = (w << 6) + __builtin_ctzll(bits);
        if (i >= to) return;
        visit(i);
      }
    }
  }
  // Calls visit(edge) for the edges with this byte that lie below `node`.
  template <class Visit>
  void each_edge(const TokenTrie& trie, const TokenTrie::Node& node, uint8_t byte, Visit&& visit) const {
    const auto& list = edges[byte];
    auto it = std::lower_bound(list.begin(), list.end(), node.payload_lo,
                               [&](const Edge& e, int32_t from) { return trie.nodes()[e.node].payload_lo < from; });
    for (; it != list.end() && trie.nodes()[it->node].payload_lo < node.subtree_hi; ++it) visit(*it);
  }

 private:
  void sort_by_length(const TokenTrie& trie) const;

  mutable std::once_flag sort_once_;
  mutable std::vector<int32_t> ids_by_length_;  // ids
  mutable std::vector<size_t> length_starts_;   // by length: the index of its first id in ids_by_length_; then the end
};

// The sets that have been built for a vocabulary. Thread-safe.
class ClassTokenSets {
 public:
  // The set for these character classes, or null if it has not been built and `build` is false. `words`: the number of
  // words in a bitmask row.
  std::shared_ptr<const ClassTokens> find(const TokenTrie& trie, int32_t words, CharClasses char_classes,
                                          bool build) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<CharClasses, std::shared_ptr<const ClassTokens>> sets_;
};

}  // namespace guided
