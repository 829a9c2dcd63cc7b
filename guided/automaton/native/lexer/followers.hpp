// Which terminals can stand next to each other.
//
// In: the rules, compiled over terminals. Out: for each symbol, those that some text has right behind it, or more: callers
// of a rule are not told apart; and those that some text begins with. These are the FIRST and FOLLOW sets of the
// literature (Aho, Lam, Sethi and Ullman, section 4.4.2), over the positions of the rules' automata.
// Cost: rounds over all positions until nothing changes; a bit for each pair of a position and a symbol.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/grammar.hpp"

namespace guided {

class Followers {
 public:
  Followers(const Grammar& rules, int32_t symbols);
  bool can_follow(int32_t symbol, int32_t next) const { return has(after_symbol_, symbol, next); }
  const uint64_t* row(int32_t symbol) const { return &after_symbol_[static_cast<size_t>(symbol) * words_]; }  // as bits
  bool can_begin(int32_t symbol) const { return start_ >= 0 && has(first_, start_, symbol); }

 private:
  using Bits = std::vector<uint64_t>;
  bool has(const Bits& sets, int32_t set, int32_t symbol) const {
    return sets[static_cast<size_t>(set) * words_ + symbol / 64] >> (symbol % 64) & 1;
  }
  void add(Bits& sets, int32_t set, int32_t symbol);
  void add_all(Bits& to, int32_t set, const Bits& from, int32_t other);
  void look_at(const Grammar& rules, int32_t position);

  const int32_t start_;  // the position in which texts begin, or -1
  size_t words_;
  bool changed_ = true;
  Bits first_, behind_rule_, after_symbol_;  // by position, by rule, by symbol
  std::vector<uint8_t> ends_;                // by position: whether the end of the rule can be reached without a symbol
};

}  // namespace guided
