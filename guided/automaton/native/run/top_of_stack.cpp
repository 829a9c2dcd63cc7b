// Finds the top of a state's stack: the part that it may share with other states, whatever is below.
//
// In: a state. Out: a state with the same threads, in which kTop replaces the nearest return configuration through
// which all of them return; the state itself if that configuration is a bottom (kBottom, kTop or kFree, arena.hpp).
// Until a thread exits, both states take the same steps.
//
// Example, in an expression of C:
//
//     f(a, g(b      all threads return through the call of g, so the top is the same as after    h(b
//
// How: that configuration is the nearest common dominator in the graph of return configurations. A return configuration
// has a lower number than all configurations that return to it. So the search always replaces the highest one in the
// queue by the configurations to which it returns. When only one remains, it is the dominator (Cooper, Harvey and
// Kennedy, "A Simple, Fast Dominance Algorithm").
//
// Cost: O(n log n) in the number of threads above the dominator.
#include <algorithm>

#include "run/arena.hpp"

namespace guided {

int32_t Arena::top(int32_t state) {
  std::vector<int32_t> heap, above;
  auto push_callers = [&](int32_t id) {
    for (const Thread& t : config(id)) {
      heap.push_back(t.ret);
      std::ranges::push_heap(heap);
    }
  };
  auto pop_highest = [&] {
    const int32_t id = heap.front();
    while (!heap.empty() && heap.front() == id) {
      std::ranges::pop_heap(heap);
      heap.pop_back();
    }
    return id;
  };
  push_callers(state);
  int32_t dominator = heap.empty() ? static_cast<int32_t>(kBottom) : pop_highest();
  for (; !heap.empty(); dominator = pop_highest()) {
    above.push_back(dominator);
    push_callers(dominator);
  }
  if (dominator <= kFree) return state;
  std::unordered_map<int32_t, int32_t> new_ids{{dominator, kTop}};
  auto copy_with_new_callers = [&](int32_t id) {
    std::vector<Thread> threads(config(id).begin(), config(id).end());
    for (Thread& t : threads) t.ret = new_ids.at(t.ret);
    std::sort(threads.begin(), threads.end());
    return intern(threads, id == state);
  };
  for (auto id = above.rbegin(); id != above.rend(); ++id) new_ids[*id] = copy_with_new_callers(*id);
  return copy_with_new_callers(state);
}

bool Arena::leaves_top(int32_t state) const {
  return std::ranges::any_of(config(state), [](const Thread& t) { return t.pos == kExit && t.ret == kTop; });
}

}  // namespace guided
