#include "fsa/symbolic_automaton.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/int_lists.hpp"

namespace guided {

int32_t Dfa::next(int32_t s, Symbol c) const {
  const std::span<const Edge> list = edges[s];
  auto it = std::upper_bound(list.begin(), list.end(), c, [](Symbol x, const Edge& e) { return x < e.lo; });
  if (it == list.begin()) return -1;
  --it;
  return c <= it->hi ? it->to : -1;
}

void Nfa::splice(const Dfa& dfa, int32_t from, int32_t to) {
  if (dfa.empty()) return;
  const int32_t base = states;
  states += dfa.size();
  for (int32_t s = 0; s < dfa.size(); ++s) {
    for (const Edge& e : dfa.edges[s]) edge(base + s, e.lo, e.hi, base + e.to);
    if (dfa.accept[s]) move(base + s, to);
  }
  move(from, base);
}

void join_edges(std::vector<Edge>& edges) {
  size_t n = 0;
  for (const Edge& e : edges) {
    if (n && edges[n - 1].to == e.to && edges[n - 1].hi + 1 == e.lo && (is_text(e.lo) == is_text(edges[n - 1].lo)) &&
        is_text(e.lo)) {
      edges[n - 1].hi = e.hi;
    } else {
      edges[n++] = e;
    }
  }
  edges.resize(n);
}

namespace {

// Groups edges or moves by their source states, with a counting sort.
template <class Item, class Value>
class GroupedByState {
 public:
  template <class Get>
  GroupedByState(const std::vector<Item>& items, int32_t states, Get get) : from_(static_cast<size_t>(states) + 1, 0) {
    for (const Item& item : items) ++from_[item.from + 1];
    for (size_t s = 1; s < from_.size(); ++s) from_[s] += from_[s - 1];
    list_.resize(items.size());
    std::vector<int32_t> next(from_.begin(), from_.end() - 1);
    for (const Item& item : items) list_[next[item.from]++] = get(item);
  }
  std::span<const Value> operator[](int32_t s) const {
    return {list_.data() + from_[s], static_cast<size_t>(from_[s + 1] - from_[s])};
  }

 private:
  std::vector<int32_t> from_;
  std::vector<Value> list_;
};

// A state of the result is a sorted set of states of the NFA, closed under moves and interned in `sets_`.
class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, Meter& meter)
      : nfa_(nfa),
        edges_(nfa.edges, nfa.states, [](const Nfa::OutEdge& f) { return f.edge; }),
        moves_(nfa.moves, nfa.states, [](const Nfa::Move& m) { return m.to; }),
        meter_(meter),
        closure_numbers_(nfa.states, -1),
        stamps_(nfa.states, 0),
        counted_(nfa.counted.empty() ? 0 : nfa.states, nullptr) {
    for (const Nfa::CountedState& state : nfa.counted) counted_[state.state] = &state;
  }

  Dfa run() {
    dfa_.edges.reserve(nfa_.edges.size(), nfa_.edges.size());
    set_.assign(1, nfa_.start);
    intern();
    for (int32_t s = 0; s < dfa_.size(); ++s) {
      expand(s);
      meter_.states(dfa_.size());
    }
    return std::move(dfa_);
  }

 private:
  // The number of the state whose set is the closure of `set_`. Overwrites `set_`.
  int32_t intern() {
    const int32_t only_state = set_.size() == 1 ? set_[0] : -1;
    if (only_state >= 0 && closure_numbers_[only_state] >= 0)
      return closure_numbers_[only_state];  // most sets are the closure of one state
    close();
    const auto [number, inserted] = sets_.intern(set_);
    meter_.work(kLookup);
    if (inserted) dfa_.add(std::binary_search(set_.begin(), set_.end(), nfa_.final));
    if (only_state >= 0) closure_numbers_[only_state] = number;
    return number;
  }

