// Whether a thread in a scope whose values must differ (memory.hpp) can go on: what Arena::close() asks of each.
//
// In: a thread that reads an entry, or stands between two. Out: false where the entry can only end with values that
// were there, or where nothing but another entry comes next and none that may begin could end with a new value.
//
// How: what is met first on the ways through a position's frame is found once for all that reach each other. An entry
// that is a string without end (endless_strings.hpp) always has a new value, and so has one with more values ahead of it
// (value_counts.hpp) than were there; of others, those that may still become a value that was there ask for a way to
// another end (`viable`, fresh_entry.hpp).
// Cost: a look-up, but for the ways of fresh_entry.hpp; once for each position, O(its edges and what it meets).
#include <algorithm>

#include "arena.hpp"

namespace guided {

bool Arena::leads_to_an_end(const Thread& t) {
  if (t.mem <= kLastUntold || !viable) return true;
  if (memories_.in_string(t.mem) && endless_.goes_on(t.pos)) return true;
  if (memories_.between(t.mem) >= 0 && memories_.run_out && !can_begin_entry(t)) return false;
  if (!memories_.alive(t.mem)) return true;
  if (!memories_.in_string(t.mem) && endless_.begins_string(t.pos)) return true;  // whatever was read before it
  return has_more(values_ahead(t), t.mem) || viable(t);
}

// Whether some of at least `count` values that entries under way may end with is new.
bool Arena::has_more(int32_t count, int32_t memory) {
  if (count == ValueCounts::kMany) return true;
  return count > 0 && memories_.in_scalar(memory) && count > memories_.ahead(memory);
}

// At least so many values may still become of each of the entries under way (value_counts.hpp).
int32_t Arena::values_ahead(const Thread& t) {
  constexpr int kMostFrames = 16;
  int32_t most = counts_.at(t.pos, t.reg);
  Thread at = t;
  for (int frame = 0; frame < kMostFrames && most < ValueCounts::kMany && counts_.passes(at.pos); ++frame) {
    const Config& ret = config(at.ret);
    if (ret.count == 0 || ret.threads[0].pos == kExit) break;
    for (const Thread& caller : ret)
      if (caller.pos != kExit) most = std::max(most, counts_.at(caller.pos, caller.reg));
    at = ret.threads[0];
  }
  return most;
}

bool Arena::goes_on_surely(const Thread& t, bool all_new) {
  if (t.pos == kExit || !memories_.in_scope(t.mem)) return true;
  if (!all_new && memories_.in_entry(t.mem) && values_ahead(t) < ValueCounts::kMany) return false;
  if (memories_.between(t.mem) < 0 || !memories_.run_out) return true;
  const Ahead& ahead = ahead_of(t.pos);
  const Rule& rule = grammar_->rules[grammar_->positions[t.pos].rule];
  if (ahead.other || (ahead.ends && may_end(rule, t.reg))) return true;
  auto plenty = [&](int32_t to) { return endless_.begins_string(to) || counts_.at(to) == ValueCounts::kMany; };
  return ahead.members.empty() && std::any_of(ahead.begins.begin(), ahead.begins.end(), plenty);
}

bool Arena::can_begin_entry(const Thread& t) {
  const Ahead& ahead = ahead_of(t.pos);
  const Rule& rule = grammar_->rules[grammar_->positions[t.pos].rule];
  if (ahead.other || (ahead.ends && may_end(rule, t.reg))) return true;
  for (int32_t to : ahead.begins) {
    const Thread entry{to, t.reg, t.ret, memories_.begin(t.mem)};
    // What is read before the entry begins is left out: nothing can be said of the entries around it.
    const int around = std::max(memories_.under_way(entry.mem).first - 1, 0);
    if (endless_.begins_string(to) || !memories_.alive_inside(entry.mem, around)) return true;
    if (has_more(counts_.at(to), entry.mem) || viable_inside(entry)) return true;
  }
  for (int32_t i : ahead.members) {  // a member that is no entry; or, after one, the way to the next
    const EffectEdge& e = grammar_->effects[i];
    Thread after = t;
    if (!apply(rule, e.effect, after)) continue;
    after.pos = e.to;
    const Ahead& inside = ahead_of(e.to);
    if ((e.effect.op == Effect::Put && inside.begins.empty()) || can_begin_entry(after)) return true;
  }
  return false;
}

const Arena::Ahead& Arena::ahead_of(int32_t position) {
  if (ahead_of_.empty()) ahead_of_.assign(grammar_->positions.size(), -1);
  if (ahead_of_[position] < 0) look_ahead(position);
  return *aheads_[static_cast<size_t>(ahead_of_[position])];
}

// What a position meets by itself; where a way goes on in the frame is added to `next`.
Arena::Ahead Arena::met_at(int32_t position, std::vector<int32_t>& next) const {
  const Grammar& g = *grammar_;
  const Position& p = g.positions[position];
  Ahead out;
  (g.rules[p.rule].kind == RuleKind::Set ? out.ends : out.other) = p.accept;
  g.each_next(p, [&](int32_t to) { next.push_back(to); });
  for (int32_t i = p.call_lo; i < p.call_hi; ++i) next.push_back(g.calls[i].after);  // no entry is looked for inside
  for (int32_t i = p.token_lo; i < p.token_hi; ++i) next.push_back(g.tokens[i].to);
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
  std::ranges::sort(next);
  next.erase(std::ranges::unique(next).begin(), next.end());
  return out;
}

void Arena::Ahead::add(const Ahead& met) {
  begins.insert(begins.end(), met.begins.begin(), met.begins.end());
  members.insert(members.end(), met.members.begin(), met.members.end());
  ends |= met.ends;
  other |= met.other;
}

// Positions that reach each other meet the same: components, as Tarjan (1972) finds them. Those found before are kept.
void Arena::look_ahead(int32_t from) {
  struct Visit {
    int32_t position, index, low;
    std::vector<int32_t> next;
    Ahead met;
  };
  std::vector<Visit> visits;
  std::vector<int32_t> waiting;  // positions of components that are not finished, by index; -2 - index in ahead_of_
  auto enter = [&](int32_t position) {
    const auto index = static_cast<int32_t>(waiting.size());
    ahead_of_[position] = -2 - index;
    waiting.push_back(position);
    Visit& visit = visits.emplace_back(Visit{position, index, index, {}, {}});
    visit.met = met_at(position, visit.next);
  };
  enter(from);
  while (!visits.empty()) {
    Visit& at = visits.back();
    if (!at.next.empty()) {
      const int32_t to = at.next.back(), number = ahead_of_[to];
      at.next.pop_back();
      if (number >= 0)
        at.met.add(*aheads_[static_cast<size_t>(number)]);
      else if (number < -1)
        at.low = std::min(at.low, -2 - number);
      else
        enter(to);
      continue;
    }
    const Visit done = std::move(at);
    visits.pop_back();
    if (done.low == done.index) {
      const int32_t number = intern_ahead(done.met);
      for (; waiting.size() > static_cast<size_t>(done.index); waiting.pop_back()) ahead_of_[waiting.back()] = number;
      if (!visits.empty()) visits.back().met.add(*aheads_[static_cast<size_t>(number)]);
    } else {
      visits.back().low = std::min(visits.back().low, done.low);
      visits.back().met.add(done.met);
    }
  }
}

int32_t Arena::intern_ahead(Ahead met) {
  for (std::vector<int32_t>* list : {&met.begins, &met.members}) {
    std::ranges::sort(*list);
    list->erase(std::ranges::unique(*list).begin(), list->end());
  }
  auto [it, fresh] = ahead_numbers_.try_emplace(std::move(met), static_cast<int32_t>(aheads_.size()));
  if (fresh) aheads_.push_back(&it->first);
  return it->second;
}

}  // namespace guided
