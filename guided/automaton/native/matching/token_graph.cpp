#include "matching/token_graph.hpp"

#include <utility>

namespace guided {

namespace {

constexpr int32_t kNoDistance = INT32_MAX;

// Drops token edges to positions from which no whole tokens lead to an end.
void drop_dead_tokens(Grammar& g) {
  std::vector<TokenEdge> kept_edges;
  for (Position& p : g.positions) {
    const auto low = static_cast<int32_t>(kept_edges.size());
    for (const TokenEdge& edge : g.tokens_of(p))
      if (g.positions[edge.to].boundary) kept_edges.push_back(edge);
    p.token_lo = low;
    p.token_hi = static_cast<int32_t>(kept_edges.size());
    p.active = p.bytes.count() > 0 || p.token_hi > p.token_lo;
  }
  g.tokens = std::move(kept_edges);
}

}  // namespace

void prune_token_graph(Grammar& g, const TokenVocabulary& vocabulary, Meter& meter) {
  const Rule& rule = g.rules[g.start];
  if (rule.size == 0) return;
  std::vector<std::vector<int32_t>> predecessors(g.positions.size());
  std::vector<uint8_t> visited(g.positions.size(), 0);
  std::vector<int32_t> order{rule.start};
  visited[rule.start] = 1;
  std::vector<std::pair<int32_t, int32_t>> stack;
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t from = order[i];
    auto add_edge = [&](int32_t to) {
      if (predecessors[to].empty() || predecessors[to].back() != from) predecessors[to].push_back(from);
      if (!std::exchange(visited[to], 1)) order.push_back(to);
    };
    for (const TokenEdge& edge : g.tokens_of(g.positions[from])) add_edge(edge.to);
    stack.assign(1, {0, from});
    while (!stack.empty()) {
      auto [node, pos] = stack.back();
      stack.pop_back();
      meter.work(1);
      const TokenTrie::Node& n = vocabulary.trie.nodes()[node];
      if (n.payload_hi > n.payload_lo) add_edge(pos);
      vocabulary.trie.children(node, g.positions[pos].bytes,
                               [&](int32_t c) { stack.push_back({c, g.step(pos, vocabulary.trie.nodes()[c].byte)}); });
    }
  }
  // Backwards from the ends, breadth first.
  g.token_distance.assign(g.positions.size(), kNoDistance);
  std::vector<int32_t> queue;
  for (int32_t p : order)
    if (g.positions[p].accept) {
      g.token_distance[p] = 0;
      queue.push_back(p);
    }
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t p : predecessors[queue[i]])
      if (g.token_distance[p] == kNoDistance) {
        g.token_distance[p] = g.token_distance[queue[i]] + 1;
        queue.push_back(p);
      }
  for (size_t p = 0; p < g.positions.size(); ++p) g.positions[p].boundary = g.token_distance[p] != kNoDistance;
  drop_dead_tokens(g);
  if (!g.positions[rule.start].boundary && !g.nullable)
    throw EmptyLanguage("no sequence of this vocabulary's tokens spells any output of the specification");
}

}  // namespace guided
