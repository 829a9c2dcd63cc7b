#include "budget/budgets.hpp"

#include <algorithm>

namespace guided {

std::shared_ptr<const TokenGroups> BudgetMasks::groups(const Thread& partial, TokenTable& table) {
  // Near a bound, different guards may have let tokens with the same count through. No table distinguishes these.
  const Rule& rule = arena_.grammar().rule_at(partial.pos);
  const bool near =
      table.relative && (partial.reg < rule.min || (rule.max >= 0 && partial.reg + table.furthest > rule.max));
  if (near || table.overflow) {
    auto own = std::make_shared<const TokenGroups>(group(arena_.lone(partial)));
    for (const TokenGroup& g : *own) arena_.charge(g.tokens.bytes());
    return own;
  }
  std::lock_guard<std::mutex> lock(table.groups_lock);
  if (!table.groups) {
    TokenGroups found = group(arena_.lone(masks_.table_thread(partial)));
    table.groups = std::make_shared<const TokenGroups>(apart(std::move(found), table, masks_.vocabulary().words));
  }
  return table.groups;
}

// Tokens that could also leave the frame lead to more than the state by which they are grouped, so each becomes a
// separate group.
TokenGroups BudgetMasks::apart(TokenGroups groups, const TokenTable& table, int32_t words) {
  std::vector<int32_t> both = table.both;
  for (const Remainder& r : table.staying_entries) both.push_back(r.token);
  if (both.empty()) return groups;
  const TokenSet leaving = make_token_set(std::move(both), words);
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
    const int32_t one = others[0];
    out.push_back({one, make_token_set(std::move(others), words)});
  }
  return out;
}

// If a counter has reached its lower bound, and a token and any text after it stay below the upper bound, the texts do
// not depend on the count. All such counts share the outlook of the lower bound.
const BudgetMasks::Outlook& BudgetMasks::outlook(const Thread& thread, TokenTable& table) {
  Thread partial = thread;
  partial.mem = arena_.uniqueness().without_next_entry(thread.mem);
  const Rule& rule = arena_.grammar().rule_at(partial.pos);
  if (rule.kind != RuleKind::Counter || partial.reg <= rule.min || partial.mem > kLastUnknownSet || table.overflow)
    return outlook_of(partial, table);
  Thread lowest = partial;
  lowest.reg = static_cast<int32_t>(rule.min);
  const int64_t counted = std::max<int64_t>(masks_.vocabulary().longest + 1 + rule.reach, table.furthest);
  if (rule.max >= 0 && partial.reg + counted > rule.max) return outlook_of(partial, table);
  const Outlook& shared = outlook_of(lowest, table);
  return rule.max < 0 || partial.reg + counted + shared.bytes <= rule.max ? shared : outlook_of(partial, table);
}

const BudgetMasks::Outlook& BudgetMasks::outlook_of(const Thread& partial, TokenTable& table) {
  auto [it, inserted] = outlooks_.try_emplace(partial);
  Outlook& out = it->second;
  if (!inserted) return out;
  const Rule& rule = arena_.grammar().rule_at(partial.pos);
  const bool others_share = rule.kind == RuleKind::Counter && partial.reg == rule.min;
  const int32_t from = arena_.lone(partial);
  std::vector<int32_t> states;
  auto distance = [&](int32_t state) {
    if (state == kDead) return kUnreachable;
    // The seen set between two entries is known. Only a token that begins the next entry depends on unknown values.
    state = arena_.with_next_entry(state);
    states.push_back(state);
    const int64_t needed = completions_.distance(state);
    if (others_share) out.bytes = std::max(out.bytes, needed < kUnreachable ? text_bytes(state) : kUnreachable);
    return needed;
  };
  out.groups = groups(partial, table);
  for (const TokenGroup& g : *out.groups) out.staying.push_back({distance(step(from, g.one)), &g.tokens});
  if (!table.overflow) {
    out.unsure = table.unsure;
    auto leaves = [&](int32_t token, int32_t state) {
      state = arena_.counted(state);
      if (state == kDead) return;
      out.leaving.push_back({distance(state), token});
      if (begins(partial, state)) out.beginning.push_back(token);
    };
    masks_.each_remainder(partial, table, leaves, &out.unsure);
    if (const size_t staying = table.staying_entries.size(); staying > 0)
      masks_.each_remainder(partial, table.remainders_of_staying(staying, masks_.vocabulary().tokens), leaves,
                            &out.unsure);
  }
  if (partial.mem > kLastUnknownSet) {
    sort_unique(states);
    for (int32_t state : states) completions_.written_later(state, out.later);
    sort_unique(out.later);
    for (const auto& [needed, tokens] : out.staying)
      if (needed >= kUnreachable) tokens->each([&](int32_t token) { out.unsure.push_back(token); });
    for (const auto& [needed, token] : out.leaving)
      if (needed >= kUnreachable) out.unsure.push_back(token);
  }
  arena_.charge(128 + 16 * (out.staying.size() + out.leaving.size()) + 4 * out.unsure.size());
  return out;
}

