#include "budget/budgets.hpp"

#include <algorithm>

namespace guided {

std::shared_ptr<const TokenGroups> BudgetMasks::groups(const Thread& partial, TokenTable& table) {
  auto charged = [&](TokenGroups&& groups) {
    for (const TokenGroup& g : groups) arena_.charge(g.tokens.bytes());
    return std::make_shared<const TokenGroups>(std::move(groups));
  };
  if (table.overflow) return charged(group_tokens(arena_.state_of_thread(partial)));
  Thread table_thread = masks_.table_thread(partial);
  auto group_staying = [&] {
    return separate_leaving(group_tokens(arena_.state_of_thread(table_thread)), table, masks_.vocabulary().words);
  };
  // Near a bound of the count, tokens that count equally many iterations may have passed different guards. Tables do
  // not distinguish these tokens, so each such count has groups of its own.
  const Rule& rule = arena_.grammar().rule_at(partial.pos);
  if (table.is_relative && (partial.reg < rule.min || (rule.max >= 0 && partial.reg + table.max_count > rule.max))) {
    std::shared_ptr<const TokenGroups>& out = groups_near_bounds_[{&table, partial.pos, partial.reg}];
    table_thread.reg = partial.reg;
    table_thread.ret = kTop;
    if (!out) out = charged(group_staying());
    return out;
  }
  std::lock_guard<std::mutex> lock(table.groups_mutex);
  if (!table.groups) table.groups = std::make_shared<const TokenGroups>(group_staying());
  return table.groups;
}

// Tokens that could also leave the frame may lead to other states than the state of their group, so each of them gets
// its own group.
TokenGroups BudgetMasks::separate_leaving(TokenGroups groups, const TokenTable& table, int32_t words) {
  std::vector<int32_t> leaving_ids = table.staying_or_leaving;
  for (const Remainder& r : table.staying_entries) leaving_ids.push_back(r.token);
  if (leaving_ids.empty()) return groups;
  const TokenSet leaving = make_token_set(std::move(leaving_ids), words);
  TokenGroups out;
  for (const TokenGroup& g : groups) {
    std::vector<int32_t> others;
    g.tokens.each([&](int32_t token) {
      if (leaving.has(token))
        out.push_back({token, make_token_set(std::vector<int32_t>{token}, words)});
      else
        others.push_back(token);
    });
    if (others.empty()) continue;
    const int32_t representative = others[0];
    out.push_back({representative, make_token_set(std::move(others), words)});
  }
  return out;
}

// If a counter has reached its lower bound, and no token or text after it can reach the upper bound, the texts do not
// depend on the count. All such counts share the outlook of the lower bound.
const BudgetMasks::Outlook& BudgetMasks::outlook(const Thread& thread, TokenTable& table) {
  Thread partial = thread;
  partial.mem = arena_.uniqueness().without_next_entry(thread.mem);
  const Rule& rule = arena_.grammar().rule_at(partial.pos);
  if (rule.kind != RuleKind::Counter || partial.reg <= rule.min || partial.mem > kLastUnknownSet || table.overflow)
    return outlook_of_partial(partial, table);
  Thread at_lower_bound = partial;
  at_lower_bound.reg = static_cast<int32_t>(rule.min);
  const int64_t max_counted = std::max<int64_t>(masks_.vocabulary().max_token_bytes + 1 + rule.reach, table.max_count);
  if (rule.max >= 0 && partial.reg + max_counted > rule.max) return outlook_of_partial(partial, table);
  const Outlook& shared_outlook = outlook_of_partial(at_lower_bound, table);
  return rule.max < 0 || partial.reg + max_counted + shared_outlook.bytes <= rule.max
             ? shared_outlook
             : outlook_of_partial(partial, table);
}

const BudgetMasks::Outlook& BudgetMasks::outlook_of_partial(const Thread& partial, TokenTable& table) {
  auto [it, inserted] = outlooks_.try_emplace(partial);
  Outlook& out = it->second;
  if (!inserted) return out;
  const Rule& rule = arena_.grammar().rule_at(partial.pos);
  const bool is_shared = rule.kind == RuleKind::Counter && partial.reg == rule.min;
  const int32_t start = arena_.state_of_thread(partial);
  std::vector<int32_t> states;
  auto distance = [&](int32_t state) {
    if (state == kDead) return kUnreachable;
    // The seen set between two entries is known. Only tokens that begin the next entry depend on unknown values.
    state = arena_.with_next_entry(state);
    states.push_back(state);
    const int64_t needed_tokens = completions_.distance(state);
    if (is_shared) out.bytes = std::max(out.bytes, needed_tokens < kUnreachable ? text_bytes(state) : kUnreachable);
    return needed_tokens;
  };
  out.groups = groups(partial, table);
  for (const TokenGroup& g : *out.groups)
    out.staying_groups.push_back({distance(step(start, g.representative)), &g.tokens});
  if (!table.overflow) {
    out.unsure_tokens = table.unsure;
    auto add_leaving = [&](int32_t token, int32_t state) {
      state = arena_.end_token(state);
      if (state == kDead) return;
      out.leaving_tokens.push_back({distance(state), token});
      if (touches_entry(partial, state)) out.entry_changing_tokens.push_back({token, arena_.config(state).count});
    };
    masks_.each_remainder(partial, table, add_leaving, &out.unsure_tokens);
    if (const size_t staying = table.staying_entries.size(); staying > 0)
      masks_.each_remainder(partial, table.remainders_of_staying(staying, masks_.vocabulary().tokens), add_leaving,
                            &out.unsure_tokens);
  }
  if (partial.mem == kOutside && !arena_.grammar().known.empty()) {
    // A token may open a scope and begin an entry, which may become a known name.
    for (int32_t token : masks_.vocabulary().quoting_tokens().all)
      if (const int32_t next = step(start, token); next != kDead && masks_.is_watched(next, kOutside))
        out.unsure_tokens.push_back(token);
  }
  if (partial.mem > kLastUnknownSet) {
    sort_unique(states);
    completions_.written_later(states, out.later_values);
    sort_unique(out.later_values);
    for (const auto& [needed_tokens, tokens] : out.staying_groups)
      if (needed_tokens >= kUnreachable) tokens->each([&](int32_t token) { out.unsure_tokens.push_back(token); });
    for (const auto& [needed_tokens, token] : out.leaving_tokens)
      if (needed_tokens >= kUnreachable) out.unsure_tokens.push_back(token);
  }
  arena_.charge(128 + 16 * (out.staying_groups.size() + out.leaving_tokens.size()) + 4 * out.unsure_tokens.size());
  return out;
}

// Whether a token that leads `partial` to this state begins or ends an entry.
bool BudgetMasks::touches_entry(const Thread& partial, int32_t state) {
  Uniqueness& uniqueness = arena_.uniqueness();
  const Config& c = arena_.config(state);
  return std::any_of(c.begin(), c.end(), [&](const Thread& t) {
    return uniqueness.is_reading(t.mem) ||
           uniqueness.scope_between_entries(t.mem) != uniqueness.scope_between_entries(partial.mem);
  });
}

void BudgetMasks::append_uncertain(const Thread& thread, const Outlook& outlook, const TokenTable& table,
                                   std::vector<int32_t>& out) {
  out.insert(out.end(), outlook.unsure_tokens.begin(), outlook.unsure_tokens.end());
  if (thread.mem <= kLastUnknownSet) return;
  Thread watched_thread = thread;
  watched_thread.mem = arena_.uniqueness().with_seen_values(thread.mem, outlook.later_values);
  const bool may_touch_entries = table.touches_entries || table.overflow;
  const int32_t memory = may_touch_entries ? watched_thread.mem : kOutside;
  auto append_if_watched = [&](int32_t token, int32_t next) {
    if (next == kDead || masks_.is_watched(next, memory)) out.push_back(token);
  };
  if (may_touch_entries || arena_.uniqueness().is_reading(thread.mem))
    masks_.each_watched(watched_thread, memory, append_if_watched);
  if (may_touch_entries) return;
  const int32_t start = arena_.state_of_thread(watched_thread);  // no entry begins or ends within the frame
  for (const auto& [token, thread_count] : outlook.entry_changing_tokens) {
    const int32_t next = step(start, token);
    // A thread has ended an entry with a seen value, so the distance may be that of another thread.
    if (next != kDead && arena_.config(next).count < thread_count)
      out.push_back(token);
    else
      append_if_watched(token, next);
  }
}

int32_t BudgetMasks::step(int32_t state, int32_t token) {
  CallMeter::work(kLookup);
  return arena_.end_token(arena_.step_text(state, masks_.vocabulary().tokens[token]));
}

int64_t BudgetMasks::distance_after(int32_t state, int32_t token) {
  state = step(state, token);
  return state != kDead && at_boundary(arena_, state) ? completions_.distance(state) : INT64_MAX;
}

int64_t BudgetMasks::reach(int32_t state) {
  const Config& c = arena_.config(state);
  int64_t max_distance = reaches_.get(state);
  if (max_distance >= 0) return max_distance;
  const Grammar& g = arena_.grammar();
  max_distance = 0;
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (const TokenEdge& edge : g.tokens_of(p))
      max_distance = std::max(max_distance, completions_.distance(arena_.step_token(state, edge.token)));
    if (p.bytes.count() == 0) continue;
    TokenTable& table = masks_.table(t);
    const Outlook& thread_outlook = outlook(t, table);
    for (const auto& [needed_tokens, tokens] : thread_outlook.staying_groups)
      max_distance = std::max(max_distance, needed_tokens < kUnreachable ? needed_tokens : 0);
    for (const auto& [needed_tokens, token] : thread_outlook.leaving_tokens)
      max_distance = std::max(max_distance, needed_tokens < kUnreachable ? needed_tokens : 0);
    std::vector<int32_t> uncertain_tokens;
    append_uncertain(t, thread_outlook, table, uncertain_tokens);
    for (int32_t token : uncertain_tokens)
      if (const int64_t needed_tokens = distance_after(state, token); needed_tokens < INT64_MAX)
        max_distance = std::max(max_distance, needed_tokens);
  }
  arena_.charge(reaches_.set(state, max_distance));
  return max_distance;
}

