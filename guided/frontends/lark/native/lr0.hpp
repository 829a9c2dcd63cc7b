// Builds the LR(0) automaton of a grammar. In: rules whose symbols are numbers. Out: states, their kernels and
// transitions.
//
// A symbol below `terminals` is a terminal; `terminals + r` is rule r. Rule 0 has one alternative, the start rule.
// Alternatives are numbered consecutively over all rules. An LR item is also a number: the first item of its
// alternative plus the number of symbols that were read.
//
// How: Knuth, "On the translation of languages from left to right" (Information and Control 8(6), 1965), without
// lookahead. Cost: states times items. A grammar may have exponentially many states: when the `Steps` are used up,
// TooLarge is thrown.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace guided::lark {

struct TooLarge {};

// The steps that may still be spent. A step takes a few nanoseconds.
class Steps {
 public:
  explicit Steps(int64_t max_steps) : left_(max_steps) {}
  void spend(size_t steps) {
    left_ -= static_cast<int64_t>(steps);
    if (left_ < 0) throw TooLarge{};
  }

 private:
  int64_t left_;
};

struct Rules {
  int32_t terminals = 0;                    // the number of terminals
  std::vector<int32_t> first_alternatives;  // by rule: its first alternative; one more at the end
  std::vector<int32_t> first_items;         // by alternative: its first item; one more at the end
  std::vector<int32_t> symbols;             // by item: the next symbol, or -1 at the end of the alternative
  std::vector<int32_t> rule_of;             // by alternative: its rule
  std::vector<bool> is_dead;                // by alternative: whether it is excluded; empty: none is

  int32_t rule_count() const { return static_cast<int32_t>(first_alternatives.size()) - 1; }
  bool is_rule(int32_t symbol) const { return symbol >= terminals; }
  template <class Visit>
  void for_each_alternative(int32_t rule, Visit&& visit) const {
    for (int32_t each = first_alternatives[rule]; each < first_alternatives[rule + 1]; ++each)
      if (is_dead.empty() || !is_dead[each]) visit(each);
  }
  std::vector<bool> nullable_rules() const;  // whether each rule may be empty
};

class Lr0 {
 public:
  Lr0(const Rules& rules, Steps& steps);

  int32_t state_count() const { return static_cast<int32_t>(kernel_begin_.size()) - 1; }
  std::span<const int32_t> kernel(int32_t state) const { return slice(kernels_, kernel_begin_, state); }
  // The symbols that a state reads, in ascending order, so terminals come first. `targets`: the state after each.
  std::span<const int32_t> read_symbols(int32_t state) const { return slice(symbols_, row_begin_, state); }
  std::span<const int32_t> targets(int32_t state) const { return slice(targets_, row_begin_, state); }
  // The number of the transition by a symbol, which the state must read.
  int32_t find_transition(int32_t state, int32_t symbol) const;
  // Pairs of a state and a state of `living_automaton` to which the same symbols lead. `living_automaton`: the
  // automaton of the same rules without their dead alternatives.
  std::vector<std::pair<int32_t, int32_t>> paired_states(const Lr0& living_automaton, Steps& steps) const;
  int32_t target(int32_t transition) const { return targets_[transition]; }
  int32_t row_begin(int32_t state) const { return row_begin_[state]; }

 private:
  static std::span<const int32_t> slice(const std::vector<int32_t>& all, const std::vector<int32_t>& begin,
                                        int32_t index) {
    return {all.data() + begin[index], all.data() + begin[index + 1]};
  }

  std::vector<int32_t> kernels_, kernel_begin_, symbols_, targets_, row_begin_;
};

}  // namespace guided::lark
