// Finds the tokens that leave a part: they contain its end and the beginning of the text after it.
//
// In: an occurrence of a part, and a state of the part. Out: the tokens that leave it, each with the spot to which it
// leads. The part's own mask has the tokens that stay in the part.
//
// How: a walk of the trie of tokens with only this part. At each node where the part may end, the next parts begin, and
// the tokens below the node leave the part. Each part is walked under its own lock, so the nodes are first collected.
//  - Nodes below which no token contains a first character of the text after the part are skipped: if a fence, "```",
//    follows a program, only tokens with a backquote are walked.
//  - Inside a long lexeme, most characters lead back to the state and the part cannot end. There, only the other
//    characters are walked.
//  - A part that may begin at each character, such as free text, soon reaches the states of an earlier beginning. A
//    part is not walked again below a node that it last visited in the same state.
//
// Cost: the visited nodes of the trie, once for each state; then a look-up.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <utility>

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
  // Where a part was visited after another part had ended, by node of the trie. Pages are made when they are needed:
  // most parts begin at few nodes.
  class Visits {
   public:
    explicit Visits(size_t nodes) : pages_(nodes / kPageSize + 1) {}
    // Records that the part begins at a node. Returns false if this was recorded before.
    bool enter(int32_t node) { return !std::exchange(page(node).is_entered[node % kPageSize], 1); }
    // Records the state of the part at a node. Returns false if the node was last visited in this state.
    bool visit(int32_t node, int32_t state) {
      return std::exchange(page(node).states[node % kPageSize], state) != state;
    }

   private:
    static constexpr int32_t kPageSize = 512;
    struct Page {
      Page() { states.fill(kUnknown); }
      std::array<int32_t, kPageSize> states;
      std::array<uint8_t, kPageSize> is_entered{};
    };
    Page& page(int32_t node) {
      std::unique_ptr<Page>& page = pages_[node / kPageSize];
      if (!page) {
        CallMeter::memory(sizeof(Page));
        page = std::make_unique<Page>();
      }
      return *page;
    }
    std::vector<std::unique_ptr<Page>> pages_;
  };
  struct Walk {
    std::vector<LeavingToken> out;
    // By occurrence: nodes at which it may end, and below which the next parts have not been walked yet.
    std::map<int32_t, std::vector<int32_t>> exits;
    std::map<int32_t, Visits> visits;  // by occurrence
  };
  void enter(int32_t occurrence, const std::vector<int32_t>& nodes, Walk& walk);
  void follow(Spot from, const std::vector<int32_t>& nodes, Visits* visits, Walk& walk);
  CharClasses classes_after(int32_t occurrence);

  const PartGraph& graph_;
  const std::vector<std::shared_ptr<States>>& parts_;
  const TokenVocabulary& vocabulary_;
  std::map<Spot, std::vector<LeavingToken>> tokens_by_spot_;
  std::map<int32_t, CharClasses> classes_after_;  // by occurrence
  size_t memory_ = 0;
};

}  // namespace guided
