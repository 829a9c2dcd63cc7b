// The top of a state's stack: what it has in common with other states, whatever is below.
//
// In: a state. Out: the state of the same threads above the nearest return configuration through which all of them
// return, with kTop in its place; the state itself if that is a bottom. Until one of its threads exits, both take equal
// steps.
//
// Example, in an expression of C:
//
//     f(a, g(b      all threads return through the call of g, so the top is the same as for    f(x    in any other call
//
// How: the nearest common dominator in the graph of return configurations. A return configuration has a lower number
// than all that return to it. So the highest is left first, and the first one that is alone is a dominator (Cooper,
// Harvey and Kennedy, "A Simple, Fast Dominance Algorithm").
//
// Cost: O(n log n) in the number of threads above it.
#include <algorithm>

#include "run/arena.hpp"

namespace guided {

int32_t Arena::top(int32_t state) {
  std::vector<int32_t> heap, above;
  auto leave = [&](int32_t id) {
    for (const Thread& t : config(id)) {
      heap.push_back(t.ret);
      std::ranges::push_heap(heap);
    }
  };
  auto highest = [&] {
    const int32_t id = heap.front();
    while (!heap.empty() && heap.front() == id) {
      std::ranges::pop_heap(heap);
      heap.pop_back();
    }
    return id;
  };
  leave(state);
  int32_t base = heap.empty() ? static_cast<int32_t>(kBottom) : highest();
  for (; !heap.empty(); base = highest()) {
    above.push_back(base);
    leave(base);
  }
  if (base <= kFree) return state;
  std::unordered_map<int32_t, int32_t> moved{{base, kTop}};
  auto move = [&](int32_t id) {
    std::vector<Thread> threads(config(id).begin(), config(id).end());
    for (Thread& t : threads) t.ret = moved.at(t.ret);
    std::sort(threads.begin(), threads.end());
    return intern(threads, id == state);
  };
  for (auto id = above.rbegin(); id != above.rend(); ++id) moved[*id] = move(*id);
  return move(state);
}

bool Arena::leaves_top(int32_t state) const {
  return std::ranges::any_of(config(state), [](const Thread& t) { return t.pos == kExit && t.ret == kTop; });
}

}  // namespace guided
