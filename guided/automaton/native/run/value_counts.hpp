// A lower bound on the number of values that an entry (uniqueness.hpp) can still have.
//
// Problem: suppose that a scope has seen three values. If the current entry can still become four different values, at
// least one of them is unseen, and no search is needed (new_entry.hpp). The number of paths through the automaton is no
// lower bound: `1`, `1.0` and `1.00` are three paths but one value.
//
// How: the automaton alone determines the mode of each position (between JSON tokens, in a string, in a number),
// provided that each rule always begins in the same mode, between tokens or in a string, and always ends in the same
// one. Otherwise nothing is counted.
//   in a string      paths of plain spellings; each is a different value
//   in a number      paths of digits before the point; after it, only cycles with a digit other than 0
//   between tokens   the largest count of a string or number that may come before the entry ends
// In strings and numbers, a cycle counts as unbounded. A counter that can read n more characters of k kinds counts k^n
// values. Everything unknown counts as 0, so the results are lower bounds. Counts below kMany hold only for scalar
// entries: other scopes may forbid some items of an array, and an object's members may be written in any order.
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
  // The number of values for the rest of the frame. `reg`: the frame's register, which matters if its rule is a
  // counter.
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
  // Whether the position is always inside a JSON string. Also false if this is unknown.
  bool is_in_string(int32_t position) {
    prepare();
    return facts_[position].is_in_string;
  }
  // Whether at least two bytes lead back to the position, each of them to a different value.
  bool repeats(int32_t position) {
    prepare();
    return facts_[position].repeats;
  }
  // Whether the position is in the digits of a number before its point, and digits lead back to it.
  bool repeats_digits(int32_t position) {
    prepare();
    return facts_[position].repeats_digits;
  }
  // The smallest count at the start of any entry of the grammar that is not an unbounded string.
  int32_t min_count();

 private:
  using enum ValueScan::Mode;
  using Mode = ValueScan::Mode;
  struct Edge {
    int32_t to, byte_count;  // the target node; the number of bytes
    bool has_nonzero_digit;  // some of the bytes are digits other than 0
    bool is_structural;      // some of the bytes are brackets, commas or colons
    bool ends;               // some of the bytes end a string, a number or a literal
  };
  struct Node {
    int32_t position;
    Mode mode;
    bool ends = false;                 // a string, a number or the frame can end here
    int32_t own_count = 0, count = 0;  // the values of a scalar from here on; the largest count before the entry ends
    bool passes = false;
    std::vector<Edge> bytes;
    std::vector<int32_t> others, calls;  // nodes after unguarded effects and after calls; starts of called rules
  };
  struct Facts {
    int32_t count = 0;
    bool passes = false, is_in_string = false, repeats = false, repeats_digits = false, is_known = false;
  };

  void prepare();
  void examine_entries(bool is_past_entries);
  int32_t node(int32_t position, Mode mode);
  std::vector<Edge> byte_edges(int32_t position, Mode mode);
  void examine(int32_t node);
  void note_begin(int32_t rule, Mode mode);
  void note_end(int32_t rule, Mode mode);
  void continue_after_calls(int32_t rule);
  void count_paths();
  void find_largest_counts();
  void find_passing();
  static bool is_repeated(const Node& node, int32_t number);
  int32_t count_counter_values(int32_t position, int64_t counts_left);
  int32_t count_repeating_bytes(int32_t position);

  const Grammar& grammar_;
  UnboundedStrings& strings_;
  bool is_prepared_ = false, is_regular_ = true;
  bool has_nested_scopes_ = false;    // whether a scope opens within an entry
  bool is_past_entries_ = false;      // whether nodes after the end of an entry are examined, too
  std::vector<Facts> facts_;          // by position
  std::vector<Node> nodes_;           // only during prepare()
  std::vector<int32_t> node_ids_;     // position * kModes + mode -> node, or -1
  std::vector<uint8_t> begin_modes_;  // by rule, where it may begin: 1: between tokens, 2: in a string, 3: both
  std::vector<Mode> end_modes_;       // by rule: Between or String; kModes: not known yet
  // By rule: (node that calls it, position after the call).
  std::vector<std::vector<std::pair<int32_t, int32_t>>> waiting_calls_;
};

}  // namespace guided
