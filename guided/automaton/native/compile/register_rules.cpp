// Repetitions, length windows, permutations and token limits: rules with a register in their frame (part of Lowerer).
//
// The problem: as states of an automaton, `x{1000}` needs a thousand copies of x, and the members of an object in any
// order need a state for each subset. With a register in the frame, one copy of each item is enough.
//
// In: a node, and two states of the automaton that is being built. Out: either an edge between them that calls a new
// rule, whose register is a count or the set of written members; or, if there are few, the states themselves.
//
// How: a guarded action before each iteration, character or member checks the register and changes it (rules.hpp):
//     x{m,n}                 start --Inc--> x --> start          the count must allow one more, and at the end >= m
//     permutation a, b / ,   start --Put a--> a --> end          Put: the member may still be written
//                            start --Put b--> b --> end
//                            end --More--> "," --> as at start   More: something may still follow
// A repetition is unrolled if its copies are small (unroll_weight.hpp), or if it may start anywhere in a text that is
// searched (is_searched). A length window becomes a count only if that is exact (length_window.hpp). Equal repetitions
// share one rule.
//
// A token limit is checked when a token ends (run/token_counts.cpp). Its rule has no calls, and no edge leads back to
// its start, so a thread at the start has read nothing of the rule.
//
// Cost: the cost of the item, once; times the count if it is unrolled.
#include <algorithm>
#include <utility>

#include "compile/length_window.hpp"
#include "compile/lowerer.hpp"

namespace guided {

namespace {
constexpr int64_t kMaxSearchedLength = 400;  // the longest repetition that is unrolled because it is searched for

// Adds a state with a move back to `loop`.
int32_t loop_back(Nfa& nfa, int32_t loop) {
  int32_t end = nfa.add();
  nfa.move(end, loop);
  return end;
}
}  // namespace

// Whether a repetition of characters follows an unbounded one that can read the same characters, as in `.*[0-9]{40}`.
// Such a repetition may have started at any earlier character: with a register, there would be a parser thread for each
// start; unrolled, determinisation needs only the length of the longest one.
bool Lowerer::is_searched(const IrNode& n) const {
  const IrNode& item = ir_.nodes[n.items[0]];
  if (looped_ < 0 || item.kind != Kind::Chars || ir_.nodes[looped_].kind != Kind::Chars) return false;
  if (std::max(n.min, n.max) > kMaxSearchedLength) return false;
  auto overlaps = [&](const Range& r) {
    auto meets = [&](const Range& o) { return r.lo <= o.hi && o.lo <= r.hi; };
    return std::ranges::any_of(ir_.nodes[looped_].ranges, meets);
  };
  return std::ranges::any_of(item.ranges, overlaps);
}

void Lowerer::build_repeat(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  int32_t item = n.items[0];
  const bool searched = is_searched(n);
  looped_ = -1;
  if (n.max == 0) {
    nfa.move(from, to);
    return;
  }
  int64_t copies = n.max < 0 ? n.min : n.max;
  const bool small = copies <= 1 || in_flat_ || searched || copies * weight_.of(item) <= UnrollWeight::kMaxWeight;
  if (!small) {
    if (n.min == 0 || nullable_.node(item)) nfa.move(from, to);
    Symbol call = kCall + static_cast<Symbol>(counter(n, enc, depth));
    nfa.edge(from, call, call, to);
    return;
  }
  meter_.states(copies);
  int32_t at = from;
  for (int64_t i = 0; i < n.min; ++i) {
    int32_t next = i + 1 == n.max ? to : nfa.add();
    build(nfa, item, enc, at, next, depth + 1);
    at = next;
  }
  if (n.max < 0) {
    int32_t loop = nfa.add();
    nfa.move(at, loop);
    build(nfa, item, enc, loop, loop_back(nfa, loop), depth + 1);
    nfa.move(loop, to);
    return;
  }
  if (n.min == n.max) return;
  for (int64_t i = n.min; i < n.max; ++i) {
    // A new state for each copy: a move from `from` itself could also skip its other edges.
    int32_t here = nfa.add();
    nfa.move(at, here);
    nfa.move(here, to);
    int32_t next = i + 1 == n.max ? to : nfa.add();
    build(nfa, item, enc, here, next, depth + 1);
    at = next;
  }
}

// The rule of x{m,n}: S --Inc--> x --> S, where S accepts. The end of the frame checks that the count is at least m.
int32_t Lowerer::counter(const IrNode& n, int32_t enc, int depth) {
  std::vector<int64_t> key{n.items[0], enc, n.min, n.max};
  auto found = counters_.find(key);
  if (found != counters_.end()) return found->second;
  bool item_nullable = nullable_.node(n.items[0]);
  LoweredRule rule;
  rule.effects.push_back({.op = Effect::Inc});
  Nfa body;
  body.start = body.add();
  body.final = body.add();
  std::vector<Effect>* outer = std::exchange(effects_, &rule.effects);
  build(body, n.items[0], enc, body.start, body.final, depth + 1);
  effects_ = outer;
  Dfa item = finish(body);
  Nfa loop;
  loop.start = loop.final = loop.add();
  int32_t inside = loop.add();
  loop.edge(loop.start, kEffect, kEffect, inside);
  loop.splice(item, inside, loop.start);
  rule.kind = RuleKind::Counter;
  rule.min = item_nullable ? 1 : std::max<int64_t>(n.min, 1);
  rule.max = n.max;
  // Not tested for emptiness here: prune_rules() knows what a counter needs.
  rule.dfa = minimise(determinise(loop, meter_), meter_);
  return counters_[key] = synthetic(std::move(rule));
}

// A regular node as a language and a window: nested Length nodes, And, and `[...]{m,n}` contribute to the window.
Lowerer::Windowed Lowerer::windowed(int32_t id, int depth) {
  descend(depth);
  const IrNode& n = ir_.nodes[id];
  Windowed out;
  if (Nullability::contradicts(n)) return out;
  if (n.kind == Kind::Length) {
    out = windowed(n.items[0], depth + 1);
    out.within(n.min, n.max);
  } else if (n.kind == Kind::And && !n.items.empty()) {
    out = windowed(n.items[0], depth + 1);
    for (size_t i = 1; i < n.items.size(); ++i) {
      Windowed other = windowed(n.items[i], depth + 1);
      out.dfa = intersect(out.dfa, other.dfa, meter_);
      out.within(other.min, other.max);
    }
    out.dfa = minimise(std::move(out.dfa), meter_);
  } else if (n.kind == Kind::Repeat && ir_.nodes[n.items[0]].kind == Kind::Chars) {
    std::vector<Edge> loops;
    for (const Range& r : ir_.nodes[n.items[0]].ranges) loops.push_back({r.lo, r.hi, 0});
    out.dfa.edges.set(out.dfa.add(true), loops);
    out.within(n.min, n.max);
  } else {
    out.dfa = regular(id, depth);
  }
  return out;
}

void Lowerer::build_window(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth) {
  if (in_flat_) {
    nfa.splice(relabelled(regular(id, depth), enc), from, to);
    return;
  }
  Windowed language = windowed(id, depth);
  Dfa dfa = minimise(live_.restricted(relabelled(std::move(language.dfa), enc)), meter_);
  if (dfa.empty() || (language.max >= 0 && language.min > language.max)) return;
  Window window = count_window(dfa, language.min, language.max, meter_);
  if (window.kind == Window::Everything) {
    nfa.splice(dfa, from, to);
  } else if (window.kind == Window::Written) {
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
      it->second = synthetic(std::move(rule));
    }
    Symbol call = kCall + static_cast<Symbol>(it->second);
    nfa.edge(from, call, call, to);
  }
}

