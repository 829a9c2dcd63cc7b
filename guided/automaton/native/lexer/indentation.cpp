#include "lexer/indentation.hpp"

namespace guided {

namespace {
constexpr int32_t kNotVisited = -1;
}

BlockLevels::BlockLevels(const Grammar& rules, const Indentation& indentation)
    : rules_(rules), indentation_(indentation) {
  if (!indentation.is_given) return;
  levels_.assign(rules.positions.size(), kNotVisited);
  brackets_.assign(rules.positions.size(), kNotVisited);
  has_lines_.resize(rules.rules.size());
  // An INDENT or DEDENT that is also a terminal with a text could occur anywhere.
  is_balanced_ = indentation.newline != kNoTerminal && indentation.indent >= indentation.terminals &&
                 indentation.dedent >= indentation.terminals && !indentation.opens[indentation.newline] &&
                 !indentation.closes[indentation.newline];
  find_rules_with_lines();
  for (size_t r = 0; r < rules.rules.size() && is_balanced_; ++r)
    is_balanced_ = rules.rules[r].size == 0 || is_balanced_rule(static_cast<int32_t>(r));
}

bool BlockLevels::is_line_symbol(int32_t symbol) const {
  return symbol == indentation_.newline || symbol == indentation_.indent || symbol == indentation_.dedent;
}

void BlockLevels::find_rules_with_lines() {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (const Position& p : rules_.positions) {
      if (has_lines_[p.rule]) continue;
      bool reads_lines = false;
      for (const TokenEdge& edge : rules_.tokens_of(p)) reads_lines |= is_line_symbol(edge.token);
      for (const CallEdge& call : rules_.calls_of(p)) reads_lines |= has_lines_[call.rule] != 0;
      has_lines_[p.rule] = reads_lines;
      has_changed |= reads_lines;
    }
  }
}

bool BlockLevels::is_balanced_rule(int32_t rule) {
  std::vector<int32_t> todo{rules_.rules[rule].start};
  levels_[todo.back()] = brackets_[todo.back()] = 0;
  bool is_balanced = true;
  auto reach = [&](int32_t to, int32_t level, int32_t brackets) {
    if (levels_[to] == kNotVisited) {
      levels_[to] = level;
      brackets_[to] = brackets;
      todo.push_back(to);
    }
    is_balanced &= level >= 0 && brackets >= 0 && levels_[to] == level && brackets_[to] == brackets;
  };
  while (!todo.empty() && is_balanced) {
    const int32_t position = todo.back();
    todo.pop_back();
    const Position& p = rules_.positions[position];
    const int32_t level = levels_[position], brackets = brackets_[position];
    if (p.accept) is_balanced &= level == 0 && brackets == 0;
    for (int32_t i = p.token_lo; i < p.token_hi && is_balanced; ++i) {
      const TokenEdge& edge = rules_.tokens[i];
      if (is_line_symbol(edge.token)) is_balanced &= brackets == 0;
      const int32_t level_change = edge.token == indentation_.indent ? 1 : edge.token == indentation_.dedent ? -1 : 0;
      const bool is_terminal = edge.token < indentation_.terminals;
      const int32_t bracket_change = !is_terminal                      ? 0
                                     : indentation_.opens[edge.token]  ? 1
                                     : indentation_.closes[edge.token] ? -1
                                                                       : 0;
      if (is_balanced) reach(edge.to, level + level_change, brackets + bracket_change);
    }
    for (int32_t i = p.call_lo; i < p.call_hi && is_balanced; ++i) {
      const CallEdge& call = rules_.calls[i];
      is_balanced &= brackets == 0 || !has_lines_[call.rule];
      if (call.tail)
        is_balanced &= level == 0 && brackets == 0;
      else
        reach(call.after, level, brackets);
    }
  }
  return is_balanced;
}

}  // namespace guided
