// IR nodes to automata (Thompson's construction over symbol ranges), one rule at a time. See rules.hpp.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "length_window.hpp"
#include "nullability.hpp"
#include "rules.hpp"
#include "unroll_weight.hpp"

namespace guided {

namespace {

class Lowerer {
 public:
  Lowerer(const IrGrammar& ir, const LowerOptions& options, const LiveAlphabet& alphabet, Meter& meter)
      : ir_(ir), options_(options), meter_(meter), nullable_(ir, meter), 
        live_(alphabet), weight_(ir) {}

  LoweredGrammar run() {
    LoweredGrammar out;
    out.nullable = nullable_.rule(ir_.start);
    out.start = instance(ir_.start, 0);
    if (options_.flat) out.rules.clear();
    for (size_t i = 0; i < pending_.size(); ++i) {
      Pending p = pending_[i];
      if (p.synthetic) continue;
      if (from_cache(i, p)) continue;
      std::vector<Effect> effects;
      Nfa nfa;
      nfa.start = nfa.add();
      nfa.final = nfa.add();
      in_flat_ = options_.flat;
      if (in_flat_) open_rules_.assign(ir_.rules.size(), 0);
      current_origin_ = p.rule;
      effects_ = &effects;
      if (in_flat_) open_rules_[p.rule] = 1;
      build(nfa, ir_.rules[p.rule], p.encoding, nfa.start, nfa.final, 0);
      rules_[i].dfa = finish(nfa);
      rules_[i].effects = std::move(effects);
      rules_[i].keep = rules_[i].keep && !has_calls(rules_[i].dfa);  // numbers of rules mean nothing elsewhere
      rules_[i].origin = p.rule;
    }
    out.rules = std::move(rules_);
    out.known = ir_.known;
    return out;
  }

 private:
  struct Pending {
    int32_t rule, encoding;
    bool synthetic;
  };

  static bool has_calls(const Dfa& dfa) {
    for (int32_t s = 0; s < dfa.size(); ++s)
      if (std::ranges::any_of(dfa.edges[s], [](const Edge& e) { return is_call(e.lo); })) return true;
    return false;
  }

  // A rule that is regular by itself may be known from an earlier grammar.
  bool from_cache(size_t i, const Pending& p) {
    const IrNode& node = ir_.nodes[ir_.rules[p.rule]];
    if (!options_.caches || options_.flat || !node.closed) return false;
    Digest key = node.digest;
    key.add(ir_.encoding_digests[p.encoding]);
    rules_[i].keep = true;
    rules_[i].key = key;
    std::shared_ptr<const ByteAutomaton> known = options_.caches->rules.find(key);
    if (!known) return false;
    rules_[i].dfa = known->dfa;
    rules_[i].spellings = known->spellings;
    rules_[i].encoded = true;
    rules_[i].keep = false;
    rules_[i].origin = p.rule;
    return true;
  }

  // ---- rules
  int32_t instance(int32_t rule, int32_t encoding) {
    auto [it, fresh] = instances_.try_emplace({rule, encoding}, static_cast<int32_t>(rules_.size()));
    if (fresh) {
      rules_.emplace_back();
      pending_.push_back({rule, encoding, false});
    }
    return it->second;
  }
  int32_t synthetic(LoweredRule rule) {
    rule.origin = current_origin_;
    rules_.push_back(std::move(rule));
    pending_.push_back({-1, 0, true});
    return static_cast<int32_t>(rules_.size()) - 1;
  }

  Dfa finish(const Nfa& nfa) {
    return without_empty(minimise(live_.restricted(determinise(nfa, meter_)), meter_));
  }

  // ---- regular languages, for the operands of And, Not and Length (code points of encoding 0)
  const Dfa& regular(int32_t id, int depth) {
    auto it = regular_.find(id);
    if (it != regular_.end()) return it->second;
    Dfa out = regular_fresh(id, depth);
    return regular_[id] = std::move(out);
  }
  Dfa regular_fresh(int32_t id, int depth) {
    if (depth > kMaxDepth) throw LimitFailure("depth", depth, kMaxDepth, true);
    const IrNode& n = ir_.nodes[id];
    if (n.kind == Kind::And) {
      if (n.items.empty()) return complement({}, meter_);
      Dfa out = regular(n.items[0], depth + 1);
      for (size_t i = 1; i < n.items.size(); ++i) out = intersect(out, regular(n.items[i], depth + 1), meter_);
      return minimise(std::move(out), meter_);
    }
    if (n.kind == Kind::Not) return minimise(complement(regular(n.items[0], depth + 1), meter_), meter_);
    if (n.kind == Kind::Length) {
      if (Nullability::contradicts(n)) return {};
      return minimise(unrolled_window(regular(n.items[0], depth + 1), n.min, n.max, meter_), meter_);
    }
    Nfa nfa;
    nfa.start = nfa.add();
    nfa.final = nfa.add();
    bool outer = in_flat_;
    std::vector<uint8_t> outer_open;
    if (!outer) {
      outer_open.assign(ir_.rules.size(), 0);
      open_rules_.swap(outer_open);
    }
    in_flat_ = true;
    ++operand_depth_;
    build(nfa, id, 0, nfa.start, nfa.final, depth + 1);
    --operand_depth_;
    in_flat_ = outer;
    if (!outer) open_rules_.swap(outer_open);
    return minimise(determinise(nfa, meter_), meter_);
  }