void BudgetMasks::fill(int32_t state, int64_t max_distance, uint32_t* row) {
  const auto words = static_cast<size_t>(masks_.vocabulary().words);
  std::vector<uint32_t> allowed(words, 0), thread_mask;
  std::vector<int32_t> uncertain_tokens;
  const Config& c = arena_.config(state);
  for (const Thread& t : c) {
    if (t.pos == kExit || arena_.grammar().positions[t.pos].bytes.count() == 0) continue;
    TokenTable& table = masks_.table(t);
    const Outlook& thread_outlook = outlook(t, table);
    thread_mask.assign(words, 0);
    for (const auto& [needed_tokens, tokens] : thread_outlook.staying_groups)
      if (needed_tokens <= max_distance) tokens->add_to(thread_mask.data());
    for (const auto& [needed_tokens, token] : thread_outlook.leaving_tokens)
      if (needed_tokens <= max_distance) set_bit(thread_mask.data(), token);
    const size_t first_uncertain = uncertain_tokens.size();
    append_uncertain(t, thread_outlook, table, uncertain_tokens);
    for (size_t k = first_uncertain; k < uncertain_tokens.size(); ++k)
      clear_bit(thread_mask.data(), uncertain_tokens[k]);
    for (size_t w = 0; w < words; ++w) allowed[w] |= thread_mask[w];
  }
  // If distances are upper bounds, the first tokens of the texts must be examined. Exact distances have no such texts.
  if (arena_.grammar().token_distance.empty()) completions_.first_tokens(state, uncertain_tokens);
  sort_unique(uncertain_tokens);
  for (int32_t token : uncertain_tokens)
    distance_after(state, token) <= max_distance ? set_bit(allowed.data(), token) : clear_bit(allowed.data(), token);
  masks_.recipe(state).write(row, masks_.vocabulary().words);
  for (size_t w = 0; w < words; ++w) row[w] &= allowed[w];
}

}  // namespace guided
