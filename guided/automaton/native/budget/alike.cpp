// Completions that are alike: computed once for all counts (completion.hpp).
//
// Problem: the text of `a{1000000}` has a million iterations. The fewest tokens that spell it are a sum over all of
// them, since tokens cross from one iteration into the next. Nested counts multiply.
//
// How: what comes before a text depends only on the text's *window*: as many symbols as the longest token has bytes,
// and the cost from each of them on, relative to the whole. Windows are numbered; equal ones have equal numbers. So
//   - if several callers of a rule have equal windows after the call, the rule needs the same tokens for each of them,
//     and the totals differ as much as the totals of what follows;
//   - if all iterations of a frame are alike, as in a counter far from its bounds, their windows must become periodic:
//     from the last iteration backwards, each window depends only on the one after it. Once a window occurs again, all
//     further iterations repeat what lies between the two, whatever the count.
// Whether a frame's text leads from one iteration to the next, and leaves the memory unchanged, is checked on the texts
// themselves. The result is the same as if each iteration were constructed, not an estimate.
//
// In: a configuration. Out: its completion, copied from one that is alike; or the configuration that is needed first.
// Cost: iterations until windows repeat, at most a few thousand; for all others a look-up.

#include "budget/completion.hpp"

namespace guided {

namespace {
constexpr int64_t kFewRounds = 8;    // so few are not worth the effort
constexpr size_t kMaxRounds = 4096;  // iterations within which windows must repeat
constexpr size_t kMaxPieces = 4096;  // of one iteration
constexpr int kMaxCalls = 64;        // nested calls that end on the way back to a frame
constexpr int64_t kPieceWork = 4;
constexpr size_t kMaxNumbers = 4096;  // of one window
enum Mark : int32_t { kUnlike = -1, kCannot = -2, kEither = -3, kFence = -4, kEnd = -5 };
}  // namespace

// ---- windows
// Appends the window of a text; false if it is too long.
bool CompletionFinder::describe(int32_t config, int64_t base, size_t left, std::vector<int32_t>& out) {
  auto add_cost = [&](int64_t cost) {
    const int64_t more = cost >= kUnreachable ? kUnreachable : cost - base;
    out.push_back(static_cast<int32_t>(more));
    out.push_back(static_cast<int32_t>(more >> 32));
  };
  for (;;) {
    const Completion& c = stored(config);
    if (out.size() > kMaxNumbers) return false;
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
      if (c.symbols[i] >= 256) return true;  // no token extends beyond it
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
  const Completion& c = stored(config);
  if (c.window >= 0) return c.window;
  if (c.copied >= 0) return window(c.copied);
  std::vector<int32_t> seen;
  if (!describe(config, c.total, static_cast<size_t>(masks_.vocabulary().longest), seen)) seen = {kUnlike, config};
  const size_t size = 64 + 4 * seen.size();
  const auto [it, inserted] = windows_.try_emplace(std::move(seen), static_cast<int32_t>(windows_.size()));
  if (inserted) arena_.charge(size);
  const_cast<Completion&>(c).window = it->second;
  return it->second;
}

// ---- copies
// Copies the completion of a configuration that differs only in what comes far after it; false if they are not alike.
bool CompletionFinder::copy(int32_t alike, int64_t tokens, int64_t entries, int32_t config,
                            std::unique_ptr<Completion>& out) {
  const Completion& from = stored(alike);
  if (from.total >= kUnreachable || !from.either.empty() || from.drafted >= 0) return false;
  const Thread at = arena_.config(config).threads[0];
  auto copy = std::make_unique<Completion>();
  follow(at, *copy);
  if (copy->impossible || copy->fenced != from.fenced || copy->symbols != from.symbols ||
      copy->returns != from.returns) {
    written_.erase(copy.get());
    return false;
  }
  for (int64_t cost : from.cost) copy->cost.push_back(cost + tokens);
  copy->total = from.total + tokens;
  copy->entries = from.entries + entries;
  copy->copied = from.copied >= 0 ? from.copied : alike;
  if (from.exit >= 0) copy->exit = with_memory(at.ret, at.mem);
  out = std::move(copy);
  return true;
}

// Finds, from the automata, what the text of each rule may do to a memory.
void CompletionFinder::find_memory_use() {
  const auto rules = static_cast<int32_t>(grammar_.rules.size());
  memory_use_.assign(grammar_.rules.size(), MemoryUse::None);
  std::vector<std::vector<int32_t>> callers(grammar_.rules.size());
  std::vector<int32_t> changing;
  for (int32_t r = 0; r < rules; ++r) {
    const Rule& rule = grammar_.rules[r];
    CallMeter::work(1 + rule.size);
    bool enters = false, opens = false;
    for (const Position& p : grammar_.positions_of(rule)) {
      for (const EffectEdge& edge : grammar_.effects_of(p)) {
        const Effect::Op op = edge.effect.op;
        opens |= op == Effect::Open;
        enters |= op == Effect::Begin || op == Effect::Keep;
      }
      for (const CallEdge& call : grammar_.calls_of(p)) callers[call.rule].push_back(r);
    }
    if (opens) memory_use_[r] = MemoryUse::Own;
    if (enters && !opens) changing.push_back(r);
  }
  while (!changing.empty()) {
    const int32_t r = changing.back();
    changing.pop_back();
    if (memory_use_[r] != MemoryUse::None) continue;
    memory_use_[r] = MemoryUse::Outer;
    changing.insert(changing.end(), callers[r].begin(), callers[r].end());
  }
}

// Whether the text of a thread's frame is known to leave its memory unchanged.
bool CompletionFinder::keeps_memory(const Thread& t) {
  if (t.mem <= kLastUnknownSet) return true;
  if (arena_.uniqueness().reading(t.mem)) return false;
  if (memory_use_.empty()) find_memory_use();
  const MemoryUse use = memory_use_[grammar_.positions[t.pos].rule];
  return use == MemoryUse::None || (use == MemoryUse::Own && enters(t));
}

// Whether a thread is where a rule was entered.
bool CompletionFinder::enters(const Thread& t) {
  const int32_t r = grammar_.positions[t.pos].rule;
  return t.ret > kFree && t.pos == grammar_.rules[r].start && t.reg == arena_.initial_register(r);
}

// ---- iterations
// The number of remaining iterations that are all alike, without the current one; -1: too few.
int64_t CompletionFinder::rounds_left(const Thread& t) {
  const Rule& rule = grammar_.rule_at(t.pos);
  if (rule.kind == RuleKind::Plain || rule.choices || rule.min <= kFewRounds) return -1;
  int64_t left = rule.min - 1 - rule.reach;
  if (rule.kind == RuleKind::Counter) {
    left -= t.reg;
  } else {
    const SeenSet& seen = arena_.seen(t.reg);
    left -= seen.count;
    for (size_t w = 0; w < seen.bits.size(); ++w) left -= __builtin_popcountll(rule.required_bits[w] & ~seen.bits[w]);
  }
  return left > kFewRounds ? left : -1;
}

// The same thread with another count.
Thread CompletionFinder::in_round(const Thread& thread, int64_t count) {
  Thread out = thread;
  const bool counter = grammar_.rule_at(thread.pos).kind == RuleKind::Counter;
  out.reg = counter ? static_cast<int32_t>(count) : arena_.with_count(thread.reg, count);
  return out;
}

// The configuration in which the frame that returns to `caller` continues, once the calls in which `config` is have
// returned; -1: unknown.
int32_t CompletionFinder::in_frame(int32_t config, int32_t caller) {
  for (int calls = 0; config >= 0 && calls < kMaxCalls; ++calls) {
    const Config& c = arena_.config(config);
    if (c.count != 1 || c.threads[0].pos == kExit) return -1;
    if (c.threads[0].ret == caller) return config;
    const Completion* known = completions_.get(config);
    config = known ? known->exit : -1;
  }
  return -1;
}

// Adds the iteration before those already added; its completion is known. False if it does not lead to the next one.
bool CompletionFinder::add_round(Rounds& rounds, int32_t config) {
  if (rounds.configs.size() >= kMaxRounds || stored(config).total >= kUnreachable) return false;
  int32_t at = rounds.configs.empty() ? -1 : config;
  for (size_t pieces = 0; at >= 0 && at != rounds.configs.back(); ++pieces) {
    const Completion& c = stored(at);
    if (pieces > kMaxPieces || c.returns || c.next < 0 || !c.either.empty() || c.drafted >= 0) return false;
    at = in_frame(c.next, rounds.last.ret);
  }
  const auto [it, inserted] = rounds.windows.try_emplace(window(config), rounds.configs.size());
  if (!inserted && rounds.period == 0) {
    rounds.first = it->second;
    rounds.period = rounds.configs.size() - it->second;
  }
  rounds.configs.push_back(config);
  return true;
}

// Whether a text in the frame of the iterations, whose completion is known, leads to the start of an iteration.
bool CompletionFinder::leads_to(Rounds& rounds, int32_t config) {
  const Thread from = arena_.config(config).threads[0];
  const auto [it, inserted] = rounds.leading.try_emplace(from.pos, false);
  if (!inserted) return it->second;
  for (size_t pieces = 0; pieces < kMaxPieces && config >= 0; ++pieces) {
    CallMeter::work(kPieceWork);
    const Thread at = arena_.config(config).threads[0];
    if (at.reg != from.reg) return false;
    if (at.pos == rounds.last.pos) return it->second = true;
    const Completion* c = completions_.get(config);
    if (!c || c->returns || c->next < 0 || !c->either.empty() || c->drafted >= 0) return false;
    config = in_frame(c->next, rounds.last.ret);
  }
  return false;
}

// As take_alike(), for a frame with `left` more iterations.
int32_t CompletionFinder::take_round(const Thread& t, int64_t left, int32_t config, std::unique_ptr<Completion>& out) {
  const int32_t rule = grammar_.positions[t.pos].rule, behind = with_memory(t.ret, t.mem);
  const bool counter = grammar_.rules[rule].kind == RuleKind::Counter;
  const int32_t members = counter ? 0 : in_round(t, 0).reg;
  Rounds*& known = frames_[{rule, members, t.mem, window(behind)}];
  if (!known) known = &rounds_[{t.pos, members, t.mem, window(behind)}];
  Rounds& rounds = *known;
  if (rounds.configs.empty()) {
    rounds.count = (counter ? t.reg : arena_.seen(t.reg).count) + left;
    rounds.last = in_round(t, rounds.count);
  }
  const auto wanted = static_cast<size_t>(left);
  while (t.pos == rounds.last.pos && !rounds.unlike && rounds.period == 0 && rounds.configs.size() <= wanted) {
    const auto back = static_cast<int64_t>(rounds.configs.size());
    const int32_t next = arena_.intern({in_round(rounds.last, rounds.count - back)}, false);
    if (next == config) return -1;  // it must be constructed
    if (!completions_.get(next)) return next;
    rounds.unlike = !add_round(rounds, next);
  }
  if (rounds.unlike) {
    known = nullptr;  // other iterations may begin elsewhere
    return -1;
  }
  if (rounds.period == 0 && rounds.configs.size() <= wanted) return -1;
  const size_t repeating = rounds.first + rounds.period;
  const size_t times = rounds.period == 0 || wanted < repeating ? 0 : (wanted - rounds.first) / rounds.period;
  Thread alike = in_round(t, rounds.count - left + static_cast<int64_t>(times * rounds.period));
  alike.ret = rounds.last.ret;
  const int32_t from = arena_.intern({alike}, false);
  if (from == config) return -1;
  if (!completions_.get(from)) return from;
  if (!leads_to(rounds, from)) return -1;
  int64_t tokens = 0, entries = 0;
  if (times > 0) {
    const Completion &less = stored(rounds.configs[rounds.first]), &more = stored(rounds.configs[repeating]);
    tokens = static_cast<int64_t>(times) * (more.total - less.total);
    entries = static_cast<int64_t>(times) * (more.entries - less.entries);
  }
  const Completion &here = stored(behind), &there = stored(with_memory(alike.ret, alike.mem));
  copy(from, tokens + here.total - there.total, entries + here.entries - there.entries, config, out);
  return -1;
}

// Makes a completion from one that is alike. Returns the configuration whose completion is needed first, or -1.
int32_t CompletionFinder::take_alike(int32_t config, std::unique_ptr<Completion>& out) {
  const Config& c = arena_.config(config);
  if (c.count != 1 || c.threads[0].pos == kExit || c.threads[0].ret == kTop || c.threads[0].ret == kFree) return -1;
  const Thread t = c.threads[0];
  if (grammar_.is_later(t.pos) || !keeps_memory(t)) return -1;
  const int32_t behind = with_memory(t.ret, t.mem);
  if (!completions_.get(behind)) return behind;
  const Completion& here = stored(behind);
  if (here.total >= kUnreachable) return -1;
  int32_t from = -1, other = -1;  // an alike configuration, and what follows it
  if (here.copied >= 0) {
    other = here.copied;
    Thread caller = arena_.config(other).threads[0];
    caller.mem = kOutside;
    Thread alike = t;
    alike.ret = arena_.intern({caller}, false);
    from = arena_.intern({alike}, false);
    if (!completions_.get(from)) return from;
  } else if (enters(t)) {
    const auto it = alike_.find({t.pos, t.reg, t.mem, window(behind)});
    if (it != alike_.end()) {
      from = it->second;
      other = stored(from).exit;
    }
  }
  if (from >= 0 && copy(from, here.total - stored(other).total, here.entries - stored(other).entries, config, out))
    return -1;
  const int64_t left = rounds_left(t);
  return left < 0 ? -1 : take_round(t, left, config, out);
}

// Stores a completion for configurations that are alike.
void CompletionFinder::keep_alike(int32_t config) {
  const Config& c = arena_.config(config);
  if (c.count != 1 || c.threads[0].pos == kExit) return;
  const Thread t = c.threads[0];
  const Completion& completion = stored(config);
  if (!enters(t) || !keeps_memory(t) || completion.total >= kUnreachable || completion.exit < 0 ||
      completion.exit != with_memory(t.ret, t.mem))
    return;
  if (alike_.try_emplace({t.pos, t.reg, t.mem, window(completion.exit)}, config).second) arena_.charge(64);
}

}  // namespace guided
