#include "run/shortest_text.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/graph.hpp"

namespace guided {

namespace {
// The cost of bytes dominates. Each call adds a little, so a rule costs more than each rule that its text calls.
constexpr int64_t kCallCost = 1;
constexpr int64_t kEffectsOfWork = 4;  // comparisons of effects that count as one unit of work
constexpr int kMaxSweeps = 3;
constexpr int kMaxFrames = 32;  // frames that a lower bound considers
}  // namespace

// Calls visit(cost, to, is_byte) for each edge of a position.
template <class Visit>
void ShortestText::each_edge(int32_t pos, Visit&& visit) const {
  const Position& p = grammar_.positions[pos];
  grammar_.each_next(p, [&](int32_t to) { visit(kByteCost, to, true); });
  for (int32_t i = p.call_lo; i < p.call_hi; ++i) visit(call_cost(i), grammar_.calls[i].after, false);
  for (const TokenEdge& edge : grammar_.tokens_of(p)) visit(kTokenCost, edge.to, false);
  for (const EffectEdge& edge : grammar_.effects_of(p)) visit(int64_t{0}, edge.to, false);
}

// Computes the costs of a rule's positions. Each sweep goes from the last position to the first. Another one is needed
// if a cost changes that an edge leading back has read. After kMaxSweeps sweeps, spread() computes the rest.
void ShortestText::relax(int32_t r) {
  for (int sweeps = 1; sweep(grammar_.rules[r]); ++sweeps)
    if (sweeps == kMaxSweeps) spread(grammar_.rules[r]);
}

// Sweeps once. Returns whether another sweep may change a cost.
bool ShortestText::sweep(const Rule& rule) {
  bool again = false;
  for (int32_t pos = rule.base + rule.size - 1; pos >= rule.base; --pos) {
    const bool accept = grammar_.positions[pos].accept;
    int64_t best = accept ? 0 : kUnreachable, by_byte = kUnreachable;
    each_edge(pos, [&](int64_t cost, int32_t to, bool is_byte) {
      const int64_t sum = plus(cost, cost_[to]);
      best = std::min(best, sum);
      if (to < pos) read_early_[to] = 1;
      if (!is_byte || sum >= by_byte) return;
      by_byte = sum;
      by_byte_[pos] = to;
    });
    if (by_byte > best || accept) by_byte_[pos] = -1;
    if (best >= cost_[pos]) continue;
    cost_[pos] = best;
    again |= read_early_[pos] != 0;
  }
  return again;
}

// Dijkstra's algorithm (1959) along reversed edges, from all positions with a known cost.
void ShortestText::spread(const Rule& rule) {
  struct Edge {
    int32_t from;
    int64_t cost;
  };
  const auto size = static_cast<size_t>(rule.size);
  std::vector<size_t> first(size + 1, 0);  // target position -> index of its first edge in `edges`
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos)
    each_edge(pos, [&](int64_t, int32_t to, bool) { ++first[static_cast<size_t>(to - rule.base)]; });
  size_t sum = 0;
  for (size_t& n : first) n = std::exchange(sum, sum + n) + n;
  std::vector<Edge> edges(sum);
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos)
    each_edge(pos, [&](int64_t cost, int32_t to, bool) {
      edges[--first[static_cast<size_t>(to - rule.base)]] = {pos, cost};
    });
  std::vector<std::pair<int64_t, int32_t>> open;
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos)
    if (cost_[pos] < kUnreachable) open.push_back({cost_[pos], pos});
  std::ranges::make_heap(open, std::greater<>());
  while (!open.empty()) {
    std::ranges::pop_heap(open, std::greater<>());
    const auto [cost, to] = open.back();
    open.pop_back();
    if (cost > cost_[to]) continue;
    const auto at = static_cast<size_t>(to - rule.base);
    for (size_t i = first[at]; i < first[at + 1]; ++i) {
      const int64_t longer = plus(cost, edges[i].cost);
      if (longer >= cost_[edges[i].from]) continue;
      cost_[edges[i].from] = longer;
      open.push_back({longer, edges[i].from});
      std::ranges::push_heap(open, std::greater<>());
    }
  }
}

int64_t ShortestText::call_cost(int32_t call) const { return plus(kCallCost, rule_cost_[grammar_.calls[call].rule]); }

