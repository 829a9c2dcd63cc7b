#include "lexer/places.hpp"

#include <algorithm>
#include <iterator>

namespace guided {

std::vector<int32_t> LexerContexts::tried(const std::vector<int32_t>& marks) const {
  if (const auto known = by_marks.find(marks); known != by_marks.end()) return known->second;
  std::vector<const std::vector<int32_t>*> parts;
  for (const auto& [part, _] : by_marks)
    if (std::ranges::includes(marks, part)) parts.push_back(&part);
  std::vector<int32_t> out;
  for (const auto* part : parts) {
    const bool is_largest = std::ranges::none_of(
        parts, [&](const auto* other) { return other != part && std::ranges::includes(*other, *part); });
    if (is_largest) out.insert(out.end(), by_marks.at(*part).begin(), by_marks.at(*part).end());
  }
  sort_unique(out);
  return out;
}

TerminalParser::TerminalParser(std::shared_ptr<const Grammar> rules, const TokenVocabulary& terminals,
                               CallLimits limits, const std::vector<int32_t>& control, const LexerContexts& contexts,
                               Lexemes& lexemes)
    : work_(std::move(rules), terminals, limits), control_(control), contexts_(contexts), lexemes_(lexemes) {
  if (!work_.arena.grammar().effects.empty())
    throw std::logic_error("the rules of a grammar with a lexer do not count");
  for (int32_t t = 0; contexts.all && t < static_cast<int32_t>(control.size()); ++t)
    if (control[t] == kNoTerminal) all_.push_back(t);
}

TerminalParser::State& TerminalParser::of(int32_t state) {
  if (state >= static_cast<int32_t>(states_.size())) states_.resize(state + 1);
  std::unique_ptr<State>& known = states_[state];
  if (known) return *known;
  known = std::make_unique<State>();
  const Indentation& indentation = lexemes_.indentation();
  for (int32_t symbol : work_.controls(state)) {
    if (symbol < static_cast<int32_t>(control_.size()))
      known->accepted_terminals.push_back(symbol);
    else if (symbol != indentation.indent && symbol != indentation.dedent)
      known->marks.push_back(symbol);
  }
  return *known;
}

const std::vector<int32_t>& TerminalParser::tried_at(const std::vector<int32_t>& marks) {
  const auto [at, added] = tried_at_.try_emplace(marks);
  if (added) at->second = contexts_.tried(marks);
  return at->second;
}

int32_t TerminalParser::start(int32_t state, bool in_brackets) {
  State& known = of(state);
  int32_t& start = known.start[in_brackets];
  if (start != kUnknown) return start;
  const Indentation& indentation = lexemes_.indentation();
  std::vector<int32_t> written, wanted;
  for (int32_t terminal : known.accepted_terminals)
    if (control_[terminal] == kNoTerminal) written.push_back(terminal);
  std::vector<int32_t> tried = contexts_.all ? all_ : written;
  if (!known.marks.empty()) {  // terminals that the parser does not accept: see `LexerContexts`
    std::vector<int32_t> both;
    std::ranges::set_union(tried, tried_at(known.marks), std::back_inserter(both));
    tried = std::move(both);
  }
  if (!indentation.given) return start = lexemes_.start(tried, written, false);
  for (int32_t terminal : written)
    if (in_brackets || !indentation.closes[terminal]) wanted.push_back(terminal);
  for (std::vector<int32_t>* all : {&tried, &wanted}) {  // a newline is always tried; between brackets it is dropped
    if (indentation.newline == kNoTerminal || (all == &wanted && !in_brackets)) continue;
    const auto at = std::ranges::lower_bound(*all, indentation.newline);
    if (at == all->end() || *at != indentation.newline) all->insert(at, indentation.newline);
  }
  return start = lexemes_.start(tried, wanted, !in_brackets);
}

int32_t TerminalParser::top(int32_t state) {
  int32_t& top = of(state).top;
  if (top == kUnknown) top = work_.arena.top(state);
  return top;
}

int32_t TerminalParser::after(int32_t state, int32_t symbol) {
  std::vector<int32_t>& known = of(state).after;
  if (symbol >= static_cast<int32_t>(known.size())) known.resize(symbol + 1, kUnknown);
  if (known[symbol] == kUnknown) known[symbol] = work_.arena.step_token(state, symbol);
  return known[symbol];
}

Places::Places(TerminalParser& parser, Lexemes& lexemes)
    : parser_(parser), indentation_(lexemes.indentation()), initial_(parser.initial()) {
  lines_.push_back({.around = -1, .width = 0, .levels = 1});
  if (indentation_.given) initial_ = intern({.parser = parser.initial(), .lines = 0, .brackets = 0});
}

int32_t Places::intern(Place place) {
  auto [at, added] = ids_.try_emplace(place, static_cast<int32_t>(places_.size()));
  if (added) {
    places_.push_back(place);
    accepting_.push_back(-1);
  }
  return at->second;
}

int32_t Places::inside(int32_t lines, int32_t width) {
  auto [at, added] = lines_ids_.try_emplace(pair_key(lines, width), static_cast<int32_t>(lines_.size()));
  if (added) lines_.push_back({.around = lines, .width = width, .levels = lines_[lines].levels + 1});
  return at->second;
}

int32_t Places::top(int32_t place) {
  if (!indentation_.given) return parser_.top(place);
  Place at = places_[place];
  at.parser = parser_.top(at.parser);
  return intern(at);
}

bool Places::accepting(int32_t place) {
  if (!indentation_.given) return parser_.accepting(place);
  if (accepting_[place] < 0) {
    const Place at = places_[place];
    int32_t parser = at.parser;
    for (int32_t left = lines_[at.lines].levels; left > 1 && parser != kDead; --left)
      parser = parser_.after(parser, indentation_.dedent);
    accepting_[place] = parser != kDead && parser_.accepting(parser);
  }
  return accepting_[place] > 0;
}

int32_t Places::after_label(int32_t place, int32_t label) {
  const bool is_line = indentation_.is_line(label);
  const int32_t terminal = is_line ? indentation_.newline : label;
  if (is_line) place = after_line(place, indentation_.width(label));
  if (place == kDead) return kDead;
  Place at = places_[place];
  if (!is_line && terminal == indentation_.newline) {
    if (at.brackets == 0) return kDead;
  } else if (!is_line) {
    at.parser = parser_.after(at.parser, terminal);
    if (at.parser == kDead) return kDead;
  }
  at.brackets += indentation_.opens[terminal] ? 1 : indentation_.closes[terminal] ? -1 : 0;
  return at.brackets < 0 ? static_cast<int32_t>(kDead) : intern(at);
}

int32_t Places::after_line(int32_t place, int32_t width) {
  const Place at = places_[place];
  int32_t lines = at.lines;
  const bool is_wider = width > lines_[lines].width;
  if (is_wider && (width > indentation_.most_width || lines_[lines].levels >= indentation_.most_levels)) return kDead;
  while (lines_[lines].width > width) lines = lines_[lines].around;
  if (!is_wider && lines_[lines].width != width) return kDead;
  int32_t parser = parser_.after(at.parser, indentation_.newline);
  if (parser == kDead) return kDead;
  auto [known, added] = after_lines_.try_emplace(pair_key(place, width), static_cast<int32_t>(kDead));
  if (!added) return known->second;
  if (is_wider) parser = parser_.after(parser, indentation_.indent);
  for (int32_t left = at.lines; left != lines && parser != kDead; left = lines_[left].around)
    parser = parser_.after(parser, indentation_.dedent);
  if (parser == kDead) return kDead;
  if (is_wider) lines = inside(lines, width);
  const int32_t after = intern({.parser = parser, .lines = lines, .brackets = 0});
  if (parser_.accepted_terminals(parser).empty() && !accepting(after)) return kDead;
  return known->second = after;
}

int32_t Places::import(Places& other, int32_t place, Arena::Carried& carried) {
  const int32_t parser = parser_.arena().import(other.parser_.arena(), other.parser(place), carried);
  if (!indentation_.given) return parser;
  std::vector<int32_t> widths;
  for (int32_t at = other.lines(place); other.lines_[at].around >= 0; at = other.lines_[at].around)
    widths.push_back(other.lines_[at].width);
  int32_t lines = 0;
  for (; !widths.empty(); widths.pop_back()) lines = inside(lines, widths.back());
  return intern({.parser = parser, .lines = lines, .brackets = other.places_[place].brackets});
}

}  // namespace guided
