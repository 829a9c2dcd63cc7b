// Decides whether a thread in a uniqueness scope (uniqueness.hpp) can continue. Arena::close() checks each thread.
//
// In: a thread that reads an entry or is between two entries. Out: false if the entry can only end with seen values, or
// if another entry must come next and no possible entry can end with an unseen value.
//
// How: the tests are ordered by cost, and the first one that decides ends the check.
//   1. An entry that is an unbounded string (unbounded_strings.hpp) can always have an unseen value.
//   2. So can an entry that can no longer become any seen value.
//   3. So can an entry that has more possible values (value_counts.hpp) than there are seen values that begin like it.
//   4. If few strings are possible, each is looked up (finite_string_sets.hpp).
//   5. Test 3 is repeated, but counts only the seen values that the automaton can still read (seen_ahead.cpp).
//   6. For any other entry, a way to an unseen value is searched (`can_end_new`, new_entry.hpp).
// Between two entries, it usually suffices to look at what comes first on one way through the frame. Otherwise
// everything that may come first in the frame is examined; it is computed once for all positions that reach each other.
// At the end of the frame, its callers are examined; at a call of a rule in which entries begin, the rule.
//
// Cost: a look-up, except for the search of new_entry.hpp. Once per position: the edges of the positions on one way. If
// all ways are needed, once per reachable position: O(its edges and what comes first).
#include <algorithm>

#include "run/arena.hpp"

