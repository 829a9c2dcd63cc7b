// Computes the closure of threads: returns from rules that have ended, and calls of rules that may begin.
//
// In: threads right after a byte or token. Out: the state of all threads that can read a symbol, or have returned to a
// bottom: the end of the output or an unknown caller (kExit).
//
// How: a thread at the end of a rule continues after the call in each of its callers. Each rule that may begin is
// entered once, with all of its callers in one return configuration. All callers of a rule are known once no pending
// rule can begin with this rule. So rules are entered from the highest to the lowest: a rule is higher than the rules
// with which it may begin (the graph of left corners has no cycles, see left_recursion.cpp). Parsers with a
// graph-structured stack do the same (Tomita; Scott and Johnstone, "GLL Parsing").
//
// Cost: O(threads + edges from them). If a rule were entered separately for each caller, the cost would be the product
// of the numbers of callers at all levels, for example in expressions with many levels of precedence. A rule may
// end after effects alone, without reading a symbol. Its caller may then call a rule that has already been entered.
// That rule is entered again, but only with the new callers.
#include <algorithm>
#include <unordered_set>

#include "run/arena.hpp"

namespace guided {

namespace {
constexpr size_t kMaxThreads = 200000;
constexpr int64_t kThreadWork = 4;
constexpr int64_t kEdgeWork = 2;  // for each call and effect
constexpr auto kAdvice =
    "the output can be read in that many ways at once; write counted parts so that a text has one count: a{1,18} "
    "instead of (a|aa){1,9}";
constexpr int kMergeDepth = 256;
constexpr int kManyEffects = 4;  // the closure of a position with at least this many effects is cached
}  // namespace

int32_t Arena::merge(int32_t a, int32_t b, int depth) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  const uint64_t key = pair_key(a, b);
  if (const int32_t* cached = merged_.find(key)) return *cached;
  std::vector<Thread> all(config(a).begin(), config(a).end());
  all.insert(all.end(), config(b).begin(), config(b).end());
  merge_threads(all, depth + 1);
  int32_t id = intern(all, false);
  merged_.set(key, id);
  charge(24);
  return id;
}

void Arena::merge_threads(std::vector<Thread>& threads, int depth) {
  CallMeter::work(static_cast<int64_t>(threads.size()));
  std::sort(threads.begin(), threads.end());
  size_t n = 0;
  for (size_t i = 0; i < threads.size(); ++i) {
    const Thread t = threads[i];
    if (n && threads[n - 1] == t) continue;
    // Beyond the maximum depth, threads that differ in `ret` stay separate, which shares less but accepts the same
    // language. Exits stay separate, too.
    if (n && t.pos != kExit && threads[n - 1].pos == t.pos && threads[n - 1].reg == t.reg &&
        threads[n - 1].mem == t.mem && t.ret != kFree && threads[n - 1].ret != kFree && depth < kMergeDepth) {
      threads[n - 1].ret = merge(threads[n - 1].ret, t.ret, depth);
      continue;
    }
    threads[n++] = t;
  }
  threads.resize(n);
  if (n > 1) drop_higher_counts(threads);
}

// Suppose that several frames of a counted loop have reached its minimum and differ only in their counts. Then the
// frame with the lowest count can do everything that the others can. Without this function, `([a-z]{1,20} ?){1,200}`
// would have a frame for each number of pieces into which the text can be split. Counting-set automata also keep only
// the extremes of such counts (Turonova et al., OOPSLA 2020). Under kFree, a register lacks the iterations before the
// token. All we know is that a frame that can end has counted at least one, so only a minimum of 0 or 1 counts as
// reached.
void Arena::drop_higher_counts(std::vector<Thread>& threads) {
  size_t n = 0;
  for (size_t i = 0, end = 0; i < threads.size(); i = end) {
    const int32_t pos = threads[i].pos;
    while (end < threads.size() && threads[end].pos == pos) ++end;
    if (end - i == 1 || pos == kExit || !keeps_only_lowest_count(grammar_->positions[pos].rule)) {
      while (i < end) threads[n++] = threads[i++];
      continue;
    }
    const Rule& rule = grammar_->rule_at(pos);
    // Callers and memories that have occurred; threads with lower counts come first.
    std::unordered_set<uint64_t> visited;
    for (; i < end; ++i) {
      const Thread t = threads[i];
      const bool has_minimum = t.ret == kFree ? rule.min <= 1 : t.reg >= rule.min;
      if (!has_minimum || visited.insert(pair_key(t.ret, t.mem)).second) threads[n++] = t;
    }
  }
  threads.resize(n);
}

