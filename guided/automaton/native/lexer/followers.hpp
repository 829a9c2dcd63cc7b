// Finds the terminals that can be adjacent.
//
// In: the rules, compiled over terminals. Out: the symbols with which a text can begin, and for each symbol the symbols
// that can directly follow it. The result may be a superset, because callers of a rule are not distinguished. The
// results are FIRST and FOLLOW sets (Aho, Lam, Sethi and Ullman, section 4.4.2), over the positions of the rules'
// automata.
// Cost: passes over all positions until nothing changes; a bit for each pair of a position and a symbol.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compile/grammar.hpp"
#include "lexer/lexer_positions.hpp"

namespace guided {

class Followers {
 public:
  Followers(const Grammar& rules, int32_t symbols);
  bool can_follow(int32_t symbol, int32_t next) const { return has(after_symbol_, symbol, next); }
  // The symbols that can follow, as bits.
  const uint64_t* row(int32_t symbol) const { return &after_symbol_[static_cast<size_t>(symbol) * words_]; }
  bool can_begin(int32_t symbol) const { return start_ >= 0 && has(first_, start_, symbol); }

 private:
  using Bits = std::vector<uint64_t>;
  bool has(const Bits& sets, int32_t set, int32_t symbol) const {
    return sets[static_cast<size_t>(set) * words_ + symbol / 64] >> (symbol % 64) & 1;
  }
  void add(Bits& sets, int32_t set, int32_t symbol);
  void add_all(Bits& to, int32_t to_set, const Bits& from, int32_t from_set);
  void update(const Grammar& rules, int32_t position);

  const int32_t start_;  // the position at which texts begin, or -1
  size_t words_;
  bool has_changed_ = true;
  Bits first_, after_rule_, after_symbol_;  // by position, by rule, by symbol
  std::vector<uint8_t> ends_;               // by position: an end of the rule is reachable without a symbol
};

// A set of terminals, as bits.
class TerminalSet {
 public:
  explicit TerminalSet(size_t count = 0, bool all = false) : words_((count + 63) / 64, all ? ~uint64_t{0} : 0) {}
  bool has(int32_t terminal) const { return words_[terminal / 64] >> (terminal % 64) & 1; }
  void add(int32_t terminal) { words_[terminal / 64] |= uint64_t{1} << (terminal % 64); }
  void add(const TerminalSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  bool intersects(const TerminalSet& other) const { return intersects(other.words_.data()); }
  bool intersects(const uint64_t* row) const {
    for (size_t w = 0; w < words_.size(); ++w)
      if (words_[w] & row[w]) return true;
    return false;
  }
  bool empty() const {
    return std::ranges::all_of(words_, [](uint64_t word) { return word == 0; });
  }
  auto operator<=>(const TerminalSet&) const = default;

 private:
  std::vector<uint64_t> words_;
};

// Finds the terminals that the lexer may try at one position.
//
// In: the symbols that can be adjacent (`Followers`), and the contexts of the lexer. Out: for each terminal, the
// terminals that may be tried directly after it, and those that may be tried at the same position. The results may be
// supersets, because callers of a rule are not distinguished. Ignored terminals are tried everywhere.
//
// Without this distinction, a terminal that Lark tries only at the beginning of a text would compete with terminals
// elsewhere.
//
// If the contexts have the rows of Lark's table, the rows are used instead of adjacent symbols, because they
// distinguish the rules that contain a terminal. For example, in JavaScript, the characters of a template are tried
// after the `}` of an expression in the template, but not after other `}`.
//
// Cost: two rows of bits per terminal. With more than kMaxTerminals terminals, all count as tried everywhere.
class TriedTerminals {
 public:
  TriedTerminals(const Followers& followers, const LexerContexts& contexts, const Lexemes& lexemes);
  const TerminalSet& tried_after(int32_t terminal) const { return all_.empty() ? tried_after_[terminal] : all_[0]; }
  const TerminalSet& tried_first() const { return all_.empty() ? tried_first_ : all_[0]; }
  const TerminalSet& tried_with(int32_t terminal) const { return all_.empty() ? tried_with_[terminal] : all_[0]; }

 private:
  // The terminals of the row may be tried at the same position.
  void add_row(const TerminalSet& row);

  std::vector<TerminalSet> tried_after_, tried_with_;
  std::vector<TerminalSet> all_;  // empty, or the full set, which then replaces all others
  TerminalSet tried_first_;
};

}  // namespace guided
