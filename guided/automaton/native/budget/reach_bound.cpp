// A bound on the distance after any one token, for states with seen sets (uniqueness.hpp). If the remaining budget is
// larger, the plain mask is right, and no token has to be examined (BudgetMasks::reach computes the exact number).
//
// In: a state. Out: a distance that no allowed token exceeds; kUnreachable if no bound is known.
//
// How: each thread gets a memory without values (Uniqueness::noting). So the length of the text to the end after each
// token, in bytes, is computed once per position, caller and nesting of scopes. It does not depend on the values.
//
// With values, a current entry may have to end differently. If at least two characters or digits can be repeated where
// the entry is, there are at least 2^n ways to write n more of them. If fewer than 2^n values were seen, one of these
// ways gives an unseen value, and the rest of the text is unchanged. The way that new_entry.hpp finds has the fewest
// bytes, so it is no longer than this one. The same holds if such a repetition is a few bytes ahead, or in an entry
// that must come next. All other tokens, and those after which the text writes more entries, are examined one by one if
// there are few.
//
// Cost: a look-up per thread, and examining these few tokens.
#include "budget/budgets.hpp"

namespace guided {

namespace {
constexpr size_t kMaxInspected = 64;
constexpr size_t kMaxThreads = 64;      // on the way to a repetition
constexpr int64_t kMaxBytes = 1 << 14;  // of a text
}  // namespace

int64_t BudgetMasks::text_bytes(int32_t config) {
  auto [it, inserted] = text_bytes_.try_emplace(config, kUnreachable);
  if (!inserted) return it->second;
  const Uniqueness& uniqueness = arena_.uniqueness();
  int64_t sum = 0;
  int32_t entries = -1;
  for (int32_t at = config; at >= 0;) {
    const Completion& c = completions_.completion(at);
    if (c.total >= kUnreachable || completions_.is_draft(at)) return kUnreachable;
    for (const Thread& t : arena_.config(at)) {
      if (t.pos == kExit) continue;
      const int32_t own_entries = uniqueness.entries(t.mem);
      if (entries >= 0 && own_entries > entries) return kUnreachable;
      entries = std::max(entries, own_entries);
    }
    sum += static_cast<int64_t>(c.symbols.size());
    if (sum > kMaxBytes) return kUnreachable;
    at = c.next;
    for (int32_t one : c.either)
      if (completions_.completion(one).total == c.total) at = one;
  }
  arena_.charge(48);
  return text_bytes_[config] = sum;
}

// The nearest thread, before any entry ends, at which characters or digits repeat, and the number of bytes to it.
std::optional<std::pair<Thread, int64_t>> BudgetMasks::nearest_repeat(const Thread& thread) {
  const Grammar& g = arena_.grammar();
  std::vector<std::pair<Thread, int64_t>> open{{thread, 0}};
  std::unordered_set<Thread, ThreadHash> visited{thread};
  auto lead = [&](const Thread& to, int64_t bytes) {
    if (open.size() < kMaxThreads && visited.insert(to).second) open.push_back({to, bytes});
  };
  for (size_t i = 0; i < open.size(); ++i) {
    const auto [t, bytes] = open[i];
    if (arena_.repeats(t.pos)) return open[i];
    const Position& p = g.positions[t.pos];
    for (const CallEdge& call : g.calls_of(p)) lead(arena_.called(t, call), bytes);
    std::vector<int32_t> led;
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      const int32_t to = p.bytes.has(byte) ? g.step(t.pos, byte) : -1;
      if (to < 0 || std::find(led.begin(), led.end(), to) != led.end()) continue;
      led.push_back(to);
      lead({to, t.reg, t.ret, arena_.uniqueness().read(t.mem, byte)}, bytes + 1);
    }
    for (const EffectEdge& e : g.effects_of(p)) {
      Thread after = t;
      if (e.effect.op == Effect::Keep || !arena_.apply(g.rules[p.rule], e.effect, after)) continue;
      after.pos = e.to;
      lead(after, bytes);
    }
    if (!p.accept || !arena_.may_end(g.rules[p.rule], t.reg)) continue;
    for (const Thread& caller : arena_.config(t.ret))
      if (caller.pos != kExit) lead({caller.pos, caller.reg, caller.ret, t.mem}, bytes);
  }
  return std::nullopt;
}

// The start of the entry that the tree's text writes next, and the number of bytes before it.
std::optional<std::pair<Thread, int64_t>> BudgetMasks::next_entry(Thread at) {
  const Grammar& g = arena_.grammar();
  int64_t bytes = 0;
  for (size_t step = 0; step < kMaxThreads; ++step) {
    const ShortestText::Choice c = completions_.new_entry().tree().choose(at);
    if (c.cost > kUnreachable || c.kind == ShortestText::Choice::Token) return std::nullopt;
    if (c.kind == ShortestText::Choice::End) {
      const Config& ret = arena_.config(at.ret);
      if (ret.count != 1 || ret.threads[0].pos == kExit) return std::nullopt;
      const int32_t mem = at.mem;
      at = ret.threads[0];
      at.mem = mem;
    } else if (c.kind == ShortestText::Choice::Byte) {
      const auto byte = static_cast<uint8_t>(c.index);
      at = {g.step(at.pos, byte), at.reg, at.ret, arena_.uniqueness().read(at.mem, byte)};
      ++bytes;
    } else if (c.kind == ShortestText::Choice::Call) {
      at = arena_.called(at, g.calls[c.index]);
    } else {
      const EffectEdge& e = g.effects[c.index];
      const bool scope = e.effect.op == Effect::Open || e.effect.op == Effect::Close;
      if (scope || !arena_.apply(g.rule_at(at.pos), e.effect, at)) return std::nullopt;
      at.pos = e.to;
      if (e.effect.op == Effect::Begin) return std::pair{at, bytes};
    }
  }
  return std::nullopt;
}

