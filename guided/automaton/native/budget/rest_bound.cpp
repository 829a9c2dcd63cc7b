#include "budget/rest_bound.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace guided {

namespace {
constexpr int64_t kNotComputed = -1, kInProgress = -2;
constexpr int64_t kPositionWork = 4;
constexpr int kMaxNesting = 1000;             // the deepest recursion of rest() and longest_from()
constexpr int64_t kMinSearchedStates = 6000;  // a search of new_entry.hpp examines this many before it gives up
constexpr int64_t kNewEndBytes = 10;  // with two choices for each of these bytes, more ends than seen values exist
constexpr int64_t kNewEndBytesOfStrings = 16;  // the same for unbounded strings, whose search has no limit
bool is_reachable(int64_t cost) { return cost < kUnreachable; }
int64_t bytes_of(int64_t cost) { return cost / kByteCost + 1; }
}  // namespace

// ---- entries
// The positions of a frame from the start of an entry to the entry's end.
const RestBound::Entry& RestBound::entry_at(int32_t start) {
  auto [it, inserted] = entries_.try_emplace(start);
  Entry& out = it->second;
  if (!inserted) return out;
  std::unordered_set<int32_t> visited{start};
  out.positions_inside.push_back(start);
  auto add = [&](int32_t to) {
    if (visited.insert(to).second) out.positions_inside.push_back(to);
  };
  for (size_t i = 0; i < out.positions_inside.size(); ++i) {
    CallMeter::work(kPositionWork);
    const Position& p = grammar_.positions[out.positions_inside[i]];
    grammar_.each_next(p, add);
    for (const CallEdge& call : grammar_.calls_of(p)) add(call.after);
    for (const EffectEdge& e : grammar_.effects_of(p)) {
      if (e.effect.op != Effect::Keep)
        add(e.to);
      else
        out.after_entry.push_back(e.to);
    }
  }
  return out;
}

// If at least two bytes, or two escape sequences, lead from a position back to itself, possibly through another
// iteration, there are many values of equal length. Returns their length in bytes (1 or 2), or 0 if there are no two.
int RestBound::loop_bytes(int32_t position) const {
  auto leads_back = [&](int32_t from) {
    const Position& p = grammar_.positions[from];
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (edge.to == position) return true;
    return from == position;
  };
  int loop_count = 0;
  const ByteSet& bytes = grammar_.positions[position].bytes;
  for (int b = 0x21; b < 256 && loop_count < 2; ++b)
    loop_count += b != StringProgress::kQuote && bytes.has(static_cast<uint8_t>(b)) &&
                  leads_back(grammar_.step(position, static_cast<uint8_t>(b)));
  if (loop_count > 1) return 1;
  if (!bytes.has(StringProgress::kEscape)) return 0;
  const int32_t after_backslash = grammar_.step(position, StringProgress::kEscape);
  for (size_t i = 0; i < StringProgress::kShort.size(); ++i) {  // each of these represents a different character
    const auto c = static_cast<uint8_t>(StringProgress::kShort[i]);
    loop_count += !StringProgress::is_plain(static_cast<uint8_t>(StringProgress::kMeaning[i])) &&
                  grammar_.positions[after_backslash].bytes.has(c) && leads_back(grammar_.step(after_backslash, c));
  }
  return loop_count > 1 ? 2 : 0;
}

// Collects the positions inside entries that are one of a few strings (if `is_finite`) or inside all other entries, and
// in the rules called there. Returns false if they have more than bytes and counts, such as nested entries.
bool RestBound::collect_inside(bool is_finite, std::vector<int32_t>& positions) {
  // By rule: how many frames are open at its positions, including its own.
  std::vector<int64_t> frame_counts(grammar_.rules.size(), 0);
  for (const EffectEdge& e : grammar_.effects)
    if (e.effect.op == Effect::Begin && arena_.finite_strings().begins_one_of_few(e.to) == is_finite)
      for (int32_t position : entry_at(e.to).positions_inside) positions.push_back(position);
  sort_unique(positions);
  for (size_t i = 0; i < positions.size(); ++i) {
    const Position& p = grammar_.positions[positions[i]];
    if (p.token_lo < p.token_hi) return false;
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (edge.effect.op != Effect::Keep && edge.effect.op != Effect::Inc) return false;
    for (const CallEdge& call : grammar_.calls_of(p)) {
      const Rule& rule = grammar_.rules[call.rule];
      int64_t& frame_count = frame_counts[call.rule];
      if (frame_count > 0) continue;
      frame_count = std::max<int64_t>(1, frame_counts[p.rule]) + 1;
      frames_per_entry_ = std::max(frames_per_entry_, frame_count);
      if (rule.kind == RuleKind::Set) return false;
      if (rule.max >= 0) bounded_counters_.push_back(call.rule);
      for (int32_t position = rule.base; position < rule.base + rule.size; ++position) positions.push_back(position);
    }
  }
  return true;
}

