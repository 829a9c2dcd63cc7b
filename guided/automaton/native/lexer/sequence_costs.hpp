// The lightest sequences of terminals from each position to the end of its rule.
//
// In: the rules, compiled over terminals, and a weight for each terminal: the tokens of its sure text (safe_witnesses.hpp).
// Out: a weight by position; kNever where no sequence of terminals with weights leads to the end. This is Knuth's
// generalisation of Dijkstra's algorithm; `TerminalRests` adds up what is left of each frame of a stack.
//
// With indentation not every sequence can be written. An indentation comes right after a newline, dedentations too, but
// for those at the end of the text; and another newline, or a text that begins like one, would be read as part of the
// newline before it. So a small automaton reads along, and there is a weight for each pair of its states:
//
//     kWord       a terminal was read, or a place was reached that may be such: anything but an indentation may follow
//     kNewline    a newline, whose width is open: an indentation, a dedentation, or a text that ends it may follow
//     kLine       a line has begun: a text that ends the newline may follow, or the end
//     kDedent     a dedentation after a newline: as kLine, or one more
//     kEnd        a dedentation after anything else: only more of them may follow
//     kSpace      something that is ignored was read, which a newline would have begun with: no newline may follow
//
// The weight of a newline grows with its width. Prices are those of the position's own block, of a block in it, and so on;
// blocks nest no deeper than that. After a block has ended, its rule goes on with its price, so that what is counted
// outside of a block is never less than what is counted in it.
//
// Cost: rounds over the positions until nothing changes, for each list of prices; real vocabularies have few of them.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "lexer/indentation.hpp"
#include "lexer/places.hpp"

namespace guided {

constexpr int64_t kNever = INT64_MAX / 4;  // a distance to what cannot be reached

enum LastRead : int32_t { kWord, kNewline, kLine, kDedent, kEnd, kSpace };

// Newlines that can be written with any width.
struct SureLines {
  bool sure = false;
  std::vector<uint8_t> follow;  // by symbol: its text ends a newline
  std::vector<int64_t> tokens;  // by width: the most of a newline that is no wider
};

class SequenceCosts {
 public:
  using Prices = std::vector<int64_t>;
  struct Costs {
    std::vector<int32_t> cells;  // by position, last read before it, and last read in the end
  };
  SequenceCosts(const Grammar& rules, const Indentation& indentation, const BlockLevels& levels,
                const std::vector<int64_t>& weights, const SureLines& lines);
  int32_t kinds() const { return kinds_; }  // of what was read last: one, or those of `LastRead`
  int64_t at(const Costs& costs, int32_t position, int32_t before, int32_t last) const {
    const int32_t cost = costs.cells[(static_cast<size_t>(position) * kinds_ + before) * kinds_ + last];
    return cost == kNone ? kNever : cost;
  }
  // Without indentation the prices are empty.
  const Costs& of(const Prices& prices);
  // Of a block of a width, in which others nest so deep.
  Prices prices(int32_t width, int32_t nesting) const {
    return {lines_.tokens.begin() + width, lines_.tokens.begin() + width + nesting + 1};
  }
  // How deep blocks nest in lightest sequences at most.
  int32_t nesting() const { return nesting_; }
  // Whether every stack can be left, after a terminal that is no newline, with blocks that nest so deep.
  bool always_ends(int32_t nesting) const { return always_ends_.empty() || always_ends_[nesting]; }
  const BlockLevels& levels() const { return levels_; }

 private:
  static constexpr int32_t kNone = INT32_MAX / 2;
  int32_t next(int32_t last, int32_t symbol) const;
  bool improve(Costs& costs, int32_t position, const Costs* inner, const Prices& prices) const;
  void find_nesting();
  bool can_always_end(const Costs& costs, const std::vector<uint8_t>& ends) const;

  const Grammar& rules_;
  const Indentation& indentation_;
  const BlockLevels& levels_;
  const std::vector<int64_t>& weights_;
  const SureLines& lines_;
  const int32_t kinds_;
  int32_t nesting_ = 0;
  std::vector<uint8_t> always_ends_;  // by nesting
  std::map<Prices, std::unique_ptr<Costs>> known_;
};

// What is left for the parser: the weight of the lightest sequence of terminals that completes a place.
//
// In: places (places.hpp), and the weights from positions to the ends of their rules (sequence_costs.hpp). Out: a weight; a
// stack adds up what is left of each frame, at the price of the block that it stands in. After the first terminal of a
// lightest sequence the rest is less by its weight.
class TerminalRests {
 public:
  TerminalRests(Places& places, TerminalParser& parser, SequenceCosts& costs)
      : places_(places), parser_(parser), costs_(costs) {}
  int64_t of(int32_t place, LastRead last = kWord);
  // Whether no way from there is without an end, if none is at its beginning.
  bool always_ends(int32_t place) { return costs_.always_ends(nesting(lines(place))); }

 private:
  using Rest = std::array<int64_t, kSpace + 1>;  // by what was read last
  int32_t lines(int32_t place) const { return costs_.kinds() > 1 ? places_.lines(place) : 0; }
  int32_t nesting(int32_t lines) const;
  const SequenceCosts::Costs& costs_at(int32_t lines);
  const Rest& of_state(int32_t state, int32_t lines);

  Places& places_;
  TerminalParser& parser_;
  SequenceCosts& costs_;
  std::vector<const SequenceCosts::Costs*> by_lines_;
  std::unordered_map<uint64_t, Rest> rests_;  // by configuration and lines
};

}  // namespace guided