// The cost of a rule's shortest text. It is at least the cost of each rule that the text calls, so texts are finite.
int64_t ShortestText::whole_cost(const Rule& rule) const {
  const Position& s = grammar_.positions[rule.start];
  if (rule.kind == RuleKind::Plain) return cost_[rule.start];
  if (rule.kind == RuleKind::Counter) {
    int64_t once = kUnreachable;
    for (const EffectEdge& edge : grammar_.effects_of(s)) once = std::min(once, cost_[edge.to]);
    return times(once, std::max<int64_t>(1, rule.min));
  }
  if (rule.choices) return conditional_cost(rule);
  int64_t sum = 0, written = 0, again = kUnreachable;
  std::vector<int64_t> others;
  for (const EffectEdge& edge : grammar_.effects_of(s)) {
    size_t member = static_cast<size_t>(edge.effect.a);
    int64_t cost = cost_[edge.to];
    if (rule.required[member]) {
      sum = plus(sum, cost);
      ++written;
    }
    if (rule.repeatable[member])
      again = std::min(again, cost);
    else if (!rule.required[member])
      others.push_back(cost);
  }
  // Fill up with the cheapest optional members, each once; or repeat one if that costs no more than the next.
  std::sort(others.begin(), others.end());
  for (size_t i = 0; written < rule.min; ++written, ++i) {
    if (i >= others.size() || again <= others[i]) return plus(sum, times(again, rule.min - written));
    sum = plus(sum, others[i]);
  }
  return sum;
}

// By member of a permutation: its cost at the start of the permutation's body.
std::vector<int64_t> ShortestText::member_costs(const Rule& rule) const {
  std::vector<int64_t> out(rule.required.size(), kUnreachable);
  const Position& s = grammar_.positions[rule.start];
  for (const EffectEdge& edge : grammar_.effects_of(s)) out[static_cast<size_t>(edge.effect.a)] = cost_[edge.to];
  return out;
}

// The further members with which a permutation with a condition can end, in order, each at a cost of at most `most`. To
// reach the minimum number of members, the last one is repeated. nullopt if the permutation cannot end.
std::optional<std::vector<int32_t>> ShortestText::needed_members(const Rule& rule, const SeenSet& seen,
                                                                 const std::vector<int64_t>& costs,
                                                                 int64_t most) const {
  const MemberChoices& choices = *rule.choices;
  std::vector<int32_t> out;
  for (int32_t part = 0; part < choices.parts(); ++part) {
    const auto plan = choices.plan(part, seen, costs, most);
    if (!plan) return std::nullopt;
    out.insert(out.end(), plan->begin(), plan->end());
  }
  std::ranges::sort(out, {}, [&](int32_t m) { return std::pair(choices.rank(m), m); });
  if (seen.count + static_cast<int64_t>(out.size()) >= rule.min) return out;
  SeenSet after = seen;
  for (int32_t m : out) after = choices.with(after, m);
  const int32_t reach = choices.reach(after);
  std::vector<int32_t> others;  // if none is written, any member; otherwise only repetitions
  for (int32_t m = 0; m < static_cast<int32_t>(costs.size()); ++m)
    if (costs[m] <= most && choices.is_open(after, m) && choices.rank(m) <= reach)
      if (after.count == 0 || after.has(static_cast<size_t>(m))) others.push_back(m);
  std::ranges::stable_sort(others, {}, [&](int32_t m) { return costs[m]; });
  for (int32_t m : others) {
    const int32_t part = choices.part_of(m);
    if (part >= 0 && !choices.plan(part, choices.with(after, m), costs, most)) continue;
    out.push_back(m);
    return out;
  }
  return std::nullopt;
}

int64_t ShortestText::conditional_cost(const Rule& rule) const {
  const std::vector<int64_t> costs = member_costs(rule);
  SeenSet seen{0, std::vector<uint64_t>((costs.size() + 63) / 64, 0), -1};
  const auto needed = needed_members(rule, seen, costs, kUnreachable - 1);
  if (!needed) return kUnreachable;
  int64_t sum = 0;
  for (int32_t m : *needed) sum = plus(sum, costs[m]);
  const int64_t missing = rule.min - static_cast<int64_t>(needed->size());
  return missing > 0 ? plus(sum, times(costs[needed->back()], missing)) : sum;
}