// Calls callback(next position, bytes) for each next position in an entry, in the same frame or in a called one.
template <class Callback>
void RestBound::for_each_successor_in_entry(int32_t position, Callback&& callback) const {
  const Position& p = grammar_.positions[position];
  grammar_.each_next(p, [&](int32_t to) { callback(to, 1); });
  for (const EffectEdge& edge : grammar_.effects_of(p))
    if (edge.effect.op == Effect::Inc) callback(edge.to, 0);
  for (const CallEdge& call : grammar_.calls_of(p)) {
    callback(grammar_.rules[call.rule].start, 0);
    callback(call.after, bytes_of(tree_.rule_cost(call.rule)));
  }
}

// Computes the bytes of an entry that must end with an unseen value. Returns false if they are unknown. They are known
// if each position inside has a loop nearby (a few rounds of it give an unseen value) or no loop after it (so there is
// a longest text).
bool RestBound::bound_entries() {
  max_seen_ = INT32_MAX;
  std::vector<int32_t> positions, few_string_positions;
  if (!collect_inside(false, positions) || !collect_inside(true, few_string_positions)) return false;
  std::unordered_map<int32_t, int64_t> bytes_to_new_value, longest_bytes;
  int64_t end_bytes = 0, max_bytes = 0;
  const bool are_unbounded = arena_.unbounded().has_only_unbounded_entries();
  const int64_t new_end_bytes = are_unbounded ? kNewEndBytesOfStrings : kNewEndBytes;
  for (int32_t position : positions) {
    const Rule& rule = grammar_.rule_at(position);
    end_bytes =
        std::max(end_bytes, times(bytes_of(tree_.cost(position)), rule.kind == RuleKind::Counter ? rule.min + 1 : 1));
    if (const int bytes = loop_bytes(position); bytes > 0) bytes_to_new_value[position] = (bytes - 1) * new_end_bytes;
  }
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = positions.size(); i-- > 0;) {
      CallMeter::work(kPositionWork);
      int64_t min_bytes = bytes_to_new_value.contains(positions[i]) ? bytes_to_new_value[positions[i]] : kUnreachable;
      const int64_t previous = min_bytes;
      for_each_successor_in_entry(positions[i], [&](int32_t to, int64_t bytes) {
        if (auto it = bytes_to_new_value.find(to); it != bytes_to_new_value.end())
          min_bytes = std::min(min_bytes, it->second + bytes);
      });
      if (min_bytes == previous) continue;
      bytes_to_new_value[positions[i]] = min_bytes;
      has_changed = true;
    }
  }
  for (int32_t position : positions) {
    auto it = bytes_to_new_value.find(position);
    max_bytes = std::max(max_bytes, it != bytes_to_new_value.end() ? it->second + end_bytes + new_end_bytes
                                                                   : longest_from(position, longest_bytes, 0));
  }
  // Seen values are limited only for a search: for one of a few strings, an unseen string is looked up.
  if (!positions.empty() && is_reachable(max_bytes))
    max_seen_ = static_cast<int32_t>(
        std::min(are_unbounded ? INT32_MAX : kMinSearchedStates / (max_bytes + 1), int64_t{1} << (new_end_bytes - 1)));
  for (int32_t position : few_string_positions)
    max_bytes = std::max(max_bytes, longest_from(position, longest_bytes, 0));
  if (!is_reachable(max_bytes)) return false;
  entry_bytes_ = times(max_bytes, frames_per_entry_);
  min_distance_to_bound_ = max_bytes + vocabulary_.max_token_bytes;
  return may_still_count();
}

// Whether every bounded count leaves space for an unseen value, wherever a token ends.
bool RestBound::may_still_count() const {
  for (int32_t r : bounded_counters_) {
    const Rule& rule = grammar_.rules[r];
    if (rule.max < min_distance_to_bound_) return false;
    for (const Position& p : grammar_.positions_of(rule))
      if (p.call_lo < p.call_hi) return false;
  }
  return true;
}

