#include "grammar.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <span>

#include "graph.hpp"

namespace guided {

namespace {

// The content of one rule, calls named by `callee` digests.
Digest content(const LoweredRule& rule, const std::vector<Digest>& callee, bool with_bounds) {
  Digest d;
  d.add(static_cast<uint64_t>(rule.kind));
  if (with_bounds) {
    d.add(static_cast<uint64_t>(rule.min));
    d.add(static_cast<uint64_t>(rule.max));
  }
  for (size_t i = 0; i < rule.required.size(); ++i) d.add(rule.required[i] * 4u + rule.repeatable[i]);
  for (int32_t s = 0; s < rule.dfa.size(); ++s) {
    d.add(0x5157A7Eu + rule.dfa.accept[s]);
    for (const Edge& e : rule.dfa.edges[s]) {
      if (is_call(e.lo)) {
        d.add(1);
        d.add(callee[e.lo - kCall]);
      } else if (is_effect(e.lo)) {
        const Effect& f = rule.effects[e.lo - kEffect];
        d.add(2 + static_cast<uint64_t>(f.op) * 8);
        d.add(f.op == Effect::Open ? 0 : static_cast<uint64_t>(f.a));  // names go by their content, in b
        d.add(static_cast<uint64_t>(f.b));
      } else if (is_spelling(e.lo)) {
        d.add(3);
        d.add(rule.spellings[e.lo - kSpelling]->digest);
      } else {
        d.add(uint64_t{e.lo} << 32 | e.hi);
      }
      d.add(static_cast<uint64_t>(e.to));
    }
  }
  return d;
}

bool is_relative(const LoweredRule& rule) {
  auto looks_at_no_more = [](const Effect& e) { return e.of_memory() || e.b < 0; };
  return rule.kind == RuleKind::Counter && std::ranges::all_of(rule.effects, looks_at_no_more);
}

// Digests that are equal only for rules with the same behaviour. Recursive components are coloured by refinement until
// the number of colours is stable; the final digest holds the whole coloured component, so that equal digests mean
// equal quotient automata. Returns (with own bounds, without own bounds where relative).
std::pair<std::vector<Digest>, std::vector<Digest>> digests(const std::vector<LoweredRule>& rules,
                                                             Meter& meter) {
  size_t n = rules.size();
  std::vector<std::vector<int32_t>> graph(n);
  for (size_t r = 0; r < n; ++r)
    for (int32_t s = 0; s < rules[r].dfa.size(); ++s)
      for (const Edge& e : rules[r].dfa.edges[s])
        if (is_call(e.lo)) graph[r].push_back(static_cast<int32_t>(e.lo - kCall));
  std::vector<int32_t> comp = components(graph);
  std::map<int32_t, std::vector<int32_t>> members;
  for (size_t r = 0; r < n; ++r) members[comp[r]].push_back(static_cast<int32_t>(r));
  std::vector<Digest> full(n), own(n);
  for (auto& [c, list] : members) {  // callees first
    bool cyclic = list.size() > 1;
    for (int32_t r : list)
      for (int32_t t : graph[r]) cyclic |= t == r;
    if (cyclic) {
      for (int32_t r : list) full[r] = Digest{1, 1};
      size_t colours = 0;
      for (size_t round = 0; round <= list.size(); ++round) {
        std::vector<Digest> fresh;
        for (int32_t r : list) {
          meter.work(rules[r].dfa.size());
          fresh.push_back(content(rules[r], full, true));
        }
        for (size_t i = 0; i < list.size(); ++i) full[list[i]] = fresh[i];
        std::set<Digest> distinct(fresh.begin(), fresh.end());
        if (distinct.size() == colours) break;
        colours = distinct.size();
      }
      std::set<std::pair<Digest, Digest>> quotient;
      for (int32_t r : list) quotient.insert({full[r], content(rules[r], full, true)});
      Digest whole;
      for (const auto& [colour, text] : quotient) {
        whole.add(colour);
        whole.add(text);
      }
      for (int32_t r : list) full[r].add(whole);
    } else {
      full[list[0]] = content(rules[list[0]], full, true);
    }
  }
  for (size_t r = 0; r < n; ++r) own[r] = is_relative(rules[r]) ? content(rules[r], full, false) : full[r];
  return {full, own};
}

}  // namespace

// The scopes that each position's frame has open: the same on every way to it.
static void count_scopes(Grammar& g) {
  std::vector<uint8_t> met(g.positions.size(), 0);
  std::vector<int32_t> work;
  auto lead = [&](int32_t to, int32_t scopes) {
    if (met[to]) return;
    met[to] = 1;
    g.positions[to].scopes = scopes;
    work.push_back(to);
  };
  for (const Rule& rule : g.rules)
    if (rule.size > 0) lead(rule.start, 0);
  while (!work.empty()) {
    const int32_t at = work.back();
    work.pop_back();
    const Position p = g.positions[at];
    g.each_next(p, [&](int32_t to) { lead(to, p.scopes); });
    for (int32_t i = p.call_lo; i < p.call_hi; ++i) lead(g.calls[i].after, p.scopes);
    for (int32_t i = p.token_lo; i < p.token_hi; ++i) lead(g.tokens[i].to, p.scopes);
    for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) {
      const Effect::Op op = g.effects[i].effect.op;
      lead(g.effects[i].to, p.scopes + (op == Effect::Open) - (op == Effect::Close));
    }
  }
}

