#include "masks.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "table_walk.hpp"
#include "taken_strings.hpp"

namespace guided {

namespace {
constexpr size_t kMaxSparse = 3000;  // a recipe with more single ids gets a bitmask of its own

// The content of the only string that the token holds, plainly spelled and with nothing but separators before it.
std::optional<std::string_view> whole_string(std::string_view token) {
  const size_t from = token.find_first_not_of(" \t\r\n,");
  if (from == token.npos || token[from] != '"') return std::nullopt;
  const size_t to = token.find_first_of("\"\\", from + 1);
  if (to == token.npos || token[to] != '"' || token.find('"', to + 1) != token.npos) return std::nullopt;
  return token.substr(from + 1, to - from - 1);
}
}  // namespace

void MaskRecipe::write(uint32_t* row, int32_t words) const {
  size_t size = static_cast<size_t>(words) * 4;
  if (dense.empty()) {
    std::memset(row, 0, size);
  } else {
    std::memcpy(row, dense[0], size);
    for (size_t i = 1; i < dense.size(); ++i)
      for (int32_t w = 0; w < words; ++w) row[w] |= dense[i][w];
  }
  for (int32_t id : sparse) set_bit(row, id);
}

void MaskRecipe::add(const TokenSet& set) {
  if (set.dense.empty())
    sparse.insert(sparse.end(), set.sparse.begin(), set.sparse.end());
  else if (std::find(dense.begin(), dense.end(), set.dense.data()) == dense.end())
    dense.push_back(set.dense.data());
}

Thread MaskBuilder::table_thread(const Thread& t) const {
  const Rule& rule = arena_.grammar().rules[arena_.grammar().positions[t.pos].rule];
  const int32_t mem = arena_.grammar().known.empty() ? kOutside : kUntold;
  if (rule.relative) return {t.pos, 0, kFree, mem};
  Thread out{t.pos, t.reg, kTop, mem};
  if (rule.kind == RuleKind::Counter) {
    // No token reaches a bound, nor looks beyond one: every such count is like the least of them.
    const int64_t seen = t.reg + int64_t{vocabulary_.longest} + 1 + rule.reach;
    if (rule.max < 0 || seen <= rule.max) {
      if (t.reg >= rule.min) out.reg = static_cast<int32_t>(rule.min);
      if (seen < rule.min) out.reg = 0;
    }
  }
  return out;
}

Counts MaskBuilder::counts_at_exit(const Thread& t) const {
  const Rule& rule = arena_.grammar().rules[arena_.grammar().positions[t.pos].rule];
  return {rule.min - t.reg, rule.max < 0 ? INT64_MAX : rule.max - t.reg};
}

int32_t MaskBuilder::state_outside(const Thread& t) {
  Memories& memories = arena_.memories();
  int32_t memory = memories.unread(t.mem);
  for (int32_t open = arena_.grammar().positions[t.pos].scopes; open > 0; --open) memory = memories.close(memory);
  return arena_.return_to(t.ret, memory);
}

std::pair<ByteSet, int32_t> MaskBuilder::follow_of(const Thread& t) {
  const ByteSet follow = arena_.config(state_outside(t)).bytes;
  auto [it, fresh] = follows_.try_emplace({follow.w[0], follow.w[1], follow.w[2], follow.w[3]},
                                          static_cast<int32_t>(follows_.size()));
  return {follow, it->second};
}

const TokenTable& MaskBuilder::remainder_table(const Thread& t, const TokenTable& left) {
  const Thread key_thread = table_thread(t);
  const auto [follow, number] = follow_of(t);
  auto& table = remainder_tables_[{&left, key_thread.pos, key_thread.reg, number}];
  if (!table) {
    table = build_remainder_table(arena_, vocabulary_, key_thread, follow, left);
    arena_.charge(table->bytes());
  }
  return *table;
}

TokenTable& MaskBuilder::table(const Thread& t) {
  Thread key_thread = table_thread(t);
  const auto [follow, follow_number] = follow_of(t);
  std::vector<int32_t> local{key_thread.pos, key_thread.reg, follow_number};
  auto it = local_.find(local);
  if (it != local_.end()) return *it->second;

  const Grammar& g = arena_.grammar();
  const Rule& rule = g.rules[g.positions[t.pos].rule];
  Digest key = rule.digest;
  key.add(static_cast<uint64_t>(t.pos - rule.base));
  if (rule.kind == RuleKind::Set) {
    const SeenSet& seen = arena_.seen(key_thread.reg);
    key.add(static_cast<uint64_t>(seen.count));
    key.add(static_cast<uint64_t>(static_cast<int64_t>(seen.last)));
    for (uint64_t w : seen.bits) key.add(w);
  } else {
    key.add(static_cast<uint64_t>(key_thread.reg));
  }
  for (uint64_t w : follow.w) key.add(w);
  std::shared_ptr<TokenTable> table = vocabulary_.cache.find(key);
  const std::pair<int32_t, int32_t> latest{g.positions[t.pos].rule, follow_number};
  if (!table) {
    const auto other = latest_.find(latest);
    table = build_token_table(arena_, vocabulary_, key_thread, follow, runs_,
                              other == latest_.end() ? nullptr : &other->second);
    vocabulary_.cache.insert(key, table);
  }
  if (rule.kind == RuleKind::Plain && table->is_plain()) latest_[latest] = {t.pos, table.get()};
  kept_.push_back(table);
  return *(local_[local] = table.get());
}

const TokenSet& MaskBuilder::within_bounds(const TokenTable& table, const Thread& t) {
  const Rule& rule = arena_.grammar().rules[arena_.grammar().positions[t.pos].rule];
  // Past what any token counts, all distances to a bound are alike.
  int64_t beyond = int64_t{table.furthest} + 1;
  int64_t room = rule.max < 0 ? beyond : std::min(beyond, rule.max - t.reg);
  int64_t missing = std::clamp<int64_t>(rule.min - t.reg, 0, beyond);
  auto& set = within_bounds_[{&table, room, missing}];
  if (!set) {
    set = std::make_unique<TokenSet>(table.allowed(room, missing, vocabulary_.words));
    arena_.charge(set->bytes());
  }
  return *set;
}

// ---- threads that remember
bool MaskBuilder::is_sure(int32_t state) {
  for (const Thread& t : arena_.config(state))
    if (arena_.memories().touched(t.mem) < 2) return true;
  return false;
}

bool MaskBuilder::is_watched(int32_t state, int32_t memory) {
  Memories& memories = arena_.memories();
  const int32_t between = memories.between(memory);
  for (const Thread& t : arena_.config(state))
    if (t.mem != kOutside && (memories.alive(t.mem) || (between >= 0 && memories.between(t.mem) == between)))
      return true;
  return false;
}

void MaskBuilder::verify(const Thread& thread, std::vector<int32_t>& tokens, std::vector<int32_t>& refused) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  const int32_t from = arena_.lone(thread);
  for (int32_t token : tokens) {
    const int32_t state = arena_.step_text(from, vocabulary_.tokens[token]);
    if (state == kDead || !at_boundary(arena_, state)) refused.push_back(token);
  }
}

