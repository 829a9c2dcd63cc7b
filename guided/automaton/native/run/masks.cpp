#include "run/masks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "run/table_walk.hpp"

namespace guided {

namespace {
constexpr int32_t kAnyRegister = -1;
constexpr size_t kMaxSparse = 3000;         // a recipe with more single ids gets its own bitmask
constexpr size_t kMaxStayingBeyond = 2000;  // if more tokens count beyond a bound, a walk is cheaper than a table

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
  for (const std::vector<int32_t>* list : lists)
    for (int32_t id : *list) set_bit(row, id);
  for (int32_t id : refused) clear_bit(row, id);
}

bool MaskRecipe::allows_all(int32_t size) const {
  size_t listed_count = sparse.size();
  for (const std::vector<int32_t>* list : lists) listed_count += list->size();
  const int32_t words = (size + 31) / 32;
  size_t missing_count = 0;  // tokens that no dense row contains
  for (int32_t w = 0; w < words; ++w) {
    uint32_t word = w + 1 < words || size % 32 == 0 ? 0 : ~0u << size % 32;
    for (const uint32_t* set : dense) word |= set[w];
    missing_count += static_cast<size_t>(std::popcount(~word));
    if (missing_count > listed_count) return false;  // most masks return here after a few words
  }
  if (missing_count == 0) return refused.empty();
  std::vector<uint32_t> row(static_cast<size_t>(words));
  write(row.data(), words);
  int64_t allowed_count = 0;
  for (uint32_t w : row) allowed_count += std::popcount(w);
  return allowed_count == size;
}

void MaskRecipe::add(const TokenSet& set) {
  if (set.dense.empty())
    sparse.insert(sparse.end(), set.sparse.begin(), set.sparse.end());
  else if (std::find(dense.begin(), dense.end(), set.dense.data()) == dense.end())
    dense.push_back(set.dense.data());
}

MaskBuilder::~MaskBuilder() {
  recipes_.each([](const MaskRecipe* recipe) { delete recipe; });
}

Thread MaskBuilder::table_thread(const Thread& t) const {
  const Rule& rule = arena_.grammar().rule_at(t.pos);
  const int32_t mem = arena_.grammar().known.empty() ? kOutside : kUnknownSet;
  if (rule.relative) return {.pos = t.pos, .reg = 0, .ret = kFree, .mem = mem};
  Thread out{t.pos, rule.max_tokens >= 0 ? 0 : t.reg, kTop, mem};  // tokens are counted only when they end
  if (rule.kind == RuleKind::Counter) {
    // If no token can reach a bound from this count, and no guard looks ahead past a bound, all such counts share a
    // table.
    const int64_t max_reached = t.reg + int64_t{vocabulary_.max_token_bytes} + 1 + rule.reach;
    if (rule.max < 0 || max_reached <= rule.max) {
      if (t.reg >= rule.min) out.reg = static_cast<int32_t>(rule.min);
      if (max_reached < rule.min) out.reg = 0;
    }
  }
  return out;
}

Counts MaskBuilder::counts_at_exit(const Thread& t) const {
  const Rule& rule = arena_.grammar().rule_at(t.pos);
  return {rule.min - t.reg, rule.max < 0 ? INT64_MAX : rule.max - t.reg};
}

int32_t MaskBuilder::state_outside(const Thread& t) {
  Uniqueness& uniqueness = arena_.uniqueness();
  int32_t memory = uniqueness.with_unread_entries(t.mem);
  for (int32_t open_scopes = arena_.grammar().positions[t.pos].scopes; open_scopes > 0; --open_scopes)
    memory = uniqueness.close(memory);
  return arena_.return_to(t.ret, memory);
}

std::pair<ByteSet, int32_t> MaskBuilder::following_bytes(const Thread& t) {
  const ByteSet follow = arena_.config(state_outside(t)).bytes;
  auto [it, inserted] = follow_numbers_.try_emplace({follow.w[0], follow.w[1], follow.w[2], follow.w[3]},
                                                    static_cast<int32_t>(follow_numbers_.size()));
  return {follow, it->second};
}

const TokenTable& MaskBuilder::remainder_table(const Thread& t, const TokenTable& first_table) {
  const Thread key_thread = table_thread(t);
  const auto [follow, number] = following_bytes(t);
  auto& table = remainder_tables_[{&first_table, key_thread.pos, key_thread.reg, number}];
  if (!table) {
    table = build_remainder_table(arena_, vocabulary_, key_thread, follow, first_table);
    arena_.charge(table->bytes());
  }
  return *table;
}

const TokenTable& MaskBuilder::first_equal_table(const TokenTable& table) {
  const TokenTable*& first = first_equal_tables_[&table];
  if (first) return *first;
  const auto sorted = [](std::vector<Remainder> entries) {
    std::ranges::sort(entries);
    return entries;
  };
  uint64_t content_hash = table.entries.size();  // the entries may be in any order
  for (const Remainder& r : table.entries)
    content_hash += combine(combine(0, pair_key(r.token, r.depth)), pair_key(r.count, r.touched_entries));
  const auto [from, to] = tables_by_content_.equal_range(content_hash);
  for (auto it = from; it != to && !first; ++it)
    if (it->second->entries == table.entries || sorted(it->second->entries) == sorted(table.entries))
      first = it->second;
  if (!first) tables_by_content_.emplace(content_hash, first = &table);
  return *first;
}

TokenTable& MaskBuilder::table(const Thread& t) {
  Thread key_thread = table_thread(t);
  const auto [follow, follow_number] = following_bytes(t);
  const uint64_t local_key = pair_key(key_thread.pos, key_thread.reg);
  if (static_cast<size_t>(follow_number) >= table_indices_.size())
    table_indices_.resize(static_cast<size_t>(follow_number) + 1);
  PairMap& tables = table_indices_[static_cast<size_t>(follow_number)];
  if (const int32_t* cached = tables.find(local_key)) return *tables_[static_cast<size_t>(*cached)];

  const Grammar& g = arena_.grammar();
  const Rule& rule = g.rule_at(t.pos);
  const uint64_t any_register = pair_key(key_thread.pos, kAnyRegister);
  if (rule.kind == RuleKind::Set)
    if (const int32_t* cached = tables.find(any_register)) return *tables_[static_cast<size_t>(*cached)];
  Digest key = rule.digest;
  key.add(static_cast<uint64_t>(t.pos - rule.base));
  if (rule.kind == RuleKind::Set) {
    const SeenSet& members = arena_.seen(key_thread.reg);
    key.add(static_cast<uint64_t>(members.count));
    key.add(static_cast<uint64_t>(static_cast<int64_t>(members.last)));
    for (uint64_t w : members.bits) key.add(w);
  } else {
    key.add(static_cast<uint64_t>(key_thread.reg));
  }
  for (uint64_t w : follow.w) key.add(w);
  std::shared_ptr<TokenTable> table = vocabulary_.cache.find(key);
  const std::pair<int32_t, int32_t> latest_key{g.positions[t.pos].rule, follow_number};
  if (!table) {
    const auto sibling = latest_tables_.find(latest_key);
    table = build_token_table(arena_, vocabulary_, key_thread, follow, runs_,
                              sibling == latest_tables_.end() ? nullptr : &sibling->second);
    vocabulary_.cache.insert(key, table, table->bytes());
  }
  if (rule.kind == RuleKind::Plain && table->is_plain()) latest_tables_[latest_key] = {t.pos, table.get()};
  const bool serves_any_register = rule.kind == RuleKind::Set && table->reads_only_bytes;
  tables.set(serves_any_register ? any_register : local_key, static_cast<int32_t>(tables_.size()));
  tables_.push_back(std::move(table));
  return *tables_.back();
}

bool MaskBuilder::may_leave(const Thread& t, const TokenTable& table) const {
  return !table.is_relative || arena_.grammar().rule_at(t.pos).min - t.reg <= table.max_count;
}

std::optional<int64_t> MaskBuilder::counts_to_upper_bound(const Thread& t, const TokenTable& table) const {
  if (!table.is_relative) return std::nullopt;
  const Rule& rule = arena_.grammar().rule_at(t.pos);
  if (rule.max < 0 || rule.max - t.reg >= table.max_count) return std::nullopt;
  return rule.max - t.reg;
}

void MaskBuilder::add_leaving(const Thread& t, const TokenTable& table, const TokenSet& staying, MaskRecipe& out) {
  if (!may_leave(t, table)) return;
  const auto add_remainders = [&](const TokenTable& remainders) {
    std::vector<int32_t> leaving_ids;
    auto add_id = [&](int32_t token, int32_t = kUnknown) { leaving_ids.push_back(token); };
    if (!each_cached_remainder(t, remainders, add_id, nullptr)) {
      leaving_ids.clear();
      each_remainder(t, remainders, add_id);
    }
    out.sparse.insert(out.sparse.end(), leaving_ids.begin(), leaving_ids.end());
  };
  const std::optional<int64_t> counts_left = counts_to_upper_bound(t, table);
  const size_t staying_beyond = counts_left ? table.count_staying_beyond(*counts_left) : 0;
  if (staying_beyond > kMaxStayingBeyond) return add_by_walk(t, staying, out);
  add_remainders(table);
  if (staying_beyond > 0) add_remainders(table.remainders_of_staying(staying_beyond, vocabulary_.tokens));
}

const TokenSet& MaskBuilder::within_bounds(const TokenTable& table, const Thread& t) {
  const Rule& rule = arena_.grammar().rule_at(t.pos);
  // No token counts further than `max_count`, so all larger distances to a bound are equivalent.
  int64_t max_distance = int64_t{table.max_count} + 1;
  int64_t counts_left = rule.max < 0 ? max_distance : std::min(max_distance, rule.max - t.reg);
  int64_t counts_missing = std::clamp<int64_t>(rule.min - t.reg, 0, max_distance);
  auto& set = within_bounds_[{&table, counts_left, counts_missing}];
  if (!set) {
    set = std::make_unique<TokenSet>(table.allowed_tokens(counts_left, counts_missing, vocabulary_.words));
    arena_.charge(set->bytes());
  }
  return *set;
}

const MaskRecipe& MaskBuilder::recipe(int32_t state) {
  const Config& c = arena_.config(state);
  if (const MaskRecipe* cached = recipes_.get(state)) return *cached;
  arena_.require_compiled(state);
  auto out = std::make_unique<MaskRecipe>();
  const Grammar& g = arena_.grammar();
  std::vector<const Share*> shares;
  const bool is_limited = is_near_limit(state);
  bool needs_walk = is_limited;
  for (const Thread& t : c) {
    if (needs_walk) break;
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (const TokenEdge& edge : g.tokens_of(p)) out->sparse.push_back(edge.token);
    if (p.bytes.count() == 0) continue;
    TokenTable& token_table = table(t);
    if (token_table.overflow) {
      needs_walk = true;
      break;
    }
    if (t.mem > kLastUnknownSet) {
      shares.push_back(&share_of(t, token_table));
      continue;
    }
    const TokenSet& staying = token_table.is_relative ? within_bounds(token_table, t) : token_table.staying;
    out->add(staying);
    add_leaving(t, token_table, staying, *out);
  }
  if (needs_walk) {
    *out = {};
    if (is_limited)
      out->sparse = walk_all(state);
    else
      add_walked(state, *out);
  } else if (!shares.empty()) {
    add_shares(shares, *out);
  }
  if (c.accepting && !is_limited)
    out->sparse.insert(out->sparse.end(), vocabulary_.end_tokens.begin(), vocabulary_.end_tokens.end());
  if (out->sparse.size() > kMaxSparse) {
    out->own.push_back(make_token_set(std::move(out->sparse), vocabulary_.words));
    out->sparse.clear();
    out->add(out->own.back());
  }
  if (vocabulary_.all_text && !out->dense.empty()) out->everything = out->allows_all(vocabulary_.size);
  arena_.charge(sizeof(MaskRecipe) + (out->sparse.size() + out->refused.size()) * 4);
  for (const TokenSet& set : out->own) arena_.charge(set.bytes());
  const MaskRecipe* result = out.release();
  arena_.charge(recipes_.set(state, result));
  return *result;
}

// Whether a rule's `max_tokens` may forbid some token in this state.
bool MaskBuilder::is_near_limit(int32_t state) const {
  const Grammar& g = arena_.grammar();
  if (g.token_rests.empty()) return false;
  auto is_near = [](const Rule& rule, int64_t count) {
    return rule.max_tokens >= 0 && count + 1 + rule.furthest_rest > rule.max_tokens;
  };
  for (const Rule& rule : g.rules)  // any rule may begin inside the token
    if (is_near(rule, 0)) return true;
  for (const Thread& t : arena_.config(state))
    if (t.pos != kExit && is_near(g.rule_at(t.pos), t.reg)) return true;
  return false;
}

}  // namespace guided
