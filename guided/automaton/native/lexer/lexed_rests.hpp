// The possible ends of a lexeme (independent of the parser), and the distance from a reading to the end of the output.
//
// In: an unfinished lexeme, and the terminals that compete with the lexemes before it. Out: the labels that the lexeme
// may get, and for each label the tokens that finish the lexeme and the competitors that are then pending. From each
// state, a breadth-first search over bytes finds the texts that finish a lexeme. For each label, it records texts until
// one after which at most one more token is needed before any text can follow.
//
// The search reads bytes in ascending order. So it finds the first of the shortest texts, in alphabetical order, and
// the rest of such a text is what a search from a later state finds. Completions also contain sure texts and separators
// (sure_texts.hpp), so a state records their rests, too. The results depend on the state alone, and a token that begins
// a recorded text leads to a state that needs one token less.
//
// An unfinished newline may become a line of its current width or more. With another line feed, it may become a line of
// any width. So only the text before the spaces is stored for a line: empty, or up to a line feed (sure_texts.hpp).
//
// Most lexemes can end so that any text can follow. `free_end` stops at the first end of this kind. If all terminals
// have sure texts, one such end proves that there is a completion.
//
// Cost: a search visits at most kMaxLexerStates states.
#pragma once

#include <unordered_set>

#include "lexer/blocking_competitors.hpp"
#include "lexer/readings.hpp"
#include "lexer/sequence_costs.hpp"
#include "lexer/sure_texts.hpp"

namespace guided {

// An unfinished lexeme, and the terminals that compete with the lexemes before it.
struct UnfinishedLexeme {
  int32_t lexeme, competitors;
  auto operator<=>(const UnfinishedLexeme&) const = default;
};

class LexemeEnds {
 public:
  struct End {
    int32_t label;
    bool is_ignored;
    int64_t tokens;       // the number of tokens that finish the lexeme
    int32_t competitors;  // the competitors that are pending after the lexeme
  };
  struct Line {
    std::string text;  // written before the spaces
    int32_t width;     // the width of the line after `text`
  };
  // An end after which any text can follow.
  struct FreeEnd {
    int32_t label = kNoTerminal;
    bool is_ignored = false;
    Demand demand = {};
    int64_t tokens = kNever;  // of the text that finishes the lexeme, and of `demand`; kNever: no such end was found
    bool is_found() const { return tokens < kNever; }
  };
  LexemeEnds(Lexemes& lexemes, Competitors& competitors, SureTexts& sure_texts, const TokenVocabulary& vocabulary)
      : lexemes_(lexemes), competitors_(competitors), sure_texts_(sure_texts), vocabulary_(vocabulary) {}
  const std::vector<End>& ends(UnfinishedLexeme unfinished);
  // May miss an end that is far away.
  const FreeEnd& free_end(UnfinishedLexeme unfinished);
  // Whether `ends` has all labels that the lexeme may get.
  bool is_complete(UnfinishedLexeme unfinished) { return ends(unfinished), entry(unfinished).is_complete; }
  // All ends except lines, without their tokens; null if the search has not found all of them.
  const std::vector<End>* all_ends(UnfinishedLexeme unfinished) {
    return ends(unfinished), entry(unfinished).has_all ? &entry(unfinished).all : nullptr;
  }
  // The demand of the competitors that are pending after an end.
  Demand demand(const End& end);
  // The texts that make the lexeme a line, if newlines are sure.
  const std::vector<Line>& lines(UnfinishedLexeme unfinished) { return ends(unfinished), entry(unfinished).lines; }
  // The tokens that make the lexeme a line of this width, or kNever.
  int64_t line_tokens(UnfinishedLexeme unfinished, int32_t width);
  // A lower bound on the width of the line; kNever if the lexeme cannot become a line.
  int64_t min_width(UnfinishedLexeme unfinished) { return ends(unfinished), entry(unfinished).min_width; }
  SureTexts& sure_texts() { return sure_texts_; }
  size_t memory() const { return memory_; }