namespace guided {

namespace {
constexpr int kMaxNearSteps = 4;           // members and returns on one way
constexpr size_t kMaxPathPositions = 512;  // positions that are examined to find one way
constexpr int kMaxCalls = 8;               // nested calls and returns in which an entry is searched for
}  // namespace

bool Arena::can_end_entry(const Thread& t) {
  if (t.mem <= kLastUnknownSet || !can_end_new) return true;
  if (uniqueness_.is_in_string(t.mem) && unbounded_.is_unbounded(t.pos)) return true;
  if (uniqueness_.scope_between_entries(t.mem) >= 0 && uniqueness_.may_run_out && !can_begin_entry(t)) return false;
  if (!uniqueness_.may_become_seen(t.mem)) return true;
  // An unbounded string is about to begin, so an unseen value is possible whatever the entry has read before it.
  if (!uniqueness_.is_in_string(t.mem) && unbounded_.begins_unbounded_string(t.pos)) return true;
  const int32_t count = min_values_ahead(t);
  if (has_more_values(count, t.mem)) return true;
  const std::optional<bool> answer = can_string_end_new(t);
  if (answer) return *answer;
  return has_more_than_seen_ahead(count, t) || can_end_new(t);
}

// Whether a string that is the innermost entry can end with an unseen value. nullopt if the thread is not in such a
// string, if there are too many strings, or if an unseen string is left but the entry is inside another entry.
std::optional<bool> Arena::can_string_end_new(const Thread& t) {
  if (!uniqueness_.is_in_string(t.mem)) return std::nullopt;
  const std::optional<Uniqueness::StringAhead> ahead = uniqueness_.string_ahead(t.mem);
  if (!ahead || !ahead->is_opened) return std::nullopt;
  const std::optional<bool> any = any_new_string(t.pos, *ahead);
  return ahead->is_nested && any == true ? std::nullopt : any;
}

// Whether fewer seen values than `count` lie ahead of a current entry, so one of its at least `count` possible values
// is unseen. This takes only a look-up.
bool Arena::has_more_values(int32_t count, int32_t memory) {
  if (count == ValueCounts::kMany) return true;
  return count > 0 && uniqueness_.is_in_scalar(memory) && count > uniqueness_.max_seen_ahead(memory);
}

// Like has_more_values(), but ignores seen values that the automaton cannot read.
bool Arena::has_more_than_seen_ahead(int32_t count, const Thread& t) {
  return count > 0 && uniqueness_.is_in_scalar(t.mem) && count > count_seen_ahead(t);
}

// A lower bound on the values that each of the current entries can still have (value_counts.hpp).
int32_t Arena::min_values_ahead(const Thread& t) {
  constexpr int kMaxFrames = 16;
  int32_t largest = counts_.at(t.pos, t.reg);
  Thread thread = t;
  for (int frame = 0; frame < kMaxFrames && largest < ValueCounts::kMany && counts_.passes(thread.pos); ++frame) {
    const Config& ret = config(thread.ret);
    if (ret.count == 0 || ret.threads[0].pos == kExit) break;
    for (const Thread& caller : ret)
      if (caller.pos != kExit) largest = std::max(largest, counts_.at(caller.pos, caller.reg));
    thread = ret.threads[0];
  }
  return largest;
}

bool Arena::surely_continues(const Thread& t, bool all_new) {
  if (t.pos == kExit || !uniqueness_.is_in_scope(t.mem)) return true;
  if (!all_new && uniqueness_.is_in_entry(t.mem) && min_values_ahead(t) < ValueCounts::kMany) return false;
  if (uniqueness_.scope_between_entries(t.mem) < 0 || !uniqueness_.may_run_out) return true;
  if (continues_on_nearest_way(t, kMaxNearSteps)) return true;
  const Ahead& ahead = ahead_of(t.pos);
  const Rule& rule = grammar_->rule_at(t.pos);
  if (ahead.ends_scope || (ahead.ends_permutation && may_end(rule, t.reg))) return true;
  return ahead.members.empty() &&
         std::ranges::any_of(ahead.begins, [&](int32_t to) { return can_have_any_number(to); });
}

// Whether an entry that begins at a position can have any number of values.
bool Arena::can_have_any_number(int32_t position) {
  return unbounded_.begins_unbounded_string(position) || counts_.at(position) == ValueCounts::kMany;
}

// Whether one way shows that a thread between two entries can continue, whatever has been seen. `max_steps`: the most
// members and returns on this way.
bool Arena::continues_on_nearest_way(const Thread& t, int max_steps) {
  const Ahead& ahead = nearest_ahead_of(t.pos);
  const Rule& rule = grammar_->rule_at(t.pos);
  if (ahead.ends_scope || (ahead.ends_permutation && may_end(rule, t.reg))) return true;
  auto caller_continues = [&](const Thread& caller) {
    return max_steps > 0 && continues_on_nearest_way(caller, max_steps - 1);
  };
  if (ahead.ends_frame && can_return(t, caller_continues)) return true;
  if (std::ranges::any_of(ahead.begins, [&](int32_t to) { return can_have_any_number(to); })) return true;
  for (int32_t i : ahead.members) {
    const EffectEdge& e = grammar_->effects[i];
    if (max_steps == 0 || !allows(rule, e.effect, t.reg)) continue;
    Thread next = t;
    next.pos = e.to;
    if (e.effect.op == Effect::Put && has_no_entry(e)) return true;
    if (apply(rule, e.effect, next) && continues_on_nearest_way(next, max_steps - 1)) return true;
  }
  return false;
}

// Whether the output may end with the thread's frame, or some caller can continue.
bool Arena::can_return(const Thread& t, const std::function<bool(const Thread&)>& continues) {
  if (t.ret <= kFree) return true;
  const std::vector<Thread> callers(config(t.ret).begin(), config(t.ret).end());
  return std::ranges::any_of(callers, [&](Thread caller) {
    caller.mem = t.mem;
    return caller.pos == kExit || continues(caller);
  });
}

// Whether a member contains no entry. Usually, entries only begin right at the start of members, which is quick to
// check.
bool Arena::has_no_entry(const EffectEdge& put) {
  const Grammar& g = *grammar_;
  const int32_t rule = g.positions[put.to].rule;
  if (begins_entries_only_first_.empty()) begins_entries_only_first_.assign(g.rules.size(), -1);
  if (begins_entries_only_first_[rule] < 0) begins_entries_only_first_[rule] = begins_entries_only_first(g.rules[rule]);
  if (!begins_entries_only_first_[rule]) return ahead_of(put.to).begins.empty() && ahead_of(put.to).calls.empty();
  return !begins_entry(put.to);
}

bool Arena::begins_entry(int32_t position) const {
  const Position& p = grammar_->positions[position];
  for (const EffectEdge& edge : grammar_->effects_of(p))
    if (edge.effect.op == Effect::Begin) return true;
  return false;
}

// Whether entries begin only right after the effects that begin members.
bool Arena::begins_entries_only_first(const Rule& rule) const {
  const Grammar& g = *grammar_;
  std::vector<uint8_t> begins_entry_at(static_cast<size_t>(rule.size), 0);
  bool is_first = true, has_some = false;
  for (int32_t i = 0; i < rule.size; ++i)
    has_some |= begins_entry_at[static_cast<size_t>(i)] = begins_entry(rule.base + i);
  for (int32_t i = 0; has_some && is_first && i < rule.size; ++i) {
    const Position& p = g.positions[rule.base + i];
    auto visit = [&](int32_t to) { is_first &= !begins_entry_at[static_cast<size_t>(to - rule.base)]; };
    g.each_next(p, visit);
    for (const CallEdge& call : g.calls_of(p)) visit(call.after);
    for (const TokenEdge& edge : g.tokens_of(p)) visit(edge.to);
    for (const EffectEdge& edge : g.effects_of(p))
      if (edge.effect.op != Effect::Put) visit(edge.to);
  }
  return is_first && !begins_entry(rule.start);
}

bool Arena::can_begin_entry(const Thread& t, int call_depth) {
  if (continues_on_nearest_way(t, kMaxNearSteps)) return true;
  const Ahead& ahead = ahead_of(t.pos);
  const Rule& rule = grammar_->rule_at(t.pos);
  if (ahead.ends_scope || (ahead.ends_permutation && may_end(rule, t.reg))) return true;
  auto caller_can_begin = [&](const Thread& caller) {
    return call_depth == kMaxCalls || can_begin_entry(caller, call_depth + 1);
  };
  if (ahead.ends_frame && can_return(t, caller_can_begin)) return true;
  for (int32_t to : ahead.begins) {
    const Thread entry{to, t.reg, t.ret, uniqueness_.begin(t.mem)};
    // The bytes before the entry are not read, so nothing is known about the outer entries.
    const int outer_count = std::max(uniqueness_.count_open_entries(entry.mem).first - 1, 0);
    if (unbounded_.begins_unbounded_string(to) || !uniqueness_.may_become_seen_inside(entry.mem, outer_count))
      return true;
    const int32_t count = counts_.at(to);
    if (has_more_values(count, entry.mem)) return true;
    const std::optional<Uniqueness::StringAhead> string = uniqueness_.string_ahead(entry.mem);
    std::optional<bool> answer;
    if (string && !string->is_opened) answer = any_new_string(to, *string);
    if (answer ? *answer : has_more_than_seen_ahead(count, entry) || innermost_can_end_new(entry)) return true;
  }
  for (int32_t i : ahead.members) {  // a member without an entry, or the way from one entry to the next
    const EffectEdge& e = grammar_->effects[i];
    if (!allows(rule, e.effect, t.reg)) continue;
    if (e.effect.op == Effect::Put && has_no_entry(e)) return true;
    Thread next = t;
    next.pos = e.to;
    if (apply(rule, e.effect, next) && can_begin_entry(next, call_depth)) return true;
  }
  for (int32_t i : ahead.calls) {
    if (call_depth == kMaxCalls) return true;
    if (can_begin_entry(callee_thread(t, grammar_->calls[i]), call_depth + 1)) return true;
  }
  return false;
}

// Whether a rule's own positions begin entries of the scope in which the rule is called.
bool Arena::has_own_entries(int32_t rule) {
  const Grammar& g = *grammar_;
  if (has_own_entries_.empty()) has_own_entries_.assign(g.rules.size(), -1);
  if (has_own_entries_[rule] >= 0) return has_own_entries_[rule] > 0;
  bool begins_entries = false, opens_scopes = false;
  for (int32_t i = 0; i < g.rules[rule].size; ++i) {
    const Position& p = g.positions[g.rules[rule].base + i];
    for (const EffectEdge& edge : g.effects_of(p)) {
      begins_entries |= edge.effect.op == Effect::Begin;
      opens_scopes |= edge.effect.op == Effect::Open;
    }
  }
  has_own_entries_[rule] = begins_entries && !opens_scopes;
  return begins_entries && !opens_scopes;
}

const Arena::Ahead& Arena::ahead_of(int32_t position) {
  if (ahead_of_.empty()) ahead_of_.assign(grammar_->positions.size(), -1);
  if (ahead_of_[position] < 0) compute_ahead(position);
  return *aheads_[static_cast<size_t>(ahead_of_[position])];
}

// What comes first on one way from a position, found by depth-first search. All positions on this way get the result.
const Arena::Ahead& Arena::nearest_ahead_of(int32_t position) {
  if (nearest_ahead_of_.empty()) nearest_ahead_of_.assign(grammar_->positions.size(), -1);
  struct Step {
    int32_t position;
    std::vector<int32_t> next;
  };
  std::vector<Step> way;
  std::vector<int32_t> visited;
  int32_t result = nearest_ahead_of_[position];
  auto enter = [&](int32_t step_position) {
    Step& step = way.emplace_back(Step{step_position, {}});
    visited.push_back(step_position);
    if (const Ahead own = ahead_at(step_position, step.next); own != Ahead{}) result = intern_ahead(own);
  };
  if (result < 0) enter(position);
  while (result < 0 && !way.empty()) {
    std::vector<int32_t>& next = way.back().next;
    if (next.empty() || visited.size() >= kMaxPathPositions) {
      way.pop_back();
      continue;
    }
    const int32_t to = next.back();
    next.pop_back();
    if (std::ranges::find(visited, to) != visited.end()) continue;
    if (nearest_ahead_of_[to] >= 0)
      result = nearest_ahead_of_[to];
    else
      enter(to);
  }
  if (result < 0) {  // nothing was found within reach
    result = intern_ahead({});
    way.push_back({position, {}});
  }
  for (const Step& step : way) nearest_ahead_of_[step.position] = result;
  return *aheads_[static_cast<size_t>(result)];
}

// What comes first right at a position. Appends the positions at which the frame continues to `next`.
Arena::Ahead Arena::ahead_at(int32_t position, std::vector<int32_t>& next) {
  const Grammar& g = *grammar_;
  const Position& p = g.positions[position];
  Ahead out;
  (g.rules[p.rule].kind == RuleKind::Set ? out.ends_permutation : out.ends_frame) = p.accept;
  g.each_next(p, [&](int32_t to) { next.push_back(to); });
  for (int32_t i = p.call_lo; i < p.call_hi; ++i) {
    if (has_own_entries(g.calls[i].rule))
      out.calls.push_back(i);
    else
      next.push_back(g.calls[i].after);  // rules that the called rule calls are not searched for entries
  }
  for (const TokenEdge& edge : g.tokens_of(p)) next.push_back(edge.to);
  for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) {
    const EffectEdge& e = g.effects[i];
    if (e.effect.op == Effect::Begin)
      out.begins.push_back(e.to);
    else if (e.effect.op == Effect::Put || e.effect.op == Effect::More)
      out.members.push_back(i);
    else if (e.effect.op == Effect::Close)
      out.ends_scope = true;
    else
      next.push_back(e.to);
  }
  sort_unique(next);
  return out;
}