// The least that a frame must still count from each position of a relative rule: along the way backwards from its ends.
static void find_rests(Grammar& g, const Rule& rule) {
  struct Way {
    int32_t from, counts;
  };
  std::vector<std::vector<Way>> before(static_cast<size_t>(rule.size));
  std::vector<int32_t> rest(static_cast<size_t>(rule.size), INT32_MAX);
  std::deque<int32_t> work;  // the nearest first
  for (int32_t s = 0; s < rule.size; ++s) {
    const Position& p = g.positions[rule.base + s];
    auto lead = [&](int32_t to, int32_t counts) { before[to - rule.base].push_back({s, counts}); };
    g.each_next(p, [&](int32_t to) { lead(to, 0); });
    for (int32_t i = p.call_lo; i < p.call_hi; ++i) lead(g.calls[i].after, 0);
    for (int32_t i = p.token_lo; i < p.token_hi; ++i) lead(g.tokens[i].to, 0);
    for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) lead(g.effects[i].to, g.effects[i].effect.op == Effect::Inc);
    if (p.accept) {
      rest[s] = 0;
      work.push_back(s);
    }
  }
  while (!work.empty()) {
    const int32_t at = work.front();
    work.pop_front();
    for (const auto [from, counts] : before[at]) {
      if (rest[from] <= rest[at] + counts) continue;
      rest[from] = rest[at] + counts;
      counts == 0 ? work.push_front(from) : work.push_back(from);
    }
  }
  for (int32_t s = 0; s < rule.size; ++s) g.positions[rule.base + s].rest = rest[s];
}

namespace {

// Lays the automata of the rules out for stepping, one after the other.
class Layout {
 public:
  explicit Layout(Grammar& g) : g_(g) {}

  void add(LoweredRule& from, Rule& rule) {
    rule.base = rule.start = size();
    const auto number = static_cast<int32_t>(&rule - g_.rules.data());
    classify(from, rule);
    inside_.clear();
    int32_t next_inside = rule.base + from.dfa.size();
    for (int32_t s = 0; s < from.dfa.size(); ++s) {
      Position& p = begin(number);
      p.accept = from.dfa.accept[s];
      for (const Edge& e : from.dfa.edges[s]) {
        const int32_t to = rule.base + e.to;
        if (is_call(e.lo)) {
          bool end = from.kind == RuleKind::Plain && from.dfa.accept[e.to] && from.dfa.edges[e.to].empty();
          g_.calls.push_back({static_cast<int32_t>(e.lo - kCall), to, end});
        } else if (is_token(e.lo)) {
          for (uint64_t t = e.lo; t <= e.hi; ++t) g_.tokens.push_back({static_cast<int32_t>(t - kToken), to});
        } else if (is_effect(e.lo)) {
          g_.effects.push_back({from.effects[e.lo - kEffect], to});
        }
      }
      const std::span<const Edge> edges = from.dfa.edges[s];
      if (!edges.empty() && is_spelling(edges[0].lo)) {
        const Spelling& spelling = *from.spellings[edges[0].lo - kSpelling];
        inside_.push_back({&spelling, next_inside, rule.base + edges[0].to});
        add_bytes(p, rule, spelling.dfa.edges[0], inside_.back());
        next_inside += spelling.inside();
      } else {
        add_bytes(p, rule, edges, {nullptr, rule.base, 0});
      }
      end(p);
    }
    for (const Inside& in : inside_)
      for (int32_t s = 1; s <= in.spelling->inside(); ++s) {
        Position& p = begin(number);
        add_bytes(p, rule, in.spelling->dfa.edges[s], in);
        end(p);
      }
    rule.size = size() - rule.base;
    from.dfa = Dfa{};
  }

 private:
  static constexpr int64_t kMostSpans = 4;  // a position with more byte edges gets a row
  // Where the states inside of a spelling begin, and what its end is.
  struct Inside {
    const Spelling* spelling;  // null: states are counted from `first` on
    int32_t first, end;
    int32_t operator()(int32_t state) const {
      if (!spelling) return first + state;
      return state == spelling->dfa.size() - 1 ? end : first + state - 1;
    }
  };

  int32_t size() const { return static_cast<int32_t>(g_.positions.size()); }

  // Byte classes: bytes that no state of the rule tells apart.
  void classify(const LoweredRule& from, Rule& rule) {
    std::vector<uint8_t> cut(257, 0);
    auto look_at = [&](const Dfa& dfa) {
      for (int32_t s = 0; s < dfa.size(); ++s)
        for (const Edge& e : dfa.edges[s])
          if (e.lo < 256) cut[e.lo] = cut[e.hi + 1] = 1;
    };
    look_at(from.dfa);
    for (const auto& spelling : from.spellings) look_at(spelling->dfa);
    rule.byte_class.resize(256);
    int32_t classes = 0;
    for (int b = 0; b < 256; ++b) {
      if (b > 0 && cut[b]) ++classes;
      rule.byte_class[b] = static_cast<uint8_t>(classes);
    }
    rule.classes = ++classes;
  }

