#include "compile/length_window.hpp"

#include <algorithm>
#include <map>

namespace guided {

namespace {

constexpr int64_t kMaxUnrolledStates = 64;  // up to this many states need no register for a lower bound

// The lengths a..b of a state's rests; b may be kUnbounded.
struct Interval {
  int64_t a = 0, b = 0;
};

// Returns the length of each state's shortest rest: breadth first, backwards from the accepting states.
std::vector<int64_t> find_shortest_rests(const Dfa& dfa) {
  const Predecessors predecessors(dfa);
  std::vector<int64_t> a(dfa.size(), -1);
  std::vector<int32_t> queue;
  for (int32_t s = 0; s < dfa.size(); ++s)
    if (dfa.accept[s]) {
      a[s] = 0;
      queue.push_back(s);
    }
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t p : predecessors[queue[i]])
      if (a[p] < 0) {
        a[p] = a[queue[i]] + 1;
        queue.push_back(p);
      }
  return a;
}

// Returns the length of each state's longest rest. It is infinite if the state can reach a cycle, because a trimmed
// automaton reaches an end from each cycle. The search goes backwards in topological order, and never gets to states
// that can reach a cycle.
std::vector<int64_t> find_longest_rests(const Dfa& dfa) {
  int32_t n = dfa.size();
  std::vector<int32_t> open_edges(n, 0);
  const Predecessors predecessors(dfa);
  for (int32_t s = 0; s < n; ++s)
    for (int32_t p : predecessors[s]) ++open_edges[p];
  std::vector<int64_t> b(n, kUnbounded);
  std::vector<int32_t> queue;
  for (int32_t s = 0; s < n; ++s)
    if (open_edges[s] == 0) {
      b[s] = 0;
      queue.push_back(s);
    }
  for (size_t i = 0; i < queue.size(); ++i) {
    int32_t s = queue[i];
    for (int32_t p : predecessors[s])
      if (--open_edges[p] == 0) {
        int64_t longest = 0;
        for (const Edge& e : dfa.edges[p]) longest = std::max(longest, b[e.to] + 1);
        b[p] = longest;
        queue.push_back(p);
      }
  }
  return b;
}

// Whether a guard on the count is exact for each state: checks the equation in length_window.hpp. `width`: max - min.
bool solves_equation(const Dfa& dfa, const std::vector<Interval>& rests, int64_t width) {
  auto add = [](int64_t length, int64_t more) { return length == kUnbounded ? kUnbounded : length + more; };
  std::vector<Interval> reach;
  for (int32_t s = 0; s < dfa.size(); ++s) {
    reach.clear();
    if (dfa.accept[s]) reach.push_back({0, width});
    for (const Edge& e : dfa.edges[s]) reach.push_back({rests[e.to].a + 1, add(rests[e.to].b, 1 + width)});
    std::sort(reach.begin(), reach.end(), [](const Interval& x, const Interval& y) { return x.a < y.a; });
    int64_t end = reach[0].b;
    for (size_t i = 1; i < reach.size() && end != kUnbounded; ++i) {
      if (reach[i].a > end + 1) return false;
      end = reach[i].b == kUnbounded ? kUnbounded : std::max(end, reach[i].b);
    }
    if (reach[0].a != rests[s].a || end != add(rests[s].b, width)) return false;
  }
  return true;
}

}  // namespace

Dfa unroll_window(const Dfa& dfa, int64_t min, int64_t max, Meter& meter) {
  if (dfa.empty()) return {};
  const std::vector<int64_t> shortest_rest = find_shortest_rests(dfa);
  int64_t max_count = max >= 0 ? max : min;  // without an upper bound, counts above min are equivalent to min
  std::map<std::pair<int32_t, int64_t>, int32_t> ids;
  std::vector<std::pair<int32_t, int64_t>> pairs;
  Dfa out;
  auto intern = [&](int32_t s, int64_t c) {
    auto [it, inserted] = ids.try_emplace({s, c}, out.size());
    if (inserted) {
      out.add(dfa.accept[s] && c >= min);
      pairs.push_back({s, c});
    }
    return it->second;
  };
  intern(0, 0);
  for (int32_t i = 0; i < out.size(); ++i) {
    auto [s, c] = pairs[i];
    if (c == max_count && max >= 0) continue;
    int64_t next = std::min(c + 1, max_count);
    std::vector<Edge> edges;
    for (const Edge& e : dfa.edges[s])
      if (max < 0 || next + shortest_rest[e.to] <= max) edges.push_back({e.lo, e.hi, intern(e.to, next)});
    meter.work(kLookup * static_cast<int64_t>(edges.size()) + 1);
    meter.states(out.size());
    out.edges.set(i, edges);
  }
  return trim(std::move(out));
}

Window count_window(const Dfa& dfa, int64_t min, int64_t max, Meter& meter) {
  std::vector<int64_t> a = find_shortest_rests(dfa), b = find_longest_rests(dfa);
  std::vector<Interval> rests(dfa.size());
  for (int32_t s = 0; s < dfa.size(); ++s) rests[s] = {a[s], b[s]};
  if (a[0] >= min && (max < 0 || (b[0] != kUnbounded && b[0] <= max)))
    return {.kind = Window::Everything, .dfa = {}, .effects = {}};
  // If only one of the bounds matters, a count always suffices: the shortest rest decides about the upper bound, and
  // the longest about the lower one.
  const bool upper_matters = max >= 0, lower_matters = a[0] < min;
  const bool is_small = !upper_matters && dfa.size() * min <= kMaxUnrolledStates;
  if (lower_matters && (is_small || (upper_matters && !solves_equation(dfa, rests, max - min))))
    return {.kind = Window::Unrolled, .dfa = minimise(unroll_window(dfa, min, max, meter), meter), .effects = {}};
  if ((max >= 0 && a[0] > max) || (b[0] != kUnbounded && b[0] < min))
    return {.kind = Window::Unrolled, .dfa = {}, .effects = {}};  // the empty language

  Window out{.kind = Window::Counted, .dfa = {}, .effects = {}};
  std::map<std::pair<int64_t, int64_t>, int32_t> effect_indices;
  for (int32_t s = 0; s < dfa.size(); ++s) out.dfa.add(dfa.accept[s]);
  for (int32_t s = 0; s < dfa.size(); ++s) {
    std::map<int32_t, std::vector<Edge>> by_effect;
    for (const Edge& e : dfa.edges[s]) {
      const bool always_reaches_min = !lower_matters || rests[e.to].b >= min;
      std::pair<int64_t, int64_t> key{upper_matters ? rests[e.to].a : 0,
                                      always_reaches_min ? kUnbounded : rests[e.to].b};
      auto [it, inserted] = effect_indices.try_emplace(key, static_cast<int32_t>(out.effects.size()));
      if (inserted) out.effects.push_back({.op = Effect::Inc, .a = key.first, .b = key.second});
      by_effect[it->second].push_back(e);
    }
    std::vector<Edge> guarded_edges;
    for (auto& [effect, edges] : by_effect) {
      int32_t after_action = out.dfa.add(false);
      out.dfa.edges.set(after_action, edges);
      Symbol symbol = kEffect + static_cast<Symbol>(effect);
      guarded_edges.push_back({symbol, symbol, after_action});
    }
    out.dfa.edges.set(s, guarded_edges);
  }
  return out;
}

}  // namespace guided
