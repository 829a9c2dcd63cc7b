// What is left for the parser: the weight of the lightest sequence of terminals that completes a place.
//
// In: places (places.hpp), and the weights from positions to the ends of their rules (sequence_costs.hpp). Out: a weight; a
// stack adds up what is left of each frame, at the price of the block that it stands in. After the first terminal of a
// lightest sequence the rest is less by its weight.
#pragma once

#include <array>

#include "lexer/places.hpp"
#include "lexer/sequence_costs.hpp"

namespace guided {

class TerminalRests {
 public:
  TerminalRests(Places& places, TerminalParser& parser, SequenceCosts& costs)
      : places_(places), parser_(parser), costs_(costs) {}
  int64_t of(int32_t place, LastRead last = kWord);
  // Whether no way from there is without an end, if none is at its beginning.
  bool always_ends(int32_t place) { return costs_.always_ends(nesting(lines(place))); }

 private:
  using Rest = std::array<int64_t, kSpace + 1>;  // by what was read last
  int32_t lines(int32_t place) const { return costs_.kinds() > 1 ? places_.lines(place) : 0; }
  int32_t nesting(int32_t lines) const;
  const SequenceCosts::Costs& costs_at(int32_t lines);
  const Rest& of_state(int32_t state, int32_t lines);

  Places& places_;
  TerminalParser& parser_;
  SequenceCosts& costs_;
  std::vector<const SequenceCosts::Costs*> by_lines_;
  std::unordered_map<uint64_t, Rest> rests_;  // by configuration and lines
};

}  // namespace guided
