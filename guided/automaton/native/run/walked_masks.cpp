// Computes masks of states by walking the vocabulary instead of reading token tables.
//
// Problem: if a rule ends after each character and may also call other rules, such as `atom` in
// `sequence: atom*, atom: CHAR | "(" sequence ")"`, nearly all tokens leave its frame. Tables of their remainders would
// take longer to build than walking the whole vocabulary, and the walk finds few different states.
//
// How: states that differ only below the tops of their stacks (top_of_stack.cpp) share a walk. It finds the tokens that
// stay within the top, and the subtrees of the trie in which some thread leaves it. Only these subtrees are walked
// again from each state. Example: inside any group, `abc` stays, and the tokens that begin with `)` are walked again.
//
// Cost: a few milliseconds for each top, and a look-up for each node of the subtrees that leave it.
#include <algorithm>

#include "run/masks.hpp"

namespace guided {

// Adds the tokens that a state allows, except end tokens.
void MaskBuilder::add_walked(int32_t state, MaskRecipe& out) {
  const Config& c = arena_.config(state);
  const Grammar& g = arena_.grammar();
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    for (const TokenEdge& edge : g.tokens_of(g.positions[t.pos])) out.sparse.push_back(edge.token);
  }
  if (std::ranges::any_of(c, [](const Thread& t) { return t.mem != kOutside; })) {
    each_token(state, [&](int32_t token, int32_t) { out.sparse.push_back(token); });
    return;
  }
  const TopWalk& walk = walk_of_top(arena_.top(state));
  out.add(walk.staying);
  const TokenTrie& trie = vocabulary_.trie;
  walk_trie_from(arena_, trie, 0, state, [&](const TokenTrie::Node& node, int32_t node_state) {
    const auto leaving = std::ranges::upper_bound(walk.leaving, node.payload_lo, {}, &TopWalk::Range::to);
    if (leaving == walk.leaving.end() || leaving->from >= node.subtree_hi) return false;
    const bool has_left = leaving->from <= node.payload_lo && node.subtree_hi <= leaving->to;
    if (has_left && at_boundary(arena_, node_state))
      out.sparse.insert(out.sparse.end(), trie.payloads().begin() + node.payload_lo,
                        trie.payloads().begin() + node.payload_hi);
    return true;
  });
}

const MaskBuilder::TopWalk& MaskBuilder::walk_of_top(int32_t top) {
  std::unique_ptr<TopWalk>& walk = top_walks_[top];
  if (walk) return *walk;
  auto out = std::make_unique<TopWalk>();
  const TokenTrie& trie = vocabulary_.trie;
  std::vector<int32_t> staying;
  walk_trie_from(arena_, trie, 0, top, [&](const TokenTrie::Node& node, int32_t state) {
    if (arena_.leaves_top(state)) {
      out->leaving.push_back({node.payload_lo, node.subtree_hi});
      return false;
    }
    if (at_boundary(arena_, state))
      staying.insert(staying.end(), trie.payloads().begin() + node.payload_lo,
                     trie.payloads().begin() + node.payload_hi);
    return true;
  });
  std::ranges::sort(out->leaving, {}, &TopWalk::Range::from);
  out->staying = make_token_set(std::move(staying), vocabulary_.words);
  arena_.charge(sizeof(TopWalk) + out->staying.bytes() + out->leaving.size() * sizeof(TopWalk::Range));
  return *(walk = std::move(out));
}

// Adds all tokens that a thread can read, except the tokens that stay. Near a bound, only few nodes of the vocabulary's
// trie can be reached. Subtrees in which all tokens stay are skipped.
void MaskBuilder::add_by_walk(const Thread& t, const TokenSet& staying, MaskRecipe& out) {
  const TokenTrie& trie = vocabulary_.trie;
  // By payload: how many tokens before it do not stay.
  std::vector<int32_t> others_before(trie.payloads().size() + 1, 0);
  for (size_t i = 0; i + 1 < others_before.size(); ++i)
    others_before[i + 1] = others_before[i] + !staying.has(trie.payloads()[i]);
  walk_trie_from(arena_, trie, 0, arena_.state_of_thread(t), [&](const TokenTrie::Node& node, int32_t state) {
    if (others_before[node.subtree_hi] == others_before[node.payload_lo]) return false;
    if (others_before[node.payload_hi] > others_before[node.payload_lo] && at_boundary(arena_, state))
      for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) out.sparse.push_back(trie.payloads()[i]);
    return true;
  });
}

std::vector<int32_t> MaskBuilder::walk_all(int32_t state) {
  std::vector<int32_t> ids;
  each_token(state, [&](int32_t token, int32_t next_state) {
    if (arena_.end_token(next_state) != kDead) ids.push_back(token);
  });
  const Config& c = arena_.config(state);
  const Grammar& g = arena_.grammar();
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (const TokenEdge& edge : g.tokens_of(p)) ids.push_back(edge.token);
  }
  if (c.accepting) ids.insert(ids.end(), vocabulary_.end_tokens.begin(), vocabulary_.end_tokens.end());
  sort_unique(ids);
  return ids;
}

}  // namespace guided