// The longest text of an entry from a position on, in its frame; kUnreachable if there is no longest text.
int64_t RestBound::longest_from(int32_t position, std::unordered_map<int32_t, int64_t>& longest_lengths,
                                int depth) const {
  auto [it, inserted] = longest_lengths.try_emplace(position, kUnreachable);
  if (!inserted || depth > kMaxNesting) return it->second;  // in progress, so there is a loop; or nested too deeply
  int64_t out = 0;
  const Position& p = grammar_.positions[position];
  for (const EffectEdge& edge : grammar_.effects_of(p))
    if (edge.effect.op == Effect::Inc) return kUnreachable;
  grammar_.each_next(p,
                     [&](int32_t to) { out = std::max(out, plus(1, longest_from(to, longest_lengths, depth + 1))); });
  for (const CallEdge& call : grammar_.calls_of(p)) {
    const int64_t rule_length = longest_from(grammar_.rules[call.rule].start, longest_lengths, depth + 1);
    out = std::max(out, plus(rule_length, longest_from(call.after, longest_lengths, depth + 1)));
  }
  return longest_lengths[position] = out;
}

// ---- frames
RestBound::RegisterEffects RestBound::effects_of_rule(int32_t r) const {
  const Rule& rule = grammar_.rules[r];
  RegisterEffects effects;
  for (const Position& p : grammar_.positions_of(rule)) {
    for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) {
      const Effect::Op op = grammar_.effects[i].effect.op;
      if (op == Effect::Put) effects.puts.push_back(i);
      if (op == Effect::Inc) effects.incs.push_back(i);
      if (op == Effect::More) effects.more_effects.push_back(i);
    }
  }
  return effects;
}

// Whether the tree's text depends on the register only in two places: where an iteration or member begins, with all
// members to choose from; and after a member, where the frame ends or another member follows.
bool RestBound::is_supported_pattern(int32_t r, const RegisterEffects& effects) const {
  const Rule& rule = grammar_.rules[r];
  if (rule.kind == RuleKind::Plain) return effects.puts.empty() && effects.incs.empty() && effects.more_effects.empty();
  auto members = [&](const Position& p) {
    std::vector<int64_t> out;
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (edge.effect.op == Effect::Put) out.push_back(edge.effect.a);
    std::sort(out.begin(), out.end());
    return out;
  };
  const auto all_members = members(grammar_.positions[rule.start]);
  for (const Position& p : grammar_.positions_of(rule)) {
    bool begins_iteration = false, has_more = false;
    for (const EffectEdge& edge : grammar_.effects_of(p)) {
      const Effect& e = edge.effect;
      begins_iteration |= e.op == Effect::Put || e.op == Effect::Inc;
      has_more |= e.op == Effect::More;
    }
    const bool reads = p.bytes.count() > 0 || p.call_lo < p.call_hi || p.token_lo < p.token_hi;
    if (rule.kind == RuleKind::Counter && begins_iteration && !p.accept && reads) return false;
    if (rule.kind == RuleKind::Set &&
        (has_more != p.accept || (begins_iteration && (p.accept || members(p) != all_members))))
      return false;
  }
  return true;
}

// The most iterations of the tree's text after the minimum. If any number of iterations is allowed, the text ends right
// after the minimum. Otherwise it follows the tree until a guard forbids this. Then fewer iterations remain than the
// tree's text would have had bytes, since each iteration has at least one byte.
int64_t RestBound::count_more_iterations(int32_t r) const {
  const Rule& rule = grammar_.rules[r];
  bool allows_any_count = true;
  int64_t max_bytes = 0;
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos) {
    const Position& p = grammar_.positions[pos];
    bool begins_iteration = false;
    for (const EffectEdge& edge : grammar_.effects_of(p)) {
      const Effect& e = edge.effect;
      begins_iteration |= e.op == Effect::Inc;
      allows_any_count &= e.op != Effect::Inc || (e.a == 0 && e.b < 0);
    }
    allows_any_count &= begins_iteration == (p.accept || pos == rule.start);
    if (is_reachable(tree_.cost(pos))) max_bytes = std::max(max_bytes, bytes_of(tree_.cost(pos)));
  }
  return allows_any_count ? 1 : 2 * max_bytes + 2;
}