  // Replaces `set_` by its closure under moves, and sorts it.
  void close() {
    ++stamp_;  // `stamps_[s] == stamp_`: s is in the set
    for (int32_t s : set_) stamps_[s] = stamp_;
    for (size_t i = 0; i < set_.size(); ++i) {
      for (int32_t t : moves_[set_[i]]) {
        if (stamps_[t] != stamp_) {
          stamps_[t] = stamp_;
          set_.push_back(t);
        }
      }
    }
    meter_.work(static_cast<int64_t>(set_.size()));
    // States without edges do not matter, except for the final one. Removing them makes more sets equal.
    std::erase_if(set_, [&](int32_t s) { return edges_[s].empty() && s != nfa_.final; });
    if (set_.size() > 1) std::sort(set_.begin(), set_.end());
    if (set_.size() > 1 && !counted_.empty()) drop_covered();
  }

  // Drops counted states whose languages the other states of their node contain together. After `count` characters of
  // x{min,max}, `shortest` to `longest` more may come, then the same text. So a state is not needed if another one has
  // its range, or if the ranges of its two neighbours leave no gap between them. Without this, (.*a.{1,99}) needs a
  // state for each set of positions at which an a may stand.
  void drop_covered() {
    size_t kept = 0;
    for (const int32_t s : set_) {
      const Nfa::CountedState* last = counted_[s];
      bool is_covered = false;
      while (last && kept > 0) {
        const Nfa::CountedState* middle = counted_[set_[kept - 1]];
        if (!middle || middle->node != last->node) break;
        is_covered = contains(*middle, *last);
        if (is_covered) break;
        const Nfa::CountedState* first = kept > 1 ? counted_[set_[kept - 2]] : nullptr;
        const bool has_first = first && first->node == last->node;
        if (!contains(*last, *middle) && !(has_first && shortest(*first) <= longest(*last) + 1)) break;
        --kept;
      }
      if (!is_covered) set_[kept++] = s;
    }
    set_.resize(kept);
  }

  static int64_t shortest(const Nfa::CountedState& state) { return std::max<int64_t>(state.min - state.count, 0); }
  static int64_t longest(const Nfa::CountedState& state) {
    return state.max < 0 ? std::numeric_limits<int32_t>::max() : state.max - state.count;
  }
  static bool contains(const Nfa::CountedState& outer, const Nfa::CountedState& inner) {
    return shortest(outer) <= shortest(inner) && longest(outer) >= longest(inner);
  }

  // Adds the edges of state `s`, by a sweep over the ranges of all edges in its set. `active_`: the edges that contain
  // the symbol `low`.
  void expand(int32_t s) {
    set_edges_.clear();
    for (int32_t n : sets_[s]) set_edges_.insert(set_edges_.end(), edges_[n].begin(), edges_[n].end());
    meter_.work(static_cast<int64_t>(set_edges_.size()));
    if (set_edges_.size() > 1)
      std::sort(set_edges_.begin(), set_edges_.end(), [](const Edge& x, const Edge& y) { return x.lo < y.lo; });
    out_.clear();
    active_.clear();
    size_t i = 0;
    uint64_t low = 0;
    while (i < set_edges_.size() || !active_.empty()) {
      if (active_.empty()) low = set_edges_[i].lo;
      while (i < set_edges_.size() && set_edges_[i].lo <= low) active_.push_back(set_edges_[i++]);
      uint64_t high = i < set_edges_.size() ? uint64_t{set_edges_[i].lo} - 1 : ~uint64_t{0};
      for (const Edge& e : active_) high = std::min(high, uint64_t{e.hi});
      set_.clear();
      for (const Edge& e : active_) set_.push_back(e.to);
      if (set_.size() > 1) {
        sort_unique(set_);
      }
      meter_.work(static_cast<int64_t>(set_.size()));
      out_.push_back({static_cast<Symbol>(low), static_cast<Symbol>(high), intern()});
      low = high + 1;
      std::erase_if(active_, [&](const Edge& e) { return e.hi < low; });
    }
    join_edges(out_);
    dfa_.edges.set(s, out_);
  }

