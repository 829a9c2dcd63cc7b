#include "compile/grammar.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/graph.hpp"

namespace guided {

namespace {

// Returns for each rule the index of the IR's later rule that it is the placeholder of; -1: none.
std::vector<int32_t> map_later_rules(const std::vector<LoweredRule>& rules, const IrGrammar& ir) {
  std::vector<int32_t> by_origin(ir.rules.size(), -1), out(rules.size(), -1);
  for (size_t i = 0; i < ir.later.size(); ++i) by_origin[ir.later[i].rule] = static_cast<int32_t>(i);
  for (size_t r = 0; r < rules.size(); ++r)
    if (rules[r].origin >= 0) out[r] = by_origin[rules[r].origin];
  return out;
}

// Returns the digest of one rule's content. `callees`: the digests that represent the called rules, by rule.
Digest digest_content(const LoweredRule& rule, const std::vector<Digest>& callees, bool with_bounds) {
  Digest d;
  d.add(static_cast<uint64_t>(rule.kind));
  if (with_bounds) {
    d.add(static_cast<uint64_t>(rule.min));
    d.add(static_cast<uint64_t>(rule.max));
  }
  if (rule.condition) d.add(rule.condition->digest());
  for (size_t i = 0; i < rule.required.size(); ++i) d.add(rule.required[i] * 4u + rule.repeatable[i]);
  if (rule.prepared) d.add(rule.prepared->shape);
  for (int32_t r : rule.callees) d.add(callees[r]);
  return d;
}

// Returns for each rule a digest that is equal only for rules with the same behaviour. It includes the digests of all
// callees, which would be circular for mutually recursive rules. These get their digests by colour refinement. At
// first, all have the same colour. In each round, a rule's new colour is the digest of its content and of its callees'
// colours, until the number of colours is stable. The digest then also includes all colours of the component, so equal
// digests mean equal quotient automata. The digest of a relative rule includes the bounds of other rules, but not its
// own.
std::vector<Digest> compute_digests(const std::vector<LoweredRule>& rules, const std::vector<int32_t>& later,
                                    const IrGrammar& ir, Meter& meter) {
  size_t n = rules.size();
  std::vector<std::vector<int32_t>> graph(n);
  for (size_t r = 0; r < n; ++r) graph[r] = rules[r].callees;
  std::vector<int32_t> component = components(graph);
  std::vector<std::vector<int32_t>> members(n);
  for (size_t r = 0; r < n; ++r) members[component[r]].push_back(static_cast<int32_t>(r));
  std::vector<Digest> full_digests(n), out(n);
  for (const auto& component_rules : members) {  // callees first
    if (component_rules.empty()) break;
    const bool is_recursive =
        component_rules.size() > 1 ||
        std::ranges::find(graph[component_rules[0]], component_rules[0]) != graph[component_rules[0]].end();
    if (is_recursive) {
      for (int32_t r : component_rules) full_digests[r] = Digest{1, 1};
      size_t colour_count = 0;
      for (size_t round = 0; round <= component_rules.size(); ++round) {
        std::vector<Digest> new_colours;
        for (int32_t r : component_rules) {
          meter.work(1 + static_cast<int64_t>(rules[r].callees.size()));
          new_colours.push_back(digest_content(rules[r], full_digests, true));
        }
        for (size_t i = 0; i < component_rules.size(); ++i) full_digests[component_rules[i]] = new_colours[i];
        std::set<Digest> distinct_colours(new_colours.begin(), new_colours.end());
        if (distinct_colours.size() == colour_count) break;
        colour_count = distinct_colours.size();
      }
      std::set<std::pair<Digest, Digest>> quotient;
      for (int32_t r : component_rules)
        quotient.insert({full_digests[r], digest_content(rules[r], full_digests, true)});
      Digest component_digest;
      for (const auto& [colour, content] : quotient) {
        component_digest.add(colour);
        component_digest.add(content);
      }
      for (int32_t r : component_rules) full_digests[r].add(component_digest);
    } else {
      full_digests[component_rules[0]] = digest_content(rules[component_rules[0]], full_digests, true);
      if (later[component_rules[0]] >= 0)
        full_digests[component_rules[0]].add(ir.later[later[component_rules[0]]].digest);
    }
  }
  for (size_t r = 0; r < n; ++r)
    out[r] = rules[r].is_relative() ? digest_content(rules[r], full_digests, false) : full_digests[r];
  return out;
}

// Copies the blocks of rules into one grammar, one after the other, with absolute numbers.
class Linker {
 public:
  Linker(Grammar& g, const std::vector<LoweredRule>& rules) : g_(g) {
    size_t positions = 0, next = 0, spans = 0, calls = 0, effects = 0, tokens = 0;
    for (const LoweredRule& rule : rules) {
      if (!rule.prepared) continue;
      const RuleBlock& block = rule.prepared->block;
      positions += block.positions.size();
      next += block.next.size();
      spans += block.spans.size();
      calls += block.calls.size();
      effects += block.effects.size();
      tokens += block.tokens.size();
    }
    g.positions.reserve(positions);
    g.next.reserve(next);
    g.spans.reserve(spans);
    g.calls.reserve(calls);
    g.effects.reserve(effects);
    g.tokens.reserve(tokens);
  }

