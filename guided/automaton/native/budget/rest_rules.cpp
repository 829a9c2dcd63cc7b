// Bounds the rest after a token that ends anywhere in a rule, or in the rules that it calls (rest_bound.hpp).
//
// In: the rest of each frame, by position. Out: a bound for each rule. For rules that are not recursive, it is the rest
// from the worst position, summed along the calls. If rules call each other in a cycle, one token can begin a frame in
// each round through the cycle. In each round, it reads a byte with which such a frame begins, and the vocabulary says
// how often one token can contain this byte.
// Cost: linear in the rules, and a few searches for cycles in each component.
#include <algorithm>
#include <utility>

#include "base/graph.hpp"
#include "budget/rest_bound.hpp"

namespace guided {

namespace {
constexpr int kMaxTriedRules = 8;  // the most rules for which it is checked whether they are on every cycle
}  // namespace

void RestBound::bound_rules() {
  const size_t n = grammar_.rules.size();
  std::vector<std::vector<int32_t>> callees(n);
  for (const Position& p : grammar_.positions)
    for (const CallEdge& call : grammar_.calls_of(p)) callees[p.rule].push_back(call.rule);
  const std::vector<int32_t> component = components(callees);
  std::vector<std::vector<int32_t>> members(n);
  for (size_t r = 0; r < n; ++r) members[component[r]].push_back(static_cast<int32_t>(r));
  worst_rests_.assign(n, 0);
  for (const auto& rules : members)  // callees first
    if (!rules.empty()) bound_component(rules, component);
}

void RestBound::bound_component(const std::vector<int32_t>& rules, const std::vector<int32_t>& component) {
  // The rest from the worst position of a rule, or of a rule of another component that it calls.
  int64_t worst_rest = 0;
  int64_t rest_after_calls = 0;  // the sum over the rules of the worst rest after a call within the component
  std::vector<RecursiveRule> recursive_rules;
  for (int32_t r : rules) {
    const Rule& rule = grammar_.rules[r];
    const int64_t register_rest =
        rule.kind == RuleKind::Counter ? times(register_costs_[r], rule.min + more_iterations_[r]) : register_costs_[r];
    int64_t max_after_call = 0;
    RecursiveRule recursive_rule{r, {}, {}, 0, true};
    for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos) {
      const Position& p = grammar_.positions[pos];
      worst_rest = std::max(worst_rest, plus(rests_[pos], register_rest));
      for (const CallEdge& call : grammar_.calls_of(p)) {
        const int64_t after_call = call.tail ? 0 : plus(rests_[call.after], register_rest);
        if (component[call.rule] != component[r]) {
          worst_rest = std::max(worst_rest, plus(worst_rests_[call.rule], after_call));
        } else {
          max_after_call = std::max(max_after_call, after_call);
          recursive_rule.calling_positions.push_back(pos);
          recursive_rule.callees.push_back(call.rule);
        }
      }
    }
    rest_after_calls = plus(rest_after_calls, max_after_call);
    if (!recursive_rule.calling_positions.empty()) recursive_rules.push_back(std::move(recursive_rule));
  }
  const int64_t recurrences = recursive_rules.empty() ? 0 : 1 + max_recurrences(recursive_rules);
  for (int32_t r : rules) worst_rests_[r] = plus(worst_rest, times(rest_after_calls, recurrences));
}

// How often one token can return to any rule of a component. If a rule is on every cycle and reads a byte before its
// calls, no rule recurs more often than this one. Of such rules, the one with the rarest bytes is used; if there are
// none, all rules that read a byte before their calls are used together; if they are not on every cycle either, all
// rules are used.
int64_t RestBound::max_recurrences(std::vector<RecursiveRule>& recursive_rules) const {
  ByteSet reading_bytes, all_bytes;
  for (RecursiveRule& m : recursive_rules) {
    const ByteSet bytes = bytes_before_calls(m.rule, m.calling_positions, m.reads_byte);
    m.max_recurrences_in_token = max_bytes_in_token(bytes);
    all_bytes |= bytes;
    if (m.reads_byte) reading_bytes |= bytes;
  }
  std::sort(recursive_rules.begin(), recursive_rules.end(), [](const RecursiveRule& a, const RecursiveRule& b) {
    return a.max_recurrences_in_token < b.max_recurrences_in_token;
  });
  int tried_count = 0;
  for (const RecursiveRule& m : recursive_rules)
    if (m.reads_byte && tried_count++ < kMaxTriedRules &&
        !has_cycle(recursive_rules, [&](const RecursiveRule& x) { return x.rule == m.rule; }))
      return m.max_recurrences_in_token;
  if (!has_cycle(recursive_rules, [](const RecursiveRule& x) { return x.reads_byte; }))
    return max_bytes_in_token(reading_bytes);
  return max_bytes_in_token(all_bytes);
}

