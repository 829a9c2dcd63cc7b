// What tokens do to a counter's frame.
//
// In: the configuration that a token leads to, in a walk whose frame at the bottom has an unknown caller and counts
// from the register it was entered with. Out: a label, by which a table keeps its tokens.
// Cost: a return configuration is looked at once in a walk.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "run/arena.hpp"

namespace guided {

// What a token does to a counter's frame that it enters at count c: it may stay inside, from where the frame can end
// with no count below c + stay (-1: it never stays), or end exactly at the frame's end with the count at c + leave, for
// each `leave`.
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
  std::unordered_map<int32_t, int32_t> counts_;  // of the frame below a return configuration
};

}  // namespace guided
