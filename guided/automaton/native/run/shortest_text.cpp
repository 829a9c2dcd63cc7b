#include "run/shortest_text.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/graph.hpp"

namespace guided {

namespace {
// The cost of bytes dominates. Each call adds a little, so a rule costs more than any rule that its text calls.
constexpr int64_t kCallCost = 1;
constexpr int64_t kEffectsPerUnit = 4;  // this many comparisons of effects count as one unit of work
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

// Computes the costs of a rule's positions. Each sweep goes from the last position to the first. Another sweep is
// needed if a cost has changed after an edge from a later position has used it. After kMaxSweeps sweeps, run_dijkstra()
// computes the remaining costs.
void ShortestText::compute_position_costs(int32_t r) {
  for (int sweeps = 1; sweep(grammar_.rules[r]); ++sweeps)
    if (sweeps == kMaxSweeps) run_dijkstra(grammar_.rules[r]);
}

// Sweeps once. Returns whether another sweep may change a cost.
bool ShortestText::sweep(const Rule& rule) {
  bool needs_another = false;
  for (int32_t pos = rule.base + rule.size - 1; pos >= rule.base; --pos) {
    const bool accept = grammar_.positions[pos].accept;
    int64_t best = accept ? 0 : kUnreachable, min_byte_cost = kUnreachable;
    each_edge(pos, [&](int64_t cost, int32_t to, bool is_byte) {
      const int64_t sum = plus(cost, cost_[to]);
      best = std::min(best, sum);
      if (to < pos) is_read_early_[to] = 1;
      if (!is_byte || sum >= min_byte_cost) return;
      min_byte_cost = sum;
      next_by_byte_[pos] = to;
    });
    if (min_byte_cost > best || accept) next_by_byte_[pos] = -1;
    if (best >= cost_[pos]) continue;
    cost_[pos] = best;
    needs_another |= is_read_early_[pos] != 0;
  }
  return needs_another;
}

// Dijkstra's algorithm (1959) along reversed edges, from all positions with a known cost.
void ShortestText::run_dijkstra(const Rule& rule) {
  struct Edge {
    int32_t from;
    int64_t cost;
  };
  const auto size = static_cast<size_t>(rule.size);
  std::vector<size_t> first_edge(size + 1, 0);  // target position -> index of its first edge in `edges`
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos)
    each_edge(pos, [&](int64_t, int32_t to, bool) { ++first_edge[static_cast<size_t>(to - rule.base)]; });
  size_t sum = 0;
  for (size_t& n : first_edge) n = std::exchange(sum, sum + n) + n;
  std::vector<Edge> edges(sum);
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos)
    each_edge(pos, [&](int64_t cost, int32_t to, bool) {
      edges[--first_edge[static_cast<size_t>(to - rule.base)]] = {pos, cost};
    });
  std::vector<std::pair<int64_t, int32_t>> heap;
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos)
    if (cost_[pos] < kUnreachable) heap.push_back({cost_[pos], pos});
  std::ranges::make_heap(heap, std::greater<>());
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater<>());
    const auto [cost, to] = heap.back();
    heap.pop_back();
    if (cost > cost_[to]) continue;
    const auto target = static_cast<size_t>(to - rule.base);
    for (size_t i = first_edge[target]; i < first_edge[target + 1]; ++i) {
      const int64_t new_cost = plus(cost, edges[i].cost);
      if (new_cost >= cost_[edges[i].from]) continue;
      cost_[edges[i].from] = new_cost;
      heap.push_back({new_cost, edges[i].from});
      std::ranges::push_heap(heap, std::greater<>());
    }
  }
}

int64_t ShortestText::call_cost(int32_t call) const { return plus(kCallCost, rule_cost_[grammar_.calls[call].rule]); }

