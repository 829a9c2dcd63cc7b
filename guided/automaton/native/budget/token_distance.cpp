#include "budget/token_distance.hpp"

#include <algorithm>
#include <deque>

namespace guided {

namespace {
constexpr int64_t kNoDistance = INT64_MAX / 8;
constexpr int64_t kMaxWork = 400'000;  // units of CallMeter for a search from the initial state; a few milliseconds
constexpr size_t kProbeMemory = size_t{64} << 20;
}  // namespace

// Searches in a fresh arena, so the result depends on the grammar alone, not on earlier calls.
bool TokenDistances::is_affordable() const {
  Arena arena(arena_.shared_grammar(), kProbeMemory);
  MaskBuilder masks(arena, masks_.vocabulary());
  try {
    TokenDistances(masks).search(arena.initial(), CallMeter::worked() + kMaxWork);
  } catch (const TooMuchWork&) {
    return false;
  }
  return true;
}

int64_t TokenDistances::find(int32_t state) {
  if (auto it = distances_.find(state); it != distances_.end()) return it->second;
  return search(state, INT64_MAX);
}

int64_t TokenDistances::search(int32_t state, int64_t max_work) {
  const Grammar& grammar = arena_.grammar();
  std::vector<int32_t> order{state};
  std::unordered_map<int32_t, int32_t> index{{state, 0}};
  std::vector<std::vector<int32_t>> predecessors(1);
  std::vector<std::pair<int64_t, int32_t>> sources;
  for (size_t i = 0; i < order.size(); ++i) {
    if (arena_.config(order[i]).accepting) sources.push_back({0, static_cast<int32_t>(i)});
    auto link = [&](int32_t next_state) {
      CallMeter::work(kLookup);
      if (CallMeter::worked() > max_work) throw TooMuchWork{};
      auto cached = distances_.find(next_state);
      if (cached != distances_.end()) {
        sources.push_back({cached->second + 1, static_cast<int32_t>(i)});
        return;
      }
      auto [it, inserted] = index.try_emplace(next_state, static_cast<int32_t>(order.size()));
      if (inserted) {
        order.push_back(next_state);
        predecessors.emplace_back();
      }
      predecessors[it->second].push_back(static_cast<int32_t>(i));
    };
    int32_t current_state = order[i];
    masks_.each_token(current_state, [&](int32_t, int32_t next_state) { link(next_state); });
    for (const Thread& t : arena_.config(current_state)) {
      if (t.pos == kExit) continue;
      const Position& p = grammar.positions[t.pos];
      for (const TokenEdge& edge : grammar.tokens_of(p)) link(arena_.step_token(current_state, edge.token));
    }
  }
  std::vector<int64_t> distance(order.size(), kNoDistance);
  std::sort(sources.begin(), sources.end());
  // Sorted, because sources join in order of distance and each step adds 1.
  std::deque<std::pair<int64_t, int32_t>> queue;
  size_t next_source = 0;
  while (next_source < sources.size() || !queue.empty()) {
    std::pair<int64_t, int32_t> current;
    if (queue.empty() || (next_source < sources.size() && sources[next_source].first <= queue.front().first))
      current = sources[next_source++];
    else {
      current = queue.front();
      queue.pop_front();
    }
    if (distance[current.second] <= current.first) continue;
    distance[current.second] = current.first;
    for (int32_t p : predecessors[current.second])
      if (distance[p] > current.first + 1) queue.push_back({current.first + 1, p});
  }
  for (size_t i = 0; i < order.size(); ++i) distances_[order[i]] = distance[i];
  return distance[0];
}

}  // namespace guided
