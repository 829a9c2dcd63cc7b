// A rule's automaton laid out for stepping: made once for a rule, copied into every grammar that has it.
//
// In: a deterministic automaton over bytes, spellings of characters, calls, tokens and effects. Out: its positions,
// their edges in lists. All numbers are relative: positions and lists begin at 0, a call is the number of the call in
// the rule, an effect the number of the effect.
// Cost: linear in the positions and edges; a class of bytes for each set of bytes that no state tells apart.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/encoding.hpp"

namespace guided {

enum class RuleKind : uint8_t { Plain, Counter, Set };

struct Effect {
  enum Op : uint8_t { Inc, Put, More, Open, Close, Begin, Keep } op;
  // Inc: the shortest and longest (-1: unbounded) rest, in counts, after this one. Put: a = member. Open: a = names
  int64_t a = 0, b = -1;
  bool operator==(const Effect& e) const { return op == e.op && a == e.a && b == e.b; }
  bool of_memory() const { return op >= Open; }
};

struct CallEdge {
  int32_t rule, after;
  bool tail;  // nothing but the caller's end follows: no frame is kept
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
  int32_t row = -1;  // start of its row in Grammar::next; -1: byte_lo..byte_hi in Grammar::spans
  int32_t byte_lo = 0, byte_hi = 0;
  int32_t call_lo = 0, call_hi = 0, effect_lo = 0, effect_hi = 0, token_lo = 0, token_hi = 0;
  bool accept = false;   // the rule may end here
  bool active = false;   // has byte or token edges: worth keeping in a configuration
  int32_t scopes = 0;    // that the frame has open here (uniqueness.hpp)
  int32_t rest = 0;      // of a relative rule: the least that the frame must still count
  bool boundary = true;  // a token may end here (false only where no whole token leads on)
  ByteSet bytes;         // bytes with an edge
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

  // Calls visit(position) for what bytes lead to; some more than once.
  template <class Visit>
  void each_next(const Position& p, Visit&& visit) const {
    for (int32_t i = p.byte_lo; i < p.byte_hi; ++i) visit(spans[i].to);
    for (int32_t c = 0; p.row >= 0 && c < classes; ++c)
      if (next[p.row + c] >= 0) visit(next[p.row + c]);
  }
};

// `effects`: of the rule. `rests`: positions are asked for the least that a frame must still count from them.
RuleBlock lay_out(const ByteAutomaton& automaton, RuleKind kind, const std::vector<Effect>& effects, bool rests);

}  // namespace guided
