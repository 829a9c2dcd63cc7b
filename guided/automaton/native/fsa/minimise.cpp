// Minimisation of a deterministic automaton over ranges.
//
// In: a DFA. Out: the DFA with the fewest states for the same language, its states numbered breadth first, so that
// equal languages give equal automata.
//
// How, in two phases:
//  1. Acyclic states, by hashing (Revuz, "Minimisation of acyclic deterministic automata in linear time", 1992). A
//     state that reaches no cycle is processed after all its successors; two such states are equivalent if their
//     signatures are equal. The *signature* of a state says whether it accepts, and for each range of symbols the class
//     of its successor. Self-loops are allowed here if the automaton then has no longer cycle: that alone covers
//     literals, enumerations and texts like `[^"]*`, and no second phase is needed.
//  2. All other states, by partition refinement. They begin as one class. A class is split by the signatures of its
//     members, as in Moore's algorithm; but as in Hopcroft's, only the members with a successor that changed its class
//     are examined again, and the largest part keeps the number of the class. So a state changes its class at most
//     log2(states) times.
// The phases can be separated: a state of the first phase accepts finitely many texts, and a state of the second
// infinitely many, so no two of them are equivalent.
//
// Cost: O(edges) and O(edges log states). The work is metered.
#include <algorithm>
#include <span>

#include "base/int_lists.hpp"
#include "fsa/symbolic_automaton.hpp"

namespace guided {

namespace {

// The signature of a state under the current classes: accept, then (lo, hi, class) of each edge, adjacent ranges with
// equal classes joined. The class of a state that has none yet is -1.
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

class Refinement {
 public:
  Refinement(const Dfa& dfa, Meter& meter)
      : dfa_(dfa), meter_(meter), n_(dfa.size()), before_(dfa), cls_(n_, -1), where_(n_, 0), queued_(n_, 0) {
    if (!hash_acyclic(true)) hash_acyclic(false);
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
      std::vector<int32_t> changed = std::move(dirty_[c]);
      dirty_[c].clear();
      std::erase_if(changed, [&](int32_t s) { return cls_[s] != c; });  // it is in another class now, and queued there
      for (int32_t s : changed) queued_[s] = 0;
      if (members_[c].size() > 1) split(c, changed);
    }
    return cls_;
  }
  int32_t classes() const { return static_cast<int32_t>(members_.size()); }

 private:
  // The first phase. `loops`: an edge from a state to itself does not count as a cycle. Returns whether all states have
  // a class now.
  bool hash_acyclic(bool loops) {
    std::vector<int32_t> waiting(n_, 0), ready, key;
    int32_t settled = 0;
    IntLists known;
    std::ranges::fill(cls_, -1);
    loops_.clear();
    for (int32_t s = 0; s < n_; ++s)
      for (int32_t p : before_[s]) waiting[p] += !loops || p != s;
    for (int32_t s = 0; s < n_; ++s)
      if (!waiting[s]) ready.push_back(s);
    while (!ready.empty()) {
      int32_t s = ready.back();
      ready.pop_back();
      signature(dfa_, s, cls_, key);
      meter_.work(static_cast<int64_t>(key.size()) + kLookup);
      const int32_t entered = loops ? entered_loop(s, key, known) : -1;
      if (entered >= 0) {
        cls_[s] = entered;
      } else {
        const auto [number, inserted] = known.intern(key);
        cls_[s] = number;
        if (inserted) loops_.push_back({has_loop(key), -1});
      }
      ++settled;
      for (int32_t p : before_[s])
        if ((!loops || p != s) && !--waiting[p]) ready.push_back(p);
    }
    members_.resize(static_cast<size_t>(known.size()));
    dirty_.resize(members_.size());
    return settled == n_;
  }