  // ---- Thompson's construction between two states
  void build(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth) {
    if (depth > kMaxDepth) throw LimitFailure("depth", depth, kMaxDepth, true);
    meter_.work(1);
    meter_.states(nfa.size() / 8);
    const IrNode& n = ir_.nodes[id];
    if (Nullability::contradicts(n)) return;
    Symbol base = static_cast<Symbol>(enc) << kEncodingShift;
    switch (n.kind) {
      case Kind::Chars:
        for (const Range& r : n.ranges) nfa.edge(from, base + r.lo, base + r.hi, to);
        return;
      case Kind::Text: {
        int32_t at = from;
        for (size_t i = 0; i < n.text.size(); ++i) {
          int32_t next = i + 1 == n.text.size() ? to : nfa.add();
          nfa.edge(at, base + n.text[i], base + n.text[i], next);
          at = next;
        }
        if (n.text.empty()) nfa.move(from, to);
        return;
      }
      case Kind::Seq: {
        int32_t at = from;
        for (size_t i = 0; i < n.items.size(); ++i) {
          int32_t next = i + 1 == n.items.size() ? to : nfa.add();
          build(nfa, n.items[i], enc, at, next, depth + 1);
          at = next;
        }
        if (n.items.empty()) nfa.move(from, to);
        return;
      }
      case Kind::Alt:
        for (int32_t c : n.items) build(nfa, c, enc, from, to, depth + 1);
        return;
      case Kind::Repeat:
        build_repeat(nfa, n, enc, from, to, depth);
        return;
      case Kind::Not:
        nfa.splice(relabelled(regular(id, depth), enc), from, to);
        return;
      case Kind::And:
      case Kind::Length:
        build_window(nfa, id, enc, from, to, depth);
        return;
      case Kind::Encoded:
        if (enc != 0 || operand_depth_ > 0)
          throw Unsupported("Encoded inside And, Not, Length or another Encoded has no meaning");
        build(nfa, n.items[0], n.ref, from, to, depth + 1);
        return;
      case Kind::Ref:
        build_ref(nfa, n, enc, from, to, depth);
        return;
      case Kind::Special:
        if (operand_depth_ > 0) throw Unsupported("a special token inside And, Not or Length");
        nfa.edge(from, kToken + static_cast<Symbol>(n.ref), kToken + static_cast<Symbol>(n.ref), to);
        return;
      case Kind::Permutation:
        build_permutation(nfa, n, enc, from, to, depth);
        return;
      case Kind::Automaton:
        nfa.splice(relabelled(*n.automaton, enc), from, to);
        return;
      case Kind::Distinct:
        build_between(nfa, n, {Effect::Open, n.ref, names_digest(n)}, {Effect::Close}, enc, from, to, depth);
        return;
      case Kind::Entry:
        build_between(nfa, n, {Effect::Begin}, {Effect::Keep}, enc, from, to, depth);
        return;
    }
  }

  // The symbol of an effect in the rule that is being built.
  Symbol effect(const Effect& wanted) {
    auto it = std::find(effects_->begin(), effects_->end(), wanted);
    if (it == effects_->end()) it = effects_->insert(it, wanted);
    return kEffect + static_cast<Symbol>(it - effects_->begin());
  }
  int64_t names_digest(const IrNode& n) const { return static_cast<int64_t>(ir_.known[n.ref].digest.a); }

  void build_between(Nfa& nfa, const IrNode& n, Effect before, Effect after, int32_t enc, int32_t from, int32_t to,
                     int depth) {
    if (operand_depth_ > 0 || enc != 0) throw Unsupported("Distinct or Entry inside And, Not, Length or Encoded");
    if (in_flat_) throw Unsupported("Distinct needs a vocabulary in which every byte is also a token by itself");
    if (nullable_.node(n.items[0])) throw Unsupported("Distinct or Entry around an item that may be empty");
    int32_t first = nfa.add(), last = nfa.add();
    const Symbol opens = effect(before), closes = effect(after);
    nfa.edge(from, opens, opens, first);
    build(nfa, n.items[0], enc, first, last, depth + 1);
    nfa.edge(last, closes, closes, to);
  }