void MaskBuilder::set_but(const TokenSet& staying, std::vector<int32_t> leaving, const std::vector<int32_t>& refused,
                          Share& share) {
  if (refused.empty()) {
    share.staying = &staying;
    share.leaving = std::move(leaving);
    return;
  }
  std::vector<uint32_t> bits(static_cast<size_t>(vocabulary_.words), 0);
  staying.add_to(bits.data());
  for (int32_t id : leaving) set_bit(bits.data(), id);
  for (int32_t id : refused) clear_bit(bits.data(), id);
  share.own = make_token_set(std::move(bits));
}

bool MaskBuilder::has_entries(int32_t rule) {
  const Grammar& g = arena_.grammar();
  has_entries_.resize(g.rules.size(), -1);
  if (has_entries_[rule] >= 0) return has_entries_[rule] == 1;
  std::vector<uint8_t> met(g.rules.size(), 0);
  std::vector<int32_t> open{rule};
  met[rule] = 1;
  bool found = false;
  while (!open.empty() && !found) {
    const Rule& at = g.rules[open.back()];
    open.pop_back();
    found = at.keeps || has_entries_[&at - g.rules.data()] == 1;
    for (int32_t p = at.base; p < at.base + at.size && !found; ++p)
      for (int32_t i = g.positions[p].call_lo; i < g.positions[p].call_hi; ++i)
        if (const int32_t callee = g.calls[i].rule; !met[callee]) {
          met[callee] = 1;
          open.push_back(callee);
        }
  }
  has_entries_[rule] = found;
  return found;
}

