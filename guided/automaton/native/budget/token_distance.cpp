#include "budget/token_distance.hpp"

#include <algorithm>
#include <deque>

namespace guided {

namespace {
constexpr int64_t kNever = INT64_MAX / 8;
constexpr int64_t kMaxWork = 400'000;  // units of CallMeter for a search from the initial state: a few milliseconds
constexpr size_t kProbeMemory = size_t{64} << 20;
}  // namespace

// Searches in a fresh arena, so the result depends on the grammar alone, not on earlier calls.
bool TokenDistances::is_affordable() const {
  Arena arena(arena_.shared_grammar(), kProbeMemory);
  MaskBuilder masks(arena, masks_.vocabulary());
  try {
    TokenDistances(masks).search(arena.initial(), CallMeter::worked() + kMaxWork);
  } catch (const TooMuch&) {
    return false;
  }
  return true;
}

int64_t TokenDistances::find(int32_t state) {
  if (auto it = known_.find(state); it != known_.end()) return it->second;
  return search(state, INT64_MAX);
}

int64_t TokenDistances::search(int32_t state, int64_t most_worked) {
  const Grammar& grammar = arena_.grammar();
  std::vector<int32_t> order{state};
  std::unordered_map<int32_t, int32_t> index{{state, 0}};
  std::vector<std::vector<int32_t>> before(1);
  std::vector<std::pair<int64_t, int32_t>> sources;
  for (size_t i = 0; i < order.size(); ++i) {
    if (arena_.config(order[i]).accepting) sources.push_back({0, static_cast<int32_t>(i)});
    auto link = [&](int32_t after) {
      CallMeter::work(kLookup);
      if (CallMeter::worked() > most_worked) throw TooMuch{};
      auto known = known_.find(after);
      if (known != known_.end()) {
        sources.push_back({known->second + 1, static_cast<int32_t>(i)});
        return;
      }
      auto [at, inserted] = index.try_emplace(after, static_cast<int32_t>(order.size()));
      if (inserted) {
        order.push_back(after);
        before.emplace_back();
      }
      before[at->second].push_back(static_cast<int32_t>(i));
    };
    int32_t from = order[i];
    masks_.each_token(from, [&](int32_t, int32_t after) { link(after); });
    for (const Thread& t : arena_.config(from)) {
      if (t.pos == kExit) continue;
      const Position& p = grammar.positions[t.pos];
      for (const TokenEdge& edge : grammar.tokens_of(p)) link(arena_.step_token(from, edge.token));
    }
  }
  std::vector<int64_t> distance(order.size(), kNever);
  std::sort(sources.begin(), sources.end());
  std::deque<std::pair<int64_t, int32_t>> queue;  // sorted: sources join in order of distance, and each step adds 1
  size_t next = 0;
  while (next < sources.size() || !queue.empty()) {
    std::pair<int64_t, int32_t> top;
    if (queue.empty() || (next < sources.size() && sources[next].first <= queue.front().first))
      top = sources[next++];
    else {
      top = queue.front();
      queue.pop_front();
    }
    if (distance[top.second] <= top.first) continue;
    distance[top.second] = top.first;
    for (int32_t p : before[top.second])
      if (distance[p] > top.first + 1) queue.push_back({top.first + 1, p});
  }
  for (size_t i = 0; i < order.size(); ++i) known_[order[i]] = distance[i];
  return distance[0];
}

}  // namespace guided
