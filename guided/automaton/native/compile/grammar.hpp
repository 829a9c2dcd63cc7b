// A compiled grammar: the rules' byte automata laid out for stepping. Immutable, shared between threads.
//
// Positions of all rules are numbered together. A position's byte edges are a few spans, or where they are many a row
// of its rule's table over byte classes; calls, effects and tokens are short lists. Each rule has a digest of its
// content, calls included, so that token tables can be shared between all grammars of a vocabulary that contain the
// same rule.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "compile/rules.hpp"
#include "values/uniqueness.hpp"

namespace guided {

struct Rule {
  RuleKind kind = RuleKind::Plain;
  int64_t min = 0, max = -1;
  int32_t start = 0, base = 0, size = 0, origin = -1;
  // A counter whose guards look at nothing but the count and the least that must follow: tables hold for every count.
  bool relative = false;
  int64_t reach = 0;                               // the largest finite rest that a guard adds to the count
  std::vector<uint8_t> required, repeatable;       // by member of a permutation
  std::vector<uint64_t> required_bits, once_bits;  // the same, of the members that can be written
  std::shared_ptr<const ConditionSearch> search;   // of a permutation with a condition
  int32_t scopes = 0;                              // that open in it (uniqueness.hpp)
  bool keeps = false;                              // entries end in it
  bool unbounded = false;                          // some member may be written any number of times
  std::array<uint8_t, 256> byte_class{};
  int32_t classes = 0;
  Digest digest;  // of the automaton and all it calls, own bounds left out if `relative`
};

struct Grammar {
  std::vector<Rule> rules;
  std::vector<Position> positions;
  std::vector<int32_t> next;  // row + byte class -> position or -1
  std::vector<ByteSpan> spans;
  std::vector<CallEdge> calls;
  std::vector<EffectEdge> effects;
  std::vector<TokenEdge> tokens;
  std::vector<std::string> names;  // IR rule names, for explanations
  int32_t start = 0;
  bool nullable = false, recursive = false;
  // Found out while matching: the token graph is too large for exact distances (see completion.hpp).
  mutable std::atomic<bool> too_large{false};
  std::vector<KnownNames> known;        // of the scopes in which values must differ; empty: there are none
  bool single = false;                  // one plain rule without calls: every state is one position
  std::vector<int32_t> token_distance;  // by position: least tokens to the end; empty where not known (token_graph.hpp)

  // Calls visit(position) for what bytes lead to; some more than once.
  template <class Visit>
  void each_next(const Position& p, Visit&& visit) const {
    for (int32_t i = p.byte_lo; i < p.byte_hi; ++i) visit(spans[i].to);
    for (int32_t c = 0; p.row >= 0 && c < rules[p.rule].classes; ++c)
      if (next[p.row + c] >= 0) visit(next[p.row + c]);
  }
  int32_t step(int32_t pos, uint8_t byte) const {
    const Position& p = positions[pos];
    if (p.row >= 0) return next[p.row + rules[p.rule].byte_class[byte]];
    for (int32_t i = p.byte_lo; i < p.byte_hi; ++i)
      if (spans[i].lo <= byte && byte <= spans[i].hi) return spans[i].to;
    return -1;
  }
};

// Throws EmptyLanguage where the start rule generates nothing.
std::unique_ptr<Grammar> assemble(LoweredGrammar&& lowered, const std::vector<std::string>& names, Meter& meter);

}  // namespace guided
