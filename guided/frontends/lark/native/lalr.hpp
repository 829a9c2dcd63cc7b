// Computes LALR(1) lookaheads. In: the LR(0) automaton of a grammar. Out: for the first state, and each state that is
// entered by a terminal, the terminals in its row of an LALR(1) table: those that it shifts, and those on which it
// reduces. A terminal of the second kind may be *doubtful*: the table does not distinguish the contexts in which the
// state is entered, and the terminal can follow only in some of them.
//
// How: DeRemer and Pennello, "Efficient computation of LALR(1) look-ahead sets" (TOPLAS 4(4), 1982), with their names.
// Sets that include each other are computed once for each strongly connected component. A terminal is not doubtful if
// it can follow regardless of the state from which the rule was called. These terminals are the greatest solution of
// the same equations, with an intersection over the callers instead of a union.
//
// If a state can both shift a terminal and reduce on it, Lark's table shifts. That is a *shift conflict*.
//
// Cost: calls times the symbols of their alternatives, and one bit per terminal for each call and inclusion. Bounded by
// `Steps`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lr0.hpp"

namespace guided::lark {

// A set of terminals: one bit each, and one more for the end of the text.
using Terminals = std::vector<uint64_t>;

struct LalrRow {
  int32_t state;
  Terminals terminals, doubtful;
};

struct LalrTable {
  std::vector<LalrRow> rows;  // see the top of this file
  bool has_shift_conflict;
};

// nullopt: there is a reduce/reduce conflict.
std::optional<LalrTable> lalr_table(const Rules& rules, const Lr0& automaton, Steps& steps);

}  // namespace guided::lark
