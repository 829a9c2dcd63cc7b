#include "lexer/terminal_parser.hpp"

#include <algorithm>

namespace guided {

TerminalParser::TerminalParser(std::shared_ptr<const Grammar> rules, const TokenVocabulary& terminals, size_t memory,
                               const std::vector<int32_t>& control, const LexerContexts& contexts, Lexemes& lexemes)
    : work_(std::move(rules), terminals, memory), control_(control), contexts_(contexts), lexemes_(lexemes) {
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
  std::vector<int32_t> marks, written;
  for (int32_t symbol : work_.controls(state))
    (symbol < static_cast<int32_t>(control_.size()) ? known->taken : marks).push_back(symbol);
  for (int32_t terminal : known->taken)
    if (control_[terminal] == kNoTerminal) written.push_back(terminal);
  const auto context = contexts_.by_marks.find(marks);
  const bool has_context = !marks.empty() && context != contexts_.by_marks.end();
  known->start = lexemes_.start(contexts_.all ? all_ : has_context ? context->second : written, written);
  return *known;
}

int32_t TerminalParser::after(int32_t state, int32_t terminal) {
  auto& known = of(state).after;
  for (const auto& [by, to] : known)
    if (by == terminal) return to;
  const int32_t to = work_.arena.step_token(state, terminal);
  known.emplace_back(terminal, to);
  return to;
}

int64_t TerminalRests::weigh_position(const Position& p) const {
  const Grammar& g = parser_.arena().grammar();
  int64_t best = p.accept ? 0 : kNever;
  for (int32_t i = p.token_lo; i < p.token_hi; ++i)
    best = std::min(best, weights_[g.tokens[i].token] + costs_[g.tokens[i].to]);
  for (int32_t i = p.call_lo; i < p.call_hi; ++i) {
    const CallEdge& call = g.calls[i];
    best = std::min(best, costs_[g.rules[call.rule].start] + (call.tail ? 0 : costs_[call.after]));
  }
  return std::min(best, kNever);
}

// Costs only fall, and each round settles at least one more position: rounds until nothing changes.
void TerminalRests::weigh() {
  const Grammar& g = parser_.arena().grammar();
  costs_.assign(g.positions.size(), kNever);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t p = costs_.size(); p-- > 0;) {
      const int64_t cost = weigh_position(g.positions[p]);
      if (cost >= costs_[p]) continue;
      costs_[p] = cost;
      changed = true;
    }
  }
}

int64_t TerminalRests::of(int32_t state) {
  if (costs_.empty()) weigh();
  const Arena& arena = parser_.arena();
  // Return configurations nest as deep as the stack: no recursion.
  std::vector<int32_t> todo{state};
  while (!todo.empty()) {
    const int32_t at = todo.back();
    if (rests_.contains(at)) {
      todo.pop_back();
      continue;
    }
    int64_t best = kNever;
    bool waits = false;
    for (const Thread& t : arena.config(at)) {
      if (t.pos == kExit) {
        best = 0;
        continue;
      }
      auto below = rests_.find(t.ret);
      if (below == rests_.end()) {
        todo.push_back(t.ret);
        waits = true;
      } else {
        best = std::min({best, costs_[t.pos] + below->second, kNever});
      }
    }
    if (waits) continue;
    rests_[at] = std::min(best, kNever);
    todo.pop_back();
  }
  return rests_[state];
}

}  // namespace guided
