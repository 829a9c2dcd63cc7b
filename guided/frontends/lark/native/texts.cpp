#include "texts.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace guided::lark {

Texts::Texts(Automaton automaton, int32_t start)
    : automaton_(std::move(automaton)), start_(start), is_live_(automaton_.edges.size()) {
  std::vector<std::vector<int32_t>> before(automaton_.edges.size());
  std::vector<int32_t> todo;
  for (size_t state = 0; state < automaton_.edges.size(); ++state) {
    for (const Edge& edge : automaton_.edges[state])
      if (auto& sources = before[edge.to]; sources.empty() || sources.back() != static_cast<int32_t>(state))
        sources.push_back(static_cast<int32_t>(state));
    if (automaton_.accepts[state] != 0) todo.push_back(static_cast<int32_t>(state));
  }
  for (const int32_t state : todo) is_live_[state] = true;
  for (size_t at = 0; at < todo.size(); ++at)
    for (const int32_t source : before[todo[at]])
      if (!is_live_[source]) {
        is_live_[source] = true;
        todo.push_back(source);
      }
}

size_t Texts::longest_match(std::u32string_view text) const {
  int32_t state = start_;
  size_t out = 0;
  for (size_t read = 0; read < text.size(); ++read) {
    const auto& edges = automaton_.edges[state];
    const auto character = static_cast<int32_t>(text[read]);
    const auto is_before = [](const Edge& edge, int32_t character) { return edge.high < character; };
    const auto edge = std::lower_bound(edges.begin(), edges.end(), character, is_before);
    if (edge == edges.end() || edge->low > character) break;
    state = edge->to;
    if (automaton_.accepts[state] != 0) out = read + 1;
  }
  return out;
}

bool Texts::share_a_text(const Texts& other, size_t most) const {
  const auto key = [](int32_t first, int32_t second) {
    return static_cast<uint64_t>(first) << 32 | static_cast<uint32_t>(second);
  };
  std::vector<std::pair<int32_t, int32_t>> todo{{start_, other.start_}};
  std::unordered_set<uint64_t> seen{key(start_, other.start_)};
  for (size_t at = 0; at < todo.size(); ++at) {
    const auto [first, second] = todo[at];
    if (!is_live_[first] || !other.is_live_[second]) continue;
    if (automaton_.accepts[first] != 0 || other.automaton_.accepts[second] != 0 || seen.size() > most) return true;
    const auto &edges = automaton_.edges[first], &others = other.automaton_.edges[second];
    for (size_t i = 0, j = 0; i < edges.size() && j < others.size();) {
      if (edges[i].low <= others[j].high && others[j].low <= edges[i].high &&
          seen.insert(key(edges[i].to, others[j].to)).second)
        todo.emplace_back(edges[i].to, others[j].to);
      if (edges[i].high < others[j].high)
        ++i;
      else
        ++j;
    }
  }
  return false;
}

}  // namespace guided::lark
