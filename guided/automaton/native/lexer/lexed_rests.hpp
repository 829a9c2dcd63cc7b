// The ways to end a lexeme; independent of the parser.
//
// In: a lexeme under way, and the terminals that compete with those before it. Out: the labels that it may get, the tokens
// that end it so, and the competing terminals that are then pending. Texts that end a lexeme are found breadth first, by
// bytes, once for each state: for each label the first ones, until no more than a token is needed before any text can
// follow.
//
// A newline may become a line of any width that is not less than what it has, or, with another line feed, of any width at
// all. So for lines only the text is kept that leads to a line feed, or none, and spaces follow (safe_witnesses.hpp).
//
// Cost: a search visits at most kMostBegun states, for each of which later ones find their ends known.
#pragma once

#include <unordered_set>

#include "lexer/parse_paths.hpp"
#include "lexer/safe_witnesses.hpp"
#include "lexer/sequence_costs.hpp"

namespace guided {

// A lexeme under way, and the terminals that compete with those before it.
struct Begun {
  int32_t lexeme, competing;
  auto operator<=>(const Begun&) const = default;
};

// The ways to end a lexeme; independent of the parser.
class LexemeEnds {
 public:
  struct End {
    int32_t label;
    bool ignored;
    int64_t tokens;     // that end the lexeme
    int32_t competing;  // a set of competing terminals that are then pending
  };
  struct Line {
    std::string text;  // up to where spaces follow
    int32_t width;     // that the line has there
  };
  LexemeEnds(Lexemes& lexemes, CompetingTerminals& competing, SafeWitnesses& sure, const TokenVocabulary& vocabulary)
      : lexemes_(lexemes), competing_(competing), sure_(sure), vocabulary_(vocabulary) {}
  const std::vector<End>& ends(Begun begun);
  // Whether the labels of all ends are among them.
  bool complete(Begun begun) { return ends(begun), at(begun).complete; }
  // All ways to end but those of lines, tokens left out; null if the search has not seen all.
  const std::vector<End>* all(Begun begun) { return ends(begun), at(begun).has_all ? &at(begun).all : nullptr; }
  // What must be written behind an end before a text can follow.
  Demand demand(const End& end);
  int64_t least(Begun begun);  // of the ends' tokens, and those before any text can follow
  // The ways to become a line, if newlines are sure, and the tokens that this takes for a width, or kNever.
  const std::vector<Line>& lines(Begun begun) { return ends(begun), at(begun).lines; }
  int64_t line_tokens(Begun begun, int32_t width);
  // No line is narrower; kNever if there is none.
  int64_t least_width(Begun begun) { return ends(begun), at(begun).least_width; }
  SafeWitnesses& sure() { return sure_; }

 private:
  struct Ends {
    bool searched = false, complete = false, has_all = false;
    int64_t least_width = kNever;
    std::vector<End> list, all;
    std::vector<Line> lines;
    std::unordered_map<int32_t, int64_t> line_tokens;  // by width
  };
  // A state that a search has come to.
  struct Node {
    Begun begun;
    int32_t before;
    uint8_t byte;
  };
  Ends& at(Begun begun) { return ends_[pair_key(begun.lexeme, begun.competing)]; }
  static void add(std::vector<End>& ends, const End& end);
  bool ends_here(const std::vector<Node>& nodes, int32_t node, int32_t pending);
  bool begins_line(const std::vector<Node>& nodes, int32_t node, int32_t pending);
  Lexemes& lexemes_;
  CompetingTerminals& competing_;
  SafeWitnesses& sure_;
  const TokenVocabulary& vocabulary_;
  std::unordered_map<uint64_t, Ends> ends_;
};

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