  void add(const LoweredRule& from, Rule& rule) {
    rule.base = rule.start = static_cast<int32_t>(g_.positions.size());
    if (!from.prepared) return;
    const RuleBlock& block = from.prepared->block;
    rule.size = static_cast<int32_t>(block.positions.size());
    rule.byte_class = block.byte_class;
    rule.classes = block.classes;
    const int32_t base = rule.base;
    const Position::ListSizes sizes{.rows = static_cast<int32_t>(g_.next.size()),
                                    .spans = static_cast<int32_t>(g_.spans.size()),
                                    .calls = static_cast<int32_t>(g_.calls.size()),
                                    .effects = static_cast<int32_t>(g_.effects.size()),
                                    .tokens = static_cast<int32_t>(g_.tokens.size())};
    for (const Position& relative : block.positions) {
      Position& p = g_.positions.emplace_back(relative);
      p.rule = static_cast<int32_t>(&rule - g_.rules.data());
      p.shift_lists(sizes);
    }
    for (int32_t to : block.next) g_.next.push_back(to < 0 ? to : to + base);
    for (const ByteSpan& s : block.spans) g_.spans.push_back({s.lo, s.hi, s.to + base});
    for (const CallEdge& c : block.calls) g_.calls.push_back({from.callees[c.rule], c.after + base, c.tail});
    for (const RuleBlock::Step& s : block.effects) g_.effects.push_back({from.effects[s.effect], s.to + base});
    for (const TokenEdge& t : block.tokens) g_.tokens.push_back({t.token, t.to + base});
    for (const RulePart& part : from.parts) rule.parts.push_back({part.position + base, part.rule});
  }

 private:
  Grammar& g_;
};

// Fills in a rule, except for its positions and its digest.
void fill_in(const LoweredRule& from, Rule& rule) {
  rule.kind = from.kind;
  rule.min = from.min;
  rule.max = from.max;
  rule.max_tokens = from.max_tokens;
  rule.origin = from.origin;
  rule.substrings = from.substrings;
  rule.relative = from.is_relative();
  for (const Effect& e : from.effects) {
    rule.scopes += e.op == Effect::Open;
    rule.keeps |= e.op == Effect::Keep;
    if (e.op == Effect::Inc) rule.reach = std::max({rule.reach, e.a, e.b});
  }
  rule.required = from.required;
  rule.repeatable = from.repeatable;
  if (from.condition)
    rule.choices = std::make_shared<MemberChoices>(from.diagrams, from.repeatable, from.min, from.max);
  rule.required_bits.assign((rule.required.size() + 63) / 64, 0);
  rule.once_bits = rule.required_bits;
  for (size_t i = 0; i < rule.required.size(); ++i) {
    if (rule.repeatable[i] == kAbsent) continue;
    if (rule.required[i]) rule.required_bits[i / 64] |= uint64_t{1} << (i % 64);
    if (!rule.repeatable[i]) rule.once_bits[i / 64] |= uint64_t{1} << (i % 64);
    rule.unbounded |= rule.repeatable[i] != 0;
  }
}

}  // namespace

std::unique_ptr<Grammar> assemble(LoweredGrammar&& lowered, const IrGrammar& ir, Meter& meter) {
  if (lowered.rules[lowered.start].automaton().empty() && !lowered.nullable)
    throw EmptyLanguage("the specification allows no output at all");
  auto out = std::make_unique<Grammar>();
  Grammar& g = *out;
  g.start = lowered.start;
  g.nullable = lowered.nullable;
  g.recursive = lowered.recursive;
  g.names = ir.names;
  g.known = std::move(lowered.known);
  const std::vector<int32_t> later = map_later_rules(lowered.rules, ir);
  const std::vector<Digest> digests = compute_digests(lowered.rules, later, ir, meter);
  int64_t positions = 0;
  for (const LoweredRule& rule : lowered.rules)
    if (rule.prepared) positions += static_cast<int64_t>(rule.prepared->block.positions.size());
  meter.states(positions);
  g.rules.resize(lowered.rules.size());
  Linker linker(g, lowered.rules);
  for (size_t r = 0; r < g.rules.size(); ++r) {
    fill_in(lowered.rules[r], g.rules[r]);
    g.rules[r].digest = digests[r];
    linker.add(lowered.rules[r], g.rules[r]);
    if (later[r] < 0) continue;
    g.rules[r].later = static_cast<int32_t>(g.later.size());
    g.later.push_back({static_cast<int32_t>(r), ir.later[later[r]].shortest_bound, -1, later[r]});
  }
  g.single = g.rules.size() == 1 && g.rules[0].kind == RuleKind::Plain && g.calls.empty() && g.effects.empty();
  return out;
}

}  // namespace guided