// The tokens of the text along the tree, from a position to the end of the frame or to the frame's next iteration or
// member.
int64_t RestBound::rest(int32_t pos, int depth) {
  if (rests_[pos] == kNotComputed && depth > kMaxNesting) return kUnreachable;
  const size_t path_start = path_.size();
  int32_t current = pos;
  for (; rests_[current] == kNotComputed && reads_byte(current); current = tree_.next_by_byte(current)) {
    path_.push_back(current);
    rests_[current] = kInProgress;
  }
  if (rests_[current] == kNotComputed) {
    rests_[current] = kInProgress;
    const int64_t result = rest_along_tree(current, depth + 1);
    rests_[current] = result;
  }
  int64_t result = rests_[current] == kInProgress ? kUnreachable : rests_[current];
  while (path_.size() > path_start) {
    const int32_t previous = path_.back();
    path_.pop_back();
    rests_[previous] = result = spells_runs_ ? tokens_for_run(previous) : plus(1, result);
  }
  return result;
}

// Whether the tree continues with a byte, whatever the register contains.
bool RestBound::reads_byte(int32_t pos) const {
  if (tree_.next_by_byte(pos) < 0) return false;
  const Position& p = grammar_.positions[pos];
  for (const EffectEdge& edge : grammar_.effects_of(p))
    if (!edge.effect.changes_scopes()) return false;
  return true;
}

// The rest along ShortestText::choose(); 0 where an effect on the register applies (see register_cost()).
int64_t RestBound::rest_along_tree(int32_t pos, int depth) {
  const Position& p = grammar_.positions[pos];
  if (p.accept) return 0;
  if (!is_reachable(tree_.cost(pos))) return kUnreachable;  // the text is too long for its cost to be known
  for (const EffectEdge& edge : grammar_.effects_of(p))
    if (!edge.effect.changes_scopes()) return 0;
  const int64_t cost = tree_.cost(pos);
  for (const EffectEdge& e : grammar_.effects_of(p)) {
    if (tree_.cost(e.to) != cost) continue;
    if (e.effect.op != Effect::Begin) return rest(e.to, depth);
    // An entry may have to end differently from the tree's text. The text continues after the entry.
    int64_t max_after_entry = 0;
    for (int32_t to : entry_at(e.to).after_entry) max_after_entry = std::max(max_after_entry, rest(to, depth));
    return plus(max_after_entry, plus(entry_bytes_, bytes_of(cost)));
  }
  for (int32_t i = p.call_lo; i < p.call_hi; ++i)
    if (plus(tree_.call_cost(i), tree_.cost(grammar_.calls[i].after)) == cost)
      return plus(rule_cost(grammar_.calls[i].rule, depth), rest(grammar_.calls[i].after, depth));
  for (const TokenEdge& edge : grammar_.tokens_of(p))
    if (plus(kTokenCost, tree_.cost(edge.to)) == cost) return plus(1, rest(edge.to, depth));
  return kUnreachable;
}

// The fewest tokens that spell the tree's bytes from a position on. The rests after these bytes must be known.
int64_t RestBound::tokens_for_run(int32_t pos) const {
  const TokenTrie& trie = vocabulary_.trie;
  int64_t min_tokens = kUnreachable;
  int32_t node = 0;
  for (int32_t current = pos; reads_byte(current);) {
    const int32_t to = tree_.next_by_byte(current);
    const ByteSet& bytes = grammar_.positions[current].bytes;
    int tree_byte = -1;
    bytes.each([&](uint8_t byte) {
      if (tree_byte < 0 && grammar_.step(current, byte) == to) tree_byte = byte;
    });
    node = trie.child(node, static_cast<uint8_t>(tree_byte));
    if (node < 0) break;
    current = to;
    const TokenTrie::Node& n = trie.nodes()[node];
    if (n.payload_hi > n.payload_lo && rests_[current] >= 0)
      min_tokens = std::min(min_tokens, plus(1, rests_[current]));
  }
  return min_tokens;
}

// The largest rest after any of `effects`.
int64_t RestBound::max_rest(const std::vector<int32_t>& effects, int depth) {
  int64_t out = 0;
  for (int32_t i : effects) out = std::max(out, rest(grammar_.effects[i].to, depth));
  return out;
}

