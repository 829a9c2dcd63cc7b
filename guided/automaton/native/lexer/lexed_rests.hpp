// What is left after a reading: whether an output can still be completed, and within how many tokens.
//
// In: readings (parse_paths.hpp). Out: a number of tokens, the end token not counted; kNever where there is no completion.
//
// With sure texts (safe_witnesses.hpp) that is what ends the lexeme, a separator if one may be needed, and what is left for
// the parser: the lightest sequence of terminals. The texts that end a lexeme are found breadth first, by bytes, once for
// each state of a lexeme. Without them a completion is searched for: best first, by what is left for the parser.
//
// The number is an upper bound of the least, and it is kept: each reading on a completion that was found has at most
// the number of tokens that spell the rest of that completion. So after its first token the number has fallen by one,
// and a mask under a budget that the number fits into is never empty. So completions are carried over when states are
// renewed.
//
// Cost: with sure texts a look-up for each terminal that a lexeme may become. A search visits at most kMostReadings; past
// that it is an error, as nothing is then known.
#pragma once

#include <unordered_set>

#include "lexer/lexeme_ends.hpp"
#include "lexer/parse_paths.hpp"
#include "lexer/terminal_rests.hpp"

namespace guided {

class LexedRests {
 public:
  // `costs` of sure texts, and `guesses`.
  LexedRests(ParsePaths& readings, Places& places, TerminalParser& parser, LexemeEnds& ends, SequenceCosts& costs,
             SequenceCosts& guesses, const TokenVocabulary& vocabulary)
      : readings_(readings),
        places_(places),
        ends_(ends),
        vocabulary_(vocabulary),
        sure_(places, parser, costs),
        guessed_(places, parser, guesses) {}
  bool viable(int32_t state);
  int64_t distance(int32_t state);
  int64_t distance(const Reading& reading);
  // Of a lexeme under way, which may also have ended.
  int64_t distance(int32_t place, Begun begun);
  // Whether nothing is dead whose lexeme there, if it may become something but a line, and what competes with those before
  // it, can end.
  bool all_sure(int32_t place) {
    return ends_.sure().all() && (!places_.indentation().given || (sure_.always_ends(place) && rest(place) < kNever));
  }
  // An upper bound of what is left for the parser when a lexeme has ended.
  int64_t rest(int32_t place, LastRead last = kWord) { return ends_.sure().any() ? sure_.of(place, last) : kNever; }
  // The completions of `other` that begin with this reading; `move` gives readings their places here. Those of `done`
  // have been carried over.
  template <class Move>
  void import(const LexedRests& other, const Reading& reading, Move&& move, std::unordered_set<int32_t>& done) {
    for (auto at = other.known_.find(reading); at != other.known_.end() && at->second.completion >= 0;) {
      if (!done.insert(at->second.completion).second) return;
      Completion moved = other.completions_[at->second.completion];
      at = other.known_.find(moved.readings.back());
      for (Reading& each : moved.readings) each = move(each);
      keep(std::move(moved));
    }
  }
  size_t memory() const { return memory_ + known_.size() * 96 + sure_after_.size() * 48 + viable_.size(); }

 private:
  // The readings on a way to an output's end, or to where another one begins, and what is left after each.
  struct Completion {
    std::vector<Reading> readings;
    std::vector<int64_t> tokens;
  };
  struct Found {
    int64_t tokens;
    int32_t completion;  // that has as few; -1: none
  };
  int64_t surely(const Reading& reading);
  int64_t surely(int32_t place, int32_t competing);
  bool surely_dead(const Reading& reading);
  int64_t search(const Reading& reading);
  void keep(Completion&& completion);
  std::vector<int64_t> tokens_along(const std::vector<int32_t>& symbols, int64_t left) const;

  ParsePaths& readings_;
  Places& places_;
  LexemeEnds& ends_;
  const TokenVocabulary& vocabulary_;
  TerminalRests sure_, guessed_;
  std::unordered_map<uint64_t, int64_t> sure_after_;  // by place and set of competing terminals
  std::map<Reading, Found> known_;                    // what searches have found
  std::vector<Completion> completions_;
  size_t memory_ = 0;           // of completions
  std::vector<int8_t> viable_;  // by state; 0: not known
};

}  // namespace guided
