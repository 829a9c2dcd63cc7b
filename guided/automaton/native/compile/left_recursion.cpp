#include "compile/left_recursion.hpp"

#include <algorithm>

#include "base/graph.hpp"

namespace guided {

namespace {

// The actions of all rules of a component, each once. A rewritten rule contains edges of all these rules.
class JoinedEffects {
 public:
  JoinedEffects(const std::vector<LoweredRule>& rules, const std::vector<int32_t>& members) {
    for (int32_t x : members) effects_.insert(effects_.end(), rules[x].effects.begin(), rules[x].effects.end());
    sort_unique(effects_);
  }
  const std::vector<Effect>& list() const { return effects_; }
  // An edge of one of these rules, with the number of its action in the joined list.
  Edge renumber(const LoweredRule& rule, Edge e) const {
    if (is_effect(e.lo)) {
      const auto joined = std::ranges::lower_bound(effects_, rule.effects[e.lo - kEffect]);
      e.lo = e.hi = kEffect + static_cast<Symbol>(joined - effects_.begin());
    }
    return e;
  }

 private:
  std::vector<Effect> effects_;
};

// Returns the new automaton of one rule. `members`: the rules of its component.
Dfa rewrite_rule(const std::vector<LoweredRule>& rules, const std::vector<int32_t>& component,
                 const std::vector<int32_t>& members, const JoinedEffects& effects, int32_t rule, Meter& meter) {
  Nfa nfa;
  nfa.start = nfa.add();
  nfa.final = nfa.add();
  std::vector<int32_t> end_states(rules.size(), -1), bases(rules.size(), -1);
  for (int32_t x : members) end_states[x] = nfa.add();
  for (int32_t x : members) {
    bases[x] = nfa.states;
    nfa.states += rules[x].dfa.size();
  }
  for (int32_t x : members) {
    const Dfa& dfa = rules[x].dfa;
    for (int32_t s = 0; s < dfa.size(); ++s) {
      for (const Edge& old : dfa.edges[s]) {
        const Edge e = effects.renumber(rules[x], old);
        nfa.edge(bases[x] + s, e.lo, e.hi, bases[x] + e.to);
      }
      if (dfa.accept[s]) nfa.move(bases[x] + s, end_states[x]);
    }
    for (const Edge& old : dfa.edges[0]) {
      const Edge e = effects.renumber(rules[x], old);
      const bool is_in_component = is_call(e.lo) && component[e.lo - kCall] == component[x];
      if (is_in_component)
        nfa.move(end_states[e.lo - kCall], bases[x] + e.to);
      else
        nfa.edge(nfa.start, e.lo, e.hi, bases[x] + e.to);
    }
  }
  nfa.move(end_states[rule], nfa.final);
  return minimise(determinise(nfa, meter), meter);
}

// The left-corner graph.
struct LeftCorners {
  std::vector<std::vector<int32_t>> left_corners;  // by rule: its left corners
  std::vector<std::vector<uint8_t>> guarded;  // by rule and corner: it follows an action, or the rule has a register
  std::vector<int32_t> component;             // by rule: its strongly connected component

  explicit LeftCorners(const std::vector<LoweredRule>& all_rules)
      : left_corners(all_rules.size()), guarded(all_rules.size()) {
    for (size_t r = 0; r < all_rules.size(); ++r)
      if (!all_rules[r].automaton().empty()) find_corners(all_rules[r], r);
    component = components(left_corners);
  }

 private:
  void find_corners(const LoweredRule& rule, size_t r) {
    const Dfa& dfa = rule.automaton();
    std::vector<int32_t> reachable{0};  // the start, and the states to which actions lead from there
    for (size_t i = 0; i < reachable.size(); ++i)
      for (const Edge& e : dfa.edges[reachable[i]]) {
        if (is_call(e.lo)) {
          left_corners[r].push_back(rule.callee(e));
          guarded[r].push_back(i > 0 || rule.kind != RuleKind::Plain);
        } else if (is_effect(e.lo) && std::ranges::find(reachable, e.to) == reachable.end()) {
          reachable.push_back(e.to);
        }
      }
  }
};

}  // namespace

bool has_left_recursion(const std::vector<LoweredRule>& rules) {
  const LeftCorners corners(rules);
  std::vector<int32_t> members(rules.size(), 0);
  for (size_t r = 0; r < rules.size(); ++r) {
    if (++members[corners.component[r]] > 1) return true;
    if (std::ranges::find(corners.left_corners[r], static_cast<int32_t>(r)) != corners.left_corners[r].end())
      return true;
  }
  return false;
}

void remove_left_recursion(std::vector<LoweredRule>& rules, Meter& meter) {
  const auto n = static_cast<int32_t>(rules.size());
  const LeftCorners corners(rules);
  const std::vector<int32_t>& component = corners.component;
  std::vector<std::vector<int32_t>> members(n);
  for (int32_t r = 0; r < n; ++r) members[component[r]].push_back(r);
  struct Rewritten {
    int32_t rule;
    Dfa dfa;
    std::vector<Effect> effects;
  };
  std::vector<Rewritten> rewritten_rules;
  int64_t states = 0;
  for (int32_t r = 0; r < n; ++r) {
    bool is_left_recursive = false;
    for (size_t i = 0; i < corners.left_corners[r].size(); ++i)
      if (component[corners.left_corners[r][i]] == component[r]) {
        is_left_recursive = true;
        if (corners.guarded[r][i]) {
          meter.rule = rules[r].origin;
          throw Unsupported("left recursion through a counted repetition or a permutation");
        }
      }
    if (!is_left_recursive && members[component[r]].size() == 1) continue;
    const std::vector<int32_t>& joined_rules = members[component[r]];
    const JoinedEffects effects(rules, joined_rules);
    rewritten_rules.push_back({r, rewrite_rule(rules, component, joined_rules, effects, r, meter), effects.list()});
    states += rewritten_rules.back().dfa.size();
    meter.states(states);
  }
  for (auto& [r, dfa, effects] : rewritten_rules) {
    rules[r].replace_automaton(std::move(dfa));
    rules[r].effects = std::move(effects);
  }
}

}  // namespace guided
