// A lower bound for the number of values that an entry (uniqueness.hpp) can still have.
//
// Problem: a scope has seen three values. If the entry under way can still become four different ones, at least one is
// unseen, and no search is needed (new_entry.hpp). The number of paths is no such bound: `1`, `1.0` and `1.00` are
// three paths and one value.
//
// How: a rule begins and ends alike wherever it is called, between tokens or in a string (else nothing is counted). So
// the automaton alone says what each position is in the middle of: between the tokens of JSON, in a string, in a
// number.
//   in a string    paths of plain spellings are counted; each is another value
//   in a number    paths of digits before the point, and cycles of digits after it, which distinguish longer numbers
//   between both   the largest count of what may come before the entry ends
// In strings and numbers a cycle counts as unbounded. A counter whose frame has room for n more characters of k sorts
// counts k^n. What is not known counts as nothing, so the numbers are lower bounds. Those below kMany hold for an entry
// that is a scalar: other scopes may forbid parts of an array, and two names may be written in either order.
//
// In: a grammar. Out, for a position within an entry: a number of values, up to kMany, whatever was written of it.
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
  // Whether it is in the digits of a number before its point, and digits lead back to it.
  bool repeats_digits(int32_t position) {
    prepare();
    return facts_[position].digits;
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
    bool passes = false, string = false, repeats = false, digits = false, met = false;
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
