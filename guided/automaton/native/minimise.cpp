// Minimisation by partition refinement (see the head of symbolic_automaton.hpp).
#include <algorithm>
#include <unordered_map>

#include "symbolic_automaton.hpp"

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
  Refinement(const Dfa& dfa, Meter& meter) : dfa_(dfa), meter_(meter), n_(dfa.size()), before_(n_), cls_(n_, 0) {
    for (int32_t s = 0; s < n_; ++s)
      for (const Edge& e : dfa.edges[s])
        if (before_[e.to].empty() || before_[e.to].back() != s) before_[e.to].push_back(s);
    members_.resize(1);
    dirty_.resize(1);
    queued_.assign(n_, 1);
    for (int32_t s = 0; s < n_; ++s) {
      members_[0].push_back(s);
      dirty_[0].push_back(s);
      where_.push_back(s);
    }
    pending_.push_back(0);
  }

  const std::vector<int32_t>& run() {
    while (!pending_.empty()) {
      int32_t c = pending_.back();
      pending_.pop_back();
      std::vector<int32_t> look = std::move(dirty_[c]);
      dirty_[c].clear();
      for (int32_t s : look) queued_[s] = 0;
      if (members_[c].size() > 1) split(c, look);
    }
    return cls_;
  }
  int32_t classes() const { return static_cast<int32_t>(members_.size()); }

 private:
  void place(int32_t c, int32_t s, int32_t index) {
    auto& m = members_[c];
    int32_t other = m[index];
    std::swap(m[where_[s]], m[index]);
    std::swap(where_[s], where_[other]);
  }

  void split(int32_t c, const std::vector<int32_t>& look) {
    std::unordered_map<std::vector<int32_t>, std::vector<int32_t>, IntsHash> parts;
    std::vector<int32_t> key;
    for (size_t i = 0; i < look.size(); ++i) {
      place(c, look[i], static_cast<int32_t>(i));
      signature(dfa_, look[i], cls_, key);
      meter_.work(static_cast<int64_t>(key.size()));
      parts[key].push_back(look[i]);
    }
    // The members that were not looked at behave alike; one of them speaks for all.
    size_t rest = members_[c].size() - look.size();
    std::vector<int32_t>* rest_part = nullptr;
    if (rest) {
      signature(dfa_, members_[c][look.size()], cls_, key);
      rest_part = &parts[key];
    }
    if (parts.size() == 1) return;
    const std::vector<int32_t>* winner = nullptr;  // the largest part keeps the label
    size_t largest = 0;
    for (auto& [k, part] : parts) {
      size_t size = part.size() + (&part == rest_part ? rest : 0);
      if (size > largest) {
        largest = size;
        winner = &part;
      }
    }
    if (rest_part && rest_part != winner)  // at most half of the class: the copy is paid for by the relabelling
      rest_part->insert(rest_part->end(), members_[c].begin() + static_cast<std::ptrdiff_t>(look.size()),
                        members_[c].end());
    for (auto& [k, part] : parts)
      if (&part != winner) move_out(c, part);
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
      // An entry that waits under the old class is found there again under the new one.
      if (queued_[group[i]]) requeue(c, group[i]);
    }
    for (int32_t s : group)
      for (int32_t p : before_[s])
        if (!queued_[p]) {
          queued_[p] = 1;
          enqueue(p);
        }
  }

  void requeue(int32_t old_class, int32_t s) {
    std::erase(dirty_[old_class], s);
    enqueue(s);
  }
  void enqueue(int32_t s) {
    if (dirty_[cls_[s]].empty()) pending_.push_back(cls_[s]);
    dirty_[cls_[s]].push_back(s);
  }

  const Dfa& dfa_;
  Meter& meter_;
  int32_t n_;
  std::vector<std::vector<int32_t>> before_;
  std::vector<int32_t> cls_, where_;
  std::vector<std::vector<int32_t>> members_, dirty_;
  std::vector<int32_t> pending_;
  std::vector<uint8_t> queued_;
};

}  // namespace

Dfa minimise(const Dfa& input, Meter& meter) {
  Dfa dfa = trim(input);
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
  for (int32_t s : order) {
    out.add(dfa.accept[s]);
    auto& list = out.edges.back();
    for (const Edge& e : dfa.edges[s]) list.push_back({e.lo, e.hi, number[cls[e.to]]});
    join_edges(list);
  }
  return out;
}

}  // namespace guided