// Adds a rule for a regular item whose texts take at most `max` tokens each.
void Lowerer::build_tokens(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  if (operand_depth_ > 0 || enc != 0) throw Unsupported("MaxTokens inside And, Not, Length or Encoded");
  if (in_flat_) throw Unsupported("MaxTokens needs a vocabulary in which every byte is also a token by itself");
  if (nullable_.node(n.items[0])) nfa.move(from, to);
  if (n.max == 0) return;
  const Dfa item = without_empty(minimise(live_.restricted(regular(n.items[0], depth + 1)), meter_));
  if (item.empty()) return;
  LoweredRule rule;
  rule.max_tokens = n.max;
  rule.dfa.add(false);  // a copy of the start of `item`, to which edges may lead back
  std::vector<Edge> edges;
  for (int32_t s = 0; s < item.size(); ++s) {
    edges.assign(item.edges[s].begin(), item.edges[s].end());
    for (Edge& e : edges) ++e.to;
    rule.dfa.add(item.accept[s] != 0);
    rule.dfa.edges.set(s + 1, edges);
    if (s == 0) rule.dfa.edges.set(0, edges);
  }
  rule.dfa = trim(std::move(rule.dfa));
  const Symbol call = kCall + static_cast<Symbol>(synthetic(std::move(rule)));
  nfa.edge(from, call, call, to);
}

void Lowerer::build_permutation(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
  if (operand_depth_ > 0) throw Unsupported("a permutation inside And, Not or Length");
  if (in_flat_) throw Unsupported("a permutation needs a vocabulary in which every byte is also a token by itself");
  if (Nullability::permutation_can_be_empty(n)) nfa.move(from, to);
  if (n.max == 0) return;
  Nfa body;
  body.start = body.add();
  body.final = body.add();
  int32_t after_separator = body.add(), more = body.add();
  LoweredRule rule;
  rule.kind = RuleKind::Set;
  rule.min = std::max<int64_t>(n.min, 1);
  rule.max = n.max;
  rule.required = n.required;
  rule.condition = n.condition;
  rule.repeatable = n.repeatable;
  if (n.condition) rule.diagrams = ConditionDiagrams::build(*n.condition, n.repeatable, rule.min, rule.max, meter_);
  std::vector<Effect>* outer = std::exchange(effects_, &rule.effects);
  for (size_t i = 0; i < n.items.size(); ++i) {
    if (nullable_.node(n.items[i])) throw Unsupported("a member of a permutation that may be empty");
    const Symbol put = effect({.op = Effect::Put, .a = static_cast<int64_t>(i)});
    int32_t start = body.add();
    body.edge(body.start, put, put, start);
    body.edge(after_separator, put, put, start);
    build(body, n.items[i], enc, start, body.final, depth + 1);
  }
  const Symbol again = effect({.op = Effect::More});
  body.edge(body.final, again, again, more);
  build(body, n.ref, enc, more, after_separator, depth + 1);
  effects_ = outer;
  rule.dfa = finish(body);
  Symbol call = kCall + static_cast<Symbol>(synthetic(std::move(rule)));
  nfa.edge(from, call, call, to);
}

}  // namespace guided