void MaskBuilder::remainders_untold(Thread t, TokenTable& tokens, std::vector<int32_t>& leaving,
                                    std::vector<int32_t>& unsure) {
  t.mem = kUntold;
  const size_t sure = unsure.size();
  if (each_kept_remainder(t, tokens, [&](int32_t token) { leaving.push_back(token); }, &unsure)) return;
  leaving.clear();
  unsure.resize(sure);
  each_remainder(t, tokens, [&](int32_t token, int32_t) { leaving.push_back(token); }, &unsure);
}

bool MaskBuilder::find_strings(const Thread& t, TokenTable& tokens, Share& share) {
  Memories& memories = arena_.memories();
  std::optional<Memories::StringAhead> ahead;
  if (memories.reading(t.mem)) {
    ahead = memories.string_ahead(t.mem);
    if (!ahead) return false;
    if (!(ahead->opened ? arena_.endless().goes_on(t.pos) : arena_.endless().begins_string(t.pos))) return false;
  } else if (memories.between(t.mem) < 0) {
    return false;
  }
  const TokenSet& staying = tokens.relative ? within_bounds(tokens, t) : tokens.all;
  std::vector<int32_t> leaving, refused, unsure;
  for (int32_t token : tokens.unsure)
    if (staying.has(token)) unsure.push_back(token);
  remainders_untold(t, tokens, leaving, unsure);
  std::sort(leaving.begin(), leaving.end());
  auto refuse = [&](int32_t token) {
    if (staying.has(token) || std::binary_search(leaving.begin(), leaving.end(), token)) refused.push_back(token);
  };
  if (ahead) {
    TakenStrings taken(memories.trie(), refuse);
    if (ahead->opened)
      taken.inside(vocabulary_.quoting(), ahead->escape, ahead->node);
    else
      taken.whole(vocabulary_.quoting(), ahead->node);
    std::erase_if(unsure, [&](int32_t token) { return std::ranges::count(vocabulary_.tokens[token], '"') < 3; });
  } else {
    std::erase_if(unsure, [&](int32_t token) {
      const std::optional<std::string_view> whole = whole_string(vocabulary_.tokens[token]);
      const std::optional<bool> taken = whole ? memories.string_was_there(t.mem, *whole) : std::nullopt;
      if (taken.value_or(false)) refused.push_back(token);
      return taken.has_value();
    });
  }
  verify(t, unsure, refused);
  set_but(staying, std::move(leaving), refused, share);
  return true;
}

