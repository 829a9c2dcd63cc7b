// Completions of alike configurations: one is computed and copied for the others (completion.hpp).
//
// Problem: the text of `a{1000000}` has a million iterations. To find the fewest tokens that spell it, all of them
// would have to be examined, since tokens cross from one iteration into the next. Nested counts multiply.
//
// How: the tokens before a text depend only on the text's *window*: its first symbols, as many as the longest token has
// bytes, and the cost from each of them on, relative to the cost of the whole text. Windows are numbered, and equal
// windows have equal numbers. So
//   - if several callers of a rule have equal windows after the call, the rule needs the same tokens for each of them,
//     and the totals differ by as much as the totals of the texts after the call;
//   - if all iterations of a frame are alike, as in a counter far from its bounds, their windows must become periodic.
//     From the last iteration backwards, each window depends only on the window after it. Once a window occurs again,
//     all further iterations repeat the part between its two occurrences, whatever the count.
// The texts themselves are checked: a frame's text must lead from one iteration to the next and leave the memory
// (`Thread::mem`) unchanged. So the result is exact: the same as if each iteration were constructed.
//
// In: a configuration. Out: its completion, copied from an alike one; or the configuration that must be completed
// first; or neither, if the completion must be constructed.
// Cost: constructing the iterations until windows repeat, at most a few thousand; a look-up for all other iterations.

#include "budget/completion.hpp"

