// A compiled grammar: the byte automata of all rules, in arrays for fast stepping. Immutable; OS threads share it.
//
// In: rules with their blocks (rule_block.hpp). Out: a `Grammar`. The blocks are *linked*: copied one after the other,
// with absolute numbers of positions, lists and rules.
//
//     positions  | rule 0 ............. | rule 1 ...... | rule 2 ..
//                   |         |
//                   |         +- row ----> next   [byte class -> position or -1]   many byte edges
//                   +- byte_lo..byte_hi -> spans  [(lo, hi) -> position]           few byte edges
//                   +- call_lo.., effect_lo.., token_lo..: lists of the other edges
//
// Each rule has a digest of its content and of all rules that it calls. So all grammars of a vocabulary that contain
// the same rule share its token tables.
// Cost: linear in positions and edges; the digests of mutually recursive rules need several rounds of refinement.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compile/rules.hpp"
#include "values/uniqueness.hpp"

namespace guided {

struct Rule {
  RuleKind kind = RuleKind::Plain;
  int64_t min = 0, max = kUnbounded;      // of the register: bounds of the count, or of the number of members
  int32_t start = 0, base = 0, size = 0;  // positions: the start state, the first one, their number
  int32_t origin = -1;                    // the IR rule
  bool substrings = false;                // a plain rule for the substrings of texts; no cycles, calls or actions
  // The maximum number of tokens of a text, counted by the register (run/token_counts.cpp). Such a rule has no calls.
  int64_t max_tokens = kUnbounded;
  int64_t furthest_rest = 0;  // the largest TokenRest::tokens of all non-accepting positions, except the start
  // A counter whose guards only test the maximum (LoweredRule::is_relative). Its token tables fit every count.
  bool relative = false;
  int64_t reach = 0;                               // the largest finite `a` or `b` of an Inc
  std::vector<uint8_t> required, repeatable;       // by member of a permutation
  std::vector<uint64_t> required_bits, once_bits;  // the required and the non-repeatable members that can be written
  std::shared_ptr<const MemberChoices> choices;    // of a permutation with a condition
  int32_t scopes = 0;                              // how many uniqueness scopes open in it (uniqueness.hpp)
  bool keeps = false;                              // entries of a scope end in it
  bool unbounded = false;                          // of a permutation: some member may be written any number of times
  int32_t later = -1;                              // its index in Grammar::later
  std::vector<RulePart> parts;                     // see LoweredRule::parts
  std::array<uint8_t, 256> byte_class{};
  int32_t classes = 0;
  Digest digest;  // of the automaton and all rules that it calls; without the rule's own bounds if `relative`
};

// In a rule with a token limit: the minimum positive number of tokens from a position to the rule's end, and the first
// of these tokens.
struct TokenRest {
  int64_t tokens = 0;
  int32_t first = -1;
};

// A rule that is compiled when it is first entered; see later_rules.hpp.
struct LaterRule {
  int32_t rule = -1;           // its placeholder
  int64_t shortest_bound = 0;  // an upper bound on the bytes of its shortest text
  int32_t compiled = -1;       // the compiled rule; -1: not compiled yet
  int32_t number = -1;         // its index among the IR's later rules
};

// Thrown if a result depends on rules that are not compiled yet.
struct RulesNeeded {
  std::vector<int32_t> later;  // indices in Grammar::later; empty: an earlier throw made the states unusable
};

struct Grammar {
  std::vector<Rule> rules;
  std::vector<Position> positions;
  std::vector<int32_t> next;  // row + byte class -> position, or -1
  std::vector<ByteSpan> spans;
  std::vector<CallEdge> calls;
  std::vector<EffectEdge> effects;
  std::vector<TokenEdge> tokens;
  std::vector<std::string> names;  // IR rule names, for explanations
  int32_t start = 0;
  bool nullable = false, recursive = false;
  // Set during matching if the token graph is too large for exact distances (see completion.hpp).
  mutable std::atomic<bool> too_large{false};
  std::vector<KnownNames> known;  // by uniqueness scope: the strings that are seen from the start
  std::vector<LaterRule> later;
  bool single = false;                  // one plain rule without calls: every state is one position
  std::vector<TokenRest> token_rests;   // by position; empty: no rule has a token limit
  std::vector<int32_t> token_distance;  // by position: minimum tokens to the end; empty: unknown (token_graph.hpp)

  const Rule& rule_at(int32_t position) const { return rules[positions[position].rule]; }
  // Whether a position belongs to the placeholder of a rule that is compiled later.
  bool is_later(int32_t position) const { return !later.empty() && rule_at(position).later >= 0; }
  // Adds the rules that are open at a position, without their callers.
  void add_open_rules(int32_t position, std::vector<int32_t>& out) const {
    const Rule& rule = rule_at(position);
    const auto [from, to] = std::ranges::equal_range(rule.parts, position, {}, &RulePart::position);
    for (auto it = from; it != to; ++it) out.push_back(it->rule);
    if (from == to) out.push_back(positions[position].rule);
  }
  // Whether holds(rule) is true for a rule and all rules that it can reach by calls. Stops at the first false result.
  template <class Holds>
  bool all_reachable(int32_t rule, Holds&& holds) const {
    std::vector<uint8_t> visited(rules.size(), 0);
    std::vector<int32_t> todo{rule};
    visited[rule] = 1;
    while (!todo.empty()) {
      const Rule& current = rules[todo.back()];
      todo.pop_back();
      if (!holds(current)) return false;
      for (const Position& position : positions_of(current))
        for (const CallEdge& call : calls_of(position))
          if (!std::exchange(visited[call.rule], 1)) todo.push_back(call.rule);
    }
    return true;
  }
  std::span<const Position> positions_of(const Rule& rule) const {
    return slice(positions, rule.base, rule.base + rule.size);
  }
  // The edges of a position.
  std::span<const CallEdge> calls_of(const Position& p) const { return slice(calls, p.call_lo, p.call_hi); }
  std::span<const EffectEdge> effects_of(const Position& p) const { return slice(effects, p.effect_lo, p.effect_hi); }
  std::span<const TokenEdge> tokens_of(const Position& p) const { return slice(tokens, p.token_lo, p.token_hi); }
  // Calls visit(position) for all positions that bytes lead to. May visit a position more than once.
  template <class Visit>
  void each_next(const Position& p, Visit&& visit) const {
    for (int32_t i = p.byte_lo; i < p.byte_hi; ++i) visit(spans[i].to);
    for (int32_t c = 0; p.row >= 0 && c < rules[p.rule].classes; ++c)
      if (next[p.row + c] >= 0) visit(next[p.row + c]);
  }
  // The position after a byte, or -1.
  int32_t step(int32_t pos, uint8_t byte) const {
    const Position& p = positions[pos];
    if (p.row >= 0) return next[p.row + rules[p.rule].byte_class[byte]];
    for (int32_t i = p.byte_lo; i < p.byte_hi; ++i)
      if (spans[i].lo <= byte && byte <= spans[i].hi) return spans[i].to;
    return -1;
  }

 private:
  template <class Item>
  static std::span<const Item> slice(const std::vector<Item>& items, int32_t lo, int32_t hi) {
    return {items.data() + lo, items.data() + hi};
  }
};

// Links the rules. Throws EmptyLanguage if the start rule generates nothing.
std::unique_ptr<Grammar> assemble(LoweredGrammar&& lowered, const IrGrammar& ir, Meter& meter);

}  // namespace guided
