// Bounds what is left after a token that ends anywhere in a rule, or in the rules that it calls (rest_bound.hpp).
//
// In: what is left of each frame, by position. Out: a bound for each rule. For rules that are not recursive, it is the
// worst position, summed along the calls. If rules call each other in a cycle, one token can begin as many frames as it
// can go round the cycle. In each round it reads a byte with which such a frame begins, and the vocabulary says how
// often a token has that byte at most.
// Cost: linear in the rules, and a few searches for cycles in each component.
#include <algorithm>
#include <utility>

#include "base/graph.hpp"
#include "budget/rest_bound.hpp"

namespace guided {

namespace {
constexpr int kMaxTriedRules = 8;  // rules that may be on every cycle
}  // namespace

void RestBound::bound_rules() {
  const size_t n = grammar_.rules.size();
  std::vector<std::vector<int32_t>> callees(n);
  for (const Position& p : grammar_.positions)
    for (const CallEdge& call : grammar_.calls_of(p)) callees[p.rule].push_back(call.rule);
  const std::vector<int32_t> component = components(callees);
  std::vector<std::vector<int32_t>> members(n);
  for (size_t r = 0; r < n; ++r) members[component[r]].push_back(static_cast<int32_t>(r));
  anywhere_.assign(n, 0);
  for (const auto& rules : members)  // callees first
    if (!rules.empty()) bound_component(rules, component);
}

void RestBound::bound_component(const std::vector<int32_t>& rules, const std::vector<int32_t>& component) {
  int64_t base = 0;    // the worst position of a rule, or of a rule of another component that it calls
  int64_t behind = 0;  // after calls within the component, the worst of each rule
  std::vector<Member> members;
  for (int32_t r : rules) {
    const Rule& rule = grammar_.rules[r];
    const int64_t asked = rule.kind == RuleKind::Counter ? times(owed_[r], rule.min + more_[r]) : owed_[r];
    int64_t most = 0;
    Member member{r, {}, {}, 0, true};
    for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos) {
      const Position& p = grammar_.positions[pos];
      if (tree_.cost(pos) >= kUnreachable) continue;
      base = std::max(base, plus(rest_[pos], asked));
      for (const CallEdge& call : grammar_.calls_of(p)) {
        const int64_t left = call.tail ? 0 : plus(rest_[call.after], asked);
        if (component[call.rule] != component[r]) {
          base = std::max(base, plus(anywhere_[call.rule], left));
        } else {
          most = std::max(most, left);
          member.calling.push_back(pos);
          member.callees.push_back(call.rule);
        }
      }
    }
    behind = plus(behind, most);
    if (!member.calling.empty()) members.push_back(std::move(member));
  }
  const int64_t rounds = members.empty() ? 0 : 1 + most_rounds(members);
  for (int32_t r : rules) anywhere_[r] = plus(base, times(behind, rounds));
}

// How often one token can return to any rule of a component: no more often than to a rule on every cycle that reads a
// byte before its calls. The one with the rarest bytes is taken; or else all such rules together; or else all rules.
int64_t RestBound::most_rounds(std::vector<Member>& members) const {
  ByteSet together, everything;
  for (Member& m : members) {
    const ByteSet bytes = bytes_before(m.rule, m.calling, m.reads);
    m.rounds = most_in_token(bytes);
    everything |= bytes;
    if (m.reads) together |= bytes;
  }
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.rounds < b.rounds; });
  int tried = 0;
  for (const Member& m : members)
    if (m.reads && tried++ < kMaxTriedRules && !has_cycle(members, [&](const Member& x) { return x.rule == m.rule; }))
      return m.rounds;
  if (!has_cycle(members, [](const Member& x) { return x.reads; })) return most_in_token(together);
  return most_in_token(everything);
}

// Whether rules call each other in a cycle, if some rules are left out.
template <class LeftOut>
bool RestBound::has_cycle(const std::vector<Member>& members, LeftOut&& left_out) const {
  std::unordered_map<int32_t, int32_t> number;
  for (const Member& m : members)
    if (!left_out(m)) number.emplace(m.rule, static_cast<int32_t>(number.size()));
  std::vector<std::vector<int32_t>> calls(number.size());
  for (const Member& m : members)
    if (auto it = number.find(m.rule); it != number.end())
      for (int32_t callee : m.callees)
        if (auto to = number.find(callee); to != number.end()) {
          if (to->second == it->second) return true;
          calls[it->second].push_back(to->second);
        }
  std::vector<int32_t> found = components(calls);
  std::sort(found.begin(), found.end());
  return std::adjacent_find(found.begin(), found.end()) != found.end();
}

int64_t RestBound::most_in_token(const ByteSet& bytes) const {
  int64_t out = 0;
  for (int b = 0; b < 256; ++b)
    if (bytes.has(static_cast<uint8_t>(b))) out += vocabulary_.most_in_token[b];
  return out;
}

// The bytes that may come first in a frame that is at one of its calls; `reads`: whether it has always read one.
ByteSet RestBound::bytes_before(int32_t r, const std::vector<int32_t>& calling, bool& reads) const {
  const Rule& rule = grammar_.rules[r];
  std::vector<std::vector<int32_t>> before(static_cast<size_t>(rule.size));
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos) {
    const Position& p = grammar_.positions[pos];
    auto add = [&](int32_t to) { before[to - rule.base].push_back(pos); };
    grammar_.each_next(p, add);
    for (const CallEdge& call : grammar_.calls_of(p)) add(call.after);
    for (const EffectEdge& edge : grammar_.effects_of(p)) add(edge.to);
  }
  std::vector<uint8_t> leads(static_cast<size_t>(rule.size), 0);  // by position: leads to a call
  std::vector<int32_t> open = calling;
  for (int32_t pos : open) leads[pos - rule.base] = 1;
  for (size_t i = 0; i < open.size(); ++i)
    for (int32_t pos : before[open[i] - rule.base])
      if (!std::exchange(leads[pos - rule.base], 1)) open.push_back(pos);
  ByteSet out;
  open.assign(1, rule.start);
  for (size_t i = 0; i < open.size(); ++i) {
    const Position& p = grammar_.positions[open[i]];
    reads &= std::find(calling.begin(), calling.end(), open[i]) == calling.end();
    for (int b = 0; b < 256; ++b)
      if (p.bytes.has(static_cast<uint8_t>(b)) && leads[grammar_.step(open[i], static_cast<uint8_t>(b)) - rule.base])
        out.add(static_cast<uint8_t>(b));
    for (const CallEdge& call : grammar_.calls_of(p))
      if (leads[call.after - rule.base]) out |= first_bytes(call.rule);
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (std::find(open.begin(), open.end(), edge.to) == open.end()) open.push_back(edge.to);
  }
  return out;
}

// The bytes with which a rule may begin.
ByteSet RestBound::first_bytes(int32_t rule) const {
  ByteSet out;
  std::vector<int32_t> open{grammar_.rules[rule].start};
  auto add = [&](int32_t to) {
    if (std::find(open.begin(), open.end(), to) == open.end()) open.push_back(to);
  };
  for (size_t i = 0; i < open.size(); ++i) {
    const Position& p = grammar_.positions[open[i]];
    out |= p.bytes;
    for (const CallEdge& call : grammar_.calls_of(p)) add(grammar_.rules[call.rule].start);
    for (const EffectEdge& edge : grammar_.effects_of(p)) add(edge.to);
  }
  return out;
}

}  // namespace guided
