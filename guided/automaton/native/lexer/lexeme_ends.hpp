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

#include "lexer/safe_witnesses.hpp"

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

}  // namespace guided
