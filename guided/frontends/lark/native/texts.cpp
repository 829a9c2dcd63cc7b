#include "texts.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace guided::lark {

Texts::Texts(Automaton automaton, int32_t start)
    : automaton_(std::move(automaton)), start_(start), is_live_(automaton_.edges.size()) {
  std::vector<std::vector<int32_t>> predecessors(automaton_.edges.size());
  std::vector<int32_t> queue;
  for (size_t state = 0; state < automaton_.edges.size(); ++state) {
    for (const Edge& edge : automaton_.edges[state])
      if (auto& sources = predecessors[edge.to]; sources.empty() || sources.back() != static_cast<int32_t>(state))
        sources.push_back(static_cast<int32_t>(state));
    if (automaton_.accepts[state] != 0) queue.push_back(static_cast<int32_t>(state));
  }
  for (const int32_t state : queue) is_live_[state] = true;
  for (size_t index = 0; index < queue.size(); ++index)
    for (const int32_t source : predecessors[queue[index]])
      if (!is_live_[source]) {
        is_live_[source] = true;
        queue.push_back(source);
      }
}

size_t Texts::longest_match(std::u32string_view text) const {
  int32_t state = start_;
  size_t out = 0;
  for (size_t offset = 0; offset < text.size(); ++offset) {
    const auto& edges = automaton_.edges[state];
    const auto character = static_cast<int32_t>(text[offset]);
    const auto is_before = [](const Edge& edge, int32_t character) { return edge.high < character; };
    const auto edge = std::lower_bound(edges.begin(), edges.end(), character, is_before);
    if (edge == edges.end() || edge->low > character) break;
    state = edge->to;
    if (automaton_.accepts[state] != 0) out = offset + 1;
  }
  return out;
}

bool Texts::share_a_text(const Texts& other, size_t max_pairs) const {
  const auto key = [](int32_t first, int32_t second) {
    return static_cast<uint64_t>(first) << 32 | static_cast<uint32_t>(second);
  };
  std::vector<std::pair<int32_t, int32_t>> queue{{start_, other.start_}};
  std::unordered_set<uint64_t> seen{key(start_, other.start_)};
  for (size_t index = 0; index < queue.size(); ++index) {
    const auto [first, second] = queue[index];
    if (!is_live_[first] || !other.is_live_[second]) continue;
    if (automaton_.accepts[first] != 0 || other.automaton_.accepts[second] != 0 || seen.size() > max_pairs) return true;
    const auto &edges = automaton_.edges[first], &other_edges = other.automaton_.edges[second];
    for (size_t i = 0, j = 0; i < edges.size() && j < other_edges.size();) {
      if (edges[i].low <= other_edges[j].high && other_edges[j].low <= edges[i].high &&
          seen.insert(key(edges[i].to, other_edges[j].to)).second)
        queue.emplace_back(edges[i].to, other_edges[j].to);
      if (edges[i].high < other_edges[j].high)
        ++i;
      else
        ++j;
    }
  }
  return false;
}

}  // namespace guided::lark
