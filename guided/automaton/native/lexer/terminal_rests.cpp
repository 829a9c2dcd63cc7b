#include "lexer/terminal_rests.hpp"

#include <algorithm>

namespace guided {

int32_t TerminalRests::nesting(int32_t lines) const {
  const Indentation& indentation = places_.indentation();
  return std::min({costs_.nesting(), indentation.most_levels - places_.levels(lines),
                   indentation.most_width - places_.width(lines)});
}

const SequenceCosts::Costs& TerminalRests::costs_at(int32_t lines) {
  if (lines >= static_cast<int32_t>(by_lines_.size())) by_lines_.resize(lines + 1);
  if (!by_lines_[lines])
    by_lines_[lines] =
        &costs_.of(costs_.kinds() > 1 ? costs_.prices(places_.width(lines), nesting(lines)) : SequenceCosts::Prices());
  return *by_lines_[lines];
}

int64_t TerminalRests::of(int32_t place, LastRead last) {
  return of_state(places_.parser(place), lines(place))[costs_.kinds() > 1 ? last : 0];
}

// Return configurations nest as deep as the stack: no recursion.
const TerminalRests::Rest& TerminalRests::of_state(int32_t state, int32_t lines) {
  if (const auto known = rests_.find(pair_key(state, lines)); known != rests_.end()) return known->second;
  const Arena& arena = parser_.arena();
  const int32_t kinds = costs_.kinds();
  std::vector<std::pair<int32_t, int32_t>> todo{{state, lines}};
  while (!todo.empty()) {
    const auto [at, around] = todo.back();
    if (rests_.contains(pair_key(at, around))) {
      todo.pop_back();
      continue;
    }
    const SequenceCosts::Costs& costs = costs_at(around);
    Rest best;
    best.fill(kNever);
    bool waits = false;
    for (const Thread& t : arena.config(at)) {
      if (t.pos == kExit) {
        best.fill(0);
        continue;
      }
      int32_t below = around;
      for (int32_t level = costs_.levels().of(t.pos); kinds > 1 && level > 0; --level) below = places_.around(below);
      const auto rest = rests_.find(pair_key(t.ret, below));
      if (rest == rests_.end()) {
        todo.emplace_back(t.ret, below);
        waits = true;
        continue;
      }
      for (int32_t before = 0; before < kinds; ++before)
        for (int32_t last = 0; last < kinds; ++last)
          best[before] = std::min(best[before], costs_.at(costs, t.pos, before, last) + rest->second[last]);
    }
    if (waits) continue;
    for (int64_t& each : best) each = std::min(each, kNever);
    rests_[pair_key(at, around)] = best;
    todo.pop_back();
  }
  return rests_[pair_key(state, lines)];
}

}  // namespace guided
