// IR nodes to automata (Thompson's construction over symbol ranges), one rule at a time.
//
// In: an IrGrammar, the characters that the vocabulary can write. Out: its rules with calls still symbolic and nothing
// pruned.
//
// How: a rule of the IR is made when it is first called, once for each encoding; nodes are built between two states,
// and the whole is determinised and minimised. Operands of And, Not and Length are regular languages over characters,
// built with all that they refer to in place and each kept. What would be long as states becomes a rule of its own
// with a register in its frame (register_rules.cpp).
// Cost: linear in the nodes but for determinising and boolean operations; a rule is made once for a vocabulary, unless
// a permutation stands in it, or what it refers to is looked through (rule_keys.hpp).
#pragma once

#include <algorithm>
#include <map>
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
  // `only_closed`: of the rules that are known from earlier grammars, only those that call nothing are taken over.
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
    bool synthetic;
  };
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

  // ---- rules, by number
  bool is_known(size_t i, const Pending& p);
  LoweredRule taken_over(const KnownRule& known, const RuleKey& key, int32_t encoding);
  int32_t known_counter(const std::shared_ptr<const KnownRule>& known, const RuleKey& key, int32_t encoding);
  int32_t instance(int32_t rule, int32_t encoding);
  int32_t synthetic(LoweredRule rule);  // one that the IR does not have
  Dfa finish(const Nfa& nfa);

  // ---- regular languages, for the operands of And, Not and Length (code points of encoding 0)
  const Dfa& regular(int32_t id, int depth);
  Dfa build_regular(int32_t id, int depth);

  void descend(int depth) const {
    if (depth > options_.max_depth) throw LimitFailure(kDepth, depth, options_.max_depth, true);
  }

  // ---- between two states
  void build(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth);
  void build_between(Nfa& nfa, const IrNode& n, Effect before, Effect after, int32_t enc, int32_t from, int32_t to,
                     int depth);
  void build_ref(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  Symbol effect(const Effect& wanted);
  int64_t names_digest(const IrNode& n) const { return static_cast<int64_t>(ir_.known[n.ref].digest.a); }

  // ---- the same, with a register where states would be many: register_rules.cpp
  void build_repeat(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  void build_window(Nfa& nfa, int32_t id, int32_t enc, int32_t from, int32_t to, int depth);
  void build_permutation(Nfa& nfa, const IrNode& n, int32_t enc, int32_t from, int32_t to, int depth);
  int32_t counter(const IrNode& n, int32_t enc, int depth);
  bool is_searched(const IrNode& repeat) const;
  Windowed windowed(int32_t id, int depth);

  const IrGrammar& ir_;
  const LowerOptions& options_;
  bool only_closed_;
  Meter& meter_;
  Nullability nullable_;
  RuleKeys keys_;
  std::vector<uint8_t> open_rules_;  // those that a rule in place lies in
  const LiveAlphabet& live_;
  UnrollWeight weight_;
  std::vector<LoweredRule> rules_;
  std::vector<Pending> pending_;
  std::map<std::pair<int32_t, int32_t>, int32_t> instances_;
  std::map<std::vector<int64_t>, int32_t> counters_;
  std::unordered_map<std::shared_ptr<const KnownRule>, int32_t> known_counters_;  // closed ones
  std::unordered_map<int32_t, Dfa> regular_;
  bool in_flat_ = false;  // rules are built in place
  int operand_depth_ = 0;
  int32_t looped_ = -1;  // the item of an unbounded repetition right before the node that is being built; -1: none
  std::vector<Effect>* effects_ = nullptr;  // of the rule that is being built
  int32_t current_origin_ = -1;
};

}  // namespace guided
