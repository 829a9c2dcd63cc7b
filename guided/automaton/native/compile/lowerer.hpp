// Turns IR nodes into automata by Thompson's construction (CACM 11(6), 1968) over ranges of symbols, rule by rule.
//
// In: an IrGrammar, and the characters that the vocabulary can write. Out: the rules that are reachable from the start
// rule, each a minimal automaton over characters, calls, control tokens and actions. Rules that generate nothing are
// not removed yet.
//
// How: each node is built between two states of a nondeterministic automaton, which is then determinised and minimised.
// A rule of the IR is built once for each encoding in which it is called. Operands of And, Not and Length must be
// regular languages. They are built separately with all referenced rules inlined, combined as automata over characters,
// and memoised. Constructs that would need many states (counted repetitions, length windows, permutations) become
// separate rules with a register in their frame (register_rules.cpp).
//
// Cost: linear in the nodes, except for determinisation and Boolean operations. A rule with a portable key is built
// once per vocabulary (rule_keys.hpp).
#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/nullability.hpp"
#include "compile/rule_keys.hpp"
#include "compile/rules.hpp"
#include "compile/unroll_weight.hpp"

namespace guided {

class Lowerer {
 public:
  // `only_closed`: use a cached rule only if it refers to no other rule.
  Lowerer(const IrGrammar& ir, const LowerOptions& options, const LiveAlphabet& alphabet, bool only_closed,
          Meter& meter)
      : ir_(ir),
        options_(options),
        only_closed_(only_closed),
        meter_(meter),
        nullable_(ir, meter),
        keys_(ir, nullable_),
        live_(alphabet),
        weight_(ir) {}
  LoweredGrammar run();

 private:
  struct Pending {
    int32_t rule, encoding;
    bool synthetic;  // the IR has no such rule; it is built already
  };
  // The actions of a rule, and their symbols.
  struct EffectSymbols {
    std::vector<Effect> effects;
    std::map<Effect, Symbol> symbols;
  };
  // A language, and a window on the number of its characters (max may be kUnbounded). The window is separate because
  // the window of one operand of And applies to the whole And.
  struct Windowed {
    Dfa dfa;
    int64_t min = 0, max = kUnbounded;
    void narrow(int64_t low, int64_t high) {
      min = std::max(min, low);
      if (high >= 0) max = max < 0 ? high : std::min(max, high);
    }
  };

  // ---- rules
  bool take_from_cache(size_t i, const Pending& p);
  LoweredRule instantiate(const CachedRule& cached, const RuleKey& key, int32_t encoding,
                          std::unordered_map<const CachedRule*, int32_t>& counters);
  int32_t add_cached_counter(const CachedRule& cached, LoweredRule rule);
  int32_t request_rule(int32_t rule, int32_t encoding);  // the number of the rule for a rule of the IR
  int32_t add_synthetic(LoweredRule rule);               // the number of a rule that the IR does not have
  Dfa finish(const Nfa& nfa);                            // returns the minimal automaton, without the empty string

  // ---- regular languages, for the operands of And, Not and Length (code points of encoding 0)
  const Dfa& regular(int32_t id, int depth);
  Dfa build_regular(int32_t id, int depth);

  void check_depth(int depth) const {
    if (depth > options_.max_depth)
      throw LimitFailure(
          kDepthLimit, depth, options_.max_depth,
          "reduce the nesting, or move a part into another rule: the limit applies to each rule separately");
  }

  // ---- between two states
  void build(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth);
  void build_characters(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to);
  void build_text(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to);
  void build_sequence(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  void build_alternatives(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  void build_encoded(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  void build_special(Nfa& nfa, const IrNode& n, int32_t from, int32_t to);
  void build_dispatch(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  void build_between(Nfa& nfa, const IrNode& n, Effect before, Effect after, int32_t enc, int32_t from, int32_t to,
                     int depth);
  void build_substrings(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to);
  void build_ref(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  Symbol effect_symbol(const Effect& effect);
  int64_t names_digest(const IrNode& n) const { return static_cast<int64_t>(ir_.known[n.ref].digest.a); }

  // ---- between two states, with a register instead of many states: register_rules.cpp
  void build_repeat(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  void build_window(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth);
  void build_tokens(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  void build_permutation(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  int32_t counter_rule(const IrNode& n, int32_t enc, int depth);
  bool is_searched(const IrNode& repeat) const;
  Windowed build_windowed(int32_t id, int depth);

  const IrGrammar& ir_;
  const LowerOptions& options_;
  bool only_closed_;
  Meter& meter_;
  Nullability nullable_;
  RuleKeys keys_;
  std::vector<uint8_t> open_rules_;  // by rule: it is being inlined, so another reference to it would be recursive
  const LiveAlphabet& live_;
  UnrollWeight weight_;
  std::vector<LoweredRule> rules_;
  std::vector<Pending> pending_;
  std::map<std::pair<int32_t, int32_t>, int32_t> rule_numbers_;  // by rule of the IR and encoding
  std::map<std::pair<int32_t, int32_t>, int32_t> substrings_;    // by node and encoding: the rule
  std::map<std::vector<int64_t>, int32_t> counters_;
  // By automaton, bounds, callees and actions.
  std::map<std::tuple<const PreparedRule*, int64_t, int64_t, std::vector<int32_t>, std::vector<Effect>>, int32_t>
      cached_counters_;
  std::unordered_map<int32_t, Dfa> regular_;
  bool inlines_rules_ = false;  // references are inlined instead of becoming calls
  int operand_depth_ = 0;       // nesting of And, Not and Length
  // The item of the unbounded repetition after which the node that is being built may directly begin; -1: none.
  int32_t preceding_loop_ = -1;
  EffectSymbols* effects_ = nullptr;  // of the rule that is being built
  int32_t current_origin_ = -1;
};

}  // namespace guided
