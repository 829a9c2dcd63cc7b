// Completions that are alike: computed once for all counts (completion.hpp).
//
// Problem: the text of `a{1000000}` is a million iterations, and the fewest tokens that spell it are a sum over all of
// them: tokens cross from one into the next. Nested counts multiply.
//
// How: what stands in front of a text asks of it only its *window*: as many symbols as the longest token has bytes, and
// what each costs more than the whole. Windows are numbered; equal ones have equal numbers. So
//   - a rule that is called by several callers whose texts behind it have equal windows needs the same tokens for each,
//     and as many more as they differ in;
//   - iterations of a frame that are all alike, as those of a counter far from its bounds are, have windows that must
//     come round: from the last iteration backwards each window follows from the one behind it alone. Once one comes
//     again, all further iterations repeat what lies between the two, whatever the count.
// That a frame's text leads from one iteration to the next, and leaves the memory as it was, is checked on the texts
// themselves. The number is that of the construction iteration by iteration, not an estimate.
//
// In: a configuration. Out: its completion, copied from one that is alike; or what has to be known first.
// Cost: iterations up to where windows repeat, at most some thousand; for others a look-up.
#include <algorithm>

#include "budget/completion.hpp"

namespace guided {

namespace {
constexpr int64_t kFewRounds = 8;      // that are not worth it
constexpr size_t kMostRounds = 4096;   // in which windows come round, or are given up
constexpr size_t kMostPieces = 4096;   // of one iteration
constexpr size_t kMostNumbers = 4096;  // of one window
enum Mark : int32_t { kUnlike = -1, kCannot = -2, kEither = -3, kFence = -4, kEnd = -5 };
}  // namespace

// ---- windows
// Adds what can be seen of a text; false where that is too much.
bool CompletionFinder::describe(int32_t config, int64_t base, size_t left, std::vector<int32_t>& out) {
  auto add_cost = [&](int64_t cost) {
    const int64_t more = cost >= kFar ? kFar : cost - base;
    out.push_back(static_cast<int32_t>(more));
    out.push_back(static_cast<int32_t>(more >> 32));
  };
  for (;;) {
    const Completion& c = completion(config);
    if (out.size() > kMostNumbers) return false;
    if (!c.either.empty() || c.drafted >= 0) {
      out.insert(out.end(), {kEither, static_cast<int32_t>(c.either.size()), c.drafted >= 0});
      add_cost(c.total);
      for (int32_t one : c.either)
        if (!describe(one, base, left, out)) return false;
      if (c.drafted >= 0 && !describe(c.drafted, base, left, out)) return false;
      if (!c.either.empty()) return true;
    }
    if (c.fenced || c.impossible) {
      out.push_back(c.impossible ? kCannot : kFence);
      add_cost(c.total);
      return true;
    }
    add_cost(c.total);
    for (size_t i = 0; i < c.symbols.size() && left > 0; ++i, --left) {
      out.push_back(c.symbols[i] < 256 ? c.symbols[i] : 256);
      add_cost(cost_after(c, i + 1));
      if (c.symbols[i] >= 256) return true;  // no token reaches beyond it
    }
    if (left == 0) return true;
    if (c.next < 0) {
      out.push_back(kEnd);
      return true;
    }
    config = c.next;
  }
}

int32_t CompletionFinder::window(int32_t config) {
  const Completion& c = completion(config);
  if (c.window >= 0) return c.window;
  std::vector<int32_t> seen;
  if (!describe(config, c.total, static_cast<size_t>(masks_.vocabulary().longest), seen)) seen = {kUnlike, config};
  const size_t size = 64 + 4 * seen.size();
  const auto [it, inserted] = windows_.try_emplace(std::move(seen), static_cast<int32_t>(windows_.size()));
  if (inserted) arena_.charge(size);
  const_cast<Completion&>(c).window = it->second;
  return it->second;
}

// ---- copies
// The completion of a configuration that differs from another one in what stands far behind it. False: it is unlike.
bool CompletionFinder::copy(int32_t alike, int64_t tokens, int64_t entries, int32_t config,
                            std::unique_ptr<Completion>& out) {
  const Completion& from = completion(alike);
  if (from.total >= kFar || !from.either.empty() || from.drafted >= 0) return false;
  const Thread at = arena_.config(config).threads[0];
  auto made = std::make_unique<Completion>();
  follow(at, *made);
  if (made->impossible || made->fenced != from.fenced || made->symbols != from.symbols ||
      made->returns != from.returns) {
    written_.erase(made.get());
    return false;
  }
  for (int64_t cost : from.cost) made->cost.push_back(cost + tokens);
  made->total = from.total + tokens;
  made->entries = from.entries + entries;
  made->window = from.window;
  if (from.exit >= 0) made->exit = with_memory(at.ret, at.mem);
  out = std::move(made);
  return true;
}

// Whether the text of a rule leaves the memory as it is, as far as its automaton shows it.
bool CompletionFinder::is_neutral(int32_t r) {
  if (neutral_.empty()) neutral_.assign(grammar_.rules.size(), -1);
  if (neutral_[r] >= 0) return neutral_[r] != 0;
  neutral_[r] = 1;  // while its callees are looked at
  const Rule& rule = grammar_.rules[r];
  bool enters = false, opens = false;
  for (int32_t pos = rule.base; pos < rule.base + rule.size; ++pos) {
    const Position& p = grammar_.positions[pos];
    for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) {
      const Effect::Op op = grammar_.effects[i].effect.op;
      opens |= op == Effect::Open;
      enters |= op == Effect::Begin || op == Effect::Keep;
    }
    for (int32_t i = p.call_lo; i < p.call_hi; ++i) enters |= !is_neutral(grammar_.calls[i].rule);
  }
  neutral_[r] = opens || !enters;
  return neutral_[r] != 0;
}