  const Nfa& nfa_;
  GroupedByState<Nfa::OutEdge, Edge> edges_;
  GroupedByState<Nfa::Move, int32_t> moves_;
  Meter& meter_;
  Dfa dfa_;
  IntLists sets_;
  std::vector<int32_t> closure_numbers_;  // state of the NFA -> state of its closure; -1: unknown
  std::vector<int32_t> stamps_, set_;
  std::vector<const Nfa::CountedState*> counted_;  // state -> what it has counted; empty: no state counts
  std::vector<Edge> set_edges_, active_, out_;
  int32_t stamp_ = 0;
};

}  // namespace

Dfa determinise(const Nfa& nfa, Meter& meter) { return SubsetConstruction(nfa, meter).run(); }

Predecessors::Predecessors(const Dfa& dfa) : from_(static_cast<size_t>(dfa.size()) + 1, 0) {
  std::vector<int32_t> last(static_cast<size_t>(dfa.size()), -1);
  auto for_each_pair = [&](auto&& visit) {
    for (int32_t s = 0; s < dfa.size(); ++s)
      for (const Edge& e : dfa.edges[s])
        if (last[e.to] != s) {
          last[e.to] = s;
          visit(e.to, s);
        }
  };
  for_each_pair([&](int32_t to, int32_t) { ++from_[to + 1]; });
  for (size_t s = 1; s < from_.size(); ++s) from_[s] += from_[s - 1];
  list_.resize(static_cast<size_t>(from_.back()));
  std::vector<int32_t> next(from_.begin(), from_.end() - 1);
  std::fill(last.begin(), last.end(), -1);
  for_each_pair([&](int32_t to, int32_t from) { list_[next[to]++] = from; });
}

// Returns for each state whether it can reach an accepting state.
static std::vector<uint8_t> find_live_states(const Dfa& dfa) {
  std::vector<uint8_t> live(dfa.accept.begin(), dfa.accept.end());
  bool all_live = true;  // each state accepts, or has an edge to a state that does
  for (int32_t s = 0; s < dfa.size(); ++s) {
    live[s] |= std::ranges::any_of(dfa.edges[s], [&](const Edge& e) { return dfa.accept[e.to] != 0; });
    all_live &= live[s] != 0;
  }
  if (all_live) return live;
  const Predecessors predecessors(dfa);
  std::vector<int32_t> queue;
  for (int32_t s = 0; s < dfa.size(); ++s)
    if (live[s]) queue.push_back(s);
  for (size_t i = 0; i < queue.size(); ++i)
    for (const int32_t p : predecessors[queue[i]])
      if (!std::exchange(live[p], 1)) queue.push_back(p);
  return live;
}

Dfa trim(Dfa dfa) {
  const int32_t n = dfa.size();
  if (n == 0) return {};
  const std::vector<uint8_t> live = find_live_states(dfa);
  if (!live[0]) return {};
  std::vector<int32_t> number(n, -1), order{0};
  number[0] = 0;
  bool is_trimmed = true;  // all states stay, and are in breadth-first order already
  for (size_t i = 0; i < order.size(); ++i)
    for (const Edge& e : dfa.edges[order[i]]) {
      is_trimmed &= live[e.to] != 0;
      if (!live[e.to] || number[e.to] >= 0) continue;
      number[e.to] = static_cast<int32_t>(order.size());
      is_trimmed &= number[e.to] == e.to;
      order.push_back(e.to);
    }
  if (is_trimmed && static_cast<int32_t>(order.size()) == n) return dfa;
  Dfa out;
  out.edges.reserve(order.size(), dfa.edges.stored_edges());
  std::vector<Edge> list;
  for (int32_t s : order) {
    list.clear();
    for (const Edge& e : dfa.edges[s])
      if (live[e.to]) list.push_back({e.lo, e.hi, number[e.to]});
    out.edges.set(out.add(dfa.accept[s]), list);
  }
  return out;
}