// Whether a token that leads a thread to this state begins or ends an entry.
bool BudgetMasks::begins(const Thread& partial, int32_t state) {
  Uniqueness& uniqueness = arena_.uniqueness();
  const Config& c = arena_.config(state);
  return std::any_of(c.begin(), c.end(), [&](const Thread& t) {
    return uniqueness.reading(t.mem) || uniqueness.between(t.mem) != uniqueness.between(partial.mem);
  });
}

void BudgetMasks::look_at(const Thread& thread, const Outlook& outlook, const TokenTable& table,
                          std::vector<int32_t>& out) {
  out.insert(out.end(), outlook.unsure.begin(), outlook.unsure.end());
  if (thread.mem <= kLastUnknownSet) return;
  Thread watching = thread;
  watching.mem = arena_.uniqueness().with(thread.mem, outlook.later);
  const bool touches = table.touches_entries || table.overflow;
  const int32_t memory = touches ? watching.mem : kOutside;
  auto look = [&](int32_t token, int32_t next) {
    if (next == kDead || masks_.is_watched(next, memory)) out.push_back(token);
  };
  if (touches || arena_.uniqueness().reading(thread.mem)) masks_.each_watched(watching, memory, look);
  if (touches) return;
  const int32_t from = arena_.lone(watching);  // no entry begins or ends within the frame
  for (int32_t token : outlook.beginning) look(token, step(from, token));
}

int32_t BudgetMasks::step(int32_t state, int32_t token) {
  CallMeter::work(kLookup);
  return arena_.counted(arena_.step_text(state, masks_.vocabulary().tokens[token]));
}

int64_t BudgetMasks::after(int32_t state, int32_t token) {
  state = step(state, token);
  return state != kDead && at_boundary(arena_, state) ? completions_.distance(state) : INT64_MAX;
}

int64_t BudgetMasks::reach(int32_t state) {
  const Config& c = arena_.config(state);
  int64_t most = reaches_.get(state);
  if (most >= 0) return most;
  const Grammar& g = arena_.grammar();
  most = 0;
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (const TokenEdge& edge : g.tokens_of(p))
      most = std::max(most, completions_.distance(arena_.step_token(state, edge.token)));
    if (p.bytes.count() == 0) continue;
    TokenTable& table = masks_.table(t);
    const Outlook& o = outlook(t, table);
    for (const auto& [needed, tokens] : o.staying) most = std::max(most, needed < kUnreachable ? needed : 0);
    for (const auto& [needed, token] : o.leaving) most = std::max(most, needed < kUnreachable ? needed : 0);
    std::vector<int32_t> looked_at;
    look_at(t, o, table, looked_at);
    for (int32_t token : looked_at)
      if (const int64_t needed = after(state, token); needed < INT64_MAX) most = std::max(most, needed);
  }
  arena_.charge(reaches_.set(state, most));
  return most;
}

void BudgetMasks::fill(int32_t state, int64_t most, uint32_t* row) {
  const auto words = static_cast<size_t>(masks_.vocabulary().words);
  std::vector<uint32_t> allowed(words, 0), some;
  std::vector<int32_t> looked_at;
  const Config& c = arena_.config(state);
  for (const Thread& t : c) {
    if (t.pos == kExit || arena_.grammar().positions[t.pos].bytes.count() == 0) continue;
    TokenTable& table = masks_.table(t);
    const Outlook& o = outlook(t, table);
    some.assign(words, 0);
    for (const auto& [needed, tokens] : o.staying)
      if (needed <= most) tokens->add_to(some.data());
    for (const auto& [needed, token] : o.leaving)
      if (needed <= most) set_bit(some.data(), token);
    const size_t first = looked_at.size();
    look_at(t, o, table, looked_at);
    for (size_t k = first; k < looked_at.size(); ++k) clear_bit(some.data(), looked_at[k]);
    for (size_t w = 0; w < words; ++w) allowed[w] |= some[w];
  }
  // For a bound, the first tokens of its text must be examined. Exact distances have no such text.
  if (arena_.grammar().token_distance.empty()) completions_.first_tokens(state, looked_at);
  sort_unique(looked_at);
  for (int32_t token : looked_at)
    after(state, token) <= most ? set_bit(allowed.data(), token) : clear_bit(allowed.data(), token);
  masks_.recipe(state).write(row, masks_.vocabulary().words);
  for (size_t w = 0; w < words; ++w) row[w] &= allowed[w];
}

}  // namespace guided
