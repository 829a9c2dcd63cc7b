#include "lexer/terminal_parser.hpp"

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
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
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
      known->taken.push_back(symbol);
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
  for (int32_t terminal : known.taken)
    if (control_[terminal] == kNoTerminal) written.push_back(terminal);
  std::vector<int32_t> tried = contexts_.all ? all_ : written;
  if (!known.marks.empty()) {  // besides what can be taken: see `LexerContexts`
    std::vector<int32_t> both;
    std::ranges::set_union(tried, tried_at(known.marks), std::back_inserter(both));
    tried = std::move(both);
  }
  if (!indentation.given) return start = lexemes_.start(tried, written, false);
  for (int32_t terminal : written)
    if (in_brackets || !indentation.closes[terminal]) wanted.push_back(terminal);
  for (std::vector<int32_t>* all : {&tried, &wanted}) {  // a newline is always tried, and dropped between brackets
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

}  // namespace guided
