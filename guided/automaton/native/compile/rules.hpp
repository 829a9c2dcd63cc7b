// The forms of a rule between the IR and the compiled grammar, and the form in which it is cached for later grammars.
//
//     IR node --lowerer--> LoweredRule (dfa over characters) --prepare--> LoweredRule (prepared) --assemble--> Grammar
//                               |                                              |
//                            RuleKey ---------------- cache -------------> CachedRule
//
// An edge of a rule can have an action (`Effect`), which changes the frame's register without reading a byte. The guard
// of `Inc` is checked before each iteration, so a frame whose count has reached its bound never starts another one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compile/encoding.hpp"
#include "compile/ir.hpp"
#include "compile/live_alphabet.hpp"
#include "compile/rule_block.hpp"
#include "fsa/condition.hpp"
#include "values/uniqueness.hpp"

namespace guided {

// A rule over bytes and its layout. It does not depend on the grammar for which it was made, because its calls are
// numbered by their first occurrence.
struct PreparedRule {
  ByteAutomaton automaton;
  Digest shape;  // of the automaton and its actions, without the identity of called rules and without bounds
  int32_t calls = 0;
  RuleBlock block;
  size_t size() const { return automaton.size() + block.positions.size(); }
};

// The content of an IR rule, without the names of other rules. Rules with equal digests have equal automata, except for
// the rules that they call.
struct RuleKey {
  bool portable = false;  // another grammar may use the cached rule
  Digest digest;
  std::vector<int32_t> refs;    // the rules that it refers to, by their numbers in the digest
  std::vector<int32_t> scopes;  // for each uniqueness scope in it, the index of its list of known strings
};

// A cached rule, with the counters that it calls.
struct CachedRule {
  std::shared_ptr<const PreparedRule> rule;
  std::vector<int32_t> refs;    // by call: an index into RuleKey::refs; for a counter, -1 - its index in `counters`
  std::vector<Effect> effects;  // Open: `a` is an index into RuleKey::scopes
  std::vector<std::shared_ptr<const CachedRule>> counters;
  int64_t min = 0, max = kUnbounded;  // of a counter: the bounds of the count
  size_t size() const;                // with its counters, each counted once
};

struct ByteCaches {
  ContentCache<CachedRule> rules;
  ContentCache<Spelling> spellings;
  ContentCache<LiveCharacters> characters;
};

// A position that belongs to an inlined rule, which is therefore open there, too (character_rules.hpp).
struct RulePart {
  int32_t position, rule;
};

// A rule that is being lowered. At first it has a `dfa` over characters, in which a call is the number of a rule.
// Later, `prepared` replaces it; a cached rule is prepared from the start. A rule that generates nothing has an empty
// `dfa`.
struct LoweredRule {
  Dfa dfa;
  std::shared_ptr<const PreparedRule> prepared;
  std::vector<int32_t> callees;                            // by call of `prepared`: the called rule
  RuleKey key;                                             // if portable, the rule goes into the cache
  std::vector<std::shared_ptr<const Spelling>> spellings;  // of `dfa`, if `over_bytes`
  bool over_bytes = false;                                 // `dfa` is over bytes already
  bool was_replaced = false;                               // its automaton depends on the content of called rules
  RuleKind kind = RuleKind::Plain;
  bool substrings = false;                     // Plain: generates the substrings of texts (fsa/substrings.hpp)
  int64_t max_tokens = kUnbounded;             // Plain, without calls: the limit on the tokens of a text
  int64_t min = 0, max = kUnbounded;           // Counter: bounds of the count; Set: bounds of the number of members
  std::vector<Effect> effects;                 // the actions on its edges, each once
  std::vector<uint8_t> required, repeatable;   // Set; repeatable: by member, an Occurrence
  std::shared_ptr<const Condition> condition;  // Set: what the members must satisfy together; null: none
  std::shared_ptr<const ConditionDiagrams> diagrams;  // of the condition
  int32_t origin = -1;                                // the IR rule from which it was made
  // By ascending position. A position without entries belongs to this rule alone, any other one to the listed rules.
  std::vector<RulePart> parts;

  const Dfa& automaton() const { return prepared ? prepared->automaton.dfa : dfa; }
  int32_t callee(const Edge& call) const {
    const auto number = static_cast<int32_t>(call.lo - kCall);
    return prepared ? callees[number] : number;
  }
  // Calls visit(rule) for each called rule. Before this rule is prepared, it may visit a rule more than once.
  template <class Visit>
  void each_callee(Visit&& visit) const {
    if (prepared) {
      for (int32_t rule : callees) visit(rule);
      return;
    }
    if (substrings) return;
    for (int32_t s = 0; s < dfa.size(); ++s)
      for (const Edge& e : dfa.edges[s])
        if (is_call(e.lo)) visit(static_cast<int32_t>(e.lo - kCall));
  }
  // Replaces the automaton by another one over the same symbols. Neither the rule nor, if it is a counter, its callers
  // are then cached.
  void replace_automaton(Dfa automaton);
  // Lays out the rule with its final automaton, in which a call is the number of a rule.
  void prepare(ByteAutomaton automaton);
  // Whether this is a counter whose guards only test the maximum, that is, `b` of each Inc is kUnbounded.
  bool is_relative() const;
};

struct LoweredGrammar {
  std::vector<LoweredRule> rules;
  int32_t start = 0;
  bool nullable = false;   // the language contains the empty string
  bool recursive = false;  // some rule calls itself, directly or through others
  std::vector<KnownNames> known;
};

struct LowerOptions {
  ByteSet live;  // bytes that occur in some token
  ByteCaches* caches = nullptr;
  int max_depth = kMaxDepth;
  bool inline_all = false;  // makes one rule of all; for vocabularies in which some live byte is not itself a token
};

}  // namespace guided