const MaskBuilder::Share& MaskBuilder::share(const Thread& t, TokenTable& tokens) {
  auto [it, fresh] = shares_.try_emplace(t);
  Share& share = it->second;
  if (!fresh) return share;
  if (!arena_.endless().all_entries() || !find_strings(t, tokens, share)) {
    const TokenSet& staying = tokens.relative ? within_bounds(tokens, t) : tokens.all;
    std::vector<int32_t> leaving, unsure = tokens.unsure, refused;
    const Memories& memories = arena_.memories();
    const int32_t rule = arena_.grammar().positions[t.pos].rule;
    if (!memories.reading(t.mem) && memories.between(t.mem) >= 0 && !has_entries(rule)) {
      remainders_untold(t, tokens, leaving, unsure);  // whether values are left matters after the exit
      unsure = leaving;
    } else {
      each_remainder(t, tokens, [&](int32_t token, int32_t) { leaving.push_back(token); }, &unsure);
      each_watched(t, [&](int32_t token, int32_t after) {
        if (after == kDead || !at_boundary(arena_, after)) refused.push_back(token);
      });
    }
    verify(t, unsure, refused);
    set_but(staying, std::move(leaving), refused, share);
  }
  arena_.charge(sizeof(Share) + 64 + share.own.bytes() + share.leaving.size() * 4);
  return share;
}

const MaskRecipe& MaskBuilder::recipe(int32_t state) {
  Config& c = arena_.config(state);
  if (const MaskRecipe* known = c.mask.load(std::memory_order_relaxed)) return *known;
  auto out = std::make_unique<MaskRecipe>();
  const Grammar& g = arena_.grammar();
  for (int32_t i = 0; i < c.count; ++i) {
    const Thread t = c.threads[i];
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (int32_t k = p.token_lo; k < p.token_hi; ++k) out->sparse.push_back(g.tokens[k].token);
    if (p.bytes.count() == 0) continue;
    TokenTable& tokens = table(t);
    if (t.mem > kLastUntold && !tokens.overflow) {
      const Share& more = share(t, tokens);
      out->add(more.staying ? *more.staying : more.own);
      out->sparse.insert(out->sparse.end(), more.leaving.begin(), more.leaving.end());
      continue;
    }
    if (tokens.overflow) {
      each_token(arena_.lone(t), [&](int32_t token, int32_t) { out->sparse.push_back(token); });
      continue;
    }
    if (tokens.relative) {
      out->add(within_bounds(tokens, t));
    } else {
      out->add(tokens.all);
    }
    std::vector<int32_t> left;
    auto leaves = [&](int32_t token, int32_t = kUnknown) { left.push_back(token); };
    if (t.mem > kLastUntold || !each_kept_remainder(t, tokens, leaves, nullptr)) {
      left.clear();
      each_remainder(t, tokens, leaves);
    }
    out->sparse.insert(out->sparse.end(), left.begin(), left.end());
  }
  if (c.accepting) out->sparse.insert(out->sparse.end(), vocabulary_.end_tokens.begin(), vocabulary_.end_tokens.end());
  if (out->sparse.size() > kMaxSparse) {
    out->own.push_back(make_token_set(std::move(out->sparse), vocabulary_.words));
    out->sparse.clear();
    out->add(out->own.back());
  }
  if (vocabulary_.all_text && !out->dense.empty()) {
    std::vector<uint32_t> row(static_cast<size_t>(vocabulary_.words));
    out->write(row.data(), vocabulary_.words);
    int64_t allowed = 0;
    for (uint32_t w : row) allowed += __builtin_popcount(w);
    out->everything = allowed == vocabulary_.size;
  }
  arena_.charge(sizeof(MaskRecipe) + out->sparse.size() * 4);
  for (const TokenSet& set : out->own) arena_.charge(set.bytes());
  const MaskRecipe* result = out.release();
  c.mask.store(result, std::memory_order_release);
  return *result;
}

std::vector<int32_t> MaskBuilder::walk(int32_t state) {
  std::vector<int32_t> ids;
  each_token(state, [&](int32_t token, int32_t) { ids.push_back(token); });
  const Config& c = arena_.config(state);
  const Grammar& g = arena_.grammar();
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (int32_t k = p.token_lo; k < p.token_hi; ++k) ids.push_back(g.tokens[k].token);
  }
  if (c.accepting) ids.insert(ids.end(), vocabulary_.end_tokens.begin(), vocabulary_.end_tokens.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace guided
