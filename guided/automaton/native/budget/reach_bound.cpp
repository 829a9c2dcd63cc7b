// A bound on the distance after any one token, for states with seen sets (uniqueness.hpp). If the remaining budget is
// larger, the mask without a budget is right, and no token has to be examined (BudgetMasks::reach computes the exact
// number).
//
// In: a state. Out: a distance that no allowed token exceeds; kUnreachable if no bound is known.
//
// How: the seen values of each thread, and the text of its current entries, are replaced by unknown ones
// (Uniqueness::with_noting). The number of bytes that are needed after a token then does not depend on the values, so
// it is computed once per position, caller and nesting of scopes.
//
// The shortest end of a current entry may repeat a seen value, so the entry may have to end differently. If the entry
// is at a position where at least two characters or digits can be repeated, there are at least 2^n ways to write n more
// of them. If fewer than 2^n values have been seen, one of these ways gives an unseen value, and the rest of the text
// is unchanged. new_entry.hpp finds the way with the fewest bytes, so the length of any way is an upper bound. (No bound
// is known for grammars with detours, where it may choose a longer way; see entry_detours.hpp.) The same holds if such
// a repetition is a few bytes ahead, or in an entry that must come next. Tokens after which none of this holds, and
// tokens after which the completion contains more entries, are examined one by one. If there are more than kMaxExamined,
// no bound is known.
//
// Cost: a look-up per thread, and the examination of these few tokens.
#include "budget/budgets.hpp"

namespace guided {

namespace {
constexpr size_t kMaxExamined = 64;
constexpr size_t kMaxThreads = 64;  // threads on the way to a repetition or to the next entry
}  // namespace

// The bytes of a configuration's text; kUnreachable if it is open, or if entries are added in scopes with unknown values.
int64_t BudgetMasks::text_bytes(int32_t config) {
  if (completions_.is_open_text(config)) return kUnreachable;
  const Uniqueness& uniqueness = arena_.uniqueness();
  const Completion& c = completions_.completion(config);
  int32_t entries = 0;
  bool is_in_scope = false;
  for (const Thread& t : arena_.config(config)) {
    if (t.pos == kExit) continue;
    entries = std::max(entries, uniqueness.count_entries(t.mem));
    is_in_scope |= uniqueness.is_in_scope(t.mem);
  }
  return c.total < kUnreachable && (!is_in_scope || c.most_entries <= entries) ? c.bytes : kUnreachable;
}

// The bytes of a thread's text. Outside of all scopes, the values that were noted do not matter.
int64_t BudgetMasks::text_bytes(Thread thread) {
  if (!arena_.uniqueness().is_in_scope(thread.mem)) thread.mem = kOutside;
  return text_bytes(arena_.intern({thread}, false));
}

// The nearest thread at which characters or digits can be repeated, and the number of bytes to it. The search does not
// go beyond the end of an entry.
std::optional<std::pair<Thread, int64_t>> BudgetMasks::nearest_repeat(const Thread& thread) {
  const Grammar& g = arena_.grammar();
  std::vector<std::pair<Thread, int64_t>> queue{{thread, 0}};
  std::unordered_set<Thread, ThreadHash> visited{thread};
  auto add = [&](const Thread& target, int64_t bytes) {
    if (queue.size() < kMaxThreads && visited.insert(target).second) queue.push_back({target, bytes});
  };
  for (size_t i = 0; i < queue.size(); ++i) {
    const auto [t, bytes] = queue[i];
    if (arena_.repeats(t.pos)) return queue[i];
    const Position& p = g.positions[t.pos];
    for (const CallEdge& call : g.calls_of(p)) add(arena_.callee_thread(t, call), bytes);
    std::vector<int32_t> targets;
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      const int32_t target = p.bytes.has(byte) ? g.step(t.pos, byte) : -1;
      if (target < 0 || std::find(targets.begin(), targets.end(), target) != targets.end()) continue;
      targets.push_back(target);
      add({target, t.reg, t.ret, arena_.uniqueness().read(t.mem, byte)}, bytes + 1);
    }
    for (const EffectEdge& e : g.effects_of(p)) {
      Thread next = t;
      if (e.effect.op == Effect::Keep || !arena_.apply(g.rules[p.rule], e.effect, next)) continue;
      next.pos = e.to;
      add(next, bytes);
    }
    if (!p.accept || !arena_.may_end(g.rules[p.rule], t.reg)) continue;
    for (const Thread& caller : arena_.config(t.ret))
      if (caller.pos != kExit) add({caller.pos, caller.reg, caller.ret, t.mem}, bytes);
  }
  return std::nullopt;
}