// Whether a thread stands where a rule was entered, and nothing of an entry is under way.
bool CompletionFinder::enters_alone(const Thread& t) {
  if (t.ret <= kFree || t.pos == kExit) return false;
  const int32_t r = grammar_.positions[t.pos].rule;
  if (t.pos != grammar_.rules[r].start || t.reg != arena_.initial_register(r)) return false;
  return t.mem <= kLastUnknownSet || (!arena_.uniqueness().reading(t.mem) && is_neutral(r));
}

// ---- iterations
// How many iterations that are all alike begin here, this one first; -1: there are none, or too few.
int64_t CompletionFinder::rounds_left(const Thread& t) {
  const Rule& rule = grammar_.rules[grammar_.positions[t.pos].rule];
  if (rule.kind == RuleKind::Plain || rule.choices || rule.min <= kFewRounds) return -1;
  if (t.mem > kLastUnknownSet && arena_.uniqueness().reading(t.mem)) return -1;
  const int64_t count = rule.kind == RuleKind::Counter ? t.reg : arena_.seen(t.reg).count;
  int64_t left = rule.min - 1 - rule.reach - count;
  if (left <= kFewRounds) return -1;
  Thread plain = t;
  if (plain.mem < 0) plain.mem = kOutside;
  const ShortestText::Choice c = tree_.choose(plain);
  if (c.kind != ShortestText::Choice::Operate || c.cost > kFar) return -1;
  const Effect& e = grammar_.effects[c.index].effect;
  if (rule.kind == RuleKind::Counter) return e.op == Effect::Inc ? left : -1;
  if (e.op != Effect::Put) return -1;
  const SeenSet& seen = arena_.seen(t.reg);
  const auto member = static_cast<size_t>(e.a);
  for (size_t w = 0; w < seen.bits.size(); ++w) left -= __builtin_popcountll(rule.required_bits[w] & ~seen.bits[w]);
  return seen.has(member) && rule.repeatable[member] == kRepeatable && left > kFewRounds ? left : -1;
}

// The same thread with another count.
Thread CompletionFinder::in_round(const Thread& thread, int64_t count) {
  Thread out = thread;
  const bool counter = grammar_.rules[grammar_.positions[thread.pos].rule].kind == RuleKind::Counter;
  out.reg = counter ? static_cast<int32_t>(count) : arena_.with_count(thread.reg, count);
  return out;
}

// The next one from the end, whose completion is known: whether it leads to the one before.
bool CompletionFinder::add_round(Rounds& rounds, int32_t config) {
  if (rounds.configs.size() >= kMostRounds || completion(config).total >= kFar) return false;
  int32_t at = rounds.configs.empty() ? -1 : config;
  for (size_t pieces = 0; at >= 0 && at != rounds.configs.back(); ++pieces) {
    const Completion& c = completion(at);
    if (pieces > kMostPieces || c.returns || c.next < 0 || !c.either.empty() || c.drafted >= 0) return false;
    const Config& next = arena_.config(c.next);
    if (next.count != 1 || next.threads[0].pos == kExit) return false;
    const bool same = next.threads[0].ret == rounds.last.ret;
    const Completion* callee = same ? nullptr : completions_.get(c.next);
    if (!same && (!callee || callee->exit < 0)) return false;
    at = same ? c.next : callee->exit;
  }
  const auto [it, inserted] = rounds.windows.try_emplace(window(config), rounds.configs.size());
  if (!inserted && rounds.period == 0) {
    rounds.first = it->second;
    rounds.period = rounds.configs.size() - it->second;
  }
  rounds.configs.push_back(config);
  return true;
}

