// A lower bound on the number of values that an entry (uniqueness.hpp) can still have.
//
// Problem: a scope has seen three values. If the current entry can still become four different ones, at least one is
// unseen, and no search is needed (new_entry.hpp). The number of paths is no such bound: `1`, `1.0` and `1.00` are
// three paths and one value.
//
// How: the automaton alone determines the mode of each position (between the tokens of JSON, in a string, in a number)
// if every rule begins in one mode and ends in one mode, whoever calls it: between tokens, or in a string. Otherwise
// nothing is counted.
//   in a string      paths of plain spellings; each is a different value
//   in a number      paths of digits before the point; after it, only cycles with a digit other than 0
//   between tokens   the largest count of a string or number that may come before the entry ends
// In strings and numbers, a cycle counts as unbounded. A counter whose frame has room for n more characters of k kinds
// counts k^n. Whatever is unknown counts as nothing, so the numbers are lower bounds. Numbers below kMany hold only for
// an entry that is a scalar: other scopes may forbid some items of an array, and an object's members may be written in
// any order.
//
// In: a grammar. Out: for a position in an entry, a number of values, at most kMany. It does not depend on what the
// entry has read.
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
  // The number of values for the rest of the frame. `reg`: its register, which matters if its rule is a counter.
  int32_t at(int32_t position, int32_t reg);
  // Whether the frame can end while the entry continues.
  bool passes(int32_t position) {
    prepare();
    return facts_[position].passes;
  }
  // As at(position, reg), without the characters that a counter may still read.
  int32_t at(int32_t position) {
    prepare();
    return facts_[position].count;
  }
  // Whether the position is always inside of a JSON string. Also false if this is unknown.
  bool in_string(int32_t position) {
    prepare();
    return facts_[position].string;
  }
  // Whether at least two bytes lead back to the position, and each gives a different value.
  bool repeats(int32_t position) {
    prepare();
    return facts_[position].repeats;
  }
  // Whether the position is in the digits of a number before its point, and digits lead back to it.
  bool repeats_digits(int32_t position) {
    prepare();
    return facts_[position].digits;
  }
  // The smallest count at the start of any entry of the grammar.
  int32_t least();

 private:
  using enum ValueScan::Mode;
  using Mode = ValueScan::Mode;
  struct Edge {
    int32_t to, times;  // node; number of bytes
    bool more;          // some of them is a digit that is not 0
    bool structural;    // some are brackets, commas or colons
    bool ends;          // with some of them a string, a number or a literal ends
  };
  struct Node {
    int32_t position;
    Mode mode;
    bool ends = false;           // a string, a number or the frame can end here
    int32_t own = 0, count = 0;  // values of a scalar from here on; the largest count ahead
    bool passes = false;
    std::vector<Edge> bytes;
    std::vector<int32_t> others, calls;  // nodes after unguarded effects and after calls; starts of called rules
  };
  struct Facts {
    int32_t count = 0;
    bool passes = false, string = false, repeats = false, digits = false, is_known = false;
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
  bool beyond_ = false;                                            // nodes after the end of an entry are examined, too
  std::vector<Facts> facts_;                                       // by position
  std::vector<Node> nodes_;                                        // only while preparing
  std::vector<int32_t> number_;                                    // position * kModes + mode -> node, or -1
  std::vector<uint8_t> begun_;                                     // by rule: 1 between tokens, 2 in a string
  std::vector<Mode> ended_;                                        // by rule: Between or String, kModes: not known yet
  std::vector<std::vector<std::pair<int32_t, int32_t>>> waiting_;  // by rule: nodes that call it, positions after it
};

}  // namespace guided
