// How many values an entry (uniqueness.hpp) can still have, at least.
//
// In: a grammar. Out, for a position within an entry: a number of values, up to kMany, that an entry which is being
// written there can end with, whatever was written of it. Where that is more than the values that were there, some end
// is new, and nobody has to look for it (new_entry.hpp).
//
// How: what a position is in the midst of - between the tokens of JSON, in a string, in a number - follows from the
// automaton, for wherever a rule is called it begins and ends alike, between tokens or in a string (else nothing is
// said). In a string the plainly spelled ends are counted as paths, each another value; in a number those that are
// digits before the point, or that a cycle of digits after it makes, which tells longer ones apart; in both a cycle is
// without end. Between tokens it is the largest count of what may come before the entry ends. A counter whose frame has
// room for n more characters of k sorts has k^n. What is not known counts as nothing: the numbers are lower bounds.
// Those below kMany hold for an entry that is a scalar: of parts of an array other entries may forbid some, and two
// names may be written in either order.
// Cost: linear in the rules that entries reach, once.
#pragma once

#include <vector>

#include "run/unbounded_strings.hpp"
#include "values/syntax.hpp"

namespace guided {

class ValueCounts {
 public:
  static constexpr int32_t kMany = 1 << 30;

  ValueCounts(const Grammar& grammar, UnboundedStrings& strings) : grammar_(grammar), strings_(strings) {}
  // Of what is left of the frame; `reg`: its count, in a counter.
  int32_t at(int32_t position, int32_t reg);
  // Whether the frame can end and the entry go on.
  bool passes(int32_t position) {
    prepare();
    return facts_[position].passes;
  }
  // The same where no characters are counted.
  int32_t at(int32_t position) {
    prepare();
    return facts_[position].count;
  }
  // Whether it is inside of a string of JSON, wherever that is written. False, too, where that is not known.
  bool in_string(int32_t position) {
    prepare();
    return facts_[position].string;
  }
  // Whether at least two bytes, each of which makes another value, lead back to it.
  bool repeats(int32_t position) {
    prepare();
    return facts_[position].repeats;
  }
  // The fewest that an entry of the grammar has when it begins.
  int32_t least();

 private:
  using enum ValueScan::Mode;
  using Mode = ValueScan::Mode;
  struct Edge {
    int32_t to, times;  // node; bytes
    bool more;          // some of them is a digit that is not 0
    bool structural;    // some are brackets, commas or colons
    bool ends;          // with some of them a string, a number or a literal ends
  };
  struct Node {
    int32_t position;
    Mode mode;
    bool ends = false;           // a string or a number can end here, the frame in it
    int32_t own = 0, count = 0;  // of a scalar from here on; the most ahead
    bool passes = false;
    std::vector<Edge> bytes;
    std::vector<int32_t> others, calls;  // after effects that are not guarded and after calls; where calls begin
  };
  struct Facts {
    int32_t count = 0;
    bool passes = false, string = false, repeats = false, met = false;
  };

  void prepare();
  void look_at_entries(bool beyond);
  int32_t node(int32_t position, Mode mode);
  std::vector<Edge> byte_edges(int32_t position, Mode mode);
  void look(int32_t node);
  void begin(int32_t rule, Mode mode);
  void end(int32_t rule, Mode mode);
  void go_on_after(int32_t rule);
  void count_paths();
  void count_ahead();
  void find_passing();
  static bool is_repeated(const Node& node, int32_t number);
  int32_t counted(int32_t position, int64_t room);
  int32_t bytes_that_repeat(int32_t position);

  const Grammar& grammar_;
  UnboundedStrings& strings_;
  bool prepared_ = false, regular_ = true;
  bool nested_ = false;                                            // a scope opens within an entry
  bool beyond_ = false;                                            // what comes after the end of an entry is looked at
  std::vector<Facts> facts_;                                       // by position
  std::vector<Node> nodes_;                                        // while they are prepared
  std::vector<int32_t> number_;                                    // position * kModes + mode -> node, or -1
  std::vector<uint8_t> begun_;                                     // by rule: 1 between tokens, 2 in a string
  std::vector<Mode> ended_;                                        // by rule: Between or String, kModes: not known yet
  std::vector<std::vector<std::pair<int32_t, int32_t>>> waiting_;  // by rule: nodes that call it, positions after it
};

}  // namespace guided