  void build_ref(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
    if (in_flat_) {
      if (open_rules_[n.ref])
        throw Unsupported(operand_depth_ > 0 ? "a recursive rule inside And, Not or Length"
                                             : "a recursive grammar needs a vocabulary in which every byte that "
                                               "occurs in a token is also a token by itself");
      open_rules_[n.ref] = 1;
      build(nfa, ir_.rules[n.ref], enc, from, to, depth + 1);
      open_rules_[n.ref] = 0;
      return;
    }
    if (nullable_.rule(n.ref)) nfa.move(from, to);
    Symbol call = kCall + static_cast<Symbol>(instance(n.ref, enc));
    nfa.edge(from, call, call, to);
  }

  void build_repeat(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
    int32_t item = n.items[0];
    if (n.max == 0) {
      nfa.move(from, to);
      return;
    }
    int64_t copies = n.max < 0 ? n.min : n.max;
    bool small = copies <= 1 || in_flat_ || copies * weight_.of(item) <= UnrollWeight::kMost;
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
      // A fresh state for each copy: `from` itself may have other edges that must not be left early.
      int32_t here = nfa.add();
      nfa.move(at, here);
      nfa.move(here, to);
      int32_t next = i + 1 == n.max ? to : nfa.add();
      build(nfa, item, enc, here, next, depth + 1);
      at = next;
    }
  }
  static int32_t loop_back(Nfa& nfa, int32_t loop) {
    int32_t end = nfa.add();
    nfa.move(end, loop);
    return end;
  }

  // x{m,n} as a rule with a register: S -Inc-> x -> S, S accepts (the matcher checks the count against m).
  int32_t counter(const IrNode& n, int32_t enc, int depth) {
    std::vector<int64_t> key{n.items[0], enc, n.min, n.max};
    auto found = counters_.find(key);
    if (found != counters_.end()) return found->second;
    bool item_nullable = nullable_.node(n.items[0]);
    LoweredRule rule;
    rule.effects.push_back({Effect::Inc, 0, -1});
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
    // Not trimmed to minimal emptiness here: prune_rules() knows what a counter needs.
    rule.dfa = minimise(determinise(loop, meter_), meter_);
    return counters_[key] = synthetic(std::move(rule));
  }

  // A language and, apart from it, the window on its number of characters (max -1: none above): a window on one operand
  // of And is one on all of it.
  struct Windowed {
    Dfa dfa;
    int64_t min = 0, max = -1;
    void within(int64_t low, int64_t high) {
      min = std::max(min, low);
      if (high >= 0) max = max < 0 ? high : std::min(max, high);
    }
  };
  Windowed windowed(int32_t id, int depth) {
    if (depth > kMaxDepth) throw LimitFailure("depth", depth, kMaxDepth, true);
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

  void build_window(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth) {
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
      auto [it, fresh] = counters_.try_emplace(key, -1);
      if (fresh) {
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

  void build_permutation(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth) {
    if (operand_depth_ > 0) throw Unsupported("a permutation inside And, Not or Length");
    if (in_flat_) throw Unsupported("a permutation needs a vocabulary in which every byte is also a token by itself");
    if (Nullability::permutation(n)) nfa.move(from, to);
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
    rule.repeatable = n.repeatable;
    std::vector<Effect>* outer = std::exchange(effects_, &rule.effects);
    for (size_t i = 0; i < n.items.size(); ++i) {
      if (nullable_.node(n.items[i])) throw Unsupported("a member of a permutation that may be empty");
      const Symbol put = effect({Effect::Put, static_cast<int64_t>(i), -1});
      int32_t start = body.add();
      body.edge(body.start, put, put, start);
      body.edge(after_separator, put, put, start);
      build(body, n.items[i], enc, start, body.final, depth + 1);
    }
    const Symbol again = effect({Effect::More, 0, -1});
    body.edge(body.final, again, again, more);
    build(body, n.ref, enc, more, after_separator, depth + 1);
    effects_ = outer;
    rule.dfa = finish(body);
    Symbol call = kCall + static_cast<Symbol>(synthetic(std::move(rule)));
    nfa.edge(from, call, call, to);
  }

  const IrGrammar& ir_;
  const LowerOptions& options_;
  Meter& meter_;
  Nullability nullable_;
  std::vector<uint8_t> open_rules_;
  const LiveAlphabet& live_;
  UnrollWeight weight_;
  std::vector<LoweredRule> rules_;
  std::vector<Pending> pending_;
  std::map<std::pair<int32_t, int32_t>, int32_t> instances_;
  std::map<std::vector<int64_t>, int32_t> counters_;
  std::unordered_map<int32_t, Dfa> regular_;
  bool in_flat_ = false;
  int operand_depth_ = 0;
  std::vector<Effect>* effects_ = nullptr;  // of the rule that is being built
  int32_t current_origin_ = -1;
};

}  // namespace

LoweredGrammar lower_nodes(const IrGrammar& ir, const LowerOptions& options, const LiveAlphabet& alphabet, Meter& meter) {
  return Lowerer(ir, options, alphabet, meter).run();
}

}  // namespace guided