// The cost of a rule's shortest text, in tokens. (The tree's own costs are in bytes.)
int64_t RestBound::rule_cost(int32_t r, int depth) {
  if (rule_costs_[r] != kNotComputed) return rule_costs_[r] == kInProgress ? kUnreachable : rule_costs_[r];
  rule_costs_[r] = kInProgress;
  const Rule& rule = grammar_.rules[r];
  effects_[r] = effects_of_rule(r);
  int64_t cost = kUnreachable;
  if (rule.size > 0 && is_supported_pattern(r, effects_[r])) {
    if (rule.kind == RuleKind::Plain) cost = rest(rule.start, depth);
    if (rule.kind == RuleKind::Counter) {
      more_iterations_[r] = count_more_iterations(r);
      cost = times(max_rest(effects_[r].incs, depth),
                   more_iterations_[r] == 1 ? std::max<int64_t>(1, rule.min) : rule.min + more_iterations_[r]);
    }
    if (rule.kind == RuleKind::Set) cost = permutation_cost(r, depth);
  }
  if (rule.later >= 0) cost = grammar_.later[rule.later].shortest_bound;
  return rule_costs_[r] = cost;
}

// The cost of the required members, and of the cheapest others up to the minimum number of members; with a condition,
// the cost of every member that may be chosen to satisfy it.
int64_t RestBound::permutation_cost(int32_t r, int depth) {
  const Rule& rule = grammar_.rules[r];
  const int64_t separator_cost = max_rest(effects_[r].more_effects, depth);
  int64_t sum = 0, written_count = 0, max_member_cost = 0;
  std::vector<int32_t> optional_effects;
  auto member = [&](int32_t i) { return static_cast<size_t>(grammar_.effects[i].effect.a); };
  std::vector<int64_t> member_costs(rule.required.size(), 0);
  for (int32_t i : effects_[r].puts) {
    const int32_t to = grammar_.effects[i].to;
    if (rule.choices ? tree_.cost(to) <= tree_.rule_cost(r) : rule.required[member(i)])
      member_costs[member(i)] = std::max(member_costs[member(i)], plus(rest(to, depth), separator_cost));
    else if (!rule.choices)
      optional_effects.push_back(i);
  }
  for (size_t m = 0; m < member_costs.size(); ++m) {
    sum = plus(sum, member_costs[m]);
    max_member_cost = std::max(max_member_cost, member_costs[m]);
    written_count += rule.required[m] != 0;
  }
  if (rule.choices) return plus(sum, times(max_member_cost, rule.min));
  std::stable_sort(optional_effects.begin(), optional_effects.end(), [&](int32_t a, int32_t b) {
    return tree_.cost(grammar_.effects[a].to) < tree_.cost(grammar_.effects[b].to);
  });
  for (int32_t i : optional_effects) {
    if (written_count >= rule.min) break;
    max_member_cost = std::max(max_member_cost, plus(rest(grammar_.effects[i].to, depth), separator_cost));
    if (rule.repeatable[member(i)]) break;
    ++written_count;
  }
  return plus(sum, times(max_member_cost, rule.min));
}

// The most tokens that the register of a frame may still require, whatever it contains; for a counter, per iteration.
int64_t RestBound::register_cost(int32_t r) {
  const Rule& rule = grammar_.rules[r];
  const RegisterEffects& effects = effects_[r];
  if (rule.kind == RuleKind::Plain) return 0;
  if (!is_reachable(rule_costs_[r])) return kUnreachable;
  if (rule.kind == RuleKind::Counter) return max_rest(effects.incs, 0);
  const int64_t separator_cost = max_rest(effects.more_effects, 0);
  std::vector<int64_t> member_costs(rule.required.size(), 0);
  int64_t sum = 0, max_member_cost = 0;
  for (int32_t i : effects.puts) {
    int64_t& member_cost = member_costs[static_cast<size_t>(grammar_.effects[i].effect.a)];
    member_cost = std::max(member_cost, plus(rest(grammar_.effects[i].to, 0), separator_cost));
    max_member_cost = std::max(max_member_cost, member_cost);
  }
  for (size_t m = 0; m < member_costs.size(); ++m)
    if (rule.choices || rule.required[m]) sum = plus(sum, member_costs[m]);
  return plus(sum, times(max_member_cost, rule.min));
}

