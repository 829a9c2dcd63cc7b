#include "composed/leaving_tokens.hpp"

namespace guided {

std::vector<LeavingTokens::Leaving>& LeavingTokens::of(Spot spot) {
  if (const auto at = known_.find(spot); at != known_.end()) return at->second;
  std::vector<Leaving> out;
  std::vector<Entry> exits;
  walk(spot, 0, false, exits, out);
  std::set<Entry> begun;
  for (size_t i = 0; i < exits.size(); ++i) {
    const Entry exit = exits[i];
    for (int32_t next : graph_.at(exit.at).next) {
      if (!begun.insert({next, exit.node}).second) continue;
      const States& part = *parts_[graph_.at(next).part];
      const Spot first{next, part.initial()};
      if (part.accepting(first.state)) exits.push_back({next, exit.node});
      walk(first, exit.node, true, exits, out);
    }
  }
  memory_ += out.size() * sizeof(Leaving) + 100;
  return known_[spot] = std::move(out);
}

// Walks below a node of the trie. `is_begun`: the part begins at this node, so the tokens that it reads have left
// another part.
void LeavingTokens::walk(Spot from, int32_t node, bool is_begun, std::vector<Entry>& exits, std::vector<Leaving>& out) {
  States& part = *parts_[graph_.at(from.at).part];
  const bool goes_on = !graph_.at(from.at).next.empty();
  if (!is_begun && !goes_on) return;
  const TokenTrie& trie = vocabulary_.trie;
  const StatesLock lock(part);
  std::vector<std::pair<int32_t, int32_t>> work{{node, from.state}};  // pairs of a node and a state
  auto visit = [&](int32_t child, int32_t state) {
    const TokenTrie::Node& below = trie.nodes()[child];
    const int32_t to = part.step(state, below.byte);
    if (to == kDead) return;
    if (is_begun && below.payload_hi > below.payload_lo && part.ends_token(to))
      for (int32_t i = below.payload_lo; i < below.payload_hi; ++i) out.push_back({trie.payloads()[i], {from.at, to}});
    if (below.children == 0) return;
    const bool ends = goes_on && part.accepting(to);
    if (ends) exits.push_back({from.at, child});
    if (is_begun || ends || (below.classes_below & ~part.loops(to)) != 0) work.emplace_back(child, to);
  };
  while (!work.empty()) {
    const auto [above, state] = work.back();
    work.pop_back();
    const CharClasses loops = above == 0 && !is_begun && !part.accepting(state) ? part.loops(state) : 0;
    if (loops == 0) {
      trie.children(above, part.bytes(state), [&](int32_t child) { visit(child, state); });
      continue;
    }
    const std::shared_ptr<const ClassTokens> tokens = vocabulary_.tokens_of_classes(loops, true);
    part.bytes(state).each([&](uint8_t byte) {
      for (const ClassTokens::Edge& edge : tokens->edges[byte]) visit(edge.node, state);
    });
  }
}

void LeavingTokens::clear() {
  known_.clear();
  memory_ = 0;
}

}  // namespace guided
