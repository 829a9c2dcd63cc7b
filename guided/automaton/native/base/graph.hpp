// Strongly connected components (Tarjan 1972), without recursion.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace guided {

// In: adjacency lists. Out: the component number of each vertex, which exceeds those of all components it can reach.
inline std::vector<int32_t> components(const std::vector<std::vector<int32_t>>& graph) {
  int32_t n = static_cast<int32_t>(graph.size());
  std::vector<int32_t> index(n, -1), low(n, 0), comp(n, -1), stack;
  std::vector<std::pair<int32_t, size_t>> calls;
  int32_t counter = 0, count = 0;
  for (int32_t root = 0; root < n; ++root) {
    if (index[root] >= 0) continue;
    calls.push_back({root, 0});
    while (!calls.empty()) {
      auto& [v, i] = calls.back();
      if (i == 0) {
        index[v] = low[v] = counter++;
        stack.push_back(v);
      }
      if (i < graph[v].size()) {
        int32_t w = graph[v][i++];
        if (index[w] < 0)
          calls.push_back({w, 0});
        else if (comp[w] < 0)
          low[v] = std::min(low[v], index[w]);
        continue;
      }
      if (low[v] == index[v]) {
        int32_t w;
        do {
          w = stack.back();
          stack.pop_back();
          comp[w] = count;
        } while (w != v);
        ++count;
      }
      int32_t done = v;
      calls.pop_back();
      if (!calls.empty()) low[calls.back().first] = std::min(low[calls.back().first], low[done]);
    }
  }
  return comp;
}

}  // namespace guided
