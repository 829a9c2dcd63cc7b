// Rules that generate nothing, and positions from which no end is reached, are removed.
//
// A least fixpoint over rules: a rule generates something if its automaton accepts along edges whose calls do. A counter
// must be able to iterate; a permutation must be able to write its required members and enough of the others.
#include <algorithm>
#include <deque>

#include "rules.hpp"

namespace guided {

namespace {

// Whether a permutation can go on after a member: its separator can be written.
bool goes_on(const LoweredRule& rule, const Dfa& dfa) {
  for (const auto& list : dfa.edges)
    for (const Edge& e : list)
      if (is_effect(e.lo) && rule.effects[e.lo - kEffect].op == Effect::More) return true;
  return false;
}

// The automaton without calls of unproductive rules, trimmed; empty where the rule generates nothing.
Dfa productive_part(const LoweredRule& rule, const std::vector<uint8_t>& productive) {
  Dfa out = rule.dfa;
  for (auto& list : out.edges)
    std::erase_if(list, [&](const Edge& e) { return is_call(e.lo) && !productive[e.lo - kCall]; });
  out = trim(out);
  if (out.empty() || rule.kind == RuleKind::Plain) return out;
  if (rule.kind == RuleKind::Counter) {
    if (rule.min > 0 && out.edges[0].empty()) return {};
    return out;
  }
  std::vector<uint8_t> there(rule.required.size(), 0);
  for (const auto& list : out.edges)
    for (const Edge& e : list)
      if (is_effect(e.lo) && rule.effects[e.lo - kEffect].op == Effect::Put)
        there[static_cast<size_t>(rule.effects[e.lo - kEffect].a)] = 1;
  int64_t available = 0, needed = 0;
  bool unbounded = false;
  for (size_t i = 0; i < there.size(); ++i) {
    if (rule.required[i]) {
      if (!there[i]) return {};
      ++needed;
    }
    available += there[i];
    unbounded |= there[i] && rule.repeatable[i];
  }
  if (!goes_on(rule, out) && std::max(needed, rule.min) > 1) return {};
  if ((rule.max >= 0 && needed > rule.max) || (!unbounded && available < rule.min)) return {};
  return out;
}

}  // namespace

void prune_rules(std::vector<LoweredRule>& rules, Meter& meter) {
  size_t n = rules.size();
  std::vector<uint8_t> productive(n, 0);
  std::vector<std::vector<int32_t>> callers(n);
  for (size_t r = 0; r < n; ++r)
    for (const auto& list : rules[r].dfa.edges)
      for (const Edge& e : list)
        if (is_call(e.lo)) callers[e.lo - kCall].push_back(static_cast<int32_t>(r));
  std::deque<int32_t> work;  // first come, first served: callees settle before their caller is looked at again
  for (size_t r = n; r-- > 0;) work.push_back(static_cast<int32_t>(r));
  std::vector<uint8_t> queued(n, 1);
  while (!work.empty()) {
    int32_t r = work.front();
    work.pop_front();
    queued[r] = 0;
    if (productive[r]) continue;
    meter.work(rules[r].dfa.size());
    if (productive_part(rules[r], productive).empty()) continue;
    productive[r] = 1;
    for (int32_t c : callers[r])
      if (!productive[c] && !queued[c]) {
        queued[c] = 1;
        work.push_back(c);
      }
  }
  for (size_t r = 0; r < n; ++r) {
    LoweredRule& rule = rules[r];
    rule.dfa = productive[r] ? productive_part(rule, productive) : Dfa{};
    if (rule.kind != RuleKind::Set || rule.dfa.empty()) continue;
    if (!goes_on(rule, rule.dfa)) rule.max = 1;
    // Members that can't be written no longer count as available.
    std::vector<uint8_t> there(rule.required.size(), 0);
    for (const auto& list : rule.dfa.edges)
      for (const Edge& e : list)
        if (is_effect(e.lo) && rule.effects[e.lo - kEffect].op == Effect::Put)
          there[static_cast<size_t>(rule.effects[e.lo - kEffect].a)] = 1;
    for (size_t i = 0; i < there.size(); ++i)
      if (!there[i]) rule.repeatable[i] = kAbsent;
  }
}

}  // namespace guided
