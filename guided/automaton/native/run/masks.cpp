#include "run/masks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "run/table_walk.hpp"

namespace guided {

namespace {
constexpr int32_t kAnyRegister = -1;
constexpr size_t kMaxSparse = 3000;   // a recipe with more single ids gets its own bitmask
constexpr size_t kManyBeyond = 2000;  // more remainders of tokens that count beyond a bound are not worth a table

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
  size_t listed = sparse.size();
  for (const std::vector<int32_t>* list : lists) listed += list->size();
  const int32_t words = (size + 31) / 32;
  size_t missing = 0;  // tokens that only the lists can contain
  for (int32_t w = 0; w < words; ++w) {
    uint32_t word = w + 1 < words || size % 32 == 0 ? 0 : ~0u << size % 32;
    for (const uint32_t* set : dense) word |= set[w];
    missing += static_cast<size_t>(std::popcount(~word));
    if (missing > listed) return false;  // for most masks in one of the first words
  }
  if (missing == 0) return refused.empty();
  std::vector<uint32_t> row(static_cast<size_t>(words));
  write(row.data(), words);
  int64_t allowed = 0;
  for (uint32_t w : row) allowed += std::popcount(w);
  return allowed == size;
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
    // If no token from this count can reach a bound, and no guard can look past one, all such counts share a table.
    const int64_t seen = t.reg + int64_t{vocabulary_.longest} + 1 + rule.reach;
    if (rule.max < 0 || seen <= rule.max) {
      if (t.reg >= rule.min) out.reg = static_cast<int32_t>(rule.min);
      if (seen < rule.min) out.reg = 0;
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
  int32_t memory = uniqueness.unread(t.mem);
  for (int32_t open = arena_.grammar().positions[t.pos].scopes; open > 0; --open) memory = uniqueness.close(memory);
  return arena_.return_to(t.ret, memory);
}

std::pair<ByteSet, int32_t> MaskBuilder::follow_of(const Thread& t) {
  const ByteSet follow = arena_.config(state_outside(t)).bytes;
  auto [it, inserted] =
      follows_.try_emplace({follow.w[0], follow.w[1], follow.w[2], follow.w[3]}, static_cast<int32_t>(follows_.size()));
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

const TokenTable& MaskBuilder::first_alike(const TokenTable& table) {
  const TokenTable*& first = first_alike_[&table];
  if (first) return *first;
  const auto in_order = [](std::vector<Remainder> entries) {
    std::ranges::sort(entries);
    return entries;
  };
  uint64_t content = table.entries.size();  // the entries may be in any order
  for (const Remainder& r : table.entries)
    content += combine(combine(0, pair_key(r.token, r.depth)), pair_key(r.count, r.touched));
  const auto [from, to] = alike_tables_.equal_range(content);
  for (auto at = from; at != to && !first; ++at)
    if (at->second->entries == table.entries || in_order(at->second->entries) == in_order(table.entries))
      first = at->second;
  if (!first) alike_tables_.emplace(content, first = &table);
  return *first;
}

TokenTable& MaskBuilder::table(const Thread& t) {
  Thread key_thread = table_thread(t);
  const auto [follow, follow_number] = follow_of(t);
  const uint64_t local = pair_key(key_thread.pos, key_thread.reg);
  if (static_cast<size_t>(follow_number) >= local_.size()) local_.resize(static_cast<size_t>(follow_number) + 1);
  PairMap& tables = local_[static_cast<size_t>(follow_number)];
  if (const int32_t* known = tables.find(local)) return *kept_[static_cast<size_t>(*known)];

  const Grammar& g = arena_.grammar();
  const Rule& rule = g.rule_at(t.pos);
  const uint64_t any_register = pair_key(key_thread.pos, kAnyRegister);
  if (rule.kind == RuleKind::Set)
    if (const int32_t* known = tables.find(any_register)) return *kept_[static_cast<size_t>(*known)];
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
    vocabulary_.cache.insert(key, table, table->bytes());
  }
  if (rule.kind == RuleKind::Plain && table->is_plain()) latest_[latest] = {t.pos, table.get()};
  const bool any = rule.kind == RuleKind::Set && table->within_bytes;
  tables.set(any ? any_register : local, static_cast<int32_t>(kept_.size()));
  kept_.push_back(std::move(table));
  return *kept_.back();
}

bool MaskBuilder::may_leave(const Thread& t, const TokenTable& table) const {
  return !table.relative || arena_.grammar().rule_at(t.pos).min - t.reg <= table.furthest;
}

std::optional<int64_t> MaskBuilder::room_near_bound(const Thread& t, const TokenTable& table) const {
  if (!table.relative) return std::nullopt;
  const Rule& rule = arena_.grammar().rule_at(t.pos);
  if (rule.max < 0 || rule.max - t.reg >= table.furthest) return std::nullopt;
  return rule.max - t.reg;
}

void MaskBuilder::add_leaving(const Thread& t, const TokenTable& table, const TokenSet& staying, MaskRecipe& out) {
  if (!may_leave(t, table)) return;
  const auto add = [&](const TokenTable& remainders) {
    std::vector<int32_t> left;
    auto leaves = [&](int32_t token, int32_t = kUnknown) { left.push_back(token); };
    if (!each_kept_remainder(t, remainders, leaves, nullptr)) {
      left.clear();
      each_remainder(t, remainders, leaves);
    }
    out.sparse.insert(out.sparse.end(), left.begin(), left.end());
  };
  const std::optional<int64_t> room = room_near_bound(t, table);
  const size_t beyond = room ? table.staying_beyond(*room) : 0;
  if (beyond > kManyBeyond) return add_by_walk(t, staying, out);
  add(table);
  if (beyond > 0) add(table.remainders_of_staying(beyond, vocabulary_.tokens));
}

// Adds all tokens that a thread can read, except for those that stay. Near a bound, few nodes of the vocabulary's trie
// can be reached; parts of it that only have tokens that stay are left out.
void MaskBuilder::add_by_walk(const Thread& t, const TokenSet& staying, MaskRecipe& out) {
  const TokenTrie& trie = vocabulary_.trie;
  std::vector<int32_t> others(trie.payloads().size() + 1, 0);  // by payload: how many before it do not stay
  for (size_t i = 0; i + 1 < others.size(); ++i) others[i + 1] = others[i] + !staying.has(trie.payloads()[i]);
  walk_trie_from(arena_, trie, 0, arena_.lone(t), [&](const TokenTrie::Node& node, int32_t state) {
    if (others[node.subtree_hi] == others[node.payload_lo]) return false;
    if (others[node.payload_hi] > others[node.payload_lo] && at_boundary(arena_, state))
      for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) out.sparse.push_back(trie.payloads()[i]);
    return true;
  });
}

const TokenSet& MaskBuilder::within_bounds(const TokenTable& table, const Thread& t) {
  const Rule& rule = arena_.grammar().rule_at(t.pos);
  // No token counts further than `furthest`, so all larger distances to a bound are equivalent.
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

const MaskRecipe& MaskBuilder::recipe(int32_t state) {
  const Config& c = arena_.config(state);
  if (const MaskRecipe* known = recipes_.get(state)) return *known;
  arena_.need(state);
  auto out = std::make_unique<MaskRecipe>();
  const Grammar& g = arena_.grammar();
  std::vector<const Share*> shares;
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (const TokenEdge& edge : g.tokens_of(p)) out->sparse.push_back(edge.token);
    if (p.bytes.count() == 0) continue;
    TokenTable& tokens = table(t);
    if (t.mem > kLastUnknownSet && !tokens.overflow) {
      shares.push_back(&share(t, tokens));
      continue;
    }
    if (tokens.overflow) {
      each_token(arena_.lone(t), [&](int32_t token, int32_t) { out->sparse.push_back(token); });
      continue;
    }
    const TokenSet& staying = tokens.relative ? within_bounds(tokens, t) : tokens.all;
    out->add(staying);
    add_leaving(t, tokens, staying, *out);
  }
  if (!shares.empty()) add_shares(shares, *out);
  if (is_near_limit(state)) {
    *out = {};
    out->sparse = walk(state);
  } else if (c.accepting)
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
  auto is_near = [](const Rule& rule, int64_t before) {
    return rule.max_tokens >= 0 && before + 1 + rule.furthest_rest > rule.max_tokens;
  };
  for (const Rule& rule : g.rules)  // any of them may begin inside the token
    if (is_near(rule, 0)) return true;
  for (const Thread& t : arena_.config(state))
    if (t.pos != kExit && is_near(g.rule_at(t.pos), t.reg)) return true;
  return false;
}

std::vector<int32_t> MaskBuilder::walk(int32_t state) {
  std::vector<int32_t> ids;
  each_token(state, [&](int32_t token, int32_t after) {
    if (arena_.counted(after) != kDead) ids.push_back(token);
  });
  const Config& c = arena_.config(state);
  const Grammar& g = arena_.grammar();
  for (const Thread& t : c) {
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (const TokenEdge& edge : g.tokens_of(p)) ids.push_back(edge.token);
  }
  if (c.accepting) ids.insert(ids.end(), vocabulary_.end_tokens.begin(), vocabulary_.end_tokens.end());
  sort_unique(ids);
  return ids;
}

}  // namespace guided