// The cost of a rule's shortest text. It is at least the cost of each rule that the text calls, so texts are finite.
int64_t ShortestText::rule_text_cost(const Rule& rule) const {
  const Position& start = grammar_.positions[rule.start];
  if (rule.kind == RuleKind::Plain) return cost_[rule.start];
  if (rule.kind == RuleKind::Counter) {
    int64_t iteration_cost = kUnreachable;
    for (const EffectEdge& edge : grammar_.effects_of(start)) iteration_cost = std::min(iteration_cost, cost_[edge.to]);
    return times(iteration_cost, std::max<int64_t>(1, rule.min));
  }
  if (rule.choices) return conditional_cost(rule);
  int64_t sum = 0, written_count = 0, min_repeat_cost = kUnreachable;
  std::vector<int64_t> optional_costs;
  for (const EffectEdge& edge : grammar_.effects_of(start)) {
    size_t member = static_cast<size_t>(edge.effect.a);
    int64_t cost = cost_[edge.to];
    if (rule.required[member]) {
      sum = plus(sum, cost);
      ++written_count;
    }
    if (rule.repeatable[member])
      min_repeat_cost = std::min(min_repeat_cost, cost);
    else if (!rule.required[member])
      optional_costs.push_back(cost);
  }
  // Fill up with the cheapest optional members, each once, or repeat one member if that costs no more than the next
  // optional one.
  std::sort(optional_costs.begin(), optional_costs.end());
  for (size_t i = 0; written_count < rule.min; ++written_count, ++i) {
    if (i >= optional_costs.size() || min_repeat_cost <= optional_costs[i])
      return plus(sum, times(min_repeat_cost, rule.min - written_count));
    sum = plus(sum, optional_costs[i]);
  }
  return sum;
}

// By member of a permutation: the cost from the start of the member.
std::vector<int64_t> ShortestText::member_costs(const Rule& rule) const {
  std::vector<int64_t> out(rule.required.size(), kUnreachable);
  const Position& s = grammar_.positions[rule.start];
  for (const EffectEdge& edge : grammar_.effects_of(s)) out[static_cast<size_t>(edge.effect.a)] = cost_[edge.to];
  return out;
}

// For a permutation with a condition: the further members, in order, after which it can end. Each of them costs at most
// `max_cost`. The last one may be repeated to reach the minimum number of members. nullopt if the permutation cannot
// end.
std::optional<std::vector<int32_t>> ShortestText::needed_members(const Rule& rule, const SeenSet& seen,
                                                                 const std::vector<int64_t>& costs,
                                                                 int64_t max_cost) const {
  const MemberChoices& choices = *rule.choices;
  std::vector<int32_t> out;
  for (int32_t part = 0; part < choices.parts(); ++part) {
    const auto plan = choices.plan(part, seen, costs, max_cost);
    if (!plan) return std::nullopt;
    out.insert(out.end(), plan->begin(), plan->end());
  }
  std::ranges::sort(out, {}, [&](int32_t m) { return std::pair(choices.rank(m), m); });
  if (seen.count + static_cast<int64_t>(out.size()) >= rule.min) return out;
  SeenSet final_set = seen;
  for (int32_t m : out) final_set = choices.with(final_set, m);
  const int32_t reach = choices.reach(final_set);
  std::vector<int32_t> repeatable;  // if no member is written, any member; otherwise only written ones
  for (int32_t m = 0; m < static_cast<int32_t>(costs.size()); ++m)
    if (costs[m] <= max_cost && choices.is_open(final_set, m) && choices.rank(m) <= reach)
      if (final_set.count == 0 || final_set.has(static_cast<size_t>(m))) repeatable.push_back(m);
  std::ranges::stable_sort(repeatable, {}, [&](int32_t m) { return costs[m]; });
  for (int32_t m : repeatable) {
    const int32_t part = choices.part_of(m);
    if (part >= 0 && !choices.plan(part, choices.with(final_set, m), costs, max_cost)) continue;
    out.push_back(m);
    return out;
  }
  return std::nullopt;
}

int64_t ShortestText::conditional_cost(const Rule& rule) const {
  const std::vector<int64_t> costs = member_costs(rule);
  SeenSet seen{0, std::vector<uint64_t>((costs.size() + 63) / 64, 0), -1};
  const auto members = needed_members(rule, seen, costs, kUnreachable - 1);
  if (!members) return kUnreachable;
  int64_t sum = 0;
  for (int32_t m : *members) sum = plus(sum, costs[m]);
  const int64_t missing = rule.min - static_cast<int64_t>(members->size());
  return missing > 0 ? plus(sum, times(costs[members->back()], missing)) : sum;
}