// The start of the next entry in the shortest text, and the number of bytes before it.
std::optional<std::pair<Thread, int64_t>> BudgetMasks::next_entry(Thread thread) {
  const Grammar& g = arena_.grammar();
  int64_t bytes = 0;
  for (size_t step = 0; step < kMaxThreads; ++step) {
    const ShortestText::Choice c = completions_.new_entry().tree().choose(thread);
    if (c.cost > kUnreachable || c.kind == ShortestText::Choice::Token) return std::nullopt;
    if (c.kind == ShortestText::Choice::End) {
      const Config& ret = arena_.config(thread.ret);
      if (ret.count != 1 || ret.threads[0].pos == kExit) return std::nullopt;
      const int32_t mem = thread.mem;
      thread = ret.threads[0];
      thread.mem = mem;
    } else if (c.kind == ShortestText::Choice::Byte) {
      const auto byte = static_cast<uint8_t>(c.index);
      thread = {g.step(thread.pos, byte), thread.reg, thread.ret, arena_.uniqueness().read(thread.mem, byte)};
      ++bytes;
    } else if (c.kind == ShortestText::Choice::Call) {
      thread = arena_.callee_thread(thread, g.calls[c.index]);
    } else {
      const EffectEdge& e = g.effects[c.index];
      const bool changes_scope = e.effect.op == Effect::Open || e.effect.op == Effect::Close;
      if (changes_scope || !arena_.apply(g.rule_at(thread.pos), e.effect, thread)) return std::nullopt;
      thread.pos = e.to;
      if (e.effect.op == Effect::Begin) return std::pair{thread, bytes};
    }
  }
  return std::nullopt;
}

// The number of bytes of a completion that passes through a thread at which characters can be repeated; kUnreachable if
// no such completion is known.
int64_t BudgetMasks::bytes_through_repeat(const Thread& thread) {
  auto bytes_from = [&](const Thread& start) {
    const auto repeat = nearest_repeat(start);
    return repeat ? repeat->second + text_bytes(repeat->first) : kUnreachable;
  };
  const int64_t bytes_in_entry = arena_.uniqueness().is_in_entry(thread.mem) ? bytes_from(thread) : kUnreachable;
  if (bytes_in_entry < kUnreachable || arena_.uniqueness().scope_between_entries(thread.mem) < 0)
    return std::min(bytes_in_entry, kUnreachable);
  const auto entry = next_entry(thread);
  return entry ? std::min(kUnreachable, entry->second + bytes_from(entry->first)) : kUnreachable;
}

// When tokens that lead to a state must be examined. 0: never; 1: only if the entry that is being read before the token
// may still become a seen value; 2: always. If the state needs more than `bytes` to the end, `bytes` becomes this
// number.
int BudgetMasks::when_to_examine(int32_t state, int64_t& bytes) {
  if (state == kDead) return 2;
  Uniqueness& uniqueness = arena_.uniqueness();
  const std::vector<Thread> threads(arena_.config(state).begin(), arena_.config(state).end());
  int verdict = 0;
  for (const Thread& t : threads) {
    if (t.pos == kExit) continue;
    int64_t needed_bytes = text_bytes(t);
    const bool cannot_repeat_here = uniqueness.is_in_entry(t.mem) && !arena_.repeats(t.pos);
    if (cannot_repeat_here || needed_bytes >= kUnreachable) {
      const int64_t repeat_bytes = bytes_through_repeat(t);
      if (repeat_bytes >= kUnreachable)
        verdict = std::max(verdict, needed_bytes < kUnreachable && uniqueness.has_no_new_entry(t.mem) ? 1 : 2);
      if (repeat_bytes < kUnreachable)
        needed_bytes = needed_bytes < kUnreachable ? std::max(needed_bytes, repeat_bytes) : repeat_bytes;
    }
    if (needed_bytes >= kUnreachable) return 2;
    bytes = std::max(bytes, needed_bytes);
  }
  return verdict;
}

