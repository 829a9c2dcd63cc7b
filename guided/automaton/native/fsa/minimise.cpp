// Minimisation by partition refinement (see the head of symbolic_automaton.hpp).
#include <algorithm>
#include <span>

#include "base/int_lists.hpp"
#include "fsa/symbolic_automaton.hpp"

namespace guided {

namespace {

// A state's behaviour in terms of the current classes: accept, then (lo, hi, class) with equal neighbours joined.
void signature(const Dfa& dfa, int32_t s, const std::vector<int32_t>& cls, std::vector<int32_t>& out) {
  out.clear();
  out.push_back(dfa.accept[s]);
  for (const Edge& e : dfa.edges[s]) {
    int32_t c = cls[e.to];
    size_t n = out.size();
    if (n >= 4 && out[n - 1] == c && static_cast<Symbol>(out[n - 2]) + 1 == e.lo && is_text(e.lo)) {
      out[n - 2] = static_cast<int32_t>(e.hi);
    } else {
      out.push_back(static_cast<int32_t>(e.lo));
      out.push_back(static_cast<int32_t>(e.hi));
      out.push_back(c);
    }
  }
}

// Partition refinement of the states of one automaton (see the head of symbolic_automaton.hpp).
class Refinement {
 public:
  Refinement(const Dfa& dfa, Meter& meter)
      : dfa_(dfa), meter_(meter), n_(dfa.size()), before_(dfa), cls_(n_, -1), where_(n_, 0), queued_(n_, 0) {
    if (!settle(true)) settle(false);
    int32_t rest = classes();
    members_.emplace_back();
    dirty_.emplace_back();
    for (int32_t s = 0; s < n_; ++s)
      if (cls_[s] < 0) {
        cls_[s] = rest;
        where_[s] = static_cast<int32_t>(members_[rest].size());
        members_[rest].push_back(s);
      }
    if (members_[rest].empty()) {
      members_.pop_back();
      return;
    }
    dirty_[rest] = members_[rest];
    for (int32_t s : dirty_[rest]) queued_[s] = 1;
    pending_.push_back(rest);
  }

  const std::vector<int32_t>& run() {
    while (!pending_.empty()) {
      int32_t c = pending_.back();
      pending_.pop_back();
      std::vector<int32_t> look = std::move(dirty_[c]);
      dirty_[c].clear();
      std::erase_if(look, [&](int32_t s) { return cls_[s] != c; });  // moved on, and waiting under its new class
      for (int32_t s : look) queued_[s] = 0;
      if (members_[c].size() > 1) split(c, look);
    }
    return cls_;
  }
  int32_t classes() const { return static_cast<int32_t>(members_.size()); }

 private:
  // States from which no cycle is reached: from the last ones backwards, equal behaviour is an equal class at once
  // (Revuz 1992). They write finitely many texts, all others infinitely many, so none of them is met again. `loops`: a
  // state that leads to itself is no cycle; whether all states are settled.
  bool settle(bool loops) {
    std::vector<int32_t> waiting(n_, 0), ready, key;
    int32_t settled = 0;
    IntLists known;
    std::ranges::fill(cls_, -1);
    for (int32_t s = 0; s < n_; ++s)
      for (int32_t p : before_[s]) waiting[p] += !loops || p != s;
    for (int32_t s = 0; s < n_; ++s)
      if (!waiting[s]) ready.push_back(s);
    while (!ready.empty()) {
      int32_t s = ready.back();
      ready.pop_back();
      signature(dfa_, s, cls_, key);
      meter_.work(static_cast<int64_t>(key.size()) + kLookup);
      const int32_t entered = loops ? entered_loop(key, known) : -1;
      cls_[s] = entered >= 0 ? entered : known.intern(key).number;
      ++settled;
      for (int32_t p : before_[s])
        if ((!loops || p != s) && !--waiting[p]) ready.push_back(p);
    }
    members_.resize(static_cast<size_t>(known.size()));
    dirty_.resize(members_.size());
    return settled == n_;
  }

  // The class of a loop among what a state leads to that behaves as the state does, or -1: what leads from each to
  // itself (-1 in a signature) leads to the loop then.
  int32_t entered_loop(const std::vector<int32_t>& key, const IntLists& known) {
    for (size_t i = 3; i < key.size(); i += 3) {
      const int32_t c = key[i];
      if (c < 0 || known[c][0] != key[0]) continue;
      if (into(key, c, key_) == into(known[c], c, other_)) return c;
    }
    return -1;
  }
  static const std::vector<int32_t>& into(std::span<const int32_t> key, int32_t c, std::vector<int32_t>& out) {
    out.assign(1, key[0]);
    for (size_t i = 1; i < key.size(); i += 3) {
      const int32_t to = key[i + 2] < 0 ? c : key[i + 2];
      const size_t n = out.size();
      if (n >= 4 && out[n - 1] == to && out[n - 2] + 1 == key[i] && is_text(static_cast<Symbol>(key[i])))
        out[n - 2] = key[i + 1];
      else
        out.insert(out.end(), {key[i], key[i + 1], to});
    }
    return out;
  }

