// Length windows: the strings of a regular language that have min to max characters (`minLength`, `maxLength`).
//
// The problem: the product of the automaton with a counter has a state for each state and count, a thousand times as
// many for `maxLength: 1000`. A counter in the frame's register avoids this. But then the core must know before each
// character whether the string can still end inside the window. A *rest* of a state is a string from it to an accepting
// state.
//
// In: a trimmed automaton D over characters, and the window. Out: one of
//   Everything  if every string of D has a length inside the window: D itself
//   Counted     D with a guarded action `Inc(a, b)` before each character. It counts the character if, after it, some
//               rest of a to b characters leads into the window
//   Unrolled    the product of D and the counter, as states: if both bounds matter and the lengths of the rests of some
//               state have a gap that is longer than the window; or if only a small lower bound matters, since the
//               states after it are then those of D
//
// Example: `[a-z]+` with 3 to 5 characters. After each character, any number may follow, so the action is Inc(0,
// unbounded). Its guard is count + 0 <= 5, where `count` includes this character. At the end, the matcher checks
// count >= 3. In `(ab)*`, the rests of the start have the lengths 0, 2, 4, ... This does not matter for 3 to 5
// characters, since one of any three successive lengths is even. But for exactly 3 characters, the guard would allow
// `a`, although no string has three characters. So that window is Unrolled.
//
// Exactness: with one bound, only the shortest or the longest rest of a state matters. With both, a rest of length n
// leads into the window if max - count is one of n, n + 1, ..., n + (max - min). Let reach(q) be the set of these
// numbers for all rests of q. The guard is right if reach(q) is an interval for each state. The only candidates are the
// intervals [shortest rest, longest rest + (max - min)]. They are right if they solve the equation
//     reach(q) = {0, ..., max - min if q accepts} union, over all edges q -> r, of 1 + reach(r)
// which has only one solution, because each step adds one.
//
// Cost: linear in the edges. For Unrolled, this is multiplied by the length of the window.
#pragma once

#include "compile/rules.hpp"

namespace guided {

struct Window {
  enum { Everything, Counted, Unrolled } kind;
  Dfa dfa;
  std::vector<Effect> effects;
};

// `max` may be kUnbounded.
Window count_window(const Dfa& dfa, int64_t min, int64_t max, Meter& meter);
// Returns the product of the automaton and the counter.
Dfa unroll_window(const Dfa& dfa, int64_t min, int64_t max, Meter& meter);

}  // namespace guided
