// The strings of a regular language that have min..max characters, without writing the count into the states.
//
// In: a trimmed automaton D over characters and the window. Out: one of
//   Everything  the window cuts nothing off: D itself
//   Counted     an automaton with `Inc(a, b)` effects for a frame that counts characters: before every character the
//               guard asks that, with it counted, some rest between a and b characters long still fits the window
//   Written     D times the count, as states: only where both bounds matter and the lengths that a state can still
//               add have gaps
// Exactness: under one bound only the shortest or the longest rest of a state matters. Under both, the lengths of its
// accepted rests must be an interval. The candidates [a, b] (shortest and longest rest) are checked against the
// equation rests(q) = {0 if q accepts} | 1 + union of rests(next); every step adds one, so the equation has one
// solution, and a candidate that solves it is right.
#pragma once

#include "compile/rules.hpp"

namespace guided {

struct Window {
  enum { Everything, Counted, Written } kind;
  Dfa dfa;
  std::vector<Effect> effects;
};

Window count_window(const Dfa& dfa, int64_t min, int64_t max, Meter& meter);
Dfa unrolled_window(const Dfa& dfa, int64_t min, int64_t max, Meter& meter);

}  // namespace guided
