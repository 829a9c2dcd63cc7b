// The tokens of a vocabulary that consist of some character classes, and the nodes of its trie where others begin.
//
// A state that every character of some character classes leads back to (the inside of a JSON string) allows all tokens
// made of them: one bitmask for all such states of all grammars. What is left to walk begins at the trie's *edges*:
// where a string of these character classes is followed by a byte of another one, or by a part of a character.
//
// Cost: some 0.4 ms for 128,000 tokens, once for each set of character classes that some grammar asks for; then a copy.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "vocabulary/token_trie.hpp"

namespace guided {

struct ClassTokens {
  struct Edge {
    int32_t node;           // below a string of these character classes
    int32_t depth, length;  // of that string, in bytes and in characters
  };
  std::vector<uint32_t> tokens;              // words of a mask row
  std::vector<int32_t> ids;                  // the same tokens, sorted, where they are few
  std::vector<uint64_t> members;             // the same tokens, by index among the trie's payloads
  std::array<std::vector<Edge>, 256> edges;  // by the node's byte, in the order of the trie's payloads

  // Calls visit(i) for the tokens among the payloads from..to.
  template <class Visit>
  void each_token(int32_t from, int32_t to, Visit&& visit) const {
    for (int32_t w = from >> 6; w << 6 < to; ++w) {
      uint64_t bits = members[static_cast<size_t>(w)];
      if (w == from >> 6) bits &= ~uint64_t{0} << (from & 63);
      for (; bits; bits &= bits - 1) {
        const int32_t i = (w << 6) + __builtin_ctzll(bits);
        if (i >= to) return;
        visit(i);
      }
    }
  }
  // Calls visit(edge) for the edges with this byte whose strings lie among those of the node.
  template <class Visit>
  void each_edge(const TokenTrie& trie, const TokenTrie::Node& node, uint8_t byte, Visit&& visit) const {
    const auto& list = edges[byte];
    auto it = std::lower_bound(list.begin(), list.end(), node.payload_lo,
                               [&](const Edge& e, int32_t from) { return trie.nodes()[e.node].payload_lo < from; });
    for (; it != list.end() && trie.nodes()[it->node].payload_lo < node.subtree_hi; ++it) visit(*it);
  }
};

class ClassTokenSets {
 public:
  // Null where the set is not known and is not to be built.
  std::shared_ptr<const ClassTokens> find(const TokenTrie& trie, int32_t words, CharClasses char_classes,
                                          bool build) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<CharClasses, std::shared_ptr<const ClassTokens>> sets_;
};

}  // namespace guided
