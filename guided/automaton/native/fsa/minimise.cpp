// Minimisation of a deterministic automaton over ranges.
//
// In: a DFA. Out: the minimal DFA of the same language. Its states are numbered breadth first, so equal languages give
// equal automata.
//
// How, in two phases:
//  1. Acyclic states, by hashing (Revuz, "Minimisation of acyclic deterministic automata in linear time", 1992). A
//     state that reaches no cycle is processed after all its successors. Two of these states are equivalent if and only
//     if their signatures are equal. The *signature* of a state says whether it accepts, and for each range of symbols
//     the class of its successor. If all cycles of the automaton are self-loops, this phase also handles the loops, and
//     no second phase is needed. This covers literals, enumerations and texts like `[^"]*`.
//  2. All other states, by partition refinement. At first, they form one class. A class is split by the signatures of
//     its members, as in Moore's algorithm. As in Hopcroft's algorithm, only members with a successor that changed its
//     class are examined again, and the largest part keeps the number of the class. So a state changes its class at
//     most log2(states) times.
// No state of the first phase is equivalent to a state of the second, because only the latter accept infinitely many
// texts. So the phases can be separated.
//
// Cost: O(edges) for the first phase, O(edges log states) for the second. The work is metered.
#include <algorithm>
#include <span>

#include "base/int_lists.hpp"
#include "fsa/symbolic_automaton.hpp"

