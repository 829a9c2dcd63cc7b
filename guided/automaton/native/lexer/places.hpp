// The parser of a grammar with a lexer: which terminals can be taken.
//
// The rules are a compiled grammar over terminals, each of which is one of its control tokens: its states, its stack and
// its left recursion are those of the core (run/arena.hpp).
#pragma once

#include <map>

#include "base/pair_map.hpp"
#include "lexer/lexemes.hpp"

namespace guided {

// The terminals that are tried where the parser could take just these marks, besides those that it can take. Marks are
// control tokens of the rules with numbers past those of the terminals; no text has one. Where Lark's table has resolved a
// conflict, an exact parser may stand in several of its states at once. Its marks are then those of all of them, and the
// largest sets that are among these tell what is tried.
struct LexerContexts {
  std::unordered_map<std::vector<int32_t>, std::vector<int32_t>, IntsHash> by_marks;
  bool all = false;                                                     // all terminals are tried everywhere
  std::vector<int32_t> tried(const std::vector<int32_t>& marks) const;  // sorted
};

class TerminalParser {
 public:
  // `control`: by terminal, the control token that it is in the text, or kNoTerminal.
  TerminalParser(std::shared_ptr<const Grammar> rules, const TokenVocabulary& terminals, CallLimits limits,
                 const std::vector<int32_t>& control, const LexerContexts& contexts, Lexemes& lexemes);
  int32_t initial() const { return work_.arena.initial(); }
  bool accepting(int32_t state) const { return work_.arena.config(state).accepting; }
  const std::vector<int32_t>& taken(int32_t state) { return of(state).taken; }
  int32_t start(int32_t state, bool in_brackets = false);  // of a lexeme that begins there
  int32_t after(int32_t state, int32_t symbol);            // or kDead
  int32_t top(int32_t state);                              // of its stack; see run/top_of_stack.cpp
  bool leaves_top(int32_t state) const { return work_.arena.leaves_top(state); }
  void open_rules(int32_t state, std::vector<std::string>& out) const { work_.open_rules(state, out); }
  Arena& arena() { return work_.arena; }

 private:
  struct State {
    std::vector<int32_t> taken, marks;
    int32_t start[2] = {kUnknown, kUnknown};  // outside of brackets, and between them
    int32_t top = kUnknown;
    std::vector<int32_t> after;  // by symbol; kUnknown
  };
  State& of(int32_t state);
  const std::vector<int32_t>& tried_at(const std::vector<int32_t>& marks);

  Workspace work_;
  const std::vector<int32_t>& control_;
  const LexerContexts& contexts_;
  std::vector<int32_t> all_;
  std::map<std::vector<int32_t>, std::vector<int32_t>> tried_at_;  // by marks
  Lexemes& lexemes_;
  std::vector<std::unique_ptr<State>> states_;
};

// Places: where a lexeme begins.
//
// A place is a state of the parser. With indentation it is that, the widths of the lines around it, innermost first, and
// the number of open brackets. Widths are linked lists, each kept once, so that places that share blocks share them:
//
//     if a:                  lines:  8 -> 4 -> 0
//         if b:
//             f(x            brackets: 1
//
// In: a place and the label of a lexeme (lexemes.hpp). Out: the place after it. A line that is wider than the innermost
// one is followed by an indentation; a narrower one by dedentations, down to its width (guided/ir/indentation.py). Where only
// an indentation could come, but none does, the place is dead.
//
// Cost: without indentation places are the parser's states, and nothing is stored.
class Places {
 public:
  Places(TerminalParser& parser, Lexemes& lexemes);
  int32_t initial() const { return initial_; }
  int32_t parser(int32_t place) const { return indentation_.given ? places_[place].parser : place; }
  int32_t lines(int32_t place) const { return indentation_.given ? places_[place].lines : 0; }
  bool in_brackets(int32_t place) const { return indentation_.given && places_[place].brackets > 0; }
  bool accepting(int32_t place);  // whether the text may end: a dedentation for each block that is open
  const std::vector<int32_t>& taken(int32_t place) { return parser_.taken(parser(place)); }
  int32_t start(int32_t place) { return parser_.start(parser(place), in_brackets(place)); }
  // Or kDead.
  int32_t after(int32_t place, int32_t label) {
    return indentation_.given ? after_label(place, label) : parser_.after(place, label);
  }
  // The place with the same lines at the top of the parser's stack, whose steps are those of the place until it is left
  // (run/top_of_stack.cpp). Steps of lines are not asked for there.
  int32_t top(int32_t place);
  bool leaves_top(int32_t place) const { return parser_.leaves_top(parser(place)); }
  // Calls visit(width) for widths that a next line may have: those of the lines around, and a wider one, `least` if
  // it is wider.
  template <class Visit>
  void each_width(int32_t place, int32_t least, Visit&& visit) const {
    const int32_t innermost = lines(place);
    for (int32_t at = innermost; at >= 0; at = lines_[at].around) visit(lines_[at].width);
    visit(std::max(least, lines_[innermost].width + 1));
  }
  // The lines around: of no block, one block, ...
  int32_t around(int32_t lines) const { return lines_[lines].around; }
  int32_t width(int32_t lines) const { return lines_[lines].width; }
  int32_t levels(int32_t lines) const { return lines_[lines].levels; }
  const Indentation& indentation() const { return indentation_; }
  void open_rules(int32_t place, std::vector<std::string>& out) const { parser_.open_rules(parser(place), out); }
  // The place of `other` with this number, here.
  int32_t import(Places& other, int32_t place, Arena::Carried& carried);
  size_t memory() const { return places_.size() * 96 + lines_.size() * 64; }

 private:
  struct Place {
    int32_t parser, lines, brackets;
    auto operator<=>(const Place&) const = default;
  };
  struct Lines {
    int32_t around, width, levels;
  };
  int32_t after_label(int32_t place, int32_t label);
  int32_t after_line(int32_t place, int32_t width);
  int32_t intern(Place place);
  int32_t inside(int32_t lines, int32_t width);

  TerminalParser& parser_;
  const Indentation& indentation_;
  int32_t initial_;
  std::vector<Place> places_;
  std::vector<Lines> lines_;
  std::vector<int8_t> accepting_;  // by place; -1: not known
  struct Hash {
    size_t operator()(const Place& place) const {
      return static_cast<size_t>(combine(combine(0, pair_key(place.parser, place.lines)), place.brackets));
    }
  };
  std::unordered_map<Place, int32_t, Hash> ids_;
  std::unordered_map<uint64_t, int32_t> lines_ids_, after_lines_;
};

}  // namespace guided