// The first of needed_members(), cached; -1 if no member is needed or the permutation cannot end. Members that cost
// more than the rule itself may call it again. They are used only if the others do not suffice, so texts are finite.
int32_t ShortestText::needed_member(int32_t number, int32_t reg) {
  const Rule& rule = grammar_.rules[number];
  const uint64_t key = pair_key(number, reg);
  if (const auto known = needed_.find(key); known != needed_.end()) return known->second;
  const std::vector<int64_t> costs = member_costs(rule);
  auto needed = needed_members(rule, arena_.seen(reg), costs, std::min(rule_cost_[number], kUnreachable - 1));
  if (!needed) needed = needed_members(rule, arena_.seen(reg), costs, kUnreachable - 1);
  const int32_t out = needed && !needed->empty() ? needed->front() : -1;
  needed_.emplace(key, out);
  arena_.charge(48);
  return out;
}

void ShortestText::prepare(int32_t wanted) {
  if (cost_.empty()) {
    cost_.assign(grammar_.positions.size(), kUnreachable);
    by_byte_.assign(grammar_.positions.size(), -1);
    read_early_.assign(grammar_.positions.size(), 0);
    rule_cost_.assign(grammar_.rules.size(), kUnreachable);
    settled_.assign(grammar_.rules.size(), 0);
  }
  if (settled_[wanted]) return;
  std::vector<int32_t> rules{wanted};  // `wanted`, and all unsettled rules that it calls, also indirectly
  std::vector<std::vector<int32_t>> callees;
  std::unordered_map<int32_t, int32_t> numbers{{wanted, 0}};
  for (size_t i = 0; i < rules.size(); ++i) {
    std::vector<int32_t>& list = callees.emplace_back();
    for (const CallEdge& call : calls_of(rules[i])) {
      if (settled_[call.rule]) continue;
      const auto [it, inserted] = numbers.try_emplace(call.rule, static_cast<int32_t>(rules.size()));
      if (inserted) rules.push_back(call.rule);
      list.push_back(it->second);
    }
    sort_unique(list);
  }
  const std::vector<int32_t> component = components(callees);  // callees have lower numbers than their callers
  std::vector<std::vector<int32_t>> members(rules.size());
  for (size_t i = 0; i < rules.size(); ++i) members[component[i]].push_back(rules[i]);
  for (const std::vector<int32_t>& together : members) settle(together);
}

// Computes the costs of rules that call each other. All other rules that they call must be settled.
void ShortestText::settle(const std::vector<int32_t>& together) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t r : together) {
      if (grammar_.rules[r].size == 0) continue;
      relax(r);
      const int64_t cost = whole_cost(grammar_.rules[r]);
      auto is_itself = [r](const CallEdge& call) { return call.rule == r; };
      const bool again = together.size() > 1 || std::ranges::any_of(calls_of(r), is_itself);
      changed |= again && cost < rule_cost_[r];
      rule_cost_[r] = std::min(rule_cost_[r], cost);
    }
  }
  for (int32_t r : together) settled_[r] = 1;
}

// The calls of a rule, which are contiguous.
std::span<const CallEdge> ShortestText::calls_of(int32_t r) const {
  const Rule& rule = grammar_.rules[r];
  if (rule.size == 0) return {};
  const int32_t from = grammar_.positions[rule.base].call_lo;
  const int32_t to = grammar_.positions[rule.base + rule.size - 1].call_hi;
  return std::span(grammar_.calls).subspan(static_cast<size_t>(from), static_cast<size_t>(to - from));
}