namespace guided {

namespace {
constexpr int64_t kMaxFewIterations = 8;  // up to so many iterations are constructed
constexpr size_t kMaxIterations = 4096;   // iterations within which windows must repeat
constexpr size_t kMaxSegments = 4096;     // segments of one iteration
constexpr int kMaxCalls = 64;             // nested calls that end on the way back to a frame
constexpr int64_t kSegmentWork = 4;
constexpr size_t kMaxNumbers = 4096;  // length of one window
enum Mark : int32_t { kUnlikeMark = -1, kImpossibleMark = -2, kAlternativesMark = -3, kFencedMark = -4, kEndMark = -5 };
}  // namespace

// ---- windows
// Appends the window of a configuration's text, with costs relative to `base`. Returns false if the window is too long.
bool CompletionFinder::append_window(int32_t config, int64_t base, size_t symbols_left, std::vector<int32_t>& out) {
  auto add_cost = [&](int64_t cost) {
    const int64_t relative_cost = cost >= kUnreachable ? kUnreachable : cost - base;
    out.push_back(static_cast<int32_t>(relative_cost));
    out.push_back(static_cast<int32_t>(relative_cost >> 32));
  };
  for (;;) {
    const Completion& c = completion_of(config);
    if (out.size() > kMaxNumbers) return false;
    if (!c.alternatives.empty() || c.open_text >= 0) {
      out.insert(out.end(), {kAlternativesMark, static_cast<int32_t>(c.alternatives.size()), c.open_text >= 0});
      add_cost(c.total);
      for (int32_t alternative : c.alternatives)
        if (!append_window(alternative, base, symbols_left, out)) return false;
      if (c.open_text >= 0 && !append_window(c.open_text, base, symbols_left, out)) return false;
      if (!c.alternatives.empty()) return true;
    }
    if (c.is_fenced || c.is_impossible) {
      out.push_back(c.is_impossible ? kImpossibleMark : kFencedMark);
      add_cost(c.total);
      return true;
    }
    add_cost(c.total);
    for (size_t i = 0; i < c.symbols.size() && symbols_left > 0; ++i, --symbols_left) {
      out.push_back(c.symbols[i] < 256 ? c.symbols[i] : 256);
      add_cost(cost_after(c, i + 1));
      if (c.symbols[i] >= 256) return true;  // no token extends beyond such a symbol
    }
    if (symbols_left == 0) return true;
    if (c.next < 0) {
      out.push_back(kEndMark);
      return true;
    }
    config = c.next;
  }
}

int32_t CompletionFinder::window_of(int32_t config) {
  const Completion& c = completion_of(config);
  if (c.window >= 0) return c.window;
  if (c.copied_from >= 0) return window_of(c.copied_from);
  std::vector<int32_t> window;
  if (!append_window(config, c.total, static_cast<size_t>(masks_.vocabulary().max_token_bytes), window))
    window = {kUnlikeMark, config};
  const size_t size = 64 + 4 * window.size();
  const auto [it, inserted] =
      window_numbers_.try_emplace(std::move(window), static_cast<int32_t>(window_numbers_.size()));
  if (inserted) arena_.charge(size);
  const_cast<Completion&>(c).window = it->second;
  return it->second;
}

// ---- copies
// Copies the completion of `alike` to `config`, adding `difference` to its totals. Returns false if the first segments of
// the two texts differ.
bool CompletionFinder::copy_completion(int32_t alike, const TextSize& difference, int32_t config,
                                       std::unique_ptr<Completion>& out) {
  const Completion& original = completion_of(alike);
  if (original.total >= kUnreachable || !original.alternatives.empty() || original.open_text >= 0) return false;
  const Thread thread = arena_.config(config).threads[0];
  auto result = std::make_unique<Completion>();
  follow(thread, *result);
  if (result->is_impossible || result->is_fenced != original.is_fenced || result->symbols != original.symbols ||
      result->ends_frame != original.ends_frame) {
    written_values_.erase(result.get());
    return false;
  }
  for (int64_t cost : original.costs) result->costs.push_back(cost + difference.total);
  static_cast<TextSize&>(*result) = original + difference;
  result->copied_from = original.copied_from >= 0 ? original.copied_from : alike;
  if (original.after_frame >= 0) result->after_frame = with_memory(thread.ret, thread.mem);
  out = std::move(result);
  return true;
}

// Finds in which scopes the text of each rule may write entries, from the automata alone.
void CompletionFinder::find_memory_use() {
  const auto rules = static_cast<int32_t>(grammar_.rules.size());
  memory_use_.assign(grammar_.rules.size(), MemoryUse::None);
  std::vector<std::vector<int32_t>> callers(grammar_.rules.size());
  std::vector<int32_t> stack;
  for (int32_t r = 0; r < rules; ++r) {
    const Rule& rule = grammar_.rules[r];
    CallMeter::work(1 + rule.size);
    bool has_entries = false, opens_scope = false;
    for (const Position& p : grammar_.positions_of(rule)) {
      for (const EffectEdge& edge : grammar_.effects_of(p)) {
        const Effect::Op op = edge.effect.op;
        opens_scope |= op == Effect::Open;
        has_entries |= op == Effect::Begin || op == Effect::Keep;
      }
      for (const CallEdge& call : grammar_.calls_of(p)) callers[call.rule].push_back(r);
    }
    if (opens_scope) memory_use_[r] = MemoryUse::Own;
    if (has_entries && !opens_scope) stack.push_back(r);
  }
  while (!stack.empty()) {
    const int32_t r = stack.back();
    stack.pop_back();
    if (memory_use_[r] != MemoryUse::None) continue;
    memory_use_[r] = MemoryUse::Outer;
    stack.insert(stack.end(), callers[r].begin(), callers[r].end());
  }
}

// Whether it is known that the text of a thread's frame leaves the thread's memory unchanged.
bool CompletionFinder::leaves_memory_unchanged(const Thread& t) {
  if (t.mem <= kLastUnknownSet) return true;
  if (arena_.uniqueness().is_reading(t.mem)) return false;
  if (memory_use_.empty()) find_memory_use();
  const MemoryUse use = memory_use_[grammar_.positions[t.pos].rule];
  return use == MemoryUse::None || (use == MemoryUse::Own && is_at_rule_start(t));
}

// Whether a thread is at the point where its rule was entered.
bool CompletionFinder::is_at_rule_start(const Thread& t) {
  const int32_t r = grammar_.positions[t.pos].rule;
  return t.ret > kFree && t.pos == grammar_.rules[r].start && t.reg == arena_.initial_register(r);
}

// ---- iterations
// The number of alike iterations after the current one; -1: there are too few.
int64_t CompletionFinder::alike_iterations_left(const Thread& t) {
  const Rule& rule = grammar_.rule_at(t.pos);
  if (rule.kind == RuleKind::Plain || rule.choices || rule.min <= kMaxFewIterations) return -1;
  int64_t iterations_left = rule.min - 1 - rule.reach;
  if (rule.kind == RuleKind::Counter) {
    iterations_left -= t.reg;
  } else {
    const SeenSet& seen = arena_.seen(t.reg);
    iterations_left -= seen.count;
    for (size_t w = 0; w < seen.bits.size(); ++w)
      iterations_left -= __builtin_popcountll(rule.required_bits[w] & ~seen.bits[w]);
  }
  return iterations_left > kMaxFewIterations ? iterations_left : -1;
}

// The same thread with another count of iterations.
Thread CompletionFinder::with_iteration_count(const Thread& thread, int64_t count) {
  Thread out = thread;
  const bool is_counter = grammar_.rule_at(thread.pos).kind == RuleKind::Counter;
  out.reg = is_counter ? static_cast<int32_t>(count) : arena_.with_count(thread.reg, count);
  return out;
}

// The configuration in which the frame that returns to `caller` continues after all its open calls at `config` have
// returned; -1: unknown.
int32_t CompletionFinder::continuation_in_frame(int32_t config, int32_t caller) {
  for (int calls = 0; config >= 0 && calls < kMaxCalls; ++calls) {
    const Config& c = arena_.config(config);
    if (c.count != 1 || c.threads[0].pos == kExit) return -1;
    if (c.threads[0].ret == caller) return config;
    const Completion* completion = completions_.get(config);
    config = completion ? completion->after_frame : -1;
  }
  return -1;
}

// Adds the iteration that begins in `config`, whose completion must be known. Iterations are added from the last one
// backwards. Returns false if this one does not lead to the one added before, or if there are too many.
bool CompletionFinder::add_iteration(AlikeIterations& iterations, int32_t config) {
  if (iterations.configs.size() >= kMaxIterations || completion_of(config).total >= kUnreachable) return false;
  int32_t current = iterations.configs.empty() ? -1 : config;
  for (size_t segments = 0; current >= 0 && current != iterations.configs.back(); ++segments) {
    const Completion& c = completion_of(current);
    if (segments > kMaxSegments || c.ends_frame || c.next < 0 || !c.alternatives.empty() || c.open_text >= 0)
      return false;
    current = continuation_in_frame(c.next, iterations.last.ret);
  }
  const auto [it, inserted] = iterations.windows.try_emplace(window_of(config), iterations.configs.size());
  if (!inserted && iterations.period == 0) {
    iterations.first = it->second;
    iterations.period = iterations.configs.size() - it->second;
  }
  iterations.configs.push_back(config);
  return true;
}

// Whether the text of `config`, which is in the frame of the iterations, leads to the start of an iteration. Its
// completion must be known.
bool CompletionFinder::leads_to_iteration(AlikeIterations& iterations, int32_t config) {
  const Thread start = arena_.config(config).threads[0];
  const auto [it, inserted] = iterations.leading_positions.try_emplace(start.pos, false);
  if (!inserted) return it->second;
  for (size_t segments = 0; segments < kMaxSegments && config >= 0; ++segments) {
    CallMeter::work(kSegmentWork);
    const Thread current = arena_.config(config).threads[0];
    if (current.reg != start.reg) return false;
    if (current.pos == iterations.last.pos) return it->second = true;
    const Completion* c = completions_.get(config);
    if (!c || c->ends_frame || c->next < 0 || !c->alternatives.empty() || c->open_text >= 0) return false;
    config = continuation_in_frame(c->next, iterations.last.ret);
  }
  return false;
}

// Does what take_alike() does, for a frame with `iterations_left` more alike iterations.
int32_t CompletionFinder::take_alike_iteration(const Thread& t, int64_t iterations_left, int32_t config,
                                               std::unique_ptr<Completion>& out) {
  const int32_t rule = grammar_.positions[t.pos].rule, after_frame = with_memory(t.ret, t.mem);
  const bool is_counter = grammar_.rules[rule].kind == RuleKind::Counter;
  const int32_t members = is_counter ? 0 : with_iteration_count(t, 0).reg;
  AlikeIterations*& known_iterations = iterations_by_rule_[{rule, members, t.mem, window_of(after_frame)}];
  if (!known_iterations) known_iterations = &iterations_[{t.pos, members, t.mem, window_of(after_frame)}];
  AlikeIterations& iterations = *known_iterations;
  if (iterations.configs.empty()) {
    iterations.count = (is_counter ? t.reg : arena_.seen(t.reg).count) + iterations_left;
    iterations.last = with_iteration_count(t, iterations.count);
  }
  const auto wanted_index = static_cast<size_t>(iterations_left);
  while (t.pos == iterations.last.pos && !iterations.is_unlike && iterations.period == 0 &&
         iterations.configs.size() <= wanted_index) {
    const auto steps_back = static_cast<int64_t>(iterations.configs.size());
    const int32_t next = arena_.intern({with_iteration_count(iterations.last, iterations.count - steps_back)}, false);
    if (next == config) return -1;  // it must be constructed
    if (!completions_.get(next)) return next;
    iterations.is_unlike = !add_iteration(iterations, next);
  }
  if (iterations.is_unlike) {
    known_iterations = nullptr;  // iterations may begin at another position
    return -1;
  }
  if (iterations.period == 0 && iterations.configs.size() <= wanted_index) return -1;
  const size_t repeat_index = iterations.first + iterations.period;
  const size_t repetitions =
      iterations.period == 0 || wanted_index < repeat_index ? 0 : (wanted_index - iterations.first) / iterations.period;
  Thread alike_thread = with_iteration_count(
      t, iterations.count - iterations_left + static_cast<int64_t>(repetitions * iterations.period));
  alike_thread.ret = iterations.last.ret;
  const int32_t alike_config = arena_.intern({alike_thread}, false);
  if (alike_config == config) return -1;
  if (!completions_.get(alike_config)) return alike_config;
  if (!leads_to_iteration(iterations, alike_config)) return -1;
  TextSize difference = completion_of(after_frame) - completion_of(with_memory(alike_thread.ret, alike_thread.mem));
  if (repetitions > 0) {
    const TextSize period =
        completion_of(iterations.configs[repeat_index]) - completion_of(iterations.configs[iterations.first]);
    const auto times = static_cast<int64_t>(repetitions);
    difference = difference + TextSize{times * period.total, period.has_bytes() ? times * period.bytes : kUnreachable,
                                       times * period.entries, period.most_entries};
  }
  copy_completion(alike_config, difference, config, out);
  return -1;
}

// Creates a completion from an alike one. Returns -1 if it did so, or if none can be used (then `out` stays null);
// otherwise the configuration whose completion is needed first.
int32_t CompletionFinder::take_alike(int32_t config, std::unique_ptr<Completion>& out) {
  const Config& c = arena_.config(config);
  if (c.count != 1 || c.threads[0].pos == kExit || c.threads[0].ret == kTop || c.threads[0].ret == kFree) return -1;
  const Thread t = c.threads[0];
  if (grammar_.is_later(t.pos) || !leaves_memory_unchanged(t)) return -1;
  const int32_t after_frame = with_memory(t.ret, t.mem);
  if (!completions_.get(after_frame)) return after_frame;
  const Completion& own_continuation = completion_of(after_frame);
  if (own_continuation.total >= kUnreachable) return -1;
  int32_t alike_config = -1, alike_after_frame = -1;  // an alike configuration, and the configuration after its frame
  if (own_continuation.copied_from >= 0) {
    alike_after_frame = own_continuation.copied_from;
    Thread caller = arena_.config(alike_after_frame).threads[0];
    caller.mem = kOutside;
    Thread alike_thread = t;
    alike_thread.ret = arena_.intern({caller}, false);
    alike_config = arena_.intern({alike_thread}, false);
    if (!completions_.get(alike_config)) return alike_config;
  } else if (is_at_rule_start(t)) {
    const auto it = completions_to_copy_.find({t.pos, t.reg, t.mem, window_of(after_frame)});
    if (it != completions_to_copy_.end()) {
      alike_config = it->second;
      alike_after_frame = completion_of(alike_config).after_frame;
    }
  }
  if (alike_config >= 0 &&
      copy_completion(alike_config, own_continuation - completion_of(alike_after_frame), config, out))
    return -1;
  if (const int64_t iterations_left = alike_iterations_left(t); iterations_left >= 0)
    return take_alike_iteration(t, iterations_left, config, out);
  return begins_member(t.pos) ? take_alike_members(t, config, out) : -1;
}

// Stores a completion so that it can be copied for alike configurations.
void CompletionFinder::store_alike(int32_t config) {
  const Config& c = arena_.config(config);
  if (c.count != 1 || c.threads[0].pos == kExit) return;
  const Thread t = c.threads[0];
  if (begins_member(t.pos)) store_member(config);
  const Completion& completion = completion_of(config);
  if (!is_at_rule_start(t) || !leaves_memory_unchanged(t) || completion.total >= kUnreachable ||
      completion.after_frame < 0 || completion.after_frame != with_memory(t.ret, t.mem))
    return;
  if (completions_to_copy_.try_emplace({t.pos, t.reg, t.mem, window_of(completion.after_frame)}, config).second)
    arena_.charge(64);
}

}  // namespace guided