// The first of needed_members(), cached; -1 if no member is needed or the permutation cannot end. A member that costs
// more than the rule itself may call the rule again. It is used only if cheaper members do not suffice, so texts are
// finite.
int32_t ShortestText::needed_member(int32_t rule_number, int32_t reg) {
  const Rule& rule = grammar_.rules[rule_number];
  const uint64_t key = pair_key(rule_number, reg);
  if (const auto cached = needed_members_.find(key); cached != needed_members_.end()) return cached->second;
  const std::vector<int64_t> costs = member_costs(rule);
  auto members = needed_members(rule, arena_.seen(reg), costs, std::min(rule_cost_[rule_number], kUnreachable - 1));
  if (!members) members = needed_members(rule, arena_.seen(reg), costs, kUnreachable - 1);
  const int32_t member = members && !members->empty() ? members->front() : -1;
  needed_members_.emplace(key, member);
  arena_.charge(48);
  return member;
}

void ShortestText::prepare(int32_t requested_rule) {
  if (cost_.empty()) {
    cost_.assign(grammar_.positions.size(), kUnreachable);
    next_by_byte_.assign(grammar_.positions.size(), -1);
    is_read_early_.assign(grammar_.positions.size(), 0);
    rule_cost_.assign(grammar_.rules.size(), kUnreachable);
    is_known_.assign(grammar_.rules.size(), 0);
  }
  if (is_known_[requested_rule]) return;
  // `requested_rule`, and all rules with unknown costs that it calls, directly or indirectly.
  std::vector<int32_t> rules{requested_rule};
  std::vector<std::vector<int32_t>> callees;
  std::unordered_map<int32_t, int32_t> numbers{{requested_rule, 0}};
  for (size_t i = 0; i < rules.size(); ++i) {
    std::vector<int32_t>& rule_callees = callees.emplace_back();
    for (const CallEdge& call : calls_of(rules[i])) {
      if (is_known_[call.rule]) continue;
      const auto [it, inserted] = numbers.try_emplace(call.rule, static_cast<int32_t>(rules.size()));
      if (inserted) rules.push_back(call.rule);
      rule_callees.push_back(it->second);
    }
    sort_unique(rule_callees);
  }
  const std::vector<int32_t> component = components(callees);  // callees have lower numbers than their callers
  std::vector<std::vector<int32_t>> members(rules.size());
  for (size_t i = 0; i < rules.size(); ++i) members[component[i]].push_back(rules[i]);
  for (const std::vector<int32_t>& component_rules : members) compute_costs(component_rules);
}

// Computes the costs of rules that call each other. The costs of all other rules that they call must be known.
void ShortestText::compute_costs(const std::vector<int32_t>& component) {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (int32_t r : component) {
      if (grammar_.rules[r].size == 0) continue;
      compute_position_costs(r);
      const int64_t cost = rule_text_cost(grammar_.rules[r]);
      auto calls_itself = [r](const CallEdge& call) { return call.rule == r; };
      const bool is_recursive = component.size() > 1 || std::ranges::any_of(calls_of(r), calls_itself);
      has_changed |= is_recursive && cost < rule_cost_[r];
      rule_cost_[r] = std::min(rule_cost_[r], cost);
    }
  }
  for (int32_t r : component) is_known_[r] = 1;
}

// The calls of a rule, which are contiguous.
std::span<const CallEdge> ShortestText::calls_of(int32_t r) const {
  const Rule& rule = grammar_.rules[r];
  if (rule.size == 0) return {};
  const int32_t from = grammar_.positions[rule.base].call_lo;
  const int32_t to = grammar_.positions[rule.base + rule.size - 1].call_hi;
  return std::span(grammar_.calls).subspan(static_cast<size_t>(from), static_cast<size_t>(to - from));
}

