// Whether a thread in a uniqueness scope (uniqueness.hpp) can continue. Arena::close() checks this for each thread.
//
// In: a thread that reads an entry, or is between two. Out: false if the entry can only end with seen values, or if
// another entry must come next and none that may begin can end with an unseen value.
//
// How: the cheapest test that decides comes first.
//   1. An entry that is an unbounded string (unbounded_strings.hpp) always has an unseen value.
//   2. So has an entry that can no longer become any seen value.
//   3. So has an entry that can have more values (value_counts.hpp) than there are seen ones that begin like it.
//   4. If few strings are possible, each is looked up (finite_string_sets.hpp).
//   5. Test 3 again, counting only the seen values that the automaton can still read (seen_ahead.cpp).
//   6. Any other entry needs a way to an unseen value (`viable`, new_entry.hpp).
// Between two entries, what comes first on one way through the frame usually decides. Otherwise everything that may
// come first in the frame is examined, which is computed once for all positions that reach each other. At the end of
// the frame its callers are examined, and at calls of rules in which entries begin, these rules.
//
// Cost: a look-up, except for the ways of new_entry.hpp. Once per position: the edges of the positions on one way. If
// all ways are needed, once per reachable position: O(its edges and what comes first).
#include <algorithm>

#include "run/arena.hpp"

