#include "compile/lowerer.hpp"

#include <algorithm>

#include "compile/length_window.hpp"

namespace guided {

LoweredGrammar Lowerer::run() {
  LoweredGrammar out;
  out.nullable = nullable_.is_nullable_rule(ir_.start);
  out.start = request_rule(ir_.start, 0);
  for (size_t i = 0; i < pending_.size(); ++i) {
    const Pending p = pending_[i];
    if (p.synthetic || take_from_cache(i, p)) continue;
    EffectSymbols effects;
    Nfa nfa;
    nfa.start = nfa.add();
    nfa.final = nfa.add();
    inlines_rules_ = options_.inline_all;
    if (inlines_rules_) open_rules_.assign(ir_.rules.size(), 0);
    current_origin_ = meter_.rule = p.rule;
    effects_ = &effects;
    if (inlines_rules_) open_rules_[p.rule] = 1;
    preceding_loop_ = -1;
    build(nfa, ir_.rules[p.rule], p.encoding, nfa.start, nfa.final, 0);
    rules_[i].dfa = finish(nfa);
    rules_[i].effects = std::move(effects.effects);
    rules_[i].origin = p.rule;
    for (int32_t& ref : rules_[i].key.refs) {  // becomes the number of the lowered rule; -1: not called
      const auto called = rule_numbers_.find({ref, p.encoding});
      ref = called == rule_numbers_.end() ? -1 : called->second;
    }
  }
  out.rules = std::move(rules_);
  out.known = ir_.known;
  return out;
}

// Fills in rule `i` from the cache. Returns false if it is not cached.
bool Lowerer::take_from_cache(size_t i, const Pending& p) {
  if (!options_.caches || options_.inline_all) return false;
  RuleKey key = keys_.of(p.rule, p.encoding);
  const bool may_be_cached = key.portable && (!only_closed_ || key.refs.empty());
  const std::shared_ptr<const CachedRule> cached = may_be_cached ? options_.caches->rules.find(key.digest) : nullptr;
  if (!cached) {
    rules_[i].key = std::move(key);
    return false;
  }
  current_origin_ = p.rule;
  std::unordered_map<const CachedRule*, int32_t> counters;
  LoweredRule rule = instantiate(*cached, key, p.encoding, counters);
  rule.origin = p.rule;
  rules_[i] = std::move(rule);
  return true;
}

// Returns a cached rule that refers to rules and scopes by their numbers in this grammar. Adds to this grammar the
// counters that the rule calls. `counters`: the numbers of those that are added already.
LoweredRule Lowerer::instantiate(const CachedRule& cached, const RuleKey& key, int32_t encoding,
                                 std::unordered_map<const CachedRule*, int32_t>& counters) {
  LoweredRule rule;
  for (int32_t ref : cached.refs) {
    if (ref >= 0) {
      rule.callees.push_back(request_rule(key.refs[ref], encoding));
      continue;
    }
    const CachedRule& counter = *cached.counters[-1 - ref];
    auto it = counters.find(&counter);
    if (it == counters.end())
      it = counters.emplace(&counter, add_cached_counter(counter, instantiate(counter, key, encoding, counters))).first;
    rule.callees.push_back(it->second);
  }
  rule.prepared = cached.rule;
  rule.effects = cached.effects;
  for (Effect& e : rule.effects)
    if (e.op == Effect::Open) e.a = key.scopes[e.a];
  return rule;
}

// Several cached rules may contain the same counter, which this grammar needs only once.
int32_t Lowerer::add_cached_counter(const CachedRule& cached, LoweredRule rule) {
  rule.kind = RuleKind::Counter;
  rule.min = cached.min;
  rule.max = cached.max;
  const auto [it, inserted] =
      cached_counters_.try_emplace({rule.prepared.get(), rule.min, rule.max, rule.callees, rule.effects}, -1);
  if (inserted) it->second = add_synthetic(std::move(rule));
  return it->second;
}

// ---- rules
int32_t Lowerer::request_rule(int32_t rule, int32_t encoding) {
  auto [it, inserted] = rule_numbers_.try_emplace({rule, encoding}, static_cast<int32_t>(rules_.size()));
  if (inserted) {
    rules_.emplace_back();
    pending_.push_back({.rule = rule, .encoding = encoding, .synthetic = false});
  }
  return it->second;
}

int32_t Lowerer::add_synthetic(LoweredRule rule) {
  rule.origin = current_origin_;
  rules_.push_back(std::move(rule));
  pending_.push_back({.rule = -1, .encoding = 0, .synthetic = true});
  return static_cast<int32_t>(rules_.size()) - 1;
}

Dfa Lowerer::finish(const Nfa& nfa) {
  return remove_empty(minimise(live_.remove_dead_characters(determinise(nfa, meter_)), meter_));
}

// ---- regular languages
const Dfa& Lowerer::regular(int32_t id, int depth) {
  auto it = regular_.find(id);
  if (it != regular_.end()) return it->second;
  Dfa out = build_regular(id, depth);
  return regular_[id] = std::move(out);
}

Dfa Lowerer::build_regular(int32_t id, int depth) {
  check_depth(depth);
  const IrNode& n = ir_.nodes[id];
  if (n.kind == Kind::And) {
    if (n.items.empty()) return complement({}, meter_);
    Dfa out = regular(n.items[0], depth + 1);
    for (size_t i = 1; i < n.items.size(); ++i) out = intersect(out, regular(n.items[i], depth + 1), meter_);
    return minimise(std::move(out), meter_);
  }
  if (n.kind == Kind::Substrings) return *n.automaton;
  if (n.kind == Kind::Not) return minimise(complement(regular(n.items[0], depth + 1), meter_), meter_);
  if (n.kind == Kind::Length) {
    if (Nullability::has_contradictory_bounds(n)) return {};
    return minimise(unroll_window(regular(n.items[0], depth + 1), n.min, n.max, meter_), meter_);
  }
  Nfa nfa;
  nfa.start = nfa.add();
  nfa.final = nfa.add();
  const bool was_inlining = inlines_rules_;
  std::vector<uint8_t> outer_open_rules;
  if (!was_inlining) {
    outer_open_rules.assign(ir_.rules.size(), 0);
    open_rules_.swap(outer_open_rules);
  }
  inlines_rules_ = true;
  ++operand_depth_;
  build(nfa, id, 0, nfa.start, nfa.final, depth + 1);
  --operand_depth_;
  inlines_rules_ = was_inlining;
  if (!was_inlining) open_rules_.swap(outer_open_rules);
  return minimise(determinise(nfa, meter_), meter_);
}

// ---- Thompson's construction between two states
void Lowerer::build(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth) {
  check_depth(depth);
  meter_.work(1);
  meter_.states(nfa.size() / 8);
  const IrNode& n = ir_.nodes[id];
  if (Nullability::has_contradictory_bounds(n)) return;
  if (n.kind != Kind::Seq && n.kind != Kind::Alt && n.kind != Kind::Encoded && n.kind != Kind::Repeat)
    preceding_loop_ = -1;
  switch (n.kind) {
    case Kind::Chars:
      build_characters(nfa, n, enc, from, to);
      return;
    case Kind::Text:
      build_text(nfa, n, enc, from, to);
      return;
    case Kind::Seq:
      build_sequence(nfa, n, enc, from, to, depth);
      return;
    case Kind::Alt:
      build_alternatives(nfa, n, enc, from, to, depth);
      return;
    case Kind::Repeat:
      build_repeat(nfa, n, enc, from, to, depth);
      return;
    case Kind::Not:
      nfa.splice(relabel(regular(id, depth), enc), from, to);
      return;
    case Kind::And:
    case Kind::Length:
      build_window(nfa, id, enc, from, to, depth);
      return;
    case Kind::Encoded:
      build_encoded(nfa, n, enc, from, to, depth);
      return;
    case Kind::Ref:
      build_ref(nfa, n, enc, from, to, depth);
      return;
    case Kind::Special:
      build_special(nfa, n, from, to);
      return;
    case Kind::Permutation:
      build_permutation(nfa, n, enc, from, to, depth);
      return;
    case Kind::Automaton:
      nfa.splice(relabel(*n.automaton, enc), from, to);
      return;
    case Kind::Substrings:
      build_substrings(nfa, id, enc, from, to);
      return;
    case Kind::Dispatch:
      build_dispatch(nfa, n, enc, from, to, depth);
      return;
    case Kind::Distinct:
      build_between(nfa, n, {.op = Effect::Open, .a = n.ref, .b = names_digest(n)}, {.op = Effect::Close}, enc, from,
                    to, depth);
      return;
    case Kind::Tokens:
      build_tokens(nfa, n, enc, from, to, depth);
      return;
    case Kind::Entry:
      build_between(nfa, n, {.op = Effect::Begin}, {.op = Effect::Keep}, enc, from, to, depth);
      return;
  }
}

void Lowerer::build_characters(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to) {
  const Symbol base = static_cast<Symbol>(enc) << kEncodingShift;
  for (const Range& r : n.ranges) nfa.edge(from, base + r.lo, base + r.hi, to);
}

void Lowerer::build_text(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to) {
  const Symbol base = static_cast<Symbol>(enc) << kEncodingShift;
  int32_t current = from;
  for (size_t i = 0; i < n.text.size(); ++i) {
    int32_t next = i + 1 == n.text.size() ? to : nfa.add();
    nfa.edge(current, base + n.text[i], base + n.text[i], next);
    current = next;
  }
  if (n.text.empty()) nfa.move(from, to);
}

void Lowerer::build_sequence(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  int32_t current = from, loop = preceding_loop_;
  for (size_t i = 0; i < n.items.size(); ++i) {
    int32_t next = i + 1 == n.items.size() ? to : nfa.add();
    preceding_loop_ = loop;
    build(nfa, n.items[i], enc, current, next, depth + 1);
    current = next;
    const IrNode& item = ir_.nodes[n.items[i]];
    if (item.kind == Kind::Repeat && item.max < 0)
      loop = item.items[0];
    else if (!nullable_.is_nullable_node(n.items[i]))
      loop = -1;
  }
  if (n.items.empty()) nfa.move(from, to);
}

void Lowerer::build_alternatives(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  for (const int32_t loop = preceding_loop_; int32_t c : n.items) {
    preceding_loop_ = loop;
    build(nfa, c, enc, from, to, depth + 1);
  }
}

void Lowerer::build_encoded(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  if (enc != 0 || operand_depth_ > 0)
    throw Unsupported("Encoded inside And, Not, Length or another Encoded has no meaning");
  build(nfa, n.items[0], n.ref, from, to, depth + 1);
}

void Lowerer::build_special(Nfa& nfa, const IrNode& n, int32_t from, int32_t to) {
  if (operand_depth_ > 0) throw Unsupported("a special token inside And, Not or Length");
  nfa.edge(from, kToken + static_cast<Symbol>(n.ref), kToken + static_cast<Symbol>(n.max), to);
}

// Copies the automaton of a Dispatch, and builds each branch from the state of the automaton that leads to it.
void Lowerer::build_dispatch(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  if (operand_depth_ > 0 || enc != 0) throw Unsupported("Dispatch inside And, Not, Length or Encoded");
  const int32_t first_state = nfa.states;
  nfa.splice(*ir_.nodes[n.items[0]].automaton, from, to);
  for (size_t i = 1; i < n.items.size(); ++i) {
    preceding_loop_ = -1;
    build(nfa, n.items[i], enc, first_state + static_cast<int32_t>(n.text[i - 1]), to, depth + 1);
  }
  preceding_loop_ = -1;
}

// Adds a call of a separate rule for the substrings of texts, because their automaton is large, and deterministic
// already. If rules are inlined here, the automaton is copied instead.
void Lowerer::build_substrings(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to) {
  const Dfa& dfa = *ir_.nodes[id].automaton;
  if (inlines_rules_ || operand_depth_ > 0) {
    nfa.splice(relabel(dfa, enc), from, to);
    return;
  }
  auto [it, inserted] = substrings_.try_emplace({id, enc}, -1);
  if (inserted) {
    meter_.states(dfa.size());
    meter_.work(dfa.size());
    LoweredRule rule;
    rule.dfa = relabel(dfa, enc);
    if (!live_.can_write_all(enc, ir_.nodes[id].ranges))
      rule.dfa = trim(live_.remove_dead_characters(std::move(rule.dfa)));
    rule.substrings = true;
    rule.key.digest = ir_.nodes[id].digest;
    rule.key.digest.add(ir_.encoding_digests[enc]);
    it->second = add_synthetic(std::move(rule));
  }
  const Symbol call = kCall + static_cast<Symbol>(it->second);
  nfa.edge(from, call, call, to);
}

// Returns the symbol of an action in the rule that is being built.
Symbol Lowerer::effect_symbol(const Effect& effect) {
  auto [it, inserted] = effects_->symbols.try_emplace(effect, kEffect + static_cast<Symbol>(effects_->effects.size()));
  if (inserted) effects_->effects.push_back(effect);
  return it->second;
}

// Builds the item of a node between two actions: Open and Close for Distinct, Begin and Keep for Entry.
void Lowerer::build_between(Nfa& nfa, const IrNode& n, Effect before, Effect after, int32_t enc, int32_t from,
                            int32_t to, int depth) {
  if (operand_depth_ > 0 || enc != 0) throw Unsupported("Distinct or Entry inside And, Not, Length or Encoded");
  if (inlines_rules_) throw Unsupported("Distinct needs a vocabulary in which every byte is also a token by itself");
  if (nullable_.is_nullable_node(n.items[0])) throw Unsupported("Distinct or Entry around an item that may be empty");
  int32_t first = nfa.add(), last = nfa.add();
  const Symbol open_symbol = effect_symbol(before), close_symbol = effect_symbol(after);
  nfa.edge(from, open_symbol, open_symbol, first);
  build(nfa, n.items[0], enc, first, last, depth + 1);
  nfa.edge(last, close_symbol, close_symbol, to);
}

void Lowerer::build_ref(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  if (inlines_rules_) {
    if (open_rules_[n.ref])
      throw Unsupported(operand_depth_ > 0 ? "a recursive rule inside And, Not or Length"
                                           : "a recursive grammar needs a vocabulary in which every byte that "
                                             "occurs in a token is also a token by itself");
    open_rules_[n.ref] = 1;
    build(nfa, ir_.rules[n.ref], enc, from, to, depth + 1);
    open_rules_[n.ref] = 0;
    return;
  }
  if (nullable_.is_nullable_rule(n.ref)) nfa.move(from, to);
  Symbol call = kCall + static_cast<Symbol>(request_rule(n.ref, enc));
  nfa.edge(from, call, call, to);
}

}  // namespace guided
