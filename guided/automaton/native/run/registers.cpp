// Computes how effects change the registers of frames: counts, and the members of a permutation that have been written.
//
// In: a rule, an effect (rule_block.hpp) and a register. Out: the register after the effect, or -1 if the effect is not
// allowed, for example because the count is at its maximum, or a member is written twice. Also whether the rule may end
// with a register. How: a count is the register itself, and saturates if the rule has no maximum; sets of members are
// interned, and the register is the number of the set. Cost: constant for counts. For permutations, linear in the words
// of the set, and in the members if the effect asks whether any member can still be written.
#include "run/arena.hpp"

#include <algorithm>

namespace guided {

int32_t Arena::intern_seen(const SeenSet& set) {
  uint64_t hash = combine(static_cast<uint64_t>(set.count), static_cast<uint32_t>(set.last));
  for (uint64_t w : set.bits) hash = combine(hash, w);
  const int32_t existing = seen_ids_.find(hash, [&](int32_t id) { return seen_[id] == set; });
  if (existing >= 0) return existing;
  const auto id = static_cast<int32_t>(seen_.size());
  seen_.push_back(set);
  seen_ids_.add(hash, id);
  charge(64 + set.bits.size() * 8);
  return id;
}

int32_t Arena::initial_register(int32_t rule) {
  if (grammar_->rules[rule].kind != RuleKind::Set) return 0;
  int32_t& reg = initial_registers_[rule];
  if (reg < 0) {
    SeenSet empty;
    empty.bits.assign((grammar_->rules[rule].required.size() + 63) / 64, 0);
    reg = intern_seen(empty);
  }
  return reg;
}

// The members that remain to be written after a set of members.
Arena::MembersLeft Arena::members_left(const Rule& rule, const SeenSet& set) {
  MembersLeft out;
  for (size_t w = 0; w < set.bits.size(); ++w) {
    out.needed += __builtin_popcountll(rule.required_bits[w] & ~set.bits[w]);
    out.available += __builtin_popcountll(rule.once_bits[w] & ~set.bits[w]);
  }
  return out;
}

bool Arena::can_write_member(const Rule& rule, const SeenSet& set, size_t member, MembersLeft members_left) {
  if (rule.choices) {
    const auto number = static_cast<int32_t>(member);
    if (!rule.choices->is_open(set, number) || rule.choices->rank(number) > members_left.reach) return false;
    const int32_t part = rule.choices->part_of(number);
    return part < 0 || can_come_true(rule, part, rule.choices->with(set, number));
  }
  const bool is_written = set.has(member);
  if (rule.repeatable[member] == kAbsent || (!rule.repeatable[member] && is_written)) return false;
  if (rule.required[member] && !is_written) --members_left.needed;
  if (!rule.repeatable[member]) --members_left.available;
  if (rule.max >= 0 && set.count + 1 + members_left.needed > rule.max) return false;
  return rule.unbounded || set.count + 1 + members_left.available >= rule.min;
}

int32_t Arena::reach(const Rule& rule, int32_t reg) {
  if (!rule.choices->has_reach()) return kEverySlot;
  const auto number = static_cast<int32_t>(&rule - grammar_->rules.data());
  const uint64_t key = pair_key(number, reg);
  if (const auto cached = reaches_.find(key); cached != reaches_.end()) return cached->second;
  const int32_t out = rule.choices->reach(seen_[reg]);
  reaches_.emplace(key, out);
  charge(48);
  return out;
}

bool Arena::can_come_true(const Rule& rule, int32_t part, const SeenSet& set) {
  auto& cache = can_come_true_[&rule];
  std::string key = rule.choices->key(part, set);
  if (const auto cached = cache.find(key); cached != cache.end()) return cached->second;
  const bool can_hold = rule.choices->can_hold(part, set);
  charge(64 + key.size());
  cache.emplace(std::move(key), can_hold);
  return can_hold;
}

bool Arena::apply(const Rule& rule, const Effect& effect, Thread& t) {
  switch (effect.op) {
    case Effect::Open:
      t.mem = uniqueness_.open(t.mem, static_cast<int32_t>(effect.a));
      return true;
    case Effect::Close:
      t.mem = uniqueness_.close(t.mem);
      return true;
    case Effect::Begin:
      t.mem = uniqueness_.begin(t.mem);
      return true;
    case Effect::Keep:
      t.mem = uniqueness_.keep(t.mem);
      return t.mem >= 0;
    default:
      t.reg = apply_to_register(rule, effect, t.reg, t.ret == kFree);
      return t.reg >= 0;
  }
}

int32_t Arena::apply_to_register(const Rule& rule, const Effect& effect, int32_t reg, bool is_free) {
  if (effect.op == Effect::Inc) {
    if (is_free) return reg + 1;
    int64_t count = int64_t{reg} + 1;
    if (rule.max >= 0 && count + effect.a > rule.max) return -1;
    if (effect.b >= 0 && count + effect.b < rule.min) return -1;
    if (rule.max < 0) count = std::min(count, rule.min);  // saturates, since no bound depends on a higher count
    return static_cast<int32_t>(count);
  }
  if (effect.op == Effect::Put) {
    if (!allows(rule, effect, reg)) return -1;
    const auto member = static_cast<size_t>(effect.a);
    SeenSet set;
    if (rule.choices) {
      set = rule.choices->with(seen_[reg], static_cast<int32_t>(member));
    } else {
      set = seen_[reg];
      set.bits[member / 64] |= uint64_t{1} << (member % 64);
      ++set.count;
    }
    if (rule.max < 0) set.count = std::min(set.count, rule.min);
    return intern_seen(set);
  }
  return allows(rule, effect, reg) ? reg : -1;
}

bool Arena::allows(const Rule& rule, const Effect& effect, int32_t reg) {
  const MembersLeft left = rule.choices ? MembersLeft{.reach = reach(rule, reg)} : members_left(rule, seen_[reg]);
  if (effect.op == Effect::Put) return can_write_member(rule, seen_[reg], static_cast<size_t>(effect.a), left);
  const SeenSet& seen = seen_[reg];
  bool is_refused[2][2][2] = {};  // by (required, repeatable, written): members of one kind share one answer
  for (size_t i = 0; i < rule.required.size(); ++i) {
    bool& is_kind_refused = is_refused[rule.required[i] != 0][rule.repeatable[i] != 0][seen.has(i)];
    const bool is_shared = !rule.choices && rule.repeatable[i] != kAbsent;
    if (is_shared && is_kind_refused) continue;
    if (can_write_member(rule, seen, i, left)) return true;
    is_kind_refused |= is_shared;
  }
  return false;
}

bool Arena::may_end(const Rule& rule, int32_t reg) const {
  if (rule.kind == RuleKind::Plain) return true;
  if (rule.kind == RuleKind::Counter) return reg >= rule.min && (rule.max < 0 || reg <= rule.max);
  if (rule.choices) {
    if (seen_[reg].count < rule.min) return false;
    for (int32_t part = 0; part < rule.choices->parts(); ++part)
      if (!rule.choices->holds(part, seen_[reg])) return false;
    return true;
  }
  return seen_[reg].count >= rule.min && members_left(rule, seen_[reg]).needed == 0;
}

}  // namespace guided
