// Strongly connected components (Tarjan 1972), without recursion.
//
// In: adjacency lists. Out: a component number for each vertex. Cost: linear in the vertices and edges. A recursive
// version would overflow the stack, because grammars can have long chains of rules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace guided {

// In: adjacency lists. Out: each vertex's component number, which is larger than the numbers of all other components
// that the vertex can reach.
inline std::vector<int32_t> components(const std::vector<std::vector<int32_t>>& graph) {
  int32_t n = static_cast<int32_t>(graph.size());
  std::vector<int32_t> index(n, -1), low(n, 0), component(n, -1), stack;
  std::vector<std::pair<int32_t, size_t>> visits;
  int32_t vertex_count = 0, component_count = 0;
  for (int32_t root = 0; root < n; ++root) {
    if (index[root] >= 0) continue;
    visits.push_back({root, 0});
    while (!visits.empty()) {
      auto& [v, i] = visits.back();
      if (i == 0) {
        index[v] = low[v] = vertex_count++;
        stack.push_back(v);
      }
      if (i < graph[v].size()) {
        int32_t w = graph[v][i++];
        if (index[w] < 0)
          visits.push_back({w, 0});
        else if (component[w] < 0)
          low[v] = std::min(low[v], index[w]);
        continue;
      }
      if (low[v] == index[v]) {
        int32_t w;
        do {
          w = stack.back();
          stack.pop_back();
          component[w] = component_count;
        } while (w != v);
        ++component_count;
      }
      int32_t finished = v;
      visits.pop_back();
      if (!visits.empty()) low[visits.back().first] = std::min(low[visits.back().first], low[finished]);
    }
  }
  return component;
}

}  // namespace guided
