#include "compile/left_recursion.hpp"

#include <algorithm>

#include "base/graph.hpp"

namespace guided {

namespace {

// The new automaton of one rule. `members`: the rules of its component.
Dfa suffix_automaton(const std::vector<LoweredRule>& rules, const std::vector<int32_t>& comp,
                     const std::vector<int32_t>& members, int32_t rule, Meter& meter) {
  Nfa nfa;
  nfa.start = nfa.add();
  nfa.final = nfa.add();
  std::vector<int32_t> end(rules.size(), -1), base(rules.size(), -1);
  for (int32_t x : members) end[x] = nfa.add();
  for (int32_t x : members) {
    base[x] = nfa.states;
    nfa.states += rules[x].dfa.size();
  }
  for (int32_t x : members) {
    const Dfa& dfa = rules[x].dfa;
    for (int32_t s = 0; s < dfa.size(); ++s) {
      for (const Edge& e : dfa.edges[s]) nfa.edge(base[x] + s, e.lo, e.hi, base[x] + e.to);
      if (dfa.accept[s]) nfa.move(base[x] + s, end[x]);
    }
    for (const Edge& e : dfa.edges[0]) {
      bool inside = is_call(e.lo) && comp[e.lo - kCall] == comp[x];
      if (inside)
        nfa.move(end[e.lo - kCall], base[x] + e.to);
      else
        nfa.edge(nfa.start, e.lo, e.hi, base[x] + e.to);
    }
  }
  nfa.move(end[rule], nfa.final);
  return minimise(determinise(nfa, meter), meter);
}

// The left-corner graph.
struct Corners {
  std::vector<std::vector<int32_t>> rules;    // by rule: its left corners
  std::vector<std::vector<uint8_t>> guarded;  // by rule and corner: after an action, or the rule has a register
  std::vector<int32_t> component;             // by rule: its strongly connected component

  explicit Corners(const std::vector<LoweredRule>& all) : rules(all.size()), guarded(all.size()) {
    for (size_t r = 0; r < all.size(); ++r)
      if (!all[r].automaton().empty()) find(all[r], r);
    component = components(rules);
  }

 private:
  void find(const LoweredRule& rule, size_t r) {
    const Dfa& dfa = rule.automaton();
    std::vector<int32_t> reach{0};  // the start, and the states that actions lead to from there
    for (size_t i = 0; i < reach.size(); ++i)
      for (const Edge& e : dfa.edges[reach[i]]) {
        if (is_call(e.lo)) {
          rules[r].push_back(rule.callee(e));
          guarded[r].push_back(i > 0 || rule.kind != RuleKind::Plain);
        } else if (is_effect(e.lo) && std::ranges::find(reach, e.to) == reach.end()) {
          reach.push_back(e.to);
        }
      }
  }
};

}  // namespace

bool has_left_recursion(const std::vector<LoweredRule>& rules) {
  const Corners corners(rules);
  std::vector<int32_t> members(rules.size(), 0);
  for (size_t r = 0; r < rules.size(); ++r) {
    if (++members[corners.component[r]] > 1) return true;
    if (std::ranges::find(corners.rules[r], static_cast<int32_t>(r)) != corners.rules[r].end()) return true;
  }
  return false;
}

void remove_left_recursion(std::vector<LoweredRule>& rules, Meter& meter) {
  const auto n = static_cast<int32_t>(rules.size());
  const Corners corners(rules);
  const std::vector<int32_t>& comp = corners.component;
  std::vector<std::vector<int32_t>> members(n);
  for (int32_t r = 0; r < n; ++r) members[comp[r]].push_back(r);
  std::vector<std::pair<int32_t, Dfa>> rewritten;
  int64_t states = 0;
  for (int32_t r = 0; r < n; ++r) {
    bool inside = false;
    for (size_t i = 0; i < corners.rules[r].size(); ++i)
      if (comp[corners.rules[r][i]] == comp[r]) {
        inside = true;
        if (corners.guarded[r][i]) {
          meter.rule = rules[r].origin;
          throw Unsupported("left recursion through a counted repetition or a permutation");
        }
      }
    if (!inside && members[comp[r]].size() == 1) continue;
    rewritten.emplace_back(r, suffix_automaton(rules, comp, members[comp[r]], r, meter));
    states += rewritten.back().second.size();
    meter.states(states);
  }
  for (auto& [r, dfa] : rewritten) rules[r].change(std::move(dfa));
}

}  // namespace guided
