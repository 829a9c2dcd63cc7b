// The layout of one rule for stepping. It is made once per rule, and copied into every grammar that contains the rule.
//
// In: a deterministic automaton over bytes, spellings of characters, calls, control tokens and actions. Out: a block:
// the positions (states) of the automaton and lists of their edges. Edges that represent spellings are replaced by the
// inner states of these spellings, which follow the states of the automaton:
//     | states of the automaton | states of the 1st spelling | of the 2nd spelling | ...
// If a state has few byte edges, they are stored as spans. If it has many, they become a row of a table over *byte
// classes*; bytes in one class are treated alike by all states of the rule. All numbers are relative to the block:
// positions and lists start at 0, and a call or an action is represented by its number within the rule.
// Cost: linear in positions and edges.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/encoding.hpp"
#include "fsa/condition.hpp"

namespace guided {

enum class RuleKind : uint8_t { Plain, Counter, Set };

// An action: a transition that reads no byte, changes the frame's register or its scopes, and may have a guard.
//   Inc           counter: adds 1, if the maximum allows `a` further iterations, and the minimum is reached with `b`
//                 further iterations (always true if `b` is kUnbounded)
//   Put           permutation: begins member `a`, if it may still be written
//   More          permutation: begins a separator, if another member may follow
//   Open, Close   begin and end a uniqueness scope (`a`: index of its known strings, `b`: their digest)
//   Begin, Keep   begin and end an entry of the scope; Keep fails if the value has been seen
struct Effect {
  enum Op : uint8_t { Inc, Put, More, Open, Close, Begin, Keep } op;
  int64_t a = 0, b = kUnbounded;
  auto operator<=>(const Effect&) const = default;
  bool changes_scopes() const { return op >= Open; }  // instead of the register
};

struct CallEdge {
  int32_t rule, after;
  bool tail;  // a tail call: the caller ends after it, so the caller's frame is not kept
};
struct EffectEdge {
  Effect effect;
  int32_t to;
};
struct ByteSpan {
  uint8_t lo, hi;  // inclusive
  int32_t to;
};
struct TokenEdge {
  int32_t token, to;
};

struct Position {
  int32_t rule = 0;
  int32_t row = -1;  // start of its row in Grammar::next; -1: its edges are byte_lo..byte_hi of Grammar::spans
  int32_t byte_lo = 0, byte_hi = 0;
  int32_t call_lo = 0, call_hi = 0, effect_lo = 0, effect_hi = 0, token_lo = 0, token_hi = 0;
  bool accept = false;   // the rule may end here
  bool active = false;   // has edges for bytes or control tokens; configurations omit all other positions
  int32_t scopes = 0;    // the number of scopes that the frame has open here (uniqueness.hpp)
  int32_t rest = 0;      // in a relative rule: the fewest iterations that the frame must still count
  bool boundary = true;  // a token may end here; false only if no whole tokens lead from here to an end
  ByteSet bytes;         // bytes with an edge

  // The sizes of a grammar's lists before the lists of a block are appended to them.
  struct ListSizes {
    int32_t rows, spans, calls, effects, tokens;
  };
  void shift_lists(const ListSizes& sizes) {
    if (row >= 0) row += sizes.rows;
    byte_lo += sizes.spans;
    byte_hi += sizes.spans;
    call_lo += sizes.calls;
    call_hi += sizes.calls;
    effect_lo += sizes.effects;
    effect_hi += sizes.effects;
    token_lo += sizes.tokens;
    token_hi += sizes.tokens;
  }
};

struct RuleBlock {
  struct Step {
    int32_t effect, to;
  };
  std::vector<Position> positions;
  std::vector<int32_t> next;  // row + byte class -> position or -1
  std::vector<ByteSpan> spans;
  std::vector<CallEdge> calls;
  std::vector<Step> effects;
  std::vector<TokenEdge> tokens;
  std::array<uint8_t, 256> byte_class{};
  int32_t classes = 0;

  // Calls visit(position) for all positions that bytes lead to. May visit a position more than once.
  template <class Visit>
  void each_next(const Position& p, Visit&& visit) const {
    for (int32_t i = p.byte_lo; i < p.byte_hi; ++i) visit(spans[i].to);
    for (int32_t c = 0; p.row >= 0 && c < classes; ++c)
      if (next[p.row + c] >= 0) visit(next[p.row + c]);
  }
};

// `effects`: the rule's actions, by number. `needs_rests`: whether to compute `Position::rest`.
RuleBlock lay_out(const ByteAutomaton& automaton, RuleKind kind, const std::vector<Effect>& effects, bool needs_rests);

}  // namespace guided
