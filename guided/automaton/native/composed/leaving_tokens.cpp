#include "composed/leaving_tokens.hpp"

namespace guided {

std::vector<LeavingTokens::LeavingToken>& LeavingTokens::find(Spot spot) {
  if (const auto it = tokens_by_spot_.find(spot); it != tokens_by_spot_.end()) return it->second;
  std::vector<LeavingToken> out;
  std::vector<PartEnd> exits;
  walk(spot, 0, false, exits, out);
  std::set<PartEnd> visited;
  for (size_t i = 0; i < exits.size(); ++i) {
    const PartEnd exit = exits[i];
    for (int32_t next : graph_.at(exit.occurrence).next) {
      if (!visited.insert({next, exit.node}).second) continue;
      const States& part = *parts_[graph_.at(next).part];
      const Spot first{next, part.initial()};
      if (part.accepting(first.state)) exits.push_back({next, exit.node});
      walk(first, exit.node, true, exits, out);
    }
  }
  memory_ += out.size() * sizeof(LeavingToken) + 100;
  return tokens_by_spot_[spot] = std::move(out);
}

// Walks below a node of the trie. `begins_here`: the part begins at this node, so the tokens that it reads have left
// another part.
void LeavingTokens::walk(Spot from, int32_t node, bool begins_here, std::vector<PartEnd>& exits,
                         std::vector<LeavingToken>& out) {
  States& part = *parts_[graph_.at(from.occurrence).part];
  const bool has_next_part = !graph_.at(from.occurrence).next.empty();
  if (!begins_here && !has_next_part) return;
  const TokenTrie& trie = vocabulary_.trie;
  const StatesLock lock(part);
  std::vector<std::pair<int32_t, int32_t>> todo{{node, from.state}};  // pairs of a node and a state
  auto visit = [&](int32_t child, int32_t state) {
    const TokenTrie::Node& child_node = trie.nodes()[child];
    const int32_t to = part.step(state, child_node.byte);
    if (to == kDead) return;
    if (begins_here && child_node.payload_hi > child_node.payload_lo && part.ends_token(to))
      for (int32_t i = child_node.payload_lo; i < child_node.payload_hi; ++i)
        out.push_back({trie.payloads()[i], {from.occurrence, to}});
    if (child_node.children == 0) return;
    const bool ends = has_next_part && part.accepting(to);
    if (ends) exits.push_back({from.occurrence, child});
    if (begins_here || ends || (child_node.classes_below & ~part.loops(to)) != 0) todo.emplace_back(child, to);
  };
  while (!todo.empty()) {
    const auto [parent, state] = todo.back();
    todo.pop_back();
    const CharClasses loops = parent == 0 && !begins_here && !part.accepting(state) ? part.loops(state) : 0;
    if (loops == 0) {
      trie.children(parent, part.bytes(state), [&](int32_t child) { visit(child, state); });
      continue;
    }
    const std::shared_ptr<const ClassTokens> tokens = vocabulary_.tokens_of_classes(loops, true);
    part.bytes(state).each([&](uint8_t byte) {
      for (const ClassTokens::Edge& edge : tokens->edges[byte]) visit(edge.node, state);
    });
  }
}

void LeavingTokens::clear() {
  tokens_by_spot_.clear();
  memory_ = 0;
}

}  // namespace guided