namespace guided {

namespace {
constexpr int kMaxNearSteps = 4;           // members and returns on one way
constexpr size_t kMaxPathPositions = 512;  // positions that are examined for one way
constexpr int kMaxCalls = 8;               // nested calls and returns in which an entry is looked for
}  // namespace

bool Arena::leads_to_an_end(const Thread& t) {
  if (t.mem <= kLastUnknownSet || !viable) return true;
  if (uniqueness_.in_string(t.mem) && unbounded_.goes_on(t.pos)) return true;
  if (uniqueness_.between(t.mem) >= 0 && uniqueness_.run_out && !can_begin_entry(t)) return false;
  if (!uniqueness_.alive(t.mem)) return true;
  if (!uniqueness_.in_string(t.mem) && unbounded_.begins_string(t.pos)) return true;  // whatever came before the string
  const int32_t count = values_ahead(t);
  if (has_more(count, t.mem)) return true;
  const std::optional<bool> known = string_ends_new(t);
  if (known) return *known;
  return has_more_than_seen(count, t) || viable(t);
}

// Whether a string that is the innermost entry can end with an unseen value. nullopt if the thread is not in such a
// string, if there are too many strings, or if an unseen one is left but another entry is around it.
std::optional<bool> Arena::string_ends_new(const Thread& t) {
  if (!uniqueness_.in_string(t.mem)) return std::nullopt;
  const std::optional<Uniqueness::StringAhead> ahead = uniqueness_.string_ahead(t.mem);
  if (!ahead || !ahead->opened) return std::nullopt;
  const std::optional<bool> any = any_new_string(t.pos, *ahead);
  return ahead->inside && any == true ? std::nullopt : any;
}

// Whether a current entry that can have at least `count` values has an unseen one. Only a look-up.
bool Arena::has_more(int32_t count, int32_t memory) {
  if (count == ValueCounts::kMany) return true;
  return count > 0 && uniqueness_.in_scalar(memory) && count > uniqueness_.ahead(memory);
}

// The same, but without the seen values that the automaton cannot read.
bool Arena::has_more_than_seen(int32_t count, const Thread& t) {
  return count > 0 && uniqueness_.in_scalar(t.mem) && count > seen_ahead(t);
}

// A lower bound on the values that each of the current entries can still have (value_counts.hpp).
int32_t Arena::values_ahead(const Thread& t) {
  constexpr int kMaxFrames = 16;
  int32_t most = counts_.at(t.pos, t.reg);
  Thread at = t;
  for (int frame = 0; frame < kMaxFrames && most < ValueCounts::kMany && counts_.passes(at.pos); ++frame) {
    const Config& ret = config(at.ret);
    if (ret.count == 0 || ret.threads[0].pos == kExit) break;
    for (const Thread& caller : ret)
      if (caller.pos != kExit) most = std::max(most, counts_.at(caller.pos, caller.reg));
    at = ret.threads[0];
  }
  return most;
}

bool Arena::goes_on_surely(const Thread& t, bool all_new) {
  if (t.pos == kExit || !uniqueness_.in_scope(t.mem)) return true;
  if (!all_new && uniqueness_.in_entry(t.mem) && values_ahead(t) < ValueCounts::kMany) return false;
  if (uniqueness_.between(t.mem) < 0 || !uniqueness_.run_out) return true;
  if (goes_on_nearly(t, kMaxNearSteps)) return true;
  const Ahead& ahead = ahead_of(t.pos);
  const Rule& rule = grammar_->rule_at(t.pos);
  if (ahead.other || (ahead.ends && may_end(rule, t.reg))) return true;
  return ahead.members.empty() && std::ranges::any_of(ahead.begins, [&](int32_t to) { return has_plenty(to); });
}

// Whether an entry that begins at a position can have any number of values.
bool Arena::has_plenty(int32_t position) {
  return unbounded_.begins_string(position) || counts_.at(position) == ValueCounts::kMany;
}

// Whether a thread between two entries can continue whatever was seen, judged by one way. `most`: members and returns
// on this way.
bool Arena::goes_on_nearly(const Thread& t, int most) {
  const Ahead& near = near_of(t.pos);
  const Rule& rule = grammar_->rule_at(t.pos);
  if (near.other || (near.ends && may_end(rule, t.reg))) return true;
  auto nearly = [&](const Thread& caller) { return most > 0 && goes_on_nearly(caller, most - 1); };
  if (near.returns && returns_to(t, nearly)) return true;
  if (std::ranges::any_of(near.begins, [&](int32_t to) { return has_plenty(to); })) return true;
  for (int32_t i : near.members) {
    const EffectEdge& e = grammar_->effects[i];
    if (most == 0 || !allows(rule, e.effect, t.reg)) continue;
    Thread after = t;
    after.pos = e.to;
    if (e.effect.op == Effect::Put && has_no_entry(e)) return true;
    if (apply(rule, e.effect, after) && goes_on_nearly(after, most - 1)) return true;
  }
  return false;
}

// Whether the output may end with the thread's frame, or some caller can continue.
bool Arena::returns_to(const Thread& t, const std::function<bool(const Thread&)>& goes_on) {
  if (t.ret <= kFree) return true;
  const std::vector<Thread> callers(config(t.ret).begin(), config(t.ret).end());
  return std::ranges::any_of(callers, [&](Thread caller) {
    caller.mem = t.mem;
    return caller.pos == kExit || goes_on(caller);
  });
}

// Whether a member contains no entry. Usually entries begin only right at the start of members, which is quick to see.
bool Arena::has_no_entry(const EffectEdge& put) {
  const Grammar& g = *grammar_;
  const int32_t rule = g.positions[put.to].rule;
  if (entries_first_.empty()) entries_first_.assign(g.rules.size(), -1);
  if (entries_first_[rule] < 0) entries_first_[rule] = begins_entries_first(g.rules[rule]);
  if (!entries_first_[rule]) return ahead_of(put.to).begins.empty() && ahead_of(put.to).calls.empty();
  return !begins_entry(put.to);
}

bool Arena::begins_entry(int32_t position) const {
  const Position& p = grammar_->positions[position];
  for (const EffectEdge& edge : grammar_->effects_of(p))
    if (edge.effect.op == Effect::Begin) return true;
  return false;
}

// Whether entries begin only right after the effects that begin members.
bool Arena::begins_entries_first(const Rule& rule) const {
  const Grammar& g = *grammar_;
  std::vector<uint8_t> begins(static_cast<size_t>(rule.size), 0);
  bool first = true, some = false;
  for (int32_t i = 0; i < rule.size; ++i) some |= begins[static_cast<size_t>(i)] = begins_entry(rule.base + i);
  for (int32_t i = 0; some && first && i < rule.size; ++i) {
    const Position& p = g.positions[rule.base + i];
    auto visit = [&](int32_t to) { first &= !begins[static_cast<size_t>(to - rule.base)]; };
    g.each_next(p, visit);
    for (const CallEdge& call : g.calls_of(p)) visit(call.after);
    for (const TokenEdge& edge : g.tokens_of(p)) visit(edge.to);
    for (const EffectEdge& edge : g.effects_of(p))
      if (edge.effect.op != Effect::Put) visit(edge.to);
  }
  return first && !begins_entry(rule.start);
}

bool Arena::can_begin_entry(const Thread& t, int calls) {
  if (goes_on_nearly(t, kMaxNearSteps)) return true;
  const Ahead& ahead = ahead_of(t.pos);
  const Rule& rule = grammar_->rule_at(t.pos);
  if (ahead.other || (ahead.ends && may_end(rule, t.reg))) return true;
  auto goes_on = [&](const Thread& caller) { return calls == kMaxCalls || can_begin_entry(caller, calls + 1); };
  if (ahead.returns && returns_to(t, goes_on)) return true;
  for (int32_t to : ahead.begins) {
    const Thread entry{to, t.reg, t.ret, uniqueness_.begin(t.mem)};
    // The bytes before the entry are not read, so nothing is known about the entries around it.
    const int around = std::max(uniqueness_.under_way(entry.mem).first - 1, 0);
    if (unbounded_.begins_string(to) || !uniqueness_.alive_inside(entry.mem, around)) return true;
    const int32_t count = counts_.at(to);
    if (has_more(count, entry.mem)) return true;
    const std::optional<Uniqueness::StringAhead> string = uniqueness_.string_ahead(entry.mem);
    std::optional<bool> known;
    if (string && !string->opened) known = any_new_string(to, *string);
    if (known ? *known : has_more_than_seen(count, entry) || viable_inside(entry)) return true;
  }
  for (int32_t i : ahead.members) {  // a member without an entry; or, after an entry, the way to the next one
    const EffectEdge& e = grammar_->effects[i];
    if (!allows(rule, e.effect, t.reg)) continue;
    if (e.effect.op == Effect::Put && has_no_entry(e)) return true;
    Thread after = t;
    after.pos = e.to;
    if (apply(rule, e.effect, after) && can_begin_entry(after, calls)) return true;
  }
  for (int32_t i : ahead.calls) {
    if (calls == kMaxCalls) return true;
    if (can_begin_entry(called(t, grammar_->calls[i]), calls + 1)) return true;
  }
  return false;
}

// Whether entries of the scope in which a rule is called begin at the rule's own positions.
bool Arena::holds_entries(int32_t rule) {
  const Grammar& g = *grammar_;
  if (holds_entries_.empty()) holds_entries_.assign(g.rules.size(), -1);
  if (holds_entries_[rule] >= 0) return holds_entries_[rule] > 0;
  bool begins = false, opens = false;
  for (int32_t i = 0; i < g.rules[rule].size; ++i) {
    const Position& p = g.positions[g.rules[rule].base + i];
    for (const EffectEdge& edge : g.effects_of(p)) {
      begins |= edge.effect.op == Effect::Begin;
      opens |= edge.effect.op == Effect::Open;
    }
  }
  holds_entries_[rule] = begins && !opens;
  return begins && !opens;
}

const Arena::Ahead& Arena::ahead_of(int32_t position) {
  if (ahead_of_.empty()) ahead_of_.assign(grammar_->positions.size(), -1);
  if (ahead_of_[position] < 0) look_ahead(position);
  return *aheads_[static_cast<size_t>(ahead_of_[position])];
}

// What comes first on one way from a position, found depth first. It is the answer for all positions on this way.
const Arena::Ahead& Arena::near_of(int32_t position) {
  if (near_of_.empty()) near_of_.assign(grammar_->positions.size(), -1);
  struct Step {
    int32_t position;
    std::vector<int32_t> next;
  };
  std::vector<Step> way;
  std::vector<int32_t> visited;
  int32_t found = near_of_[position];
  auto enter = [&](int32_t at) {
    Step& step = way.emplace_back(Step{at, {}});
    visited.push_back(at);
    if (const Ahead own = ahead_directly(at, step.next); own != Ahead{}) found = intern_ahead(own);
  };
  if (found < 0) enter(position);
  while (found < 0 && !way.empty()) {
    std::vector<int32_t>& next = way.back().next;
    if (next.empty() || visited.size() >= kMaxPathPositions) {
      way.pop_back();
      continue;
    }
    const int32_t to = next.back();
    next.pop_back();
    if (std::ranges::find(visited, to) != visited.end()) continue;
    if (near_of_[to] >= 0)
      found = near_of_[to];
    else
      enter(to);
  }
  if (found < 0) {  // nothing within reach
    found = intern_ahead({});
    way.push_back({position, {}});
  }
  for (const Step& step : way) near_of_[step.position] = found;
  return *aheads_[static_cast<size_t>(found)];
}

// What comes first directly at a position. Adds the positions at which the frame continues to `next`.
Arena::Ahead Arena::ahead_directly(int32_t position, std::vector<int32_t>& next) {
  const Grammar& g = *grammar_;
  const Position& p = g.positions[position];
  Ahead out;
  (g.rules[p.rule].kind == RuleKind::Set ? out.ends : out.returns) = p.accept;
  g.each_next(p, [&](int32_t to) { next.push_back(to); });
  for (int32_t i = p.call_lo; i < p.call_hi; ++i) {
    if (holds_entries(g.calls[i].rule))
      out.calls.push_back(i);
    else
      next.push_back(g.calls[i].after);  // no entry is searched for deeper inside
  }
  for (const TokenEdge& edge : g.tokens_of(p)) next.push_back(edge.to);
  for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) {
    const EffectEdge& e = g.effects[i];
    if (e.effect.op == Effect::Begin)
      out.begins.push_back(e.to);
    else if (e.effect.op == Effect::Put || e.effect.op == Effect::More)
      out.members.push_back(i);
    else if (e.effect.op == Effect::Close)
      out.other = true;
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
  ends |= more.ends;
  returns |= more.returns;
  other |= more.other;
}

// Positions that reach each other have the same answer, so it is computed once per component (Tarjan, 1972).
void Arena::look_ahead(int32_t from) {
  struct Visit {
    int32_t position, index, low;
    std::vector<int32_t> next;
    Ahead ahead;
  };
  std::vector<Visit> visits;
  std::vector<int32_t> waiting;  // positions of unfinished components, by index; -2 - index in ahead_of_
  auto enter = [&](int32_t position) {
    const auto index = static_cast<int32_t>(waiting.size());
    ahead_of_[position] = -2 - index;
    waiting.push_back(position);
    Visit& visit =
        visits.emplace_back(Visit{.position = position, .index = index, .low = index, .next = {}, .ahead = {}});
    visit.ahead = ahead_directly(position, visit.next);
  };
  enter(from);
  while (!visits.empty()) {
    Visit& at = visits.back();
    if (!at.next.empty()) {
      const int32_t to = at.next.back(), number = ahead_of_[to];
      at.next.pop_back();
      if (number >= 0)
        at.ahead.add(*aheads_[static_cast<size_t>(number)]);
      else if (number < -1)
        at.low = std::min(at.low, -2 - number);
      else
        enter(to);
      continue;
    }
    const Visit done = std::move(at);
    visits.pop_back();
    if (done.low == done.index) {
      const int32_t number = intern_ahead(done.ahead);
      for (; waiting.size() > static_cast<size_t>(done.index); waiting.pop_back()) ahead_of_[waiting.back()] = number;
      if (!visits.empty()) visits.back().ahead.add(*aheads_[static_cast<size_t>(number)]);
    } else {
      visits.back().low = std::min(visits.back().low, done.low);
      visits.back().ahead.add(done.ahead);
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
