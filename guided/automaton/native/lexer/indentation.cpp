#include "lexer/indentation.hpp"

namespace guided {

namespace {
constexpr int32_t kUnmet = -1;
}

BlockLevels::BlockLevels(const Grammar& rules, const Indentation& indentation)
    : rules_(rules), indentation_(indentation) {
  if (!indentation.given) return;
  levels_.assign(rules.positions.size(), kUnmet);
  brackets_.assign(rules.positions.size(), kUnmet);
  has_lines_.resize(rules.rules.size());
  // An INDENT or DEDENT that is also a terminal with a text could occur anywhere.
  balanced_ = indentation.newline != kNoTerminal && indentation.indent >= indentation.terminals &&
              indentation.dedent >= indentation.terminals && !indentation.opens[indentation.newline] &&
              !indentation.closes[indentation.newline];
  find_rules_with_lines();
  for (size_t r = 0; r < rules.rules.size() && balanced_; ++r)
    balanced_ = rules.rules[r].size == 0 || look_at(static_cast<int32_t>(r));
}

bool BlockLevels::makes_lines(int32_t symbol) const {
  return symbol == indentation_.newline || symbol == indentation_.indent || symbol == indentation_.dedent;
}

void BlockLevels::find_rules_with_lines() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Position& p : rules_.positions) {
      if (has_lines_[p.rule]) continue;
      bool found = false;
      for (const TokenEdge& edge : rules_.tokens_of(p)) found |= makes_lines(edge.token);
      for (const CallEdge& call : rules_.calls_of(p)) found |= has_lines_[call.rule] != 0;
      has_lines_[p.rule] = found;
      changed |= found;
    }
  }
}

bool BlockLevels::look_at(int32_t rule) {
  std::vector<int32_t> todo{rules_.rules[rule].start};
  levels_[todo.back()] = brackets_[todo.back()] = 0;
  bool good = true;
  auto reach = [&](int32_t to, int32_t level, int32_t brackets) {
    if (levels_[to] == kUnmet) {
      levels_[to] = level;
      brackets_[to] = brackets;
      todo.push_back(to);
    }
    good &= level >= 0 && brackets >= 0 && levels_[to] == level && brackets_[to] == brackets;
  };
  while (!todo.empty() && good) {
    const int32_t at = todo.back();
    todo.pop_back();
    const Position& p = rules_.positions[at];
    const int32_t level = levels_[at], brackets = brackets_[at];
    if (p.accept) good &= level == 0 && brackets == 0;
    for (int32_t i = p.token_lo; i < p.token_hi && good; ++i) {
      const TokenEdge& edge = rules_.tokens[i];
      if (makes_lines(edge.token)) good &= brackets == 0;
      const int32_t more = edge.token == indentation_.indent ? 1 : edge.token == indentation_.dedent ? -1 : 0;
      const bool is_terminal = edge.token < indentation_.terminals;
      const int32_t open = !is_terminal                      ? 0
                           : indentation_.opens[edge.token]  ? 1
                           : indentation_.closes[edge.token] ? -1
                                                             : 0;
      if (good) reach(edge.to, level + more, brackets + open);
    }
    for (int32_t i = p.call_lo; i < p.call_hi && good; ++i) {
      const CallEdge& call = rules_.calls[i];
      good &= brackets == 0 || !has_lines_[call.rule];
      if (call.tail)
        good &= level == 0 && brackets == 0;
      else
        reach(call.after, level, brackets);
    }
  }
  return good;
}

}  // namespace guided
