// How a token changes the register of a counter's frame.
//
// In a rule whose frame counts, a token table is built once, without bounds. Each token is stored under a label that
// says how far it counts. A look-up then selects the labels that fit the register (token_table.hpp).
//
// In: the configuration to which a token leads, in a walk whose bottom frame has an unknown caller and counts from the
// register with which it was entered. Out: the label.
// Cost: each return configuration is examined once per walk.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "run/arena.hpp"

namespace guided {

// What a token does to a counter's frame that has the count c. It may stay inside, so the frame cannot end with a count
// below c + stay (-1: it never stays). Or it may end exactly at the frame's end with the count c + leave, for each
// `leave`.
struct Label {
  int32_t stay = -1;
  std::vector<int32_t> leave;
  bool operator<(const Label& o) const { return stay != o.stay ? stay < o.stay : leave < o.leave; }
};

class Labels {
 public:
  explicit Labels(const Arena& arena) : arena_(arena) {}
  Label of(const Config& config);

 private:
  int32_t count_of(const Thread& thread);

  const Arena& arena_;
  std::unordered_map<int32_t, int32_t> counts_;  // return configuration -> the lowest count of the frame at its bottom
};

}  // namespace guided
