#include "matching/token_limits.hpp"

#include <algorithm>
#include <string>

namespace guided {

namespace {

struct Step {
  int32_t from, token;
};

// Returns for each position of a rule the positions from which a token leads to it, with one such token each.
std::vector<std::vector<Step>> find_predecessors(const Grammar& g, const Rule& rule, const TokenVocabulary& vocabulary,
                                                 Meter& meter) {
  std::vector<std::vector<Step>> out(static_cast<size_t>(rule.size));
  std::vector<std::pair<int32_t, int32_t>> stack;
  for (int32_t from = rule.base; from < rule.base + rule.size; ++from) {
    stack.assign(1, {0, from});
    while (!stack.empty()) {
      auto [node, position] = stack.back();
      stack.pop_back();
      meter.work(1);
      const TokenTrie::Node& n = vocabulary.trie.nodes()[node];
      std::vector<Step>& list = out[static_cast<size_t>(position - rule.base)];
      if (n.payload_hi > n.payload_lo && (list.empty() || list.back().from != from))
        list.push_back({from, vocabulary.trie.payloads()[n.payload_lo]});
      vocabulary.trie.children(node, g.positions[position].bytes, [&](int32_t c) {
        stack.push_back({c, g.step(position, vocabulary.trie.nodes()[c].byte)});
      });
    }
  }
  return out;
}

// Returns for each rule whether outputs can use it.
std::vector<uint8_t> find_used_rules(const Grammar& g) {
  std::vector<uint8_t> out(g.rules.size(), 0);
  g.all_reachable(g.start, [&](const Rule& rule) {
    out[static_cast<size_t>(&rule - g.rules.data())] = 1;
    return true;
  });
  return out;
}

}  // namespace

void find_token_rests(Grammar& g, const TokenVocabulary& vocabulary, Meter& meter) {
  if (std::ranges::none_of(g.rules, [](const Rule& rule) { return rule.max_tokens >= 0; })) return;
  const std::vector<uint8_t> is_used = find_used_rules(g);
  for (size_t r = 0; r < g.rules.size(); ++r) {
    Rule& rule = g.rules[r];
    if (rule.max_tokens < 0 || rule.size == 0 || !is_used[r]) continue;
    meter.rule = rule.origin;
    g.token_rests.resize(g.positions.size());
    const std::vector<std::vector<Step>> predecessors = find_predecessors(g, rule, vocabulary, meter);
    std::vector<int32_t> level;
    for (int32_t position = rule.base; position < rule.base + rule.size; ++position)
      if (g.positions[position].accept) level.push_back(position);
    for (int64_t tokens = 1; !level.empty(); ++tokens) {
      std::vector<int32_t> next_level;
      for (int32_t position : level)
        for (const Step& step : predecessors[static_cast<size_t>(position - rule.base)]) {
          TokenRest& rest = g.token_rests[static_cast<size_t>(step.from)];
          if (rest.tokens > 0) continue;
          rest = {tokens, step.token};
          if (g.positions[step.from].accept) continue;  // it was in the first level
          next_level.push_back(step.from);
          if (step.from != rule.start) rule.furthest_rest = std::max(rule.furthest_rest, tokens);
        }
      level = std::move(next_level);
    }
    const int64_t min_tokens = g.token_rests[static_cast<size_t>(rule.start)].tokens;
    if (min_tokens <= rule.max_tokens) continue;
    const std::string location = "in " + g.names[static_cast<size_t>(rule.origin)];
    throw Unsupported(location + ": the shortest text takes " + std::to_string(min_tokens) +
                      " tokens, and max_tokens is " + std::to_string(rule.max_tokens));
  }
  meter.rule = -1;
}

}  // namespace guided
