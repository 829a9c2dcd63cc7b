// Rules on their way from the IR to positions, and what is kept of them for later grammars.
//
// An effect is a guarded operation, taken without reading: `Inc` of a counter (before an iteration, so that a frame at
// its bound never starts one), `Put` and `More` of a permutation's seen-set; around scopes in which values must differ
// `Open` and `Close`, around each value `Begin` and `Keep` (uniqueness.hpp).
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

// A rule over bytes, and how it is laid out. Names nothing of the grammar that it stands in: calls are numbered by
// their first occurrence.
struct PreparedRule {
  ByteAutomaton automaton;
  Digest shape;  // of the automaton and its effects: what is called, and bounds, aside
  int32_t calls = 0;
  RuleBlock block;
  size_t size() const { return automaton.size() + block.positions.size(); }
};

// What a rule of the IR says, apart from the names of what it refers to: rules with equal digests have equal automata.
struct RuleKey {
  bool portable = false;  // the rule can be known from another grammar
  Digest digest;
  std::vector<int32_t> refs;    // the rules that it refers to, in the order of the digest
  std::vector<int32_t> scopes;  // its lists of known names, in this order too
};

// A rule that was made for an earlier grammar, with the counters that stand in it.
struct KnownRule {
  std::shared_ptr<const PreparedRule> rule;
  std::vector<int32_t> refs;    // by call: its place in RuleKey::refs; a counter's is -1 - its place in `counters`
  std::vector<Effect> effects;  // names are places in RuleKey::scopes
  std::vector<std::shared_ptr<const KnownRule>> counters;
  int64_t min = 0, max = -1;  // of a counter
  bool closed = true;         // it refers to no rule and to no list of names, nor do its counters
  size_t size() const {
    size_t out = rule->size();
    for (const auto& counter : counters) out += counter->size();
    return out;
  }
};

struct ByteCaches {
  ContentCache<KnownRule> rules;
  ContentCache<Spelling> spellings;
  ContentCache<LiveCharacters> characters;
};

// A rule on its way: first `dfa` over characters, calls named by the numbers of rules, then `prepared`. One that is
// known from an earlier grammar is prepared from the begin. An automaton that generates nothing stays empty.
struct LoweredRule {
  Dfa dfa;
  std::shared_ptr<const PreparedRule> prepared;
  std::vector<int32_t> callees;                            // by the calls of `prepared`: rules
  RuleKey key;                                             // portable: goes into the cache
  std::vector<std::shared_ptr<const Spelling>> spellings;  // where `dfa` is over bytes already
  bool encoded = false;
  RuleKind kind = RuleKind::Plain;
  int64_t min = 0, max = -1;                   // Counter: bounds of the count; Set: bounds of the number of members
  std::vector<Effect> effects;                 // each once
  std::vector<uint8_t> required, repeatable;   // Set; repeatable: kAbsent for a member that cannot be written
  std::shared_ptr<const Condition> condition;  // Set: what the members must satisfy together; null: nothing
  int32_t origin = -1;                         // the IR rule it comes from

  const Dfa& automaton() const { return prepared ? prepared->automaton.dfa : dfa; }
  int32_t callee(const Edge& call) const {
    const auto number = static_cast<int32_t>(call.lo - kCall);
    return prepared ? callees[number] : number;
  }
  // Calls visit(rule) for each call; a symbolic automaton's may come more than once.
  template <class Visit>
  void each_callee(Visit&& visit) const {
    if (prepared) {
      for (int32_t rule : callees) visit(rule);
      return;
    }
    for (int32_t s = 0; s < dfa.size(); ++s)
      for (const Edge& e : dfa.edges[s])
        if (is_call(e.lo)) visit(static_cast<int32_t>(e.lo - kCall));
  }
  // Another automaton over the same symbols takes the place of what was read: it is this grammar's alone.
  void change(Dfa changed);
  // A counter whose guards look at nothing but the count and the least that must follow.
  bool relative() const;
};

struct LoweredGrammar {
  std::vector<LoweredRule> rules;
  int32_t start = 0;
  bool nullable = false;   // the empty string belongs to the language
  bool recursive = false;  // some rule calls itself, directly or not
  std::vector<KnownNames> known;
};

struct LowerOptions {
  ByteSet live;  // bytes that occur in some token
  ByteCaches* caches = nullptr;
  int max_depth = kMaxDepth;
  bool flat = false;  // one plain rule, everything inline: for vocabularies in which some byte is no token by itself
};

}  // namespace guided