  void place(int32_t c, int32_t s, int32_t index) {
    auto& m = members_[c];
    int32_t other = m[index];
    std::swap(m[where_[s]], m[index]);
    std::swap(where_[s], where_[other]);
  }

  void split(int32_t c, const std::vector<int32_t>& look) {
    keys_.clear();
    auto part_of = [&](int32_t s) {
      signature(dfa_, s, cls_, key_);
      meter_.work(static_cast<int64_t>(key_.size()) + kLookup);
      const auto [part, inserted] = keys_.intern(key_);
      if (static_cast<size_t>(part) >= parts_.size()) parts_.emplace_back();
      if (inserted) parts_[part].clear();
      return part;
    };
    for (size_t i = 0; i < look.size(); ++i) {
      place(c, look[i], static_cast<int32_t>(i));
      parts_[part_of(look[i])].push_back(look[i]);
    }
    // The members that were not looked at behave alike; one of them speaks for all.
    const size_t rest = members_[c].size() - look.size();
    const int32_t rest_part = rest ? part_of(members_[c][look.size()]) : -1;
    if (keys_.size() == 1) return;
    int32_t winner = 0;  // the largest part keeps the label
    size_t largest = 0;
    for (int32_t k = 0; k < keys_.size(); ++k) {
      const size_t size = parts_[k].size() + (k == rest_part ? rest : 0);
      if (size > largest) {
        largest = size;
        winner = k;
      }
    }
    if (rest && rest_part != winner)  // at most half of the class: the copy is paid for by the relabelling
      parts_[rest_part].insert(parts_[rest_part].end(), members_[c].begin() + static_cast<std::ptrdiff_t>(look.size()),
                               members_[c].end());
    for (int32_t k = 0; k < keys_.size(); ++k)
      if (k != winner) move_out(c, parts_[k]);
  }

  void move_out(int32_t c, const std::vector<int32_t>& group) {
    int32_t fresh = static_cast<int32_t>(members_.size());
    for (int32_t s : group) {
      place(c, s, static_cast<int32_t>(members_[c].size()) - 1);
      members_[c].pop_back();
    }
    members_.push_back(group);
    dirty_.emplace_back();
    for (size_t i = 0; i < group.size(); ++i) {
      cls_[group[i]] = fresh;
      where_[group[i]] = static_cast<int32_t>(i);
      if (queued_[group[i]]) enqueue(group[i]);
    }
    for (int32_t s : group)
      for (int32_t p : before_[s])
        if (!queued_[p]) {
          queued_[p] = 1;
          enqueue(p);
        }
  }

  void enqueue(int32_t s) {
    if (dirty_[cls_[s]].empty()) pending_.push_back(cls_[s]);
    dirty_[cls_[s]].push_back(s);
  }

  const Dfa& dfa_;
  Meter& meter_;
  int32_t n_;
  Predecessors before_;
  std::vector<int32_t> cls_, where_;
  std::vector<std::vector<int32_t>> members_, dirty_;
  std::vector<int32_t> pending_;
  std::vector<uint8_t> queued_;
  IntLists keys_;
  std::vector<int32_t> key_, other_;
  std::vector<std::vector<int32_t>> parts_;
};

}  // namespace

Dfa minimise(Dfa input, Meter& meter) {
  Dfa dfa = trim(std::move(input));
  if (dfa.size() <= 1) return dfa;
  Refinement refinement(dfa, meter);
  const std::vector<int32_t>& cls = refinement.run();
  if (refinement.classes() == dfa.size()) return dfa;
  // Number classes breadth first, so that the start stays state 0 and the order is canonical.
  std::vector<int32_t> number(refinement.classes(), -1);
  Dfa out;
  std::vector<int32_t> order{0};
  number[cls[0]] = 0;
  for (size_t i = 0; i < order.size(); ++i)
    for (const Edge& e : dfa.edges[order[i]])
      if (number[cls[e.to]] < 0) {
        number[cls[e.to]] = static_cast<int32_t>(order.size());
        order.push_back(e.to);
      }
  std::vector<Edge> list;
  for (int32_t s : order) {
    list.clear();
    for (const Edge& e : dfa.edges[s]) list.push_back({e.lo, e.hi, number[cls[e.to]]});
    join_edges(list);
    out.edges.set(out.add(dfa.accept[s]), list);
  }
  return out;
}

}  // namespace guided