// The next step on the shortest way. Guards are evaluated: a count below its minimum continues, and a frame ends as
// soon as it may.
ShortestText::Choice ShortestText::choose(const Thread& thread) {
  const Position& p = grammar_.positions[thread.pos];
  prepare(p.rule);
  const Rule& rule = grammar_.rules[p.rule];
  bool is_free = thread.ret == kFree;
  if (p.accept && (is_free || arena_.may_end(rule, thread.reg))) return {};
  Choice best;
  best.cost = kUnreachable + 1;
  // The first pass tries missing required members and effects that write no member, the second pass all other effects.
  // Each pass begins with the cheapest.
  auto is_in_first_pass = [&](const Effect& e) {
    auto member = static_cast<size_t>(e.a);
    if (rule.choices && e.op == Effect::Put) return e.a == needed_member(p.rule, thread.reg);
    return e.op != Effect::Put || (rule.required[member] && !arena_.seen(thread.reg).has(member));
  };
  int64_t comparisons = 0;
  for (bool is_first_pass : {true, false}) {
    if (p.effect_lo == p.effect_hi || best.kind == Choice::ApplyEffect) break;
    for (int32_t i : cheapest_effects(thread.pos)) {
      ++comparisons;
      const EffectEdge& e = grammar_.effects[i];
      Thread next = thread;
      if (is_in_first_pass(e.effect) != is_first_pass || !arena_.apply(rule, e.effect, next)) continue;
      best = {Choice::ApplyEffect, i, cost_[e.to]};
      break;
    }
  }
  CallMeter::work(comparisons / kEffectsPerUnit);
  // Costs ignore guards, so the cheapest byte may lead to an effect that no longer applies, such as whitespace before
  // a member that is already written. So if an effect applies here (another iteration or member), take it. An accepting
  // position whose guard does not hold yet also needs an effect.
  bool may_read = !p.accept && best.kind != Choice::ApplyEffect;
  for (int w = 0; may_read && w < 4; ++w)
    for (uint64_t bits = p.bytes.w[w]; bits; bits &= bits - 1) {
      int32_t b = w * 64 + __builtin_ctzll(bits);
      int64_t cost = plus(kByteCost, cost_[grammar_.step(thread.pos, static_cast<uint8_t>(b))]);
      if (cost < best.cost) best = {Choice::Byte, b, cost};
    }
  for (int32_t i = p.effect_lo; may_read && i < p.effect_hi; ++i) {  // effects on scopes and entries compete by cost
    const EffectEdge& e = grammar_.effects[i];
    Thread next = thread;
    if (e.effect.changes_scopes() && cost_[e.to] < best.cost && arena_.apply(rule, e.effect, next))
      best = {Choice::ApplyEffect, i, cost_[e.to]};
  }
  for (int32_t i = p.call_lo; may_read && i < p.call_hi; ++i) {
    int64_t cost = plus(call_cost(i), cost_[grammar_.calls[i].after]);
    if (cost < best.cost) best = {Choice::Call, i, cost};
  }
  for (int32_t i = p.token_lo; may_read && i < p.token_hi; ++i) {
    int64_t cost = plus(kTokenCost, cost_[grammar_.tokens[i].to]);
    if (cost < best.cost) best = {Choice::Token, i, cost};
  }
  return best;
}

// The cost of the iterations or members that the frame's register still requires.
int64_t ShortestText::required_cost(const Rule& rule, int32_t reg) {
  if (rule.kind == RuleKind::Plain || rule.choices) return 0;  // a lower bound; conditions are not evaluated
  const Position& start = grammar_.positions[rule.start];
  int64_t sum = 0, iteration_cost = kUnreachable;
  for (const EffectEdge& edge : grammar_.effects_of(start)) {
    const Effect& e = edge.effect;
    const int64_t cost = cost_[edge.to];
    if (e.op == Effect::Inc) iteration_cost = std::min(iteration_cost, cost);
    if (e.op != Effect::Put) continue;
    const auto member = static_cast<size_t>(e.a);
    if (rule.required[member] && !arena_.seen(reg).has(member)) sum = plus(sum, cost);
  }
  return rule.kind == RuleKind::Counter ? times(iteration_cost, std::max<int64_t>(0, rule.min - reg)) : sum;
}

int64_t ShortestText::min_bytes_to_frame_end(const Thread& thread) {
  prepare(grammar_.positions[thread.pos].rule);
  const Rule& rule = grammar_.rule_at(thread.pos);
  return plus(cost_[thread.pos], required_cost(rule, thread.reg)) / kByteCost;
}

int64_t ShortestText::min_bytes_to_end(Thread thread) {
  int64_t sum = 0;
  for (int frame = 0; frame < kMaxFrames && thread.pos != kExit; ++frame) {
    sum += min_bytes_to_frame_end(thread);
    if (thread.ret <= kFree) break;
    const Config& callers = arena_.config(thread.ret);
    if (callers.count == 0) break;
    thread = callers.threads[0];
  }
  return sum;
}

const std::vector<int32_t>& ShortestText::cheapest_effects(int32_t pos) {
  std::vector<int32_t>& order = sorted_effects_[pos];
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