// Whether rules call each other in a cycle if some rules are left out.
template <class IsLeftOut>
bool RestBound::has_cycle(const std::vector<RecursiveRule>& recursive_rules, IsLeftOut&& is_left_out) const {
  std::unordered_map<int32_t, int32_t> numbers;
  for (const RecursiveRule& m : recursive_rules)
    if (!is_left_out(m)) numbers.emplace(m.rule, static_cast<int32_t>(numbers.size()));
  std::vector<std::vector<int32_t>> calls(numbers.size());
  for (const RecursiveRule& m : recursive_rules)
    if (auto it = numbers.find(m.rule); it != numbers.end())
      for (int32_t callee : m.callees)
        if (auto to = numbers.find(callee); to != numbers.end()) {
          if (to->second == it->second) return true;
          calls[it->second].push_back(to->second);
        }
  std::vector<int32_t> component = components(calls);
  std::sort(component.begin(), component.end());
  return std::adjacent_find(component.begin(), component.end()) != component.end();
}

int64_t RestBound::max_bytes_in_token(const ByteSet& bytes) const {
  int64_t out = 0;
  for (int b = 0; b < 256; ++b)
    if (bytes.has(static_cast<uint8_t>(b))) out += vocabulary_.max_count_in_token[b];
  return out;
}

// The first bytes that a frame may have read when it is at one of `calling_positions`. Clears `reads_byte` if it may
// have read none.
ByteSet RestBound::bytes_before_calls(int32_t r, const std::vector<int32_t>& calling_positions,
                                      bool& reads_byte) const {
  const Rule& rule = grammar_.rules[r];
  std::vector<std::vector<int32_t>> predecessors(static_cast<size_t>(rule.size));
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos) {
    const Position& p = grammar_.positions[pos];
    auto add = [&](int32_t to) { predecessors[to - rule.base].push_back(pos); };
    grammar_.each_next(p, add);
    for (const CallEdge& call : grammar_.calls_of(p)) add(call.after);
    for (const EffectEdge& edge : grammar_.effects_of(p)) add(edge.to);
  }
  std::vector<uint8_t> leads_to_call(static_cast<size_t>(rule.size), 0);  // by position: whether it leads to a call
  std::vector<int32_t> queue = calling_positions;
  for (int32_t pos : queue) leads_to_call[pos - rule.base] = 1;
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t pos : predecessors[queue[i] - rule.base])
      if (!std::exchange(leads_to_call[pos - rule.base], 1)) queue.push_back(pos);
  ByteSet out;
  queue.assign(1, rule.start);
  for (size_t i = 0; i < queue.size(); ++i) {
    const Position& p = grammar_.positions[queue[i]];
    reads_byte &= std::find(calling_positions.begin(), calling_positions.end(), queue[i]) == calling_positions.end();
    for (int b = 0; b < 256; ++b)
      if (p.bytes.has(static_cast<uint8_t>(b)) &&
          leads_to_call[grammar_.step(queue[i], static_cast<uint8_t>(b)) - rule.base])
        out.add(static_cast<uint8_t>(b));
    for (const CallEdge& call : grammar_.calls_of(p))
      if (leads_to_call[call.after - rule.base]) out |= first_bytes(call.rule);
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (std::find(queue.begin(), queue.end(), edge.to) == queue.end()) queue.push_back(edge.to);
  }
  return out;
}

// The bytes with which a rule may begin.
ByteSet RestBound::first_bytes(int32_t rule) const {
  ByteSet out;
  std::vector<int32_t> queue{grammar_.rules[rule].start};
  auto add = [&](int32_t to) {
    if (std::find(queue.begin(), queue.end(), to) == queue.end()) queue.push_back(to);
  };
  for (size_t i = 0; i < queue.size(); ++i) {
    const Position& p = grammar_.positions[queue[i]];
    out |= p.bytes;
    for (const CallEdge& call : grammar_.calls_of(p)) add(grammar_.rules[call.rule].start);
    for (const EffectEdge& edge : grammar_.effects_of(p)) add(edge.to);
  }
  return out;
}

}  // namespace guided