void Arena::Ahead::add(const Ahead& more) {
  begins.insert(begins.end(), more.begins.begin(), more.begins.end());
  members.insert(members.end(), more.members.begin(), more.members.end());
  calls.insert(calls.end(), more.calls.begin(), more.calls.end());
  ends_permutation |= more.ends_permutation;
  ends_frame |= more.ends_frame;
  ends_scope |= more.ends_scope;
}

// Positions that reach each other have the same answer, so it is computed once per component (Tarjan, 1972).
void Arena::compute_ahead(int32_t from) {
  struct Visit {
    int32_t position, index, low;
    std::vector<int32_t> next;
    Ahead ahead;
  };
  std::vector<Visit> visits;
  std::vector<int32_t> unfinished;  // positions of unfinished components, by index; ahead_of_ has -2 - index for them
  auto enter = [&](int32_t position) {
    const auto index = static_cast<int32_t>(unfinished.size());
    ahead_of_[position] = -2 - index;
    unfinished.push_back(position);
    Visit& visit =
        visits.emplace_back(Visit{.position = position, .index = index, .low = index, .next = {}, .ahead = {}});
    visit.ahead = ahead_at(position, visit.next);
  };
  enter(from);
  while (!visits.empty()) {
    Visit& current = visits.back();
    if (!current.next.empty()) {
      const int32_t to = current.next.back(), number = ahead_of_[to];
      current.next.pop_back();
      if (number >= 0)
        current.ahead.add(*aheads_[static_cast<size_t>(number)]);
      else if (number < -1)
        current.low = std::min(current.low, -2 - number);
      else
        enter(to);
      continue;
    }
    const Visit finished = std::move(current);
    visits.pop_back();
    if (finished.low == finished.index) {
      const int32_t number = intern_ahead(finished.ahead);
      for (; unfinished.size() > static_cast<size_t>(finished.index); unfinished.pop_back())
        ahead_of_[unfinished.back()] = number;
      if (!visits.empty()) visits.back().ahead.add(*aheads_[static_cast<size_t>(number)]);
    } else {
      visits.back().low = std::min(visits.back().low, finished.low);
      visits.back().ahead.add(finished.ahead);
    }
  }
}

int32_t Arena::intern_ahead(Ahead ahead) {
  for (std::vector<int32_t>* list : {&ahead.begins, &ahead.members, &ahead.calls}) {
    sort_unique(*list);
  }
  auto [it, inserted] = ahead_numbers_.try_emplace(std::move(ahead), static_cast<int32_t>(aheads_.size()));
  if (inserted) aheads_.push_back(&it->first);
  return it->second;
}

}  // namespace guided
