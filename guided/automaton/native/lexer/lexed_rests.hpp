// The ways to end a lexeme (independent of the parser), and the distance from a reading to the end of the output.
//
// In: an unfinished lexeme, and the terminals that compete with the lexemes before it. Out: the labels that it may get,
// and for each label the tokens that finish the lexeme and the competing terminals that are then pending. A
// breadth-first search over bytes, one for each state, finds the texts that finish a lexeme. For each label, it records
// the first texts, until one after which at most one more token is needed before any text can follow.
//
// An unfinished newline may become a line of its current width or more, or, with another line feed, of any width. So
// for lines, only the text up to a line feed, or an empty text, is stored; spaces follow it (safe_witnesses.hpp).
//
// Cost: a search visits at most kMaxLexerStates states, and also records the ends that it finds for the states on its
// paths.
#pragma once

#include <unordered_set>

#include "lexer/parse_paths.hpp"
#include "lexer/safe_witnesses.hpp"
#include "lexer/sequence_costs.hpp"

namespace guided {

// An unfinished lexeme, and the terminals that compete with the lexemes before it.
struct UnfinishedLexeme {
  int32_t lexeme, competing;
  auto operator<=>(const UnfinishedLexeme&) const = default;
};

class LexemeEnds {
 public:
  struct End {
    int32_t label;
    bool ignored;
    int64_t tokens;     // the tokens that finish the lexeme
    int32_t competing;  // the competing terminals that are then pending
  };
  struct Line {
    std::string text;  // what is written before the spaces
    int32_t width;     // the width of the line after `text`
  };
  LexemeEnds(Lexemes& lexemes, CompetingTerminals& competing, SafeWitnesses& sure, const TokenVocabulary& vocabulary)
      : lexemes_(lexemes), competing_(competing), sure_(sure), vocabulary_(vocabulary) {}
  const std::vector<End>& ends(UnfinishedLexeme unfinished);
  // Whether `ends` has all labels that the lexeme may get.
  bool complete(UnfinishedLexeme unfinished) { return ends(unfinished), at(unfinished).complete; }
  // All ends except lines, without their tokens; null if the search has not seen all.
  const std::vector<End>* all(UnfinishedLexeme unfinished) {
    return ends(unfinished), at(unfinished).has_all ? &at(unfinished).all : nullptr;
  }
  // What must be written after an end before a text can follow.
  Demand demand(const End& end);
  int64_t least(UnfinishedLexeme unfinished);  // the fewest tokens after which any text can follow
  // The ways to become a line, if newlines are sure; and the tokens that a line of this width takes, or kNever.
  const std::vector<Line>& lines(UnfinishedLexeme unfinished) { return ends(unfinished), at(unfinished).lines; }
  int64_t line_tokens(UnfinishedLexeme unfinished, int32_t width);
  // A lower bound on the width of the line; kNever if the lexeme cannot become one.
  int64_t least_width(UnfinishedLexeme unfinished) { return ends(unfinished), at(unfinished).least_width; }
  SafeWitnesses& sure() { return sure_; }

 private:
  struct Ends {
    bool searched = false, complete = false, has_all = false;
    int64_t least_width = kNever;
    std::vector<End> list, all;
    std::vector<Line> lines;
    std::unordered_map<int32_t, int64_t> line_tokens;  // by width
  };
  // A state that a search has reached.
  struct Node {
    UnfinishedLexeme unfinished;
    int32_t before;
    uint8_t byte;
  };
  Ends& at(UnfinishedLexeme unfinished) { return ends_[pair_key(unfinished.lexeme, unfinished.competing)]; }
  static void add(std::vector<End>& ends, const End& end);
  bool ends_here(const std::vector<Node>& nodes, int32_t node, int32_t pending);
  bool begins_line(const std::vector<Node>& nodes, int32_t node, int32_t pending);
  Lexemes& lexemes_;
  CompetingTerminals& competing_;
  SafeWitnesses& sure_;
  const TokenVocabulary& vocabulary_;
  std::unordered_map<uint64_t, Ends> ends_;
};

// The distance from a reading to the end: whether the output can be completed, and with how many tokens.
//
// In: readings (parse_paths.hpp). Out: a number of tokens, without the end token; kNever if there is no completion.
//
// With sure texts (safe_witnesses.hpp), the distance is a sum: the tokens that finish the lexeme, the tokens of a
// separator if one may be needed, and the weight of the lightest sequence of terminals that completes the parse.
// Without sure texts, a best-first search finds a completion. The weights of terminal sequences guide it.
//
// The distance is an upper bound on the shortest completion, and it is kept consistent: the distance of each reading on
// a known completion is at most the number of tokens of the rest of this completion. So the first token of a completion
// lowers the distance, and the mask for a budget of at least the distance is never empty. Completions are therefore
// carried over when states are renewed.
//
// Cost: with sure texts, a look-up for each terminal that a lexeme may become. A search that visits more than
// kMaxReadings readings fails with an error, since it has no answer.
class LexedRests {
 public:
  // `costs`: with the weights of sure texts only. `guesses`: with a guess for each other terminal.
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
  // The distance after a token that stays in the lexeme, which may also have ended.
  int64_t distance(int32_t place, UnfinishedLexeme unfinished);
  // Whether every reading at the place has a completion, provided that its lexeme can end (as something other than a
  // line) and so can the terminals that compete with earlier lexemes.
  bool all_sure(int32_t place) {
    return ends_.sure().all() && (!places_.indentation().given || (sure_.always_ends(place) && rest(place) < kNever));
  }
  // An upper bound on the tokens that complete the parse when a lexeme has ended.
  int64_t rest(int32_t place, LastRead last = kWord) { return ends_.sure().any() ? sure_.of(place, last) : kNever; }
  // Carries over the completion of `other` on which this reading lies, and those that continue it. `move` translates a
  // reading's place. `done`: the completions that were carried over before.
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
  // The readings on the way to the end of an output, or to a reading of another completion; and the distance of each.
  struct Completion {
    std::vector<Reading> readings;
    std::vector<int64_t> tokens;
  };
  struct Found {
    int64_t tokens;
    int32_t completion;  // a completion with this number; -1: none
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
  std::map<Reading, Found> known_;                    // the results of searches
  std::vector<Completion> completions_;
  size_t memory_ = 0;           // of completions
  std::vector<int8_t> viable_;  // by state; 0: not known
};

}  // namespace guided
