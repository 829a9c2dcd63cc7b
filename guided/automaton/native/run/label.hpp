// How a token changes the register of a counter's frame.
//
// For a rule that is a counter, a token table is built only once, without bounds. Each token is stored under a label
// that says how far it counts. A look-up then selects the labels that fit the register (token_table.hpp).
//
// In: the configuration to which a token leads, in a walk whose bottom frame has an unknown caller. The register of
// this frame is 0 at the start of the walk, and counts from there. Out: the label.
// Cost: each return configuration is examined once per walk.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "run/arena.hpp"

namespace guided {

// What a token does to the frame of a counter that has the count c. It may stay inside; then the frame cannot end with
// a count below c + stay (-1: the token never stays). Or it may end exactly at the frame's end with the count c + n,
// for each n in `leave`.
struct Label {
  int32_t stay = -1;
  std::vector<int32_t> leave;
  bool operator<(const Label& o) const { return stay != o.stay ? stay < o.stay : leave < o.leave; }
};

class Labels {
 public:
  explicit Labels(const Arena& arena) : arena_(arena) {}
  Label label_of(const Config& config);

 private:
  int32_t min_final_count(const Thread& thread);

  const Arena& arena_;
  // Return configuration -> the lowest count at which the bottom frame can end.
  std::unordered_map<int32_t, int32_t> counts_;
};

}  // namespace guided
