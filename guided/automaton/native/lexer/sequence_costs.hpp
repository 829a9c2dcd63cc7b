// Finds the lightest sequence of terminals from each position to the end of its rule.
//
// In: the rules, compiled over terminals, and a weight for each terminal: the number of tokens of its sure text
// (sure_texts.hpp). Out: a weight for each position; kNever if no sequence of terminals with weights leads to the end.
// Knuth's generalisation of Dijkstra's algorithm solves the same problem. `TerminalRests` adds up the weights of the
// frames of a stack.
//
// With indentation, not every sequence can be written. An INDENT comes directly after a newline, and so do DEDENTs,
// except at the end of the text. Another newline, or a text that begins like a newline, would be read as part of the
// newline before it. So the search also tracks what was read last. There is a weight for each pair of values, one at
// the position and one at the end of the rule:
//
//     kWord       a terminal was read, or may have been: anything but an INDENT may follow
//     kNewline    a newline of any width: an INDENT, a DEDENT, or a text that ends the newline may follow
//     kLine       after the INDENT of a newline, or after a newline whose INDENT and DEDENTs have all been read: a text
//                 that ends the newline may follow, or the end of the text
//     kDedent     a DEDENT after a newline: like kLine, and another DEDENT may follow
//     kEnd        a DEDENT after anything else: only more DEDENTs may follow
//     kSpace      an ignored text with which a newline could have begun: no newline may follow
//
// The weight of a newline grows with the depth of its block. A list of *prices* has the weight for each depth: entry 0
// for the current block, entry 1 for a block inside it, and so on; the length of the list limits the nesting. The
// search weighs everything after a nested block at the nested block's price. This overestimates, so the weight never
// grows when the block is entered.
//
// Cost: passes over the positions until nothing changes, for each list of prices. Real vocabularies have few such
// lists.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "lexer/indentation.hpp"
#include "lexer/lexer_positions.hpp"

namespace guided {

constexpr int64_t kNever = INT64_MAX / 4;  // the distance to the end if it cannot be reached

enum LastRead : int32_t { kWord, kNewline, kLine, kDedent, kEnd, kSpace };

// Newlines that can be written with any width.
struct SureLines {
  bool are_sure = false;
  std::vector<uint8_t> ends_newline;  // by symbol: its text ends a newline before it
  std::vector<int64_t> tokens;        // by width: the maximum number of tokens of a newline of at most this width
};

class SequenceCosts {
 public:
  using Prices = std::vector<int64_t>;
  struct Costs {
    std::vector<int32_t> cells;  // by position, what was read last there, and what was read last at the end of its rule
  };
  SequenceCosts(const Grammar& rules, const Indentation& indentation, const BlockLevels& levels,
                const std::vector<int64_t>& weights, const SureLines& lines);
  int32_t kinds() const { return kinds_; }  // how many values of `LastRead` are distinguished: all, or one
  int64_t at(const Costs& costs, int32_t position, int32_t last_before, int32_t last) const {
    const int32_t cost = costs.cells[(static_cast<size_t>(position) * kinds_ + last_before) * kinds_ + last];
    return cost == kNone ? kNever : cost;
  }
  // Without indentation, `prices` is empty.
  const Costs& costs_for(const Prices& prices);
  // The prices in a block of this width, in which blocks nest to this depth.
  Prices prices(int32_t width, int32_t nesting) const {
    return {lines_.tokens.begin() + width, lines_.tokens.begin() + width + nesting + 1};
  }
  // The maximum depth of nested blocks in lightest sequences.
  int32_t max_nesting() const { return max_nesting_; }
  // Whether every stack can be completed after a terminal other than a newline, if blocks may nest to this depth.
  bool always_ends(int32_t nesting) const { return always_ends_.empty() || always_ends_[nesting]; }
  const BlockLevels& levels() const { return levels_; }

 private:
  static constexpr int32_t kNone = INT32_MAX / 2;
  int32_t last_after(int32_t last, int32_t symbol) const;
  bool improve(Costs& costs, int32_t position, const Costs* inner, const Prices& prices) const;
  void find_max_nesting();
  // What may have been read last in texts: sets of `LastRead`, as bits.
  struct ReadBefore {
    std::vector<uint8_t> positions, ends;  // before each position; at the end of each rule
  };
  ReadBefore find_read_before() const;
  bool can_always_end(const Costs& costs, const ReadBefore& read_before) const;

  const Grammar& rules_;
  const Indentation& indentation_;
  const BlockLevels& levels_;
  const std::vector<int64_t>& weights_;
  const SureLines& lines_;
  const int32_t kinds_;
  int32_t max_nesting_ = 0;
  std::vector<uint8_t> always_ends_;  // by nesting
  std::map<Prices, std::unique_ptr<Costs>> costs_by_prices_;
};

// The weight of the lightest sequence of terminals that completes the parse from a lexer position.
//
// In: lexer positions (lexer_positions.hpp), and the weights from the positions of rules to the ends of their rules.
// Out: the sum of the weights of the frames of the stack, each at the prices of its block. The first terminal of a
// lightest sequence lowers the sum by its own weight.
class TerminalRests {
 public:
  TerminalRests(LexerPositions& positions, TerminalParser& parser, SequenceCosts& costs)
      : positions_(positions), parser_(parser), costs_(costs) {}
  int64_t weight(int32_t position, LastRead last = kWord);
  // Whether all lexer positions that are reachable from this one can be completed, if this one can.
  bool always_ends(int32_t position) { return costs_.always_ends(nesting(lines(position))); }
  // Whether fewer blocks may nest at the lexer position than lightest sequences may need.
  bool depends_on_lines(int32_t position) const { return nesting(lines(position)) < costs_.max_nesting(); }

 private:
  using Rest = std::array<int64_t, kSpace + 1>;  // by what was read last
  int32_t lines(int32_t position) const { return costs_.kinds() > 1 ? positions_.lines(position) : 0; }
  int32_t nesting(int32_t lines) const;
  const SequenceCosts::Costs& costs_at(int32_t lines);
  const Rest& rest_of_state(int32_t state, int32_t lines);

  LexerPositions& positions_;
  TerminalParser& parser_;
  SequenceCosts& costs_;
  std::vector<const SequenceCosts::Costs*> by_lines_;
  std::unordered_map<uint64_t, Rest> rests_;  // by configuration and lines
};

}  // namespace guided
