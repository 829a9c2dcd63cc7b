// The closure of threads: returns from rules that have ended, and calls of rules that may begin.
//
// In: threads right after a byte or token. Out: the state of all threads that can read a symbol, or have returned to an
// unknown caller (kExit).
//
// How: a thread at the end of a rule continues after the call in each of its callers. Each rule that may begin is
// entered once, with all of its callers in one return configuration. All callers of a rule are known once no pending
// rule can begin with this rule. So rules are entered in the order of their height: a rule is higher than the rules
// with which it may begin (the graph of left corners has no cycles, see left_recursion.cpp). A parser with a
// graph-structured stack does the same (Tomita; Scott and Johnstone, "GLL Parsing"), here in an order that extends no
// node twice.
//
// Cost: O(threads + edges from them). Entering a rule separately for each caller would cost the product of the callers
// at all levels, as in expressions with many levels of precedence. An effect before a call may produce a caller late.
// Then the rule is entered again, with the new callers only.
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
constexpr int kManyEffects = 4;  // a position with at least this many effects has its closure cached
}  // namespace

int32_t Arena::merge(int32_t a, int32_t b, int depth) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  const uint64_t key = pair_key(a, b);
  if (const int32_t* known = merged_.find(key)) return *known;
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
    // Beyond the depth bound, threads that differ in `ret` stay separate: less sharing, same language. So do exits.
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

// Suppose that several frames of a counted loop have reached its minimum, and differ only in their counts. Then the
// frame with the lowest count can do all that the others can. Without this, `([a-z]{1,20} ?){1,200}` would have a
// thread for each way to split a word. Counting-set automata keep the extremes of such counts, too (Turonova et al.,
// OOPSLA 2020). Under kFree, a register does not have the count from before the text, but a frame that can end has
// counted one item at least.
void Arena::drop_higher_counts(std::vector<Thread>& threads) {
  size_t n = 0;
  for (size_t from = 0, to = 0; from < threads.size(); from = to) {
    const int32_t pos = threads[from].pos;
    while (to < threads.size() && threads[to].pos == pos) ++to;
    if (to - from == 1 || pos == kExit || !needs_lowest_count(grammar_->positions[pos].rule)) {
      while (from < to) threads[n++] = threads[from++];
      continue;
    }
    const Rule& rule = grammar_->rule_at(pos);
    std::unordered_set<uint64_t> visited;  // callers and memories; threads with lower counts come first
    for (; from < to; ++from) {
      const Thread t = threads[from];
      const bool has_minimum = t.ret == kFree ? rule.min <= 1 : t.reg >= rule.min;
      if (!has_minimum || visited.insert(pair_key(t.ret, t.mem)).second) threads[n++] = t;
    }
  }
  threads.resize(n);
}

// Whether a rule is a loop with a maximum for which the lowest count suffices. False if the loop contains itself, since
// its frames share callers only if they have the same counts. False if it contains control tokens, because the number
// of marks without text (matching/regions) would change.
bool Arena::needs_lowest_count(int32_t rule) {
  const Grammar& g = *grammar_;
  const Rule& loop = g.rules[rule];
  if (loop.kind != RuleKind::Counter || loop.max < 0 || loop.max_tokens >= 0) return false;
  if (static_cast<size_t>(rule) >= lowest_counts_.size()) lowest_counts_.resize(g.rules.size(), -1);
  int8_t& known = lowest_counts_[static_cast<size_t>(rule)];
  if (known >= 0) return known > 0;
  known = g.all_reachable(rule, [&](const Rule& at) {
    for (const Position& position : g.positions_of(at)) {
      if (position.token_hi > position.token_lo) return false;
      for (const CallEdge& call : g.calls_of(position))
        if (call.rule == rule) return false;
    }
    return true;
  });
  return known > 0;
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
  // Many bytes may lead to a position with many effects (white space before a name), so its closure is cached.
  if (kernel.size() != 1 || raw_ || kernel[0].pos == kExit) return closure_of(kernel);
  const Thread single = kernel[0];
  const Position& p = grammar_->positions[single.pos];
  if (p.effect_hi - p.effect_lo < kManyEffects) return closure_of(kernel);
  if (const int32_t* known = closures_.find(single)) return *known;
  const int32_t id = closure_of(kernel);
  if (!closures_.find(single)) {  // closure_of() may take steps, which may have added it already
    charge(48);
    closures_.add(single, id);
  }
  return id;
}