// Whether a rule is a loop with a maximum, and the lowest of several counts suffices. False if the loop has a limit on
// its tokens. False if it contains itself: without some counts, the callers of equal frames would differ, and the
// frames would multiply. False if it contains control tokens: they may be marks of regions (guided/matching/regions),
// and iterations that contain only marks would get lost.
bool Arena::keeps_only_lowest_count(int32_t rule) {
  const Grammar& g = *grammar_;
  const Rule& loop = g.rules[rule];
  if (loop.kind != RuleKind::Counter || loop.max < 0 || loop.max_tokens >= 0) return false;
  if (static_cast<size_t>(rule) >= keeps_only_lowest_count_.size()) keeps_only_lowest_count_.resize(g.rules.size(), -1);
  int8_t& answer = keeps_only_lowest_count_[static_cast<size_t>(rule)];
  if (answer >= 0) return answer > 0;
  answer = g.all_reachable(rule, [&](const Rule& reachable) {
    for (const Position& position : g.positions_of(reachable)) {
      if (position.token_hi > position.token_lo) return false;
      for (const CallEdge& call : g.calls_of(position))
        if (call.rule == rule) return false;
    }
    return true;
  });
  return answer > 0;
}

void Arena::pop(const Thread& thread, std::vector<Thread>& out) {
  if (thread.ret == kFree) {
    out.push_back({.pos = kExit, .reg = thread.reg, .ret = kFree, .mem = thread.mem});
    return;
  }
  for (Thread t : config(thread.ret)) {  // the caller takes over the callee's memory
    t.mem = thread.mem;
    out.push_back(t);
  }
}

int32_t Arena::close(std::vector<Thread>& kernel) {
  // Many bytes may lead to a position with many effects, such as whitespace before a name, so the closure of the
  // position is cached.
  if (kernel.size() != 1 || is_raw_step_ || kernel[0].pos == kExit) return compute_closure(kernel);
  const Thread single = kernel[0];
  const Position& p = grammar_->positions[single.pos];
  if (p.effect_hi - p.effect_lo < kManyEffects) return compute_closure(kernel);
  if (const int32_t* cached = closures_.find(single)) return *cached;
  const int32_t id = compute_closure(kernel);
  if (!closures_.find(single)) {  // compute_closure() may take steps, which may have added the closure already
    charge(48);
    closures_.add(single, id);
  }
  return id;
}