  Position& begin(int32_t rule) {
    Position& p = g_.positions.emplace_back();
    p.rule = rule;
    p.byte_lo = static_cast<int32_t>(g_.spans.size());
    p.call_lo = static_cast<int32_t>(g_.calls.size());
    p.effect_lo = static_cast<int32_t>(g_.effects.size());
    p.token_lo = static_cast<int32_t>(g_.tokens.size());
    return p;
  }

  void add_bytes(Position& p, const Rule& rule, std::span<const Edge> edges, const Inside& state) {
    const auto of_bytes = std::ranges::count_if(edges, [](const Edge& e) { return e.lo < 256; });
    if (of_bytes > kMostSpans) {
      p.row = static_cast<int32_t>(g_.next.size());
      g_.next.resize(g_.next.size() + static_cast<size_t>(rule.classes), -1);
    }
    for (const Edge& e : edges) {
      if (e.lo >= 256) continue;
      const int32_t to = state(e.to);
      for (Symbol b = e.lo; b <= e.hi; ++b) {
        p.bytes.add(static_cast<uint8_t>(b));
        if (p.row >= 0) g_.next[p.row + rule.byte_class[b]] = to;
      }
      if (p.row < 0) g_.spans.push_back({static_cast<uint8_t>(e.lo), static_cast<uint8_t>(e.hi), to});
    }
  }

  void end(Position& p) {
    p.byte_hi = static_cast<int32_t>(g_.spans.size());
    p.call_hi = static_cast<int32_t>(g_.calls.size());
    p.effect_hi = static_cast<int32_t>(g_.effects.size());
    p.token_hi = static_cast<int32_t>(g_.tokens.size());
    p.active = p.byte_hi > p.byte_lo || p.row >= 0 || p.token_hi > p.token_lo;
  }

  Grammar& g_;
  std::vector<Inside> inside_;
};

// What a rule is, its automaton and digest aside.
void describe(LoweredRule& from, Rule& rule) {
  rule.kind = from.kind;
  rule.min = from.min;
  rule.max = from.max;
  rule.origin = from.origin;
  rule.relative = is_relative(from);
  for (const Effect& e : from.effects) {
    rule.scopes += e.op == Effect::Open;
    rule.keeps |= e.op == Effect::Keep;
    if (e.op == Effect::Inc) rule.reach = std::max({rule.reach, e.a, e.b});
  }
  rule.required = from.required;
  rule.repeatable = from.repeatable;
  rule.required_bits.assign((rule.required.size() + 63) / 64, 0);
  rule.once_bits = rule.required_bits;
  for (size_t i = 0; i < rule.required.size(); ++i) {
    if (rule.repeatable[i] == kAbsent) continue;
    if (rule.required[i]) rule.required_bits[i / 64] |= uint64_t{1} << (i % 64);
    if (!rule.repeatable[i]) rule.once_bits[i / 64] |= uint64_t{1} << (i % 64);
    rule.unbounded |= rule.repeatable[i] != 0;
  }
}

int64_t positions_of(const LoweredRule& rule) {
  int64_t count = rule.dfa.size();
  if (rule.spellings.empty()) return count;
  for (int32_t s = 0; s < rule.dfa.size(); ++s)
    for (const Edge& e : rule.dfa.edges[s])
      if (is_spelling(e.lo)) count += rule.spellings[e.lo - kSpelling]->inside();
  return count;
}

}  // namespace

std::unique_ptr<Grammar> assemble(LoweredGrammar&& lowered, const std::vector<std::string>& names, Meter& meter) {
  if (lowered.rules[lowered.start].dfa.empty() && !lowered.nullable)
    throw EmptyLanguage("the specification allows no output at all");
  auto out = std::make_unique<Grammar>();
  Grammar& g = *out;
  g.start = lowered.start;
  g.nullable = lowered.nullable;
  g.recursive = lowered.recursive;
  g.names = names;
  g.known = std::move(lowered.known);
  const std::vector<Digest> own = digests(lowered.rules, meter).second;
  int64_t positions = 0;
  for (const LoweredRule& rule : lowered.rules) positions += positions_of(rule);
  meter.states(positions);
  g.positions.reserve(static_cast<size_t>(positions));
  g.rules.resize(lowered.rules.size());
  Layout layout(g);
  for (size_t r = 0; r < g.rules.size(); ++r) {
    describe(lowered.rules[r], g.rules[r]);
    g.rules[r].digest = own[r];
    layout.add(lowered.rules[r], g.rules[r]);
    if (g.rules[r].relative && g.rules[r].reach > 0) find_rests(g, g.rules[r]);
  }
  if (!g.known.empty()) count_scopes(g);
  g.single = g.rules.size() == 1 && g.rules[0].kind == RuleKind::Plain && g.calls.empty() && g.effects.empty();
  return out;
}

}  // namespace guided