int32_t Arena::closure_of(std::vector<Thread>& kernel) {
  const Grammar& g = *grammar_;
  work_.assign(kernel.begin(), kernel.end());
  closed_.clear();
  visited_.clear();
  bool reads_values = false;
  entries_.clear();
  while (!work_.empty() || !entries_.empty()) {
    if (work_.empty()) work_.push_back(enter(entries_.highest()));
    Thread t = work_.back();
    work_.pop_back();
    if (t.pos == kExit) {
      closed_.push_back(t);
      continue;
    }
    CallMeter::work(kThreadWork);
    if (!visited_.add(t)) continue;
    if (visited_.size() > kMaxThreads)
      throw LimitFailure("states", static_cast<double>(visited_.size()), static_cast<double>(kMaxThreads), kAdvice);
    const Position& p = g.positions[t.pos];
    CallMeter::work(kEdgeWork * (p.effect_hi - p.effect_lo + p.call_hi - p.call_lo));
    const Rule& rule = g.rules[p.rule];
    bool free = t.ret == kFree;
    if (p.active) {
      closed_.push_back(t);
      reads_values |= t.mem != kOutside;
    }
    if (p.accept && (free || may_end(rule, t.reg))) pop(t, work_);
    for (const CallEdge& call : g.calls_of(p)) {
      if (call.tail && free)  // the unknown caller (kFree) remains the caller
        work_.push_back(
            {.pos = g.rules[call.rule].start, .reg = initial_register(call.rule), .ret = kFree, .mem = t.mem});
      else
        entries_.add(call.rule, height(call.rule), t.mem,
                     call.tail ? Thread{RuleEntries::kTail, 0, t.ret} : Thread{call.after, t.reg, t.ret});
    }
    for (const EffectEdge& edge : g.effects_of(p)) {
      Thread after = t;
      after.pos = edge.to;
      if (apply(rule, edge.effect, after)) work_.push_back(after);
    }
  }
  if (reads_values && !raw_) {  // leads_to_an_end() takes steps, which overwrite closed_
    std::vector<Thread> threads = std::move(closed_);
    std::erase_if(threads, [&](const Thread& t) { return t.pos != kExit && !leads_to_an_end(t); });
    closed_ = std::move(threads);
  }
  merge_threads(closed_, 0);
  return intern(closed_, true);
}

// The thread that enters a rule, with all of its callers.
Thread Arena::enter(RuleEntries::Entry entry) {
  Thread thread{
      .pos = grammar_->rules[entry.rule].start, .reg = initial_register(entry.rule), .ret = 0, .mem = entry.mem};
  kernel_.clear();
  entries_.each_caller(entry, [&](const Thread& caller) {
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

// The longest chain of rules from this one, each of which may begin with the next. It ends where a rule would recur.
int32_t Arena::height(int32_t rule) {
  if (heights_.empty()) heights_.resize(grammar_->rules.size(), -1);
  if (heights_[rule] >= 0) return heights_[rule];
  struct Task {
    int32_t rule;
    std::vector<int32_t> first;  // the rules with which it may begin
    size_t next = 0;
  };
  auto begin_task = [&](int32_t of) {
    heights_[of] = 0;
    return Task{of, first_rules(of)};
  };
  std::vector<Task> todo;
  todo.push_back(begin_task(rule));
  while (!todo.empty()) {
    Task& task = todo.back();
    if (task.next < task.first.size()) {
      const int32_t called = task.first[task.next++];
      if (heights_[called] < 0) todo.push_back(begin_task(called));
      continue;
    }
    for (int32_t called : task.first) heights_[task.rule] = std::max(heights_[task.rule], heights_[called] + 1);
    todo.pop_back();
  }
  return heights_[rule];
}

// The rules with which a rule may begin (its left corners).
std::vector<int32_t> Arena::first_rules(int32_t rule) const {
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