void RestBound::prepare() {
  is_prepared_ = true;
  CallMeter::work(kPositionWork * std::ssize(grammar_.positions));
  for (size_t r = 0; r < grammar_.rules.size(); ++r) tree_.prepare(static_cast<int32_t>(r));
  if (!vocabulary_.byte_complete || detours_.any() || !bound_entries()) return;
  const size_t rule_count = grammar_.rules.size();
  rests_.assign(grammar_.positions.size(), kNotComputed);
  rule_costs_.assign(rule_count, kNotComputed);
  register_costs_.assign(rule_count, 0);
  more_iterations_.assign(rule_count, 0);
  effects_.resize(rule_count);
  for (size_t pos = rests_.size(); pos-- > 0;) rest(static_cast<int32_t>(pos), 0);
  for (const EffectEdge& e : grammar_.effects)
    if (e.effect.op == Effect::Begin) entry_at(e.to);
  // A current entry may also have to end differently.
  for (const auto& [begin, entry] : entries_) {
    int64_t max_bytes = 0, max_after_entry = 0;
    for (int32_t position : entry.positions_inside)
      max_bytes = std::max(max_bytes, is_reachable(tree_.cost(position)) ? bytes_of(tree_.cost(position)) : 0);
    for (int32_t to : entry.after_entry) max_after_entry = std::max(max_after_entry, rests_[to]);
    for (int32_t position : entry.positions_inside)
      rests_[position] = std::max(rests_[position], plus(max_after_entry, plus(entry_bytes_, max_bytes)));
  }
  for (size_t r = 0; r < rule_count; ++r) rule_cost(static_cast<int32_t>(r), 0);
  for (size_t r = 0; r < rule_count; ++r) register_costs_[r] = register_cost(static_cast<int32_t>(r));
  bound_rules();
  is_known_ = true;
}

// ---- states
int64_t RestBound::rest_of_frame(const Thread& t) const {
  const int32_t r = grammar_.positions[t.pos].rule;
  const Rule& rule = grammar_.rules[r];
  if (rule.kind != RuleKind::Counter) return plus(rests_[t.pos], register_costs_[r]);
  return plus(rests_[t.pos], times(register_costs_[r], std::max<int64_t>(0, rule.min - t.reg) + more_iterations_[r]));
}

RestBound::RemainingTokens RestBound::rest_of_caller(int32_t config) {
  std::vector<int32_t> stack{config};
  while (!stack.empty()) {
    const int32_t current = stack.back();
    if (caller_rests_.contains(current)) {
      stack.pop_back();
      continue;
    }
    const size_t stack_size = stack.size();
    for (const Thread& t : arena_.config(current))
      if (t.pos != kExit && !caller_rests_.contains(t.ret)) stack.push_back(t.ret);
    if (stack.size() > stack_size) continue;
    RemainingTokens out;
    for (const Thread& t : arena_.config(current)) {
      if (t.pos == kExit) continue;
      const RemainingTokens outside = caller_rests_.at(t.ret);
      out.from_here = std::max(out.from_here, plus(rest_of_frame(t), outside.from_here));
      const int64_t worst_here = plus(worst_rests_[grammar_.positions[t.pos].rule], outside.from_here);
      out.after_token = std::max({out.after_token, worst_here, outside.after_token});
    }
    caller_rests_.emplace(current, out);
    arena_.charge(48);
    stack.pop_back();
  }
  return caller_rests_.at(config);
}

int64_t RestBound::bound_after_token(int32_t state) {
  if (!is_prepared_) prepare();
  if (!is_known_) return kUnreachable;
  int64_t max_tokens = 0;
  for (const Thread& t : arena_.config(state)) {
    if (t.pos == kExit) continue;
    if (arena_.uniqueness().max_seen_values(t.mem) > max_seen_) max_tokens = kUnreachable;
    const int32_t r = grammar_.positions[t.pos].rule;
    if (std::ranges::find(bounded_counters_, r) != bounded_counters_.end() &&
        t.reg + min_distance_to_bound_ > grammar_.rules[r].max)
      max_tokens = kUnreachable;
    const RemainingTokens outside = rest_of_caller(t.ret);
    max_tokens = std::max(
        {max_tokens, plus(worst_rests_[grammar_.positions[t.pos].rule], outside.from_here), outside.after_token});
  }
  const int64_t previous_bound = least_rests_.get(state);
  if (previous_bound < 0 || max_tokens < previous_bound) arena_.charge(least_rests_.set(state, max_tokens));
  return max_tokens;
}

}  // namespace guided
