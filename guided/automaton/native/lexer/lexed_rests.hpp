// What is left after a reading: whether an output can still be completed, and within how many tokens.
//
// In: readings (readings.hpp). Out: a number of tokens, the end token not counted; kNever where there is no completion.
//
// With sure texts (sure_texts.hpp) that is what ends the lexeme, a separator if one may be needed, and what is left for the
// parser: the lightest sequence of terminals. The texts that end a lexeme are found breadth first, by bytes, once for each
// state of a lexeme. Without them a completion is searched for: best first, by what is left for the parser.
//
// The number is an upper bound of the least, and it is kept: each reading on a completion that was found has at most
// the number of tokens that spell the rest of that completion. So after its first token the number has fallen by one,
// and a mask under a budget that the number fits into is never empty.
//
// Cost: with sure texts a look-up for each terminal that a lexeme may become. A search visits at most kMostReadings; past
// that it is an error, as nothing is then known.
#pragma once

#include "lexer/readings.hpp"
#include "lexer/sure_texts.hpp"

namespace guided {

// A lexeme under way, and the rivals of those before it.
struct Begun {
  int32_t lexeme, rivals;
  auto operator<=>(const Begun&) const = default;
};

// The ways to end a lexeme; independent of the parser.
class LexemeEnds {
 public:
  struct End {
    int32_t label;
    bool ignored;
    int64_t tokens;  // that end the lexeme
    int32_t rivals;  // that are then pending
  };
  LexemeEnds(Lexemes& lexemes, Rivals& rivals, SureTexts& sure, const TokenVocabulary& vocabulary)
      : lexemes_(lexemes), rivals_(rivals), sure_(sure), vocabulary_(vocabulary) {}
  const std::vector<End>& ends(Begun begun);
  // Whether the labels of all ends are among them.
  bool complete(Begun begun) { return ends(begun), ends_[pair_key(begun.lexeme, begun.rivals)].complete; }
  int64_t least(Begun begun);  // of the ends' tokens, and those before any text can follow
  SureTexts& sure() { return sure_; }

 private:
  struct Ends {
    bool searched = false, complete = false;
    std::vector<End> list;
  };
  void add(Ends& ends, const End& end);
  Lexemes& lexemes_;
  Rivals& rivals_;
  SureTexts& sure_;
  const TokenVocabulary& vocabulary_;
  std::unordered_map<uint64_t, Ends> ends_;
};

class LexedRests {
 public:
  LexedRests(Readings& readings, TerminalParser& parser, LexemeEnds& ends, const TokenVocabulary& vocabulary)
      : readings_(readings),
        parser_(parser),
        ends_(ends),
        vocabulary_(vocabulary),
        sure_(parser, ends.sure().weights()),
        guessed_(parser, ends.sure().guesses()) {}
  bool viable(int32_t state);
  int64_t distance(int32_t state);
  int64_t distance(const Reading& reading);
  // Of a lexeme under way, which may also have ended.
  int64_t distance(int32_t parser, Begun begun);
  // Whether nothing is dead whose lexeme, and the rivals before it, can end.
  bool all_sure() const { return ends_.sure().all(); }
  // An upper bound of what is left for the parser when a lexeme has ended.
  int64_t rest(int32_t parser) { return sure_.of(parser); }

 private:
  int64_t surely(const Reading& reading);
  int64_t charge(int32_t parser, int32_t rivals);
  bool surely_dead(const Reading& reading);
  int64_t search(const Reading& reading);
  void keep(const std::vector<Reading>& path, const std::vector<int32_t>& symbols, int64_t left);

  Readings& readings_;
  TerminalParser& parser_;
  LexemeEnds& ends_;
  const TokenVocabulary& vocabulary_;
  TerminalRests sure_, guessed_;
  std::unordered_map<uint64_t, int64_t> charges_;  // by parser and rivals
  std::map<Reading, int64_t> known_;               // what searches have found
  std::vector<int8_t> viable_;                     // by state; 0: not known
};

}  // namespace guided
