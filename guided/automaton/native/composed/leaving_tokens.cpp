#include "composed/leaving_tokens.hpp"

#include <set>

namespace guided {

std::vector<LeavingTokens::LeavingToken>& LeavingTokens::find(Spot spot) {
  if (const auto it = tokens_by_spot_.find(spot); it != tokens_by_spot_.end()) return it->second;
  Walk walk;
  follow(spot, {0}, nullptr, walk);
  while (!walk.exits.empty()) {
    const auto [occurrence, nodes] = *walk.exits.begin();
    walk.exits.erase(walk.exits.begin());
    for (int32_t next : graph_.at(occurrence).next) enter(next, nodes, walk);
  }
  const size_t bytes = walk.out.size() * sizeof(LeavingToken) + 100;
  memory_ += bytes;
  CallMeter::memory(bytes);
  return tokens_by_spot_[spot] = std::move(walk.out);
}

// Begins an occurrence at `nodes` of the trie.
void LeavingTokens::enter(int32_t occurrence, const std::vector<int32_t>& nodes, Walk& walk) {
  Visits& visits = walk.visits.try_emplace(occurrence, vocabulary_.trie.nodes().size()).first->second;
  CallMeter::work(kLookup + static_cast<int64_t>(nodes.size()));
  std::vector<int32_t> new_nodes;
  for (int32_t node : nodes)
    if (visits.enter(node)) new_nodes.push_back(node);
  if (new_nodes.empty()) return;
  const States& part = *parts_[graph_.at(occurrence).part];
  if (part.accepting(part.initial())) {
    std::vector<int32_t>& exits = walk.exits[occurrence];
    exits.insert(exits.end(), new_nodes.begin(), new_nodes.end());
  }
  follow({occurrence, part.initial()}, new_nodes, &visits, walk);
}

// The classes of the characters with which the text after an occurrence can begin; none if no text can follow.
CharClasses LeavingTokens::classes_after(int32_t occurrence) {
  const auto [it, is_new] = classes_after_.try_emplace(occurrence, 0);
  if (!is_new) return it->second;
  ByteSet bytes;
  std::vector<int32_t> todo{occurrence};
  std::set<int32_t> visited;
  while (!todo.empty()) {
    const int32_t last = todo.back();
    todo.pop_back();
    for (int32_t next : graph_.at(last).next) {
      if (!visited.insert(next).second) continue;
      States& part = *parts_[graph_.at(next).part];
      const StatesLock lock(part);
      bytes |= part.bytes(part.initial());
      if (part.accepting(part.initial())) todo.push_back(next);
    }
  }
  if (bytes.empty()) return 0;
  CharClasses classes = kBrokenBytes;  // the only class of broken bytes and of the characters after them
  bytes.each([&](uint8_t byte) { classes |= byte < 0x80 ? char_class_of_ascii(byte) : ~CharClasses{0}; });
  return classes_after_[occurrence] = classes;
}

// Walks the trie below `nodes`, from a state of a part. `visits`: null for the part that tokens leave. Any other part
// begins at `nodes`, so the tokens that it reads have left another part; then `visits` are its visited nodes.
void LeavingTokens::follow(Spot from, const std::vector<int32_t>& nodes, Visits* visits, Walk& walk) {
  States& part = *parts_[graph_.at(from.occurrence).part];
  const CharClasses after = classes_after(from.occurrence);
  if (!visits && after == 0) return;
  const TokenTrie& trie = vocabulary_.trie;
  std::vector<int32_t> exits;
  const StatesLock lock(part);
  std::vector<std::pair<int32_t, int32_t>> todo;  // pairs of a node and a state
  for (int32_t node : nodes) todo.emplace_back(node, from.state);
  auto visit = [&](int32_t child, int32_t state) {
    const TokenTrie::Node& child_node = trie.nodes()[child];
    const bool may_end_below = (child_node.classes_below & after) != 0;
    if (!visits && !may_end_below) return;
    CallMeter::work(kLookup);
    const int32_t to = part.step(state, child_node.byte);
    if (to == kDead) return;
    if (visits && !visits->visit(child, to)) return;
    if (visits && child_node.payload_hi > child_node.payload_lo && part.ends_token(to))
      for (int32_t i = child_node.payload_lo; i < child_node.payload_hi; ++i)
        walk.out.push_back({trie.payloads()[i], {from.occurrence, to}});
    if (child_node.children == 0) return;
    const bool ends = may_end_below && part.accepting(to);
    if (ends) exits.push_back(child);
    if (visits || ends || (child_node.classes_below & ~part.loops(to)) != 0) todo.emplace_back(child, to);
  };
  while (!todo.empty()) {
    const auto [parent, state] = todo.back();
    todo.pop_back();
    const CharClasses loops = parent == 0 && !visits && !part.accepting(state) ? part.loops(state) : 0;
    if (loops == 0) {
      trie.children(parent, part.bytes(state), [&](int32_t child) { visit(child, state); });
      continue;
    }
    const std::shared_ptr<const ClassTokens> tokens = vocabulary_.tokens_of_classes(loops, true);
    part.bytes(state).each([&](uint8_t byte) {
      for (const ClassTokens::Edge& edge : tokens->edges[byte]) visit(edge.node, state);
    });
  }
  if (exits.empty()) return;
  std::vector<int32_t>& all_exits = walk.exits[from.occurrence];
  all_exits.insert(all_exits.end(), exits.begin(), exits.end());
}

void LeavingTokens::clear() {
  tokens_by_spot_.clear();
  memory_ = 0;
}

}  // namespace guided
