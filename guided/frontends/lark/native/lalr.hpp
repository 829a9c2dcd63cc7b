// LALR(1) lookaheads. In: the LR(0) automaton of a grammar. Out: for each state that is entered by a terminal, and for
// the first one, the terminals in its row of an LALR(1) table: those that it shifts, and those before which it reduces.
// Some of the latter may be doubtful: the state is entered in several contexts, which the table does not tell apart, and
// the terminal can follow in some of them only.
//
// How: DeRemer and Pennello, "Efficient computation of LALR(1) look-ahead sets" (TOPLAS 4(4), 1982), with their names;
// sets that include each other are found once for each strongly connected component. A terminal is not doubtful if, by
// the same equations, it follows whatever state the callee was entered from; the greatest solution is taken.
//
// Cost: calls times the symbols of their alternatives, and a set of terminals for each call and inclusion, of one bit a
// terminal. Bounded by `Steps`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lr0.hpp"

namespace guided::lark {

// Terminals, one bit each, and one bit more for the end of the text.
using Terminals = std::vector<uint64_t>;

struct LalrRow {
  int32_t state;
  Terminals terminals, doubtful;
};

// See the head. Nothing: two alternatives may end before the same terminal.
std::optional<std::vector<LalrRow>> lalr_rows(const Rules& rules, const Lr0& automaton, Steps& steps);

}  // namespace guided::lark
