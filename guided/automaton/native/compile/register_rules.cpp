// Repetitions, length windows, permutations and token limits: rules with a register in their frame (part of Lowerer).
//
// The problem: without a register, `x{1000}` needs a thousand copies of x, and the members of an object in any order
// need a state for each subset. With a register in the frame, one copy of each item is enough.
//
// In: a node, and two states of the automaton that is being built. Out: an edge between them that calls a new rule,
// whose register is a count or the set of written members. If a repetition needs few states, they are built instead.
//
// How: a guarded action before each iteration, character or member checks the register and changes it (rules.hpp):
//     x{m,n}                 start --Inc--> x --> start          Inc: count < n; at the end, count >= m
//     permutation a, b / ,   start --Put a--> a --> end          Put: the member may still be written
//                            start --Put b--> b --> end
//                            end --More--> "," --> as at start   More: something may still follow
// A repetition is unrolled if its copies are small (unroll_weight.hpp), or if it may start anywhere in a text
// (is_searched). A length window becomes a count only if that is exact (length_window.hpp). Equal repetitions share one
// rule.
//
// A token limit is checked when a token ends (run/token_counts.cpp). Its rule has no calls, and no edge leads back to
// its start, so a thread at the start has read nothing of the rule.
//
// Cost: the cost of the item, multiplied by the count if the repetition is unrolled.
#include <algorithm>
#include <utility>

#include "compile/length_window.hpp"
#include "compile/lowerer.hpp"