  // With self-loops, a state may be equivalent to a successor: in `a*` unrolled as `(a a*)?` the first state has an
  // edge to the loop, which has an edge to itself. Returns the class of a successor that is equivalent to the state
  // `s` with the signature `key`, or -1. The two are compared after self-loops (-1 in a signature) are replaced by that
  // class. Each class with a self-loop is compared once, even if many edges lead to it.
  int32_t entered_loop(int32_t s, const std::vector<int32_t>& key, const IntLists& known) {
    for (size_t i = 3; i < key.size(); i += 3) {
      const int32_t c = key[i];
      if (c < 0 || !loops_[c].has_loop || loops_[c].compared_with == s || known[c][0] != key[0]) continue;
      loops_[c].compared_with = s;
      meter_.work(static_cast<int64_t>(key.size() + known[c].size()));
      if (into(key, c, key_) == into(known[c], c, other_)) return c;
    }
    return -1;
  }
  static bool has_loop(std::span<const int32_t> key) {
    for (size_t i = 3; i < key.size(); i += 3)
      if (key[i] < 0) return true;
    return false;
  }
  // `key` with self-loops replaced by edges to class `c`, and adjacent ranges joined anew.
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

  // Moves `s` to the given index among the members of its class, by a swap.
  void place(int32_t c, int32_t s, int32_t index) {
    auto& m = members_[c];
    int32_t other = m[index];
    std::swap(m[where_[s]], m[index]);
    std::swap(where_[s], where_[other]);
  }

  // Splits a class by the signatures of its members. Only the `changed` ones have to be examined.
  void split(int32_t c, const std::vector<int32_t>& changed) {
    keys_.clear();
    auto part_of = [&](int32_t s) {
      signature(dfa_, s, cls_, key_);
      meter_.work(static_cast<int64_t>(key_.size()) + kLookup);
      const auto [part, inserted] = keys_.intern(key_);
      if (static_cast<size_t>(part) >= parts_.size()) parts_.emplace_back();
      if (inserted) parts_[part].clear();
      return part;
    };
    for (size_t i = 0; i < changed.size(); ++i) {
      place(c, changed[i], static_cast<int32_t>(i));
      parts_[part_of(changed[i])].push_back(changed[i]);
    }
    // The other members still have equal signatures; it is enough to examine one of them.
    const size_t rest = members_[c].size() - changed.size();
    const int32_t rest_part = rest ? part_of(members_[c][changed.size()]) : -1;
    if (keys_.size() == 1) return;
    int32_t winner = 0;  // the largest part keeps the number of the class
    size_t largest = 0;
    for (int32_t k = 0; k < keys_.size(); ++k) {
      const size_t size = parts_[k].size() + (k == rest_part ? rest : 0);
      if (size > largest) {
        largest = size;
        winner = k;
      }
    }
    if (rest && rest_part != winner)  // at most half of the class; all of these states get a new class, O(1) each
      parts_[rest_part].insert(parts_[rest_part].end(),
                               members_[c].begin() + static_cast<std::ptrdiff_t>(changed.size()), members_[c].end());
    for (int32_t k = 0; k < keys_.size(); ++k)
      if (k != winner) move_out(c, parts_[k]);
  }

  // Makes `group` a new class and queues the predecessors of its states.
  void move_out(int32_t c, const std::vector<int32_t>& group) {
    int32_t new_class = static_cast<int32_t>(members_.size());
    for (int32_t s : group) {
      place(c, s, static_cast<int32_t>(members_[c].size()) - 1);
      members_[c].pop_back();
    }
    members_.push_back(group);
    dirty_.emplace_back();
    for (size_t i = 0; i < group.size(); ++i) {
      cls_[group[i]] = new_class;
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
  std::vector<int32_t> cls_, where_;           // by state: its class, and its index among the members
  std::vector<std::vector<int32_t>> members_;  // by class
  std::vector<std::vector<int32_t>> dirty_;    // by class: members to examine again
  std::vector<int32_t> pending_;               // classes with members in `dirty_`
  std::vector<uint8_t> queued_;                // by state: whether it is in `dirty_`
  struct Loop {
    bool has_loop;          // whether the state of the class has an edge to itself
    int32_t compared_with;  // the last state that was compared with it
  };
  std::vector<Loop> loops_;  // by class of the first phase
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
