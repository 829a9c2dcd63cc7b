#include "symbolic_automaton.hpp"

#include <algorithm>
#include <unordered_map>

namespace guided {

int32_t Dfa::next(int32_t s, Symbol c) const {
  const auto& list = edges[s];
  auto it = std::upper_bound(list.begin(), list.end(), c, [](Symbol x, const Edge& e) { return x < e.lo; });
  if (it == list.begin()) return -1;
  --it;
  return c <= it->hi ? it->to : -1;
}

void Nfa::splice(const Dfa& dfa, int32_t from, int32_t to) {
  if (dfa.empty()) return;
  int32_t base = static_cast<int32_t>(edges.size());
  for (int32_t s = 0; s < dfa.size(); ++s) add();
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

class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, Meter& meter) : nfa_(nfa), meter_(meter), mark_(nfa.edges.size(), 0) {}

  Dfa run() {
    std::vector<int32_t> first{nfa_.start};
    intern(std::move(first));
    for (int32_t s = 0; s < dfa_.size(); ++s) {
      expand(s);
      meter_.states(dfa_.size());
    }
    return std::move(dfa_);
  }

 private:
  int32_t intern(std::vector<int32_t> set) {
    if (set.size() == 1) {  // closures of single states are asked for again and again
      auto it = single_.find(set[0]);
      if (it != single_.end()) return it->second;
    }
    int32_t only = set.size() == 1 ? set[0] : -1;
    close(set);
    auto [it, fresh] = ids_.try_emplace(set, dfa_.size());
    if (fresh) {
      dfa_.add(std::binary_search(set.begin(), set.end(), nfa_.final));
      sets_.push_back(&it->first);
    }
    if (only >= 0) single_[only] = it->second;
    return it->second;
  }

  void close(std::vector<int32_t>& set) {
    ++stamp_;
    for (int32_t s : set) mark_[s] = stamp_;
    for (size_t i = 0; i < set.size(); ++i) {
      for (int32_t t : nfa_.moves[set[i]]) {
        if (mark_[t] != stamp_) {
          mark_[t] = stamp_;
          set.push_back(t);
        }
      }
    }
    meter_.work(static_cast<int64_t>(set.size()));
    // States without edges of their own say nothing, but for the final one.
    std::erase_if(set, [&](int32_t s) { return nfa_.edges[s].empty() && s != nfa_.final; });
    std::sort(set.begin(), set.end());
  }

  void expand(int32_t s) {
    pool_.clear();
    for (int32_t n : *sets_[s]) pool_.insert(pool_.end(), nfa_.edges[n].begin(), nfa_.edges[n].end());
    meter_.work(static_cast<int64_t>(pool_.size()));
    std::sort(pool_.begin(), pool_.end(), [](const Edge& x, const Edge& y) { return x.lo < y.lo; });
    std::vector<Edge> out;
    std::vector<int32_t> targets;
    active_.clear();
    size_t i = 0;
    uint64_t at = 0;
    while (i < pool_.size() || !active_.empty()) {
      if (active_.empty()) at = pool_[i].lo;
      while (i < pool_.size() && pool_[i].lo <= at) active_.push_back(pool_[i++]);
      uint64_t end = i < pool_.size() ? uint64_t{pool_[i].lo} - 1 : ~uint64_t{0};
      for (const Edge& e : active_) end = std::min(end, uint64_t{e.hi});
      targets.clear();
      for (const Edge& e : active_) targets.push_back(e.to);
      std::sort(targets.begin(), targets.end());
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
      meter_.work(static_cast<int64_t>(targets.size()));
      int32_t to = intern(targets);
      out.push_back({static_cast<Symbol>(at), static_cast<Symbol>(end), to});
      at = end + 1;
      std::erase_if(active_, [&](const Edge& e) { return e.hi < at; });
    }
    join_edges(out);
    dfa_.edges[s] = std::move(out);
  }

  const Nfa& nfa_;
  Meter& meter_;
  Dfa dfa_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> ids_;
  std::unordered_map<int32_t, int32_t> single_;
  std::vector<const std::vector<int32_t>*> sets_;
  std::vector<int32_t> mark_;
  std::vector<Edge> pool_, active_;
  int32_t stamp_ = 0;
};

}  // namespace

Dfa determinise(const Nfa& nfa, Meter& meter) { return SubsetConstruction(nfa, meter).run(); }