const BudgetMasks::Bound& BudgetMasks::bound(const Thread& thread, TokenTable& table) {
  Thread thread_with_unknown_values = thread;
  thread_with_unknown_values.mem = arena_.uniqueness().with_noting(thread.mem);
  auto [it, inserted] = bounds_[&table].try_emplace(thread_with_unknown_values);
  Bound& out = it->second;
  if (!inserted) return out;
  const int32_t start = arena_.state_of_thread(thread_with_unknown_values);
  auto add = [&](int32_t state, auto&& each_token) {
    const int verdict = when_to_examine(state, out.bytes);
    if (verdict > 0 && out.is_known)
      each_token([&](int32_t token) {
        (verdict == 1 ? out.conditional_tokens : out.unconditional_tokens).push_back(token);
        out.is_known = out.unconditional_tokens.size() <= kMaxExamined;
      });
  };
  out.is_known = !table.overflow;
  if (out.is_known) {
    const std::shared_ptr<const TokenGroups> token_groups = groups(thread_with_unknown_values, table);
    for (const TokenGroup& g : *token_groups)
      add(step(start, g.representative), [&](auto&& add_token) { g.tokens.each(add_token); });
    masks_.each_remainder(thread_with_unknown_values, table, [&](int32_t token, int32_t state) {
      add(state, [&](auto&& add_token) { add_token(token); });
    });
  }
  out.has_many_conditional_tokens = out.conditional_tokens.size() > kMaxExamined;
  if (out.has_many_conditional_tokens) out.conditional_tokens = {};
  arena_.charge(sizeof(Bound) + 64 + 4 * (out.conditional_tokens.size() + out.unconditional_tokens.size()));
  return out;
}

bool BudgetMasks::has_reach_bound(int32_t state) {
  return arena_.config(state).has_seen_set && arena_.grammar().token_distance.empty() &&
         masks_.vocabulary().byte_complete && !completions_.new_entry().detours().any();
}

// The number of tokens of a completion: the state's own shortest completion, or a first token and the completion after
// it, if that is shorter. So it is consistent with reach_bound(), which bounds the completions after tokens.
int64_t BudgetMasks::distance(int32_t state) {
  int64_t min_distance = completions_.distance(state);
  if (min_distance <= 1 || !has_reach_bound(state)) return min_distance;
  std::vector<int32_t> first_ids;
  completions_.first_tokens(state, first_ids);
  for (int32_t token : first_ids)
    if (const int64_t needed_tokens = distance_after(state, token); needed_tokens < min_distance - 1)
      min_distance = needed_tokens + 1;
  return min_distance;
}

int64_t BudgetMasks::reach_bound(int32_t state) {
  if (!has_reach_bound(state)) return kUnreachable;
  const Config& c = arena_.config(state);
  Uniqueness& uniqueness = arena_.uniqueness();
  int64_t max_distance = 0;
  std::vector<int32_t> uncertain_tokens;
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    const Position& p = arena_.grammar().positions[t.pos];
    if (p.token_lo < p.token_hi || t.mem <= kLastUnknownSet) return kUnreachable;
    if (p.bytes.count() == 0) continue;
    const Bound& b = bound(t, masks_.table(t));
    if (!b.is_known) return kUnreachable;
    int64_t extra_bytes = 1;
    for (int64_t values = uniqueness.count_values(t.mem) + masks_.vocabulary().max_token_bytes; values > 0; values /= 2)
      ++extra_bytes;
    max_distance = std::max(max_distance, b.bytes + extra_bytes);
    uncertain_tokens.insert(uncertain_tokens.end(), b.unconditional_tokens.begin(), b.unconditional_tokens.end());
    if (!uniqueness.may_become_seen(t.mem)) continue;
    if (b.has_many_conditional_tokens) return kUnreachable;
    uncertain_tokens.insert(uncertain_tokens.end(), b.conditional_tokens.begin(), b.conditional_tokens.end());
  }
  for (int32_t token : uncertain_tokens)
    if (const int64_t needed_tokens = distance_after(state, token); needed_tokens < INT64_MAX)
      max_distance = std::max(max_distance, needed_tokens);
  return max_distance;
}

}  // namespace guided
