#include "compile/prune.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace guided {

namespace {

// Calls visit(action) for each edge with an action.
template <class Visit>
void for_each_effect(const LoweredRule& rule, const Dfa& dfa, Visit&& visit) {
  for (int32_t s = 0; s < dfa.size(); ++s)
    for (const Edge& e : dfa.edges[s])
      if (is_effect(e.lo)) visit(rule.effects[e.lo - kEffect]);
}

// Whether one member of a permutation may follow another, that is, whether the separator can be written.
bool has_separator(const LoweredRule& rule, const Dfa& dfa) {
  bool has_more_effect = false;
  for_each_effect(rule, dfa, [&](const Effect& e) { has_more_effect |= e.op == Effect::More; });
  return has_more_effect;
}

// Returns whether each member of a permutation can be written.
std::vector<uint8_t> find_writable_members(const LoweredRule& rule, const Dfa& dfa) {
  std::vector<uint8_t> writable(rule.required.size(), 0);
  for_each_effect(rule, dfa, [&](const Effect& e) {
    if (e.op == Effect::Put) writable[static_cast<size_t>(e.a)] = 1;
  });
  return writable;
}

// Whether a rule whose automaton has been reduced to `dfa` generates any text.
bool generates_text(const LoweredRule& rule, const Dfa& dfa) {
  if (dfa.empty() || rule.kind == RuleKind::Plain) return !dfa.empty();
  if (rule.kind == RuleKind::Counter) return rule.min <= 0 || !dfa.edges[0].empty();
  const std::vector<uint8_t> writable = find_writable_members(rule, dfa);
  if (rule.condition) {
    std::vector<uint8_t> repeatable = rule.repeatable;
    for (size_t i = 0; i < writable.size(); ++i)
      if (!writable[i]) repeatable[i] = kAbsent;
    return MemberChoices(rule.diagrams, repeatable, rule.min, has_separator(rule, dfa) ? rule.max : 1).generates();
  }
  int64_t writable_count = 0, required_count = 0;
  bool is_unbounded = false;
  for (size_t i = 0; i < writable.size(); ++i) {
    if (rule.required[i]) {
      if (!writable[i]) return false;
      ++required_count;
    }
    writable_count += writable[i];
    is_unbounded |= writable[i] && rule.repeatable[i];
  }
  if (!has_separator(rule, dfa) && std::max(required_count, rule.min) > 1) return false;
  return (rule.max < 0 || required_count <= rule.max) && (is_unbounded || writable_count >= rule.min);
}

bool calls_unproductive(const LoweredRule& rule, const std::vector<uint8_t>& productive) {
  bool out = false;
  rule.each_callee([&](int32_t callee) { out |= !productive[callee]; });
  return out;
}

// Returns the automaton without calls of unproductive rules, trimmed again.
Dfa drop_unproductive_calls(const LoweredRule& rule, const std::vector<uint8_t>& productive) {
  Dfa dfa = rule.automaton();
  for (int32_t s = 0; s < dfa.size(); ++s)
    dfa.edges.erase_if(s, [&](const Edge& e) { return is_call(e.lo) && !productive[rule.callee(e)]; });
  return trim(std::move(dfa));
}

// Whether a rule generates text by calling only productive rules. If it calls no others, its automaton is used as it
// is, because it is trimmed already.
bool is_productive(const LoweredRule& rule, const std::vector<uint8_t>& productive) {
  if (!calls_unproductive(rule, productive)) return generates_text(rule, rule.automaton());
  return generates_text(rule, drop_unproductive_calls(rule, productive));
}

}  // namespace

void prune_rules(std::vector<LoweredRule>& rules, Meter& meter) {
  size_t n = rules.size();
  std::vector<uint8_t> productive(n, 0);
  std::vector<std::vector<int32_t>> callers(n);
  for (size_t r = 0; r < n; ++r)
    rules[r].each_callee([&](int32_t callee) {
      if (callers[callee].empty() || callers[callee].back() != static_cast<int32_t>(r))
        callers[callee].push_back(static_cast<int32_t>(r));
    });
  std::deque<int32_t> queue;  // FIFO: most callees are decided before their caller is examined again
  for (size_t r = n; r-- > 0;) queue.push_back(static_cast<int32_t>(r));
  std::vector<uint8_t> is_queued(n, 1);
  while (!queue.empty()) {
    int32_t r = queue.front();
    queue.pop_front();
    is_queued[r] = 0;
    if (productive[r]) continue;
    meter.work(rules[r].automaton().size());
    if (!is_productive(rules[r], productive)) continue;
    productive[r] = 1;
    for (int32_t c : callers[r])
      if (!productive[c] && !std::exchange(is_queued[c], 1)) queue.push_back(c);
  }
  for (size_t r = 0; r < n; ++r) {
    LoweredRule& rule = rules[r];
    if (!productive[r])
      rule.replace_automaton({});
    else if (calls_unproductive(rule, productive))
      rule.replace_automaton(drop_unproductive_calls(rule, productive));
    if (rule.kind != RuleKind::Set || rule.dfa.empty()) continue;
    if (!has_separator(rule, rule.dfa)) rule.max = 1;
    // Members that cannot be written no longer count as available.
    const std::vector<uint8_t> writable = find_writable_members(rule, rule.dfa);
    for (size_t i = 0; i < writable.size(); ++i)
      if (!writable[i]) rule.repeatable[i] = kAbsent;
  }
}

}  // namespace guided