Dfa trim(const Dfa& dfa) {
  int32_t n = dfa.size();
  if (n == 0) return {};
  std::vector<std::vector<int32_t>> before(n);
  for (int32_t s = 0; s < n; ++s)
    for (const Edge& e : dfa.edges[s]) before[e.to].push_back(s);
  std::vector<uint8_t> live(n, 0);
  std::vector<int32_t> work;
  for (int32_t s = 0; s < n; ++s)
    if (dfa.accept[s]) {
      live[s] = 1;
      work.push_back(s);
    }
  while (!work.empty()) {
    int32_t s = work.back();
    work.pop_back();
    for (int32_t p : before[s])
      if (!live[p]) {
        live[p] = 1;
        work.push_back(p);
      }
  }
  if (!live[0]) return {};
  std::vector<int32_t> number(n, -1);
  std::vector<int32_t> order{0};
  number[0] = 0;
  for (size_t i = 0; i < order.size(); ++i)
    for (const Edge& e : dfa.edges[order[i]])
      if (live[e.to] && number[e.to] < 0) {
        number[e.to] = static_cast<int32_t>(order.size());
        order.push_back(e.to);
      }
  Dfa out;
  for (int32_t s : order) {
    out.add(dfa.accept[s]);
    auto& list = out.edges.back();
    for (const Edge& e : dfa.edges[s])
      if (live[e.to]) list.push_back({e.lo, e.hi, number[e.to]});
  }
  return out;
}

Dfa intersect(const Dfa& a, const Dfa& b, Meter& meter) {
  if (a.empty() || b.empty()) return {};
  std::unordered_map<uint64_t, int32_t> ids;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  Dfa out;
  auto intern = [&](int32_t x, int32_t y) {
    auto [it, fresh] = ids.try_emplace(uint64_t(uint32_t(x)) << 32 | uint32_t(y), out.size());
    if (fresh) {
      out.add(a.accept[x] && b.accept[y]);
      pairs.emplace_back(x, y);
    }
    return it->second;
  };
  intern(0, 0);
  for (int32_t s = 0; s < out.size(); ++s) {
    auto [x, y] = pairs[s];
    std::vector<Edge> list;
    size_t i = 0, j = 0;
    const auto &ea = a.edges[x], &eb = b.edges[y];
    while (i < ea.size() && j < eb.size()) {
      Symbol lo = std::max(ea[i].lo, eb[j].lo), hi = std::min(ea[i].hi, eb[j].hi);
      if (lo <= hi) list.push_back({lo, hi, intern(ea[i].to, eb[j].to)});
      if (ea[i].hi < eb[j].hi)
        ++i;
      else
        ++j;
    }
    meter.work(static_cast<int64_t>(ea.size() + eb.size()));
    meter.states(out.size());
    join_edges(list);
    out.edges[s] = std::move(list);
  }
  return trim(out);
}

Dfa complement(const Dfa& dfa, Meter& meter) {
  static const Range kAll[] = {{0, 0xD7FF}, {0xE000, kMaxCodePoint}};
  Dfa out = dfa;
  if (out.empty()) out.add(false);
  int32_t sink = out.add(false);
  for (int32_t s = 0; s < out.size(); ++s) {
    std::vector<Edge> list;
    size_t i = 0;
    const auto& old = out.edges[s];
    for (const Range& r : kAll) {
      uint64_t at = r.lo;
      while (at <= r.hi) {
        while (i < old.size() && old[i].hi < at) ++i;
        if (i < old.size() && old[i].lo <= r.hi) {
          if (at < old[i].lo) list.push_back({Symbol(at), old[i].lo - 1, sink});
          list.push_back({std::max(Symbol(at), old[i].lo), std::min(old[i].hi, r.hi), old[i].to});
          at = uint64_t{std::min(old[i].hi, r.hi)} + 1;
        } else {
          list.push_back({Symbol(at), r.hi, sink});
          at = uint64_t{r.hi} + 1;
        }
      }
    }
    meter.work(static_cast<int64_t>(list.size()));
    join_edges(list);
    out.edges[s] = std::move(list);
    out.accept[s] = !out.accept[s];
  }
  return trim(out);
}

Dfa relabelled(Dfa dfa, int32_t encoding) {
  Symbol base = static_cast<Symbol>(encoding) << kEncodingShift;
  for (auto& list : dfa.edges)
    for (Edge& e : list) {
      e.lo += base;
      e.hi += base;
    }
  return dfa;
}

Dfa without_empty(const Dfa& dfa) {
  if (dfa.empty() || !dfa.accept[0]) return dfa;
  bool entered = false;
  for (const auto& list : dfa.edges)
    for (const Edge& e : list) entered |= e.to == 0;
  Dfa out = dfa;
  if (entered) {  // a fresh copy of the start takes the loops, the start itself stops accepting
    int32_t copy = out.add(true);
    for (auto& list : out.edges)
      for (Edge& e : list)
        if (e.to == 0) e.to = copy;
    out.edges[copy] = out.edges[0];
  }
  out.accept[0] = 0;
  return trim(out);
}

}  // namespace guided