// As take_alike(), of one of several iterations.
int32_t CompletionFinder::take_round(const Thread& t, int64_t left, int32_t config, std::unique_ptr<Completion>& out) {
  const int32_t behind = with_memory(t.ret, t.mem);
  const bool counter = grammar_.rules[grammar_.positions[t.pos].rule].kind == RuleKind::Counter;
  Rounds& rounds = rounds_[{t.pos, counter ? 0 : in_round(t, 0).reg, t.mem, window(behind)}];
  const int64_t count = (counter ? t.reg : arena_.seen(t.reg).count) + left;
  if (rounds.configs.empty() && !rounds.unlike) {
    rounds.count = count;
    rounds.last = in_round(t, count);
  }
  const auto wanted = static_cast<size_t>(left);
  while (!rounds.unlike && rounds.period == 0 && rounds.configs.size() <= wanted) {
    const auto back = static_cast<int64_t>(rounds.configs.size());
    const int32_t next = arena_.intern({in_round(rounds.last, rounds.count - back)}, false);
    if (next == config) return -1;  // it is constructed
    if (!completions_.get(next)) return next;
    rounds.unlike = !add_round(rounds, next);
  }
  if (rounds.unlike) return -1;
  size_t at = wanted;
  int64_t tokens = 0, entries = 0;
  if (at >= rounds.configs.size()) {
    const size_t times = (at - rounds.first) / rounds.period;
    at = rounds.first + (at - rounds.first) % rounds.period;
    const Completion& from = completion(rounds.configs[rounds.first]);
    const Completion& to = completion(rounds.configs[rounds.first + rounds.period]);
    tokens = static_cast<int64_t>(times) * (to.total - from.total);
    entries = static_cast<int64_t>(times) * (to.entries - from.entries);
  }
  const int32_t other = with_memory(rounds.last.ret, rounds.last.mem);
  tokens += completion(behind).total - completion(other).total;
  entries += completion(behind).entries - completion(other).entries;
  if (rounds.configs[at] != config) copy(rounds.configs[at], tokens, entries, config, out);
  return -1;
}

// Makes a completion from one that is alike. A configuration: its completion has to be known before.
int32_t CompletionFinder::take_alike(int32_t config, std::unique_ptr<Completion>& out) {
  const Config& c = arena_.config(config);
  if (c.count != 1 || c.threads[0].pos == kExit || c.threads[0].ret == kTop || c.threads[0].ret == kFree) return -1;
  const Thread t = c.threads[0];
  if (grammar_.is_later(t.pos)) return -1;
  const bool enters = enters_alone(t);
  const int64_t left = rounds_left(t);
  if (!enters && left < 0) return -1;
  const int32_t behind = with_memory(t.ret, t.mem);
  if (!completions_.get(behind)) return behind;
  if (completion(behind).total >= kFar) return -1;
  if (enters) {
    const auto it = alike_.find({t.pos, t.reg, t.mem, window(behind)});
    if (it != alike_.end()) {
      const Thread other = arena_.config(it->second).threads[0];
      const Completion& there = completion(with_memory(other.ret, other.mem));
      const Completion& here = completion(behind);
      if (copy(it->second, here.total - there.total, here.entries - there.entries, config, out)) return -1;
    }
  }
  return left < 0 ? -1 : take_round(t, left, config, out);
}

// Remembers a completion for those that are alike.
void CompletionFinder::keep_alike(int32_t config) {
  const Config& c = arena_.config(config);
  if (c.count != 1 || c.threads[0].pos == kExit) return;
  const Thread t = c.threads[0];
  const Completion& made = completion(config);
  if (!enters_alone(t) || made.total >= kFar || made.exit < 0 || made.exit != with_memory(t.ret, t.mem)) return;
  if (alike_.try_emplace({t.pos, t.reg, t.mem, window(made.exit)}, config).second) arena_.charge(64);
}

}  // namespace guided
