#include "token_graph.hpp"

#include <algorithm>

namespace guided {

void prune_token_graph(Grammar& g, const TokenVocabulary& vocabulary, Meter& meter) {
  const Rule& rule = g.rules[g.start];
  if (rule.size == 0) return;
  std::vector<std::vector<int32_t>> before(g.positions.size());
  std::vector<uint8_t> met(g.positions.size(), 0);
  std::vector<int32_t> order{rule.start};
  met[rule.start] = 1;
  std::vector<std::pair<int32_t, int32_t>> stack;
  for (size_t i = 0; i < order.size(); ++i) {
    int32_t from = order[i];
    stack.assign(1, {0, from});
    while (!stack.empty()) {
      auto [node, pos] = stack.back();
      stack.pop_back();
      meter.work(1);
      const TokenTrie::Node& n = vocabulary.trie.nodes()[node];
      if (n.payload_hi > n.payload_lo) {
        before[pos].push_back(from);
        if (!met[pos]) {
          met[pos] = 1;
          order.push_back(pos);
        }
      }
      vocabulary.trie.children(node, g.positions[pos].bytes, [&](int32_t c) {
        stack.push_back({c, g.step(pos, vocabulary.trie.nodes()[c].byte)});
      });
    }
  }
  for (int32_t p : order) g.positions[p].boundary = false;
  std::vector<int32_t> work;
  for (int32_t p : order)
    if (g.positions[p].accept) {
      g.positions[p].boundary = true;
      work.push_back(p);
    }
  while (!work.empty()) {
    int32_t p = work.back();
    work.pop_back();
    for (int32_t q : before[p])
      if (!g.positions[q].boundary) {
        g.positions[q].boundary = true;
        work.push_back(q);
      }
  }
  for (size_t p = 0; p < g.positions.size(); ++p)
    if (!met[p]) g.positions[p].boundary = false;
  if (!g.positions[rule.start].boundary && !g.nullable)
    throw EmptyLanguage("no sequence of this vocabulary's tokens spells any output of the specification");
}

}  // namespace guided
