// Proves that an output has no completion because competitors last to its end.
//
// Problem. A grammar ends with a line feed and ignores comments, `//[^\n]*\n` and `/\*...\*/`. In `a//*b*/`, read as
// `a`, `/` and a block comment, the line comment still competes. Only a line feed ends it, but then it matches, which
// refutes this reading. So the rest of the output would have to do without a line feed, although the grammar ends with
// one. A search for a completion would try longer and longer texts.
//
// In: a set of competitors. Out: the weights of sequences of terminals (sequence_costs.hpp) with which the competitors
// last. If no such sequence completes the parse, there is no completion.
// How: a search over pairs of a terminal's state and a set of competitors, from the beginning of any terminal to its
// ends, and on with any other terminal. If a text ends all competitors, nothing is proven. Otherwise, only the
// terminals whose ends were reached can still be written.
//
// Cost: at most kMaxPairs pairs for each set of competitors, and one SequenceCosts for each set of terminals, of which
// there are at most kMaxCosts.
//
// It does not prove dead ends of grammars with indentation, or with control tokens, which end competitors.
#pragma once

#include <deque>

#include "lexer/competitors.hpp"
#include "lexer/sequence_costs.hpp"

namespace guided {

class BlockingCompetitors {
 public:
  BlockingCompetitors(Lexemes& lexemes, Competitors& competitors, const Grammar& rules, const BlockLevels& levels,
                      const std::vector<int32_t>& control_tokens, size_t symbols);
  // The weights of sequences of terminals that can be written while the competitors last; null if they may end.
  SequenceCosts* find_costs(int32_t competitors);

 private:
  struct Costs {
    std::vector<int64_t> weights;
    std::unique_ptr<SequenceCosts> costs;
  };
  std::vector<int64_t> find_weights(int32_t competitors);

  Lexemes& lexemes_;
  Competitors& competitors_;
  const Grammar& rules_;
  const BlockLevels& levels_;
  const size_t symbols_;
  bool is_supported_;
  const SureLines no_lines_;
  std::deque<Costs> costs_;
  std::unordered_map<int32_t, SequenceCosts*> costs_by_set_;
};

}  // namespace guided