 private:
  void add_memory(size_t bytes);
  struct Ends {
    bool is_searched = false, is_complete = false, has_all = false;
    int64_t min_width = kNever;
    std::vector<End> list, all;
    std::vector<Line> lines;
    std::unordered_map<int32_t, int64_t> line_tokens;  // by width
  };
  // A state that a search has reached.
  struct Node {
    UnfinishedLexeme unfinished;
    int32_t parent;
    uint8_t byte;
  };
  Ends& entry(UnfinishedLexeme unfinished) { return ends_[pair_key(unfinished.lexeme, unfinished.competitors)]; }
  static void add(std::vector<End>& ends, const End& end);
  void record_free_end(const std::vector<Node>& nodes, int32_t node, FreeEnd end);
  bool record_end(const std::vector<Node>& nodes, int32_t node, int32_t pending);
  bool record_line(const std::vector<Node>& nodes, int32_t node, int32_t pending);
  void record_known_texts(UnfinishedLexeme from);
  void record_text(UnfinishedLexeme from, const std::string& text);
  Lexemes& lexemes_;
  Competitors& competitors_;
  SureTexts& sure_texts_;
  const TokenVocabulary& vocabulary_;
  std::unordered_map<uint64_t, Ends> ends_;
  std::unordered_map<uint64_t, FreeEnd> free_ends_;
  size_t memory_ = 0;
};

// The distance from a reading to the end: decides whether the output can be completed, and with how many tokens.
//
// In: readings (readings.hpp). Out: a number of tokens, without the end token; kNever if there is no completion.
//
// With sure texts (sure_texts.hpp), the distance is a sum: the tokens that finish the lexeme, the tokens of a separator
// if one may be needed, and the weight of the lightest sequence of terminals that completes the parse. Without sure
// texts, a best-first search finds a completion, guided by the weights of terminal sequences. Readings that surely have
// no completion are not searched (blocking_competitors.hpp).
//
// The distance is an upper bound on the length of the shortest completion. It is consistent: the distance of each
// reading on a known completion is at most the number of tokens of the rest of this completion. So the first token of a
// completion lowers the distance, and the mask for a budget of at least the distance is never empty. When states are
// renewed, completions are carried over, because a new search could find a longer completion. A search also stops at
// completions that earlier searches have found, so the distance may depend on earlier outputs.
//
// Cost: with sure texts, a look-up for each terminal that a lexeme may become. A search that visits more than
// kMaxReadings readings fails with an error, because it has no answer.
class LexedRests {
 public:
  // `costs`: with the weights of sure texts only. `guesses`: also with guessed weights for all other terminals.
  LexedRests(Readings& readings, LexerPositions& positions, TerminalParser& parser, LexemeEnds& ends,
             SequenceCosts& costs, SequenceCosts& guesses, BlockingCompetitors& blocking,
             const TokenVocabulary& vocabulary)
      : readings_(readings),
        positions_(positions),
        parser_(parser),
        ends_(ends),
        blocking_(blocking),
        vocabulary_(vocabulary),
        sure_rests_(positions, parser, costs),
        guessed_rests_(positions, parser, guesses) {}
  bool viable(int32_t state);
  int64_t distance(int32_t state);
  int64_t distance(const Reading& reading);
  // The distance after a token that ends within the lexeme. If the lexeme can also end there, the smaller of both
  // distances.
  int64_t distance(int32_t position, UnfinishedLexeme unfinished);
  // Whether every reading at the lexer position has a completion, provided that its lexeme can end (but not as a line),
  // and that a text can end the terminals that compete with earlier lexemes.
  bool all_sure(int32_t position) {
    return ends_.sure_texts().all() &&
           (!positions_.indentation().is_given || (sure_rests_.always_ends(position) && rest(position) < kNever));
  }
  // Whether the enclosing lines limit the depth of the blocks in completions.
  bool depends_on_lines(int32_t position) const { return sure_rests_.depends_on_lines(position); }
  // An upper bound on the tokens that complete the parse after a lexeme has ended.
  int64_t rest(int32_t position, LastRead last = kWord) {
    return ends_.sure_texts().any() ? sure_rests_.weight(position, last) : kNever;
  }
  // Copies the completion of `other` that contains this reading, and the completions that continue it. `move`
  // translates a reading's lexer position. `copied_numbers`: the completions of `other` that earlier calls have copied.
  template <class Move>
  void import(const LexedRests& other, const Reading& reading, Move&& move,
              std::unordered_set<int32_t>& copied_numbers) {
    for (auto it = other.results_.find(reading); it != other.results_.end() && it->second.completion >= 0;) {
      if (!copied_numbers.insert(it->second.completion).second) return;
      Completion new_completion = other.completions_[it->second.completion];
      it = other.results_.find(new_completion.readings.back());
      for (Reading& each : new_completion.readings) each = move(each);
      store(std::move(new_completion));
    }
  }
  size_t memory() const { return memory_ + results_.size() * 96 + boundary_distances_.size() * 48 + viable_.size(); }

 private:
  // The readings on a path to the end of an output or to a reading of another completion, and the distance of each.
  struct Completion {
    std::vector<Reading> readings;
    std::vector<int64_t> tokens;
  };
  struct Result {
    int64_t tokens;
    int32_t completion;  // the number of a completion that contains the reading; -1: none
  };
  bool has_free_end(UnfinishedLexeme unfinished);
  int64_t sure_distance(const Reading& reading);
  int64_t sure_distance_at_boundary(int32_t position, int32_t competitors);
  bool is_surely_dead(const Reading& reading);
  bool is_dead_end(int32_t position, int32_t competitors);
  int64_t search(const Reading& reading);
  void store(Completion&& completion);
  std::vector<int64_t> count_tokens_along(const std::vector<int32_t>& symbols, int64_t rest) const;

  Readings& readings_;
  LexerPositions& positions_;
  TerminalParser& parser_;
  LexemeEnds& ends_;
  BlockingCompetitors& blocking_;
  const TokenVocabulary& vocabulary_;
  TerminalRests sure_rests_, guessed_rests_;
  std::map<SequenceCosts*, TerminalRests> blocked_rests_;     // while competitors last
  std::unordered_map<uint64_t, int64_t> boundary_distances_;  // by lexer position and set of competitors
  std::map<Reading, Result> results_;                         // of searches
  std::vector<Completion> completions_;
  size_t memory_ = 0;           // of completions
  std::vector<int8_t> viable_;  // by state; 1: viable, -1: not viable, 0: unknown
};

}  // namespace guided
