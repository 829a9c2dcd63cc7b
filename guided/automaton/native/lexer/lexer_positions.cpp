#include "lexer/lexer_positions.hpp"

#include <algorithm>
#include <iterator>

namespace guided {

std::vector<int32_t> LexerContexts::find_tried(const std::vector<int32_t>& marks) const {
  if (const auto it = by_marks.find(marks); it != by_marks.end()) return it->second;
  std::vector<const std::vector<int32_t>*> subsets;
  for (const auto& [key, _] : by_marks)
    if (std::ranges::includes(marks, key)) subsets.push_back(&key);
  std::vector<int32_t> out;
  for (const auto* subset : subsets) {
    const bool is_largest = std::ranges::none_of(
        subsets, [&](const auto* other) { return other != subset && std::ranges::includes(*other, *subset); });
    if (is_largest) out.insert(out.end(), by_marks.at(*subset).begin(), by_marks.at(*subset).end());
  }
  sort_unique(out);
  return out;
}

TerminalParser::TerminalParser(std::shared_ptr<const Grammar> rules, const TokenVocabulary& terminals,
                               CallLimits limits, const std::vector<int32_t>& control_tokens,
                               const LexerContexts& contexts, Lexemes& lexemes)
    : work_(std::move(rules), terminals, limits),
      control_tokens_(control_tokens),
      contexts_(contexts),
      lexemes_(lexemes) {
  if (!work_.arena.grammar().effects.empty())
    throw Unsupported("counts, permutations or values that must differ in the rules of a grammar with a lexer");
  for (int32_t t = 0; contexts.try_all && t < static_cast<int32_t>(control_tokens.size()); ++t)
    if (control_tokens[t] == kNoTerminal) all_terminals_.push_back(t);
}

TerminalParser::State& TerminalParser::data_of(int32_t state) {
  if (state >= static_cast<int32_t>(states_.size())) states_.resize(state + 1);
  std::unique_ptr<State>& data = states_[state];
  if (data) return *data;
  data = std::make_unique<State>();
  const Indentation& indentation = lexemes_.indentation();
  for (int32_t symbol : work_.controls(state)) {
    if (symbol < static_cast<int32_t>(control_tokens_.size()))
      data->accepted_terminals.push_back(symbol);
    else if (symbol != indentation.indent && symbol != indentation.dedent)
      data->marks.push_back(symbol);
  }
  return *data;
}

const std::vector<int32_t>& TerminalParser::tried_with_marks(const std::vector<int32_t>& marks) {
  const auto [it, added] = tried_by_marks_.try_emplace(marks);
  if (added) it->second = contexts_.find_tried(marks);
  return it->second;
}

int32_t TerminalParser::start(int32_t state, bool in_brackets) {
  State& data = data_of(state);
  int32_t& start = data.start[in_brackets];
  if (start != kUnknown) return start;
  const Indentation& indentation = lexemes_.indentation();
  std::vector<int32_t> patterns, accepted_terminals;
  for (int32_t terminal : data.accepted_terminals)
    if (control_tokens_[terminal] == kNoTerminal) patterns.push_back(terminal);
  std::vector<int32_t> tried_terminals = contexts_.try_all ? all_terminals_ : patterns;
  if (!data.marks.empty()) {  // adds terminals that the parser does not accept; see `LexerContexts`
    std::vector<int32_t> all_tried;
    std::ranges::set_union(tried_terminals, tried_with_marks(data.marks), std::back_inserter(all_tried));
    tried_terminals = std::move(all_tried);
  }
  if (!indentation.is_given) return start = lexemes_.start(tried_terminals, patterns, false);
  for (int32_t terminal : patterns)
    if (in_brackets || !indentation.closes[terminal]) accepted_terminals.push_back(terminal);
  for (std::vector<int32_t>* list :
       {&tried_terminals, &accepted_terminals}) {  // newlines are always tried; between brackets, they are dropped
    if (indentation.newline == kNoTerminal || (list == &accepted_terminals && !in_brackets)) continue;
    const auto it = std::ranges::lower_bound(*list, indentation.newline);
    if (it == list->end() || *it != indentation.newline) list->insert(it, indentation.newline);
  }
  return start = lexemes_.start(tried_terminals, accepted_terminals, !in_brackets);
}

int32_t TerminalParser::top(int32_t state) {
  int32_t& top = data_of(state).top;
  if (top == kUnknown) top = work_.arena.top(state);
  return top;
}

int32_t TerminalParser::advance(int32_t state, int32_t symbol) {
  std::vector<int32_t>& next = data_of(state).next;
  if (symbol >= static_cast<int32_t>(next.size())) next.resize(symbol + 1, kUnknown);
  if (next[symbol] == kUnknown) next[symbol] = work_.arena.step_token(state, symbol);
  return next[symbol];
}

LexerPositions::LexerPositions(TerminalParser& parser, Lexemes& lexemes)
    : parser_(parser), indentation_(lexemes.indentation()), initial_(parser.initial()) {
  lines_.push_back({.outer = -1, .width = 0, .levels = 1});
  if (indentation_.is_given) initial_ = intern({.parser = parser.initial(), .lines = kOutermostLine, .brackets = 0});
}

int32_t LexerPositions::intern(LexerPosition position) {
  auto [it, added] = ids_.try_emplace(position, static_cast<int32_t>(positions_.size()));
  if (added) {
    positions_.push_back(position);
    accepting_.push_back(-1);
  }
  return it->second;
}

int32_t LexerPositions::intern_line(int32_t outer, int32_t width) {
  auto [it, added] = line_ids_.try_emplace(pair_key(outer, width), static_cast<int32_t>(lines_.size()));
  if (added) lines_.push_back({.outer = outer, .width = width, .levels = lines_[outer].levels + 1});
  return it->second;
}

int32_t LexerPositions::top(int32_t position, bool keeps_lines) {
  if (!indentation_.is_given) return parser_.top(position);
  LexerPosition top = positions_[position];
  top.parser = parser_.top(top.parser);
  if (!keeps_lines) top.lines = kOutermostLine;
  return intern(top);
}

bool LexerPositions::accepting(int32_t position) {
  if (!indentation_.is_given) return parser_.accepting(position);
  if (accepting_[position] < 0) {
    int32_t parser = positions_[position].parser;
    for (int32_t levels = lines_[positions_[position].lines].levels; levels > 1 && parser != kDead; --levels)
      parser = parser_.advance(parser, indentation_.dedent);
    accepting_[position] = parser != kDead && parser_.accepting(parser);
  }
  return accepting_[position] > 0;
}

int32_t LexerPositions::advance_label(int32_t position, int32_t label) {
  const bool is_line = indentation_.is_line(label);
  const int32_t terminal = is_line ? indentation_.newline : label;
  if (is_line) position = advance_line(position, indentation_.width(label));
  if (position == kDead) return kDead;
  LexerPosition next = positions_[position];
  if (!is_line && terminal == indentation_.newline) {
    if (next.brackets == 0) return kDead;
  } else if (!is_line) {
    next.parser = parser_.advance(next.parser, terminal);
    if (next.parser == kDead) return kDead;
  }
  next.brackets += indentation_.opens[terminal] ? 1 : indentation_.closes[terminal] ? -1 : 0;
  return next.brackets < 0 ? static_cast<int32_t>(kDead) : intern(next);
}

int32_t LexerPositions::advance_line(int32_t position, int32_t width) {
  const LexerPosition from = positions_[position];
  int32_t lines = from.lines;
  const bool is_wider = width > lines_[lines].width;
  if (is_wider && (width > indentation_.most_width || lines_[lines].levels >= indentation_.most_levels)) return kDead;
  while (lines_[lines].width > width) lines = lines_[lines].outer;
  if (!is_wider && lines_[lines].width != width) return kDead;
  int32_t parser = parser_.advance(from.parser, indentation_.newline);
  if (parser == kDead) return kDead;
  auto [it, added] = line_steps_.try_emplace(pair_key(position, width), static_cast<int32_t>(kDead));
  if (!added) return it->second;
  if (is_wider) parser = parser_.advance(parser, indentation_.indent);
  for (int32_t closed_line = from.lines; closed_line != lines && parser != kDead;
       closed_line = lines_[closed_line].outer)
    parser = parser_.advance(parser, indentation_.dedent);
  if (parser == kDead) return kDead;
  if (is_wider) lines = intern_line(lines, width);
  const int32_t next_position = intern({.parser = parser, .lines = lines, .brackets = 0});
  if (parser_.accepted_terminals(parser).empty() && !accepting(next_position)) return kDead;
  return it->second = next_position;
}

int32_t LexerPositions::import(LexerPositions& other, int32_t position, Arena::Carried& carried) {
  const int32_t parser = parser_.arena().import(other.parser_.arena(), other.parser(position), carried);
  if (!indentation_.is_given) return parser;
  std::vector<int32_t> widths;
  for (int32_t line = other.lines(position); other.lines_[line].outer >= 0; line = other.lines_[line].outer)
    widths.push_back(other.lines_[line].width);
  int32_t lines = 0;
  for (; !widths.empty(); widths.pop_back()) lines = intern_line(lines, widths.back());
  return intern({.parser = parser, .lines = lines, .brackets = other.positions_[position].brackets});
}

}  // namespace guided
