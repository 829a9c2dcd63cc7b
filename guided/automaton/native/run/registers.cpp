// The registers of frames: counts, the members of a permutation that were written, and what effects do to them.
#include "run/arena.hpp"

#include <algorithm>

namespace guided {

int32_t Arena::intern_seen(const SeenSet& set) {
  uint64_t hash = combine(static_cast<uint64_t>(set.count), static_cast<uint32_t>(set.last));
  for (uint64_t w : set.bits) hash = combine(hash, w);
  const int32_t known = seen_ids_.find(hash, [&](int32_t id) { return seen_[id] == set; });
  if (known >= 0) return known;
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

// What remains to be written after a set of members.
Arena::Left Arena::left(const Rule& rule, const SeenSet& set) {
  Left out;
  for (size_t w = 0; w < set.bits.size(); ++w) {
    out.needed += __builtin_popcountll(rule.required_bits[w] & ~set.bits[w]);
    out.available += __builtin_popcountll(rule.once_bits[w] & ~set.bits[w]);
  }
  return out;
}

bool Arena::can_put(const Rule& rule, const SeenSet& set, size_t member, Left left) {
  if (rule.choices) {
    const auto number = static_cast<int32_t>(member);
    if (!rule.choices->is_open(set, number) || rule.choices->rank(number) > left.reach) return false;
    const int32_t part = rule.choices->part_of(number);
    return part < 0 || can_come_true(rule, part, rule.choices->with(set, number));
  }
  const bool seen = set.has(member);
  if (rule.repeatable[member] == kAbsent || (!rule.repeatable[member] && seen)) return false;
  if (rule.required[member] && !seen) --left.needed;
  if (!rule.repeatable[member]) --left.available;
  if (rule.max >= 0 && set.count + 1 + left.needed > rule.max) return false;
  return rule.unbounded || set.count + 1 + left.available >= rule.min;
}

int32_t Arena::reach(const Rule& rule, int32_t reg) {
  if (!rule.choices->has_reach()) return kEverySlot;
  const auto number = static_cast<int32_t>(&rule - grammar_->rules.data());
  const uint64_t key = pair_key(number, reg);
  if (const auto known = reaches_.find(key); known != reaches_.end()) return known->second;
  const int32_t out = rule.choices->reach(seen_[reg]);
  reaches_.emplace(key, out);
  charge(48);
  return out;
}

bool Arena::can_come_true(const Rule& rule, int32_t part, const SeenSet& set) {
  auto& outlooks = outlooks_[&rule];
  std::string key = rule.choices->key(part, set);
  if (const auto known = outlooks.find(key); known != outlooks.end()) return known->second;
  const bool out = rule.choices->can_hold(part, set);
  charge(64 + key.size());
  outlooks.emplace(std::move(key), out);
  return out;
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

int32_t Arena::apply_to_register(const Rule& rule, const Effect& effect, int32_t reg, bool free) {
  if (effect.op == Effect::Inc) {
    if (free) return reg + 1;
    int64_t count = int64_t{reg} + 1;
    if (rule.max >= 0 && count + effect.a > rule.max) return -1;
    if (effect.b >= 0 && count + effect.b < rule.min) return -1;
    if (rule.max < 0) count = std::min(count, rule.min);  // saturates: no bound depends on more
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
  const Left rest = rule.choices ? Left{.reach = reach(rule, reg)} : left(rule, seen_[reg]);
  if (effect.op == Effect::Put) return can_put(rule, seen_[reg], static_cast<size_t>(effect.a), rest);
  const SeenSet& seen = seen_[reg];
  bool refused[2][2][2] = {};  // members that are alike (required, repeatable, written) share one answer
  for (size_t i = 0; i < rule.required.size(); ++i) {
    bool& alike = refused[rule.required[i] != 0][rule.repeatable[i] != 0][seen.has(i)];
    const bool shared = !rule.choices && rule.repeatable[i] != kAbsent;
    if (shared && alike) continue;
    if (can_put(rule, seen, i, rest)) return true;
    alike |= shared;
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
  return seen_[reg].count >= rule.min && left(rule, seen_[reg]).needed == 0;
}

}  // namespace guided
