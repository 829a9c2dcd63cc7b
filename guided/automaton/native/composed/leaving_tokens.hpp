// Tokens that leave a part: they hold its end and the beginning of what follows.
//
// In: an occurrence of a part, and a state of it. Out: these tokens, each with where it leads to. Tokens that stay in the
// part are in the part's own mask.
//
// How: the trie of tokens is walked with the part alone. Wherever the part may end, what follows is begun at that node,
// and the tokens below it are the ones. Each part is walked under its own lock, so entries are kept in a list. Inside of a
// long lexeme, where most characters lead back to the state and the part cannot end, only what else there is is read.
// Cost: these nodes of the trie, for each state that is met first; then a look-up.
#pragma once

#include <map>
#include <set>

#include "composed/part_graph.hpp"

namespace guided {

// Where an output is: in an occurrence of a part, in a state of that part.
struct Spot {
  int32_t at, state;
  auto operator<=>(const Spot&) const = default;
};

class LeavingTokens {
 public:
  struct Leaving {
    int32_t token;
    Spot to;
    int64_t left = -1;  // the tokens that are then left; -1: not known yet
  };
  LeavingTokens(const PartGraph& graph, const std::vector<std::shared_ptr<States>>& parts,
                const TokenVocabulary& vocabulary)
      : graph_(graph), parts_(parts), vocabulary_(vocabulary) {}
  // Valid until `clear`.
  std::vector<Leaving>& of(Spot spot);
  size_t memory() const { return memory_; }
  void clear();

 private:
  struct Entry {
    int32_t at, node;
    auto operator<=>(const Entry&) const = default;
  };
  void walk(Spot from, int32_t node, bool is_begun, std::vector<Entry>& exits, std::vector<Leaving>& out);

  const PartGraph& graph_;
  const std::vector<std::shared_ptr<States>>& parts_;
  const TokenVocabulary& vocabulary_;
  std::map<Spot, std::vector<Leaving>> known_;
  size_t memory_ = 0;
};

}  // namespace guided
