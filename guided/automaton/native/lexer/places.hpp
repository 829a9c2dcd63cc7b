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
// one is followed by an indentation; a narrower one by dedentations, down to its width (guided/ir/lexer.py). Where only
// an indentation could come, but none does, the place is dead.
//
// Cost: without indentation places are the parser's states, and nothing is stored.
#pragma once

#include "base/pair_map.hpp"
#include "lexer/terminal_parser.hpp"

namespace guided {

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