// The bytes of a text to the end that passes a thread at which characters repeat; kUnreachable: none is known.
int64_t BudgetMasks::repeating_bytes(const Thread& thread) {
  auto through = [&](const Thread& from) {
    const auto repeat = nearest_repeat(from);
    return repeat ? repeat->second + text_bytes(arena_.intern({repeat->first}, false)) : kUnreachable;
  };
  const int64_t here = arena_.uniqueness().in_entry(thread.mem) ? through(thread) : kUnreachable;
  if (here < kUnreachable || arena_.uniqueness().between(thread.mem) < 0) return std::min(here, kUnreachable);
  const auto next = next_entry(thread);
  return next ? std::min(kUnreachable, next->second + through(next->first)) : kUnreachable;
}

// Whether tokens that lead to a state must be examined. 0: no; 1: if an entry that was being read before the token may
// still become a seen value; 2: always.
int BudgetMasks::doubt(int32_t state, int64_t& bytes) {
  if (state == kDead) return 2;
  Uniqueness& uniqueness = arena_.uniqueness();
  const std::vector<Thread> threads(arena_.config(state).begin(), arena_.config(state).end());
  int out = 0;
  for (const Thread& t : threads) {
    if (t.pos == kExit) continue;
    int64_t needed = text_bytes(arena_.intern({t}, false));
    const bool hangs = uniqueness.in_entry(t.mem) && !arena_.repeats(t.pos);
    if (hangs || needed >= kUnreachable) {
      const int64_t repeating = repeating_bytes(t);
      if (repeating >= kUnreachable) out = std::max(out, needed < kUnreachable && uniqueness.none_begun(t.mem) ? 1 : 2);
      if (repeating < kUnreachable) needed = needed < kUnreachable ? std::max(needed, repeating) : repeating;
    }
    if (needed >= kUnreachable) return 2;
    bytes = std::max(bytes, needed);
  }
  return out;
}

const BudgetMasks::Bound& BudgetMasks::bound(const Thread& thread, TokenTable& table) {
  Thread noting = thread;
  noting.mem = arena_.uniqueness().noting(thread.mem);
  auto [it, inserted] = bounds_.try_emplace(noting);
  Bound& out = it->second;
  if (!inserted) return out;
  const int32_t from = arena_.lone(noting);
  auto add = [&](int32_t state, auto&& each) {
    const int doubtful = doubt(state, out.bytes);
    if (doubtful > 0 && out.known)
      each([&](int32_t token) {
        (doubtful == 1 ? out.if_alive : out.always).push_back(token);
        out.known = out.always.size() <= kMaxInspected;
      });
  };
  out.known = !table.overflow;
  if (out.known) {
    const std::shared_ptr<const TokenGroups> all = groups(noting, table);
    for (const TokenGroup& g : *all) add(step(from, g.one), [&](auto&& use) { g.tokens.each(use); });
    masks_.each_remainder(noting, table,
                          [&](int32_t token, int32_t state) { add(state, [&](auto&& use) { use(token); }); });
  }
  out.many_if_alive = out.if_alive.size() > kMaxInspected;
  if (out.many_if_alive) out.if_alive = {};
  arena_.charge(sizeof(Bound) + 64 + 4 * (out.if_alive.size() + out.always.size()));
  return out;
}

bool BudgetMasks::is_bounded(int32_t state) const {
  return arena_.config(state).remembers && arena_.grammar().token_distance.empty() && masks_.vocabulary().byte_complete;
}

// Some token may lead to a shorter text than the state's own. reach_bound() is about the texts after tokens.
int64_t BudgetMasks::distance(int32_t state) {
  int64_t least = completions_.distance(state);
  if (least <= 1 || !is_bounded(state)) return least;
  std::vector<int32_t> first;
  completions_.first_tokens(state, first);
  for (int32_t token : first)
    if (const int64_t needed = after(state, token); needed < least - 1) least = needed + 1;
  return least;
}

int64_t BudgetMasks::reach_bound(int32_t state) {
  if (!is_bounded(state)) return kUnreachable;
  const Config& c = arena_.config(state);
  Uniqueness& uniqueness = arena_.uniqueness();
  int64_t most = 0;
  std::vector<int32_t> looked_at;
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    const Position& p = arena_.grammar().positions[t.pos];
    if (p.token_lo < p.token_hi || t.mem <= kLastUnknownSet) return kUnreachable;
    if (p.bytes.count() == 0) continue;
    const Bound& b = bound(t, masks_.table(t));
    if (!b.known) return kUnreachable;
    int64_t extra = 1;
    for (int64_t values = uniqueness.written(t.mem) + masks_.vocabulary().longest; values > 0; values /= 2) ++extra;
    most = std::max(most, b.bytes + extra);
    looked_at.insert(looked_at.end(), b.always.begin(), b.always.end());
    if (!uniqueness.alive(t.mem)) continue;
    if (b.many_if_alive) return kUnreachable;
    looked_at.insert(looked_at.end(), b.if_alive.begin(), b.if_alive.end());
  }
  for (int32_t token : looked_at)
    if (const int64_t needed = after(state, token); needed < INT64_MAX) most = std::max(most, needed);
  return most;
}

}  // namespace guided