int32_t Arena::compute_closure(std::vector<Thread>& kernel) {
  const Grammar& g = *grammar_;
  pending_.assign(kernel.begin(), kernel.end());
  closed_threads_.clear();
  visited_.clear();
  bool reads_values = false;
  rule_entries_.clear();
  while (!pending_.empty() || !rule_entries_.empty()) {
    if (pending_.empty()) pending_.push_back(enter(rule_entries_.pop_highest()));
    Thread t = pending_.back();
    pending_.pop_back();
    if (t.pos == kExit) {
      closed_threads_.push_back(t);
      continue;
    }
    CallMeter::work(kThreadWork);
    if (!visited_.add(t)) continue;
    if (visited_.size() > kMaxThreads)
      throw LimitFailure("states", static_cast<double>(visited_.size()), static_cast<double>(kMaxThreads), kAdvice);
    const Position& p = g.positions[t.pos];
    CallMeter::work(kEdgeWork * (p.effect_hi - p.effect_lo + p.call_hi - p.call_lo));
    const Rule& rule = g.rules[p.rule];
    bool is_free = t.ret == kFree;
    if (p.active) {
      closed_threads_.push_back(t);
      reads_values |= t.mem != kOutside;
    }
    if (p.accept && (is_free || may_end(rule, t.reg))) pop(t, pending_);
    for (const CallEdge& call : g.calls_of(p)) {
      if (call.tail && is_free)  // the unknown caller (kFree) remains the caller
        pending_.push_back(
            {.pos = g.rules[call.rule].start, .reg = initial_register(call.rule), .ret = kFree, .mem = t.mem});
      else
        rule_entries_.add(call.rule, height(call.rule), t.mem,
                          call.tail ? Thread{RuleEntries::kTail, 0, t.ret} : Thread{call.after, t.reg, t.ret});
    }
    for (const EffectEdge& edge : g.effects_of(p)) {
      Thread next = t;
      next.pos = edge.to;
      if (apply(rule, edge.effect, next)) pending_.push_back(next);
    }
  }
  if (reads_values && !is_raw_step_) {  // can_end_entry() takes steps, which overwrite closed_threads_
    std::vector<Thread> threads = std::move(closed_threads_);
    std::erase_if(threads, [&](const Thread& t) { return t.pos != kExit && !can_end_entry(t); });
    closed_threads_ = std::move(threads);
  }
  merge_threads(closed_threads_, 0);
  return intern(closed_threads_, true);
}

// The thread that enters a rule, with all of its callers.
Thread Arena::enter(RuleEntries::Entry entry) {
  Thread thread{
      .pos = grammar_->rules[entry.rule].start, .reg = initial_register(entry.rule), .ret = 0, .mem = entry.mem};
  kernel_.clear();
  rule_entries_.each_caller(entry, [&](const Thread& caller) {
    if (caller.pos != RuleEntries::kTail)
      kernel_.push_back(caller);
    else if (entry.is_single())
      thread.ret = caller.ret;
    else
      kernel_.insert(kernel_.end(), config(caller.ret).begin(), config(caller.ret).end());
  });
  if (!kernel_.empty()) {
    merge_threads(kernel_, 0);
    thread.ret = intern(kernel_, false);
  }
  return thread;
}

// The length of the longest chain of rules that begins with `rule` and in which each rule may begin with the next.
int32_t Arena::height(int32_t rule) {
  if (heights_.empty()) heights_.resize(grammar_->rules.size(), -1);
  if (heights_[rule] >= 0) return heights_[rule];
  struct Task {
    int32_t rule;
    std::vector<int32_t> left_corners;  // the rules with which `rule` may begin
    size_t next = 0;
  };
  auto begin_task = [&](int32_t begun_rule) {
    heights_[begun_rule] = 0;
    return Task{begun_rule, left_corners(begun_rule)};
  };
  std::vector<Task> tasks;
  tasks.push_back(begin_task(rule));
  while (!tasks.empty()) {
    Task& task = tasks.back();
    if (task.next < task.left_corners.size()) {
      const int32_t callee = task.left_corners[task.next++];
      if (heights_[callee] < 0) tasks.push_back(begin_task(callee));
      continue;
    }
    for (int32_t callee : task.left_corners) heights_[task.rule] = std::max(heights_[task.rule], heights_[callee] + 1);
    tasks.pop_back();
  }
  return heights_[rule];
}

// The rules with which a rule may begin (its left corners).
std::vector<int32_t> Arena::left_corners(int32_t rule) const {
  std::vector<int32_t> out, positions{grammar_->rules[rule].start};
  std::unordered_set<int32_t> visited(positions.begin(), positions.end());
  for (size_t i = 0; i < positions.size(); ++i) {
    CallMeter::work(kThreadWork);
    const Position& p = grammar_->positions[positions[i]];
    for (const CallEdge& call : grammar_->calls_of(p)) out.push_back(call.rule);
    for (const EffectEdge& edge : grammar_->effects_of(p))
      if (visited.insert(edge.to).second) positions.push_back(edge.to);
  }
  return out;
}

}  // namespace guided