namespace guided {

namespace {

// Computes the signature of a state under the current classes: accept, then (lo, hi, class) of each edge. Adjacent
// ranges with equal classes are joined. An edge to a state without a class has the class -1.
void compute_signature(const Dfa& dfa, int32_t s, const std::vector<int32_t>& classes, std::vector<int32_t>& out) {
  out.clear();
  out.push_back(dfa.accept[s]);
  for (const Edge& e : dfa.edges[s]) {
    int32_t c = classes[e.to];
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
      : dfa_(dfa),
        meter_(meter),
        n_(dfa.size()),
        predecessors_(dfa),
        class_(n_, -1),
        member_index_(n_, 0),
        is_dirty_(n_, 0) {
    if (!hash_acyclic(true)) hash_acyclic(false);
    int32_t remaining_class = class_count();
    members_.emplace_back();
    dirty_.emplace_back();
    for (int32_t s = 0; s < n_; ++s)
      if (class_[s] < 0) {
        class_[s] = remaining_class;
        member_index_[s] = static_cast<int32_t>(members_[remaining_class].size());
        members_[remaining_class].push_back(s);
      }
    if (members_[remaining_class].empty()) {
      members_.pop_back();
      return;
    }
    dirty_[remaining_class] = members_[remaining_class];
    for (int32_t s : dirty_[remaining_class]) is_dirty_[s] = 1;
    pending_.push_back(remaining_class);
  }

  const std::vector<int32_t>& run() {
    while (!pending_.empty()) {
      int32_t c = pending_.back();
      pending_.pop_back();
      std::vector<int32_t> changed = std::move(dirty_[c]);
      dirty_[c].clear();
      std::erase_if(changed, [&](int32_t s) { return class_[s] != c; });  // the others are dirty in their new classes
      for (int32_t s : changed) is_dirty_[s] = 0;
      if (members_[c].size() > 1) split(c, changed);
    }
    return class_;
  }
  int32_t class_count() const { return static_cast<int32_t>(members_.size()); }

 private:
  // The first phase. `allow_loops`: an edge from a state to itself does not count as a cycle. Returns whether all
  // states have a class now.
  bool hash_acyclic(bool allow_loops) {
    std::vector<int32_t> open_edges(n_, 0), ready, key;
    int32_t settled_count = 0;
    IntLists signatures;
    std::ranges::fill(class_, -1);
    loops_.clear();
    for (int32_t s = 0; s < n_; ++s)
      for (int32_t p : predecessors_[s]) open_edges[p] += !allow_loops || p != s;
    for (int32_t s = 0; s < n_; ++s)
      if (!open_edges[s]) ready.push_back(s);
    while (!ready.empty()) {
      int32_t s = ready.back();
      ready.pop_back();
      compute_signature(dfa_, s, class_, key);
      meter_.work(static_cast<int64_t>(key.size()) + kLookup);
      const int32_t equivalent_class = allow_loops ? find_equivalent_loop(s, key, signatures) : -1;
      if (equivalent_class >= 0) {
        class_[s] = equivalent_class;
      } else {
        const auto [number, inserted] = signatures.intern(key);
        class_[s] = number;
        if (inserted) loops_.push_back({has_loop(key), -1});
      }
      ++settled_count;
      for (int32_t p : predecessors_[s])
        if ((!allow_loops || p != s) && !--open_edges[p]) ready.push_back(p);
    }
    members_.resize(static_cast<size_t>(signatures.size()));
    dirty_.resize(members_.size());
    return settled_count == n_;
  }

  // With self-loops, a state may be equivalent to a successor: in `a*` unrolled as `(a a*)?`, the first state has an
  // edge to the loop, which has an edge to itself. Returns the class of a successor that is equivalent to the state
  // `s` with the signature `key`, or -1. Before the comparison, self-loops (-1 in a signature) are replaced by edges to
  // that class. Each class with a self-loop is compared once, even if many edges lead to it.
  int32_t find_equivalent_loop(int32_t s, const std::vector<int32_t>& key, const IntLists& signatures) {
    for (size_t i = 3; i < key.size(); i += 3) {
      const int32_t c = key[i];
      if (c < 0 || !loops_[c].has_loop || loops_[c].compared_with == s || signatures[c][0] != key[0]) continue;
      loops_[c].compared_with = s;
      meter_.work(static_cast<int64_t>(key.size() + signatures[c].size()));
      if (redirect_loops(key, c, key_) == redirect_loops(signatures[c], c, other_key_)) return c;
    }
    return -1;
  }
  static bool has_loop(std::span<const int32_t> key) {
    for (size_t i = 3; i < key.size(); i += 3)
      if (key[i] < 0) return true;
    return false;
  }
  // Replaces the self-loops in `key` by edges to class `c`, and joins adjacent ranges again.
  static const std::vector<int32_t>& redirect_loops(std::span<const int32_t> key, int32_t c,
                                                    std::vector<int32_t>& out) {
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
  void move_member(int32_t c, int32_t s, int32_t index) {
    auto& m = members_[c];
    int32_t other = m[index];
    std::swap(m[member_index_[s]], m[index]);
    std::swap(member_index_[s], member_index_[other]);
  }

  // Splits a class by the signatures of its members. Only the `changed` members have to be examined.
  void split(int32_t c, const std::vector<int32_t>& changed) {
    keys_.clear();
    auto part_of = [&](int32_t s) {
      compute_signature(dfa_, s, class_, key_);
      meter_.work(static_cast<int64_t>(key_.size()) + kLookup);
      const auto [part, inserted] = keys_.intern(key_);
      if (static_cast<size_t>(part) >= parts_.size()) parts_.emplace_back();
      if (inserted) parts_[part].clear();
      return part;
    };
    for (size_t i = 0; i < changed.size(); ++i) {
      move_member(c, changed[i], static_cast<int32_t>(i));
      parts_[part_of(changed[i])].push_back(changed[i]);
    }
    // The other members still have equal signatures, so it is enough to examine one of them.
    const size_t unchanged_count = members_[c].size() - changed.size();
    const int32_t unchanged_part = unchanged_count ? part_of(members_[c][changed.size()]) : -1;
    if (keys_.size() == 1) return;
    int32_t largest_part = 0;  // keeps the number of the class
    size_t largest_size = 0;
    for (int32_t k = 0; k < keys_.size(); ++k) {
      const size_t size = parts_[k].size() + (k == unchanged_part ? unchanged_count : 0);
      if (size > largest_size) {
        largest_size = size;
        largest_part = k;
      }
    }
    // At most half of the class: each of these states gets a new class in O(1).
    if (unchanged_count && unchanged_part != largest_part)
      parts_[unchanged_part].insert(parts_[unchanged_part].end(),
                                    members_[c].begin() + static_cast<std::ptrdiff_t>(changed.size()),
                                    members_[c].end());
    for (int32_t k = 0; k < keys_.size(); ++k)
      if (k != largest_part) move_out(c, parts_[k]);
  }

  // Makes `group` a new class, and marks the predecessors of its states as dirty.
  void move_out(int32_t c, const std::vector<int32_t>& group) {
    int32_t new_class = static_cast<int32_t>(members_.size());
    for (int32_t s : group) {
      move_member(c, s, static_cast<int32_t>(members_[c].size()) - 1);
      members_[c].pop_back();
    }
    members_.push_back(group);
    dirty_.emplace_back();
    for (size_t i = 0; i < group.size(); ++i) {
      class_[group[i]] = new_class;
      member_index_[group[i]] = static_cast<int32_t>(i);
      if (is_dirty_[group[i]]) add_dirty(group[i]);
    }
    for (int32_t s : group)
      for (int32_t p : predecessors_[s])
        if (!is_dirty_[p]) {
          is_dirty_[p] = 1;
          add_dirty(p);
        }
  }

  void add_dirty(int32_t s) {
    if (dirty_[class_[s]].empty()) pending_.push_back(class_[s]);
    dirty_[class_[s]].push_back(s);
  }

  const Dfa& dfa_;
  Meter& meter_;
  int32_t n_;
  Predecessors predecessors_;
  std::vector<int32_t> class_, member_index_;  // by state: its class, and its index among the members
  std::vector<std::vector<int32_t>> members_;  // by class
  std::vector<std::vector<int32_t>> dirty_;    // by class: the members to examine again
  std::vector<int32_t> pending_;               // classes with members in `dirty_`
  std::vector<uint8_t> is_dirty_;              // by state: whether it is in `dirty_`
  struct Loop {
    bool has_loop;          // the state of the class has an edge to itself
    int32_t compared_with;  // the last state that was compared with the class
  };
  std::vector<Loop> loops_;  // by class of the first phase
  IntLists keys_;
  std::vector<int32_t> key_, other_key_;
  std::vector<std::vector<int32_t>> parts_;
};

}  // namespace

Dfa minimise(Dfa input, Meter& meter) {
  Dfa dfa = trim(std::move(input));
  if (dfa.size() <= 1) return dfa;
  Refinement refinement(dfa, meter);
  const std::vector<int32_t>& state_class = refinement.run();
  if (refinement.class_count() == dfa.size()) return dfa;
  // Classes are numbered breadth first, so the start stays state 0 and the order is canonical.
  std::vector<int32_t> number(refinement.class_count(), -1);
  Dfa out;
  std::vector<int32_t> order{0};
  number[state_class[0]] = 0;
  for (size_t i = 0; i < order.size(); ++i)
    for (const Edge& e : dfa.edges[order[i]])
      if (number[state_class[e.to]] < 0) {
        number[state_class[e.to]] = static_cast<int32_t>(order.size());
        order.push_back(e.to);
      }
  std::vector<Edge> list;
  for (int32_t s : order) {
    list.clear();
    for (const Edge& e : dfa.edges[s]) list.push_back({e.lo, e.hi, number[state_class[e.to]]});
    join_edges(list);
    out.edges.set(out.add(dfa.accept[s]), list);
  }
  return out;
}

}  // namespace guided