namespace guided {

namespace {
constexpr int64_t kMaxSearchedLength = 400;  // the longest repetition that is unrolled because of is_searched

// Adds a state with a move back to `loop`.
int32_t add_move_back(Nfa& nfa, int32_t loop) {
  int32_t end = nfa.add();
  nfa.move(end, loop);
  return end;
}
}  // namespace

// Whether a repetition of characters follows an unbounded one that can read the same characters, as in `.*[0-9]{40}`.
// Such a repetition may have started at any earlier character. With a register, there would be a parser thread for each
// start. Unrolled, the states after determinisation only store the longest count so far.
bool Lowerer::is_searched(const IrNode& n) const {
  const IrNode& item = ir_.nodes[n.items[0]];
  if (preceding_loop_ < 0 || item.kind != Kind::Chars || ir_.nodes[preceding_loop_].kind != Kind::Chars) return false;
  if (std::max(n.min, n.max) > kMaxSearchedLength) return false;
  auto overlaps_loop = [&](const Range& r) {
    auto meets = [&](const Range& o) { return r.lo <= o.hi && o.lo <= r.hi; };
    return std::ranges::any_of(ir_.nodes[preceding_loop_].ranges, meets);
  };
  return std::ranges::any_of(item.ranges, overlaps_loop);
}

void Lowerer::build_repeat(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  int32_t item = n.items[0];
  const bool may_start_anywhere = is_searched(n);
  preceding_loop_ = -1;
  if (n.max == 0) {
    nfa.move(from, to);
    return;
  }
  int64_t copies = n.max < 0 ? n.min : n.max;
  const bool is_unrolled =
      copies <= 1 || inlines_rules_ || may_start_anywhere || copies * weight_.of(item) <= UnrollWeight::kMaxWeight;
  if (!is_unrolled) {
    if (n.min == 0 || nullable_.is_nullable_node(item)) nfa.move(from, to);
    Symbol call = kCall + static_cast<Symbol>(counter_rule(n, enc, depth));
    nfa.edge(from, call, call, to);
    return;
  }
  meter_.states(copies);
  const bool counts = copies > 2 && ir_.nodes[item].kind == Kind::Chars;
  const int32_t node = counts ? nfa.counted_nodes++ : -1;
  const auto count = [&](int32_t state, int64_t number) {
    if (counts) nfa.counted.push_back({.state = state, .node = node, .count = number, .min = n.min, .max = n.max});
  };
  int32_t current = from;
  for (int64_t i = 0; i < n.min; ++i) {
    int32_t next = i + 1 == n.max ? to : nfa.add();
    build(nfa, item, enc, current, next, depth + 1);
    current = next;
    if (i + 1 < n.min) count(next, i + 1);
  }
  if (n.max < 0) {
    int32_t loop = nfa.add();
    count(loop, n.min);
    nfa.move(current, loop);
    build(nfa, item, enc, loop, add_move_back(nfa, loop), depth + 1);
    nfa.move(loop, to);
    return;
  }
  if (n.min == n.max) return;
  for (int64_t i = n.min; i < n.max; ++i) {
    // Each copy starts in a new state. Only this state gets the move to `to`.
    int32_t copy_start = nfa.add();
    count(copy_start, i);
    nfa.move(current, copy_start);
    nfa.move(copy_start, to);
    int32_t next = i + 1 == n.max ? to : nfa.add();
    build(nfa, item, enc, copy_start, next, depth + 1);
    current = next;
  }
}

// Returns the rule of x{m,n}: S --Inc--> x --> S, where S accepts. When the frame ends, the count must be at least m.
int32_t Lowerer::counter_rule(const IrNode& n, int32_t enc, int depth) {
  std::vector<int64_t> key{n.items[0], enc, n.min, n.max};
  auto known_counter = counters_.find(key);
  if (known_counter != counters_.end()) return known_counter->second;
  const bool is_item_nullable = nullable_.is_nullable_node(n.items[0]);
  LoweredRule rule;
  Nfa body;
  body.start = body.add();
  body.final = body.add();
  EffectSymbols effects;
  EffectSymbols* outer = std::exchange(effects_, &effects);
  const Symbol count = effect_symbol({.op = Effect::Inc});
  build(body, n.items[0], enc, body.start, body.final, depth + 1);
  effects_ = outer;
  rule.effects = std::move(effects.effects);
  Dfa item = finish(body);
  Nfa loop;
  loop.start = loop.final = loop.add();
  int32_t item_start = loop.add();
  loop.edge(loop.start, count, count, item_start);
  loop.splice(item, item_start, loop.start);
  rule.kind = RuleKind::Counter;
  rule.min = is_item_nullable ? 1 : std::max<int64_t>(n.min, 1);
  rule.max = n.max;
  // Emptiness is not tested here: prune_rules() knows what a counter needs.
  rule.dfa = minimise(determinise(loop, meter_), meter_);
  return counters_[key] = add_synthetic(std::move(rule));
}

// Returns a regular node as a language and a window. Nested Length nodes, And, and `[...]{m,n}` contribute to the
// window.
Lowerer::Windowed Lowerer::build_windowed(int32_t id, int depth) {
  check_depth(depth);
  const IrNode& n = ir_.nodes[id];
  Windowed out;
  if (Nullability::has_contradictory_bounds(n)) return out;
  if (n.kind == Kind::Length) {
    out = build_windowed(n.items[0], depth + 1);
    out.narrow(n.min, n.max);
  } else if (n.kind == Kind::And && !n.items.empty()) {
    out = build_windowed(n.items[0], depth + 1);
    for (size_t i = 1; i < n.items.size(); ++i) {
      Windowed other = build_windowed(n.items[i], depth + 1);
      out.dfa = intersect(out.dfa, other.dfa, meter_);
      out.narrow(other.min, other.max);
    }
    out.dfa = minimise(std::move(out.dfa), meter_);
  } else if (n.kind == Kind::Repeat && ir_.nodes[n.items[0]].kind == Kind::Chars) {
    std::vector<Edge> loops;
    for (const Range& r : ir_.nodes[n.items[0]].ranges) loops.push_back({r.lo, r.hi, 0});
    out.dfa.edges.set(out.dfa.add(true), loops);
    out.narrow(n.min, n.max);
  } else {
    out.dfa = regular(id, depth);
  }
  return out;
}

void Lowerer::build_window(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth) {
  if (inlines_rules_) {
    nfa.splice(relabel(regular(id, depth), enc), from, to);
    return;
  }
  Windowed language = build_windowed(id, depth);
  Dfa dfa = minimise(live_.remove_dead_characters(relabel(std::move(language.dfa), enc)), meter_);
  if (dfa.empty() || (language.max >= 0 && language.min > language.max)) return;
  Window window = count_window(dfa, language.min, language.max, meter_);
  if (window.kind == Window::Everything) {
    nfa.splice(dfa, from, to);
  } else if (window.kind == Window::Unrolled) {
    nfa.splice(window.dfa, from, to);
  } else {
    if (language.min == 0 && dfa.accept[0]) nfa.move(from, to);
    std::vector<int64_t> key{id, enc, 0, 0, 1};
    auto [it, inserted] = counters_.try_emplace(key, -1);
    if (inserted) {
      LoweredRule rule;
      rule.kind = RuleKind::Counter;
      rule.min = std::max<int64_t>(language.min, 1);
      rule.max = language.max;
      rule.effects = std::move(window.effects);
      rule.dfa = minimise(std::move(window.dfa), meter_);
      it->second = add_synthetic(std::move(rule));
    }
    Symbol call = kCall + static_cast<Symbol>(it->second);
    nfa.edge(from, call, call, to);
  }
}

// Adds a rule for a regular item whose texts may take at most `max` tokens each.
void Lowerer::build_tokens(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  if (operand_depth_ > 0 || enc != 0) throw Unsupported("MaxTokens inside And, Not, Length or Encoded");
  if (inlines_rules_) throw Unsupported("MaxTokens needs a vocabulary in which every byte is also a token by itself");
  if (nullable_.is_nullable_node(n.items[0])) nfa.move(from, to);
  if (n.max == 0) return;
  const Dfa item = remove_empty(minimise(live_.remove_dead_characters(regular(n.items[0], depth + 1)), meter_));
  if (item.empty()) return;
  LoweredRule rule;
  rule.max_tokens = n.max;
  rule.dfa.add(false);  // a copy of the start of `item`; edges of `item` lead back only to the original
  std::vector<Edge> edges;
  for (int32_t s = 0; s < item.size(); ++s) {
    edges.assign(item.edges[s].begin(), item.edges[s].end());
    for (Edge& e : edges) ++e.to;
    rule.dfa.add(item.accept[s] != 0);
    rule.dfa.edges.set(s + 1, edges);
    if (s == 0) rule.dfa.edges.set(0, edges);
  }
  rule.dfa = trim(std::move(rule.dfa));
  const Symbol call = kCall + static_cast<Symbol>(add_synthetic(std::move(rule)));
  nfa.edge(from, call, call, to);
}

void Lowerer::build_permutation(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  if (operand_depth_ > 0) throw Unsupported("a permutation inside And, Not or Length");
  if (inlines_rules_)
    throw Unsupported("a permutation needs a vocabulary in which every byte is also a token by itself");
  if (Nullability::permutation_can_be_empty(n)) nfa.move(from, to);
  if (n.max == 0) return;
  Nfa body;
  body.start = body.add();
  body.final = body.add();
  int32_t after_separator = body.add(), before_separator = body.add();
  LoweredRule rule;
  rule.kind = RuleKind::Set;
  rule.min = std::max<int64_t>(n.min, 1);
  rule.max = n.max;
  rule.required = n.required;
  rule.condition = n.condition;
  rule.repeatable = n.repeatable;
  if (n.condition) rule.diagrams = ConditionDiagrams::build(*n.condition, n.repeatable, rule.min, rule.max, meter_);
  EffectSymbols effects;
  EffectSymbols* outer = std::exchange(effects_, &effects);
  for (size_t i = 0; i < n.items.size(); ++i) {
    if (nullable_.is_nullable_node(n.items[i])) throw Unsupported("a member of a permutation that may be empty");
    const Symbol put = effect_symbol({.op = Effect::Put, .a = static_cast<int64_t>(i)});
    int32_t start = body.add();
    body.edge(body.start, put, put, start);
    body.edge(after_separator, put, put, start);
    build(body, n.items[i], enc, start, body.final, depth + 1);
  }
  const Symbol more = effect_symbol({.op = Effect::More});
  body.edge(body.final, more, more, before_separator);
  build(body, n.ref, enc, before_separator, after_separator, depth + 1);
  effects_ = outer;
  rule.effects = std::move(effects.effects);
  rule.dfa = finish(body);
  Symbol call = kCall + static_cast<Symbol>(add_synthetic(std::move(rule)));
  nfa.edge(from, call, call, to);
}

}  // namespace guided
