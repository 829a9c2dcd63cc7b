// Finds the tokens that leave a part: they contain its end and the beginning of the text after it.
//
// In: an occurrence of a part, and a state of the part. Out: the tokens that leave it, each with the spot to which it
// leads. The part's own mask has the tokens that stay in the part.
//
// How: a walk of the trie of tokens with only this part. At each node where the part may end, the next parts begin, and
// the tokens below the node leave the part. Each part is walked under its own lock, so the nodes are first collected in
// a list. Inside a long lexeme, most characters lead back to the state and the part cannot end. There, only the other
// characters are walked. Cost: the visited nodes of the trie, once for each state; then a look-up.
#pragma once

#include <map>
#include <set>

#include "composed/part_graph.hpp"

namespace guided {

// An occurrence of a part, and a state of this part.
struct Spot {
  int32_t occurrence, state;
  auto operator<=>(const Spot&) const = default;
};

class LeavingTokens {
 public:
  struct LeavingToken {
    int32_t token;
    Spot to;
    int64_t distance = -1;  // from `to` to the end; -1: not computed
  };
  LeavingTokens(const PartGraph& graph, const std::vector<std::shared_ptr<States>>& parts,
                const TokenVocabulary& vocabulary)
      : graph_(graph), parts_(parts), vocabulary_(vocabulary) {}
  // The reference is valid until `clear`.
  std::vector<LeavingToken>& find(Spot spot);
  size_t memory() const { return memory_; }
  void clear();

 private:
  // A node of the trie at which an occurrence of a part may end.
  struct PartEnd {
    int32_t occurrence, node;
    auto operator<=>(const PartEnd&) const = default;
  };
  void walk(Spot from, int32_t node, bool begins_here, std::vector<PartEnd>& exits, std::vector<LeavingToken>& out);

  const PartGraph& graph_;
  const std::vector<std::shared_ptr<States>>& parts_;
  const TokenVocabulary& vocabulary_;
  std::map<Spot, std::vector<LeavingToken>> tokens_by_spot_;
  size_t memory_ = 0;
};

}  // namespace guided