Dfa intersect(const Dfa& a, const Dfa& b, Meter& meter) {
  if (a.empty() || b.empty()) return {};
  std::unordered_map<uint64_t, int32_t> ids;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  Dfa out;
  auto intern = [&](int32_t x, int32_t y) {
    auto [it, inserted] = ids.try_emplace(pair_key(x, y), out.size());
    if (inserted) {
      out.add(a.accept[x] && b.accept[y]);
      pairs.emplace_back(x, y);
    }
    return it->second;
  };
  intern(0, 0);
  std::vector<Edge> list;
  for (int32_t s = 0; s < out.size(); ++s) {
    auto [x, y] = pairs[s];
    list.clear();
    size_t i = 0, j = 0;
    const std::span<const Edge> a_edges = a.edges[x], b_edges = b.edges[y];
    while (i < a_edges.size() && j < b_edges.size()) {
      Symbol lo = std::max(a_edges[i].lo, b_edges[j].lo), hi = std::min(a_edges[i].hi, b_edges[j].hi);
      if (lo <= hi) list.push_back({lo, hi, intern(a_edges[i].to, b_edges[j].to)});
      if (a_edges[i].hi < b_edges[j].hi)
        ++i;
      else
        ++j;
    }
    meter.work(static_cast<int64_t>(a_edges.size() + b_edges.size() + kLookup * list.size()));
    meter.states(out.size());
    join_edges(list);
    out.edges.set(s, list);
  }
  return trim(std::move(out));
}

Dfa complement(const Dfa& dfa, Meter& meter) {
  static const Range kAll[] = {{0, 0xD7FF}, {0xE000, kMaxCodePoint}};
  Dfa out;
  for (uint8_t accepts : dfa.accept) out.add(!accepts);
  if (dfa.empty()) out.add(true);
  const int32_t sink = out.add(true);
  std::vector<Edge> list;
  for (int32_t s = 0; s < out.size(); ++s) {
    list.clear();
    size_t i = 0;
    const std::span<const Edge> old_edges = s < dfa.size() ? dfa.edges[s] : std::span<const Edge>{};
    for (const Range& r : kAll) {
      uint64_t low = r.lo;
      while (low <= r.hi) {
        while (i < old_edges.size() && old_edges[i].hi < low) ++i;
        if (i < old_edges.size() && old_edges[i].lo <= r.hi) {
          if (low < old_edges[i].lo) list.push_back({Symbol(low), old_edges[i].lo - 1, sink});
          list.push_back({std::max(Symbol(low), old_edges[i].lo), std::min(old_edges[i].hi, r.hi), old_edges[i].to});
          low = uint64_t{std::min(old_edges[i].hi, r.hi)} + 1;
        } else {
          list.push_back({Symbol(low), r.hi, sink});
          low = uint64_t{r.hi} + 1;
        }
      }
    }
    meter.work(static_cast<int64_t>(list.size()));
    join_edges(list);
    out.edges.set(s, list);
  }
  return trim(std::move(out));
}

Dfa relabel(Dfa dfa, int32_t encoding) {
  Symbol base = static_cast<Symbol>(encoding) << kEncodingShift;
  if (base == 0) return dfa;
  for (int32_t s = 0; s < dfa.size(); ++s)
    for (Edge& e : dfa.edges[s]) {
      e.lo += base;
      e.hi += base;
    }
  return dfa;
}

Dfa remove_empty(Dfa dfa) {
  if (dfa.empty() || !dfa.accept[0]) return dfa;
  bool has_edge_to_start = false;
  for (int32_t s = 0; s < dfa.size(); ++s)
    for (const Edge& e : dfa.edges[s]) has_edge_to_start |= e.to == 0;
  if (has_edge_to_start) {  // redirect these edges to an accepting copy of the start; the start itself stops accepting
    const int32_t copy = dfa.add(true);
    for (int32_t s = 0; s < copy; ++s)
      for (Edge& e : dfa.edges[s])
        if (e.to == 0) e.to = copy;
    const std::vector<Edge> start_edges(dfa.edges[0].begin(), dfa.edges[0].end());
    dfa.edges.set(copy, start_edges);
  }
  dfa.accept[0] = 0;
  return trim(std::move(dfa));
}

}  // namespace guided