// The next step on the shortest way. Guards are evaluated: a count below its bound goes on, and a full one ends.
ShortestText::Choice ShortestText::choose(const Thread& at) {
  const Position& p = grammar_.positions[at.pos];
  prepare(p.rule);
  const Rule& rule = grammar_.rules[p.rule];
  bool free = at.ret == kFree;
  if (p.accept && (free || arena_.may_end(rule, at.reg))) return {};
  Choice best;
  best.cost = kUnreachable + 1;
  // First missing required members and effects that write no member, then all others; each from the cheapest.
  auto comes_first = [&](const Effect& e) {
    auto member = static_cast<size_t>(e.a);
    if (rule.choices && e.op == Effect::Put) return e.a == needed_member(p.rule, at.reg);
    return e.op != Effect::Put || (rule.required[member] && !arena_.seen(at.reg).has(member));
  };
  int64_t compared = 0;
  for (bool first : {true, false}) {
    if (p.effect_lo == p.effect_hi || best.kind == Choice::Operate) break;
    for (int32_t i : cheapest_effects(at.pos)) {
      ++compared;
      const EffectEdge& e = grammar_.effects[i];
      Thread after = at;
      if (comes_first(e.effect) != first || !arena_.apply(rule, e.effect, after)) continue;
      best = {Choice::Operate, i, cost_[e.to]};
      break;
    }
  }
  CallMeter::work(compared / kEffectsOfWork);
  // Costs ignore guards, so the cheapest byte may lead to an effect that no longer applies, such as white space before
  // a member that is already written. So if an effect applies here (another iteration, another member), take it. An
  // accepting position whose guard does not hold yet also needs an effect.
  bool read = !p.accept && best.kind != Choice::Operate;
  for (int w = 0; read && w < 4; ++w)
    for (uint64_t bits = p.bytes.w[w]; bits; bits &= bits - 1) {
      int32_t b = w * 64 + __builtin_ctzll(bits);
      int64_t cost = plus(kByteCost, cost_[grammar_.step(at.pos, static_cast<uint8_t>(b))]);
      if (cost < best.cost) best = {Choice::Byte, b, cost};
    }
  for (int32_t i = p.effect_lo; read && i < p.effect_hi; ++i) {  // effects on scopes and entries compete by cost
    const EffectEdge& e = grammar_.effects[i];
    Thread after = at;
    if (e.effect.changes_scopes() && cost_[e.to] < best.cost && arena_.apply(rule, e.effect, after))
      best = {Choice::Operate, i, cost_[e.to]};
  }
  for (int32_t i = p.call_lo; read && i < p.call_hi; ++i) {
    int64_t cost = plus(call_cost(i), cost_[grammar_.calls[i].after]);
    if (cost < best.cost) best = {Choice::Call, i, cost};
  }
  for (int32_t i = p.token_lo; read && i < p.token_hi; ++i) {
    int64_t cost = plus(kTokenCost, cost_[grammar_.tokens[i].to]);
    if (cost < best.cost) best = {Choice::Token, i, cost};
  }
  return best;
}

// The cost of what the frame's register still requires: iterations or members.
int64_t ShortestText::owed(const Rule& rule, int32_t reg) {
  if (rule.kind == RuleKind::Plain || rule.choices) return 0;  // a lower bound; conditions are not evaluated
  const Position& s = grammar_.positions[rule.start];
  int64_t sum = 0, once = kUnreachable;
  for (const EffectEdge& edge : grammar_.effects_of(s)) {
    const Effect& e = edge.effect;
    const int64_t cost = cost_[edge.to];
    if (e.op == Effect::Inc) once = std::min(once, cost);
    if (e.op != Effect::Put) continue;
    const auto member = static_cast<size_t>(e.a);
    if (rule.required[member] && !arena_.seen(reg).has(member)) sum = plus(sum, cost);
  }
  return rule.kind == RuleKind::Counter ? times(once, std::max<int64_t>(0, rule.min - reg)) : sum;
}

int64_t ShortestText::least_bytes(const Thread& at) {
  prepare(grammar_.positions[at.pos].rule);
  const Rule& rule = grammar_.rule_at(at.pos);
  return plus(cost_[at.pos], owed(rule, at.reg)) / kByteCost;
}

int64_t ShortestText::least_to_end(Thread at) {
  int64_t sum = 0;
  for (int frame = 0; frame < kMaxFrames && at.pos != kExit; ++frame) {
    sum += least_bytes(at);
    if (at.ret <= kFree) break;
    const Config& callers = arena_.config(at.ret);
    if (callers.count == 0) break;
    at = callers.threads[0];
  }
  return sum;
}

const std::vector<int32_t>& ShortestText::cheapest_effects(int32_t pos) {
  std::vector<int32_t>& order = effects_[pos];
  const Position& p = grammar_.positions[pos];
  if (order.empty()) {
    for (int32_t i = p.effect_lo; i < p.effect_hi; ++i)
      if (!grammar_.effects[i].effect.changes_scopes()) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return cost_[grammar_.effects[a].to] < cost_[grammar_.effects[b].to];
    });
  }
  return order;
}

}  // namespace guided
