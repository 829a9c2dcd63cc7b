#include "lexer/tried_terminals.hpp"

#include <algorithm>
#include <set>

namespace guided {

namespace {
constexpr size_t kMostTerminals = 1024;
}

TriedTerminals::TriedTerminals(const Followers& followers, const LexerContexts& contexts, const Lexemes& lexemes) {
  const int32_t count = static_cast<int32_t>(lexemes.terminals().size());
  if (contexts.all || lexemes.terminals().size() > kMostTerminals) {
    all_.emplace_back(lexemes.terminals().size(), true);
    return;
  }
  const Indentation& indentation = lexemes.indentation();
  TerminalSet everywhere(lexemes.terminals().size());
  for (int32_t t = 0; t < count; ++t)
    if (lexemes.terminals()[t].ignored || t == indentation.newline) everywhere.add(t);
  auto tried = [&](auto&& can_stand) {
    TerminalSet out = everywhere;
    for (int32_t t = 0; t < count; ++t)
      if (can_stand(t)) out.add(t);
    for (const auto& [marks, row] : contexts.by_marks)
      if (std::ranges::all_of(marks, can_stand))
        for (int32_t t : row) out.add(t);
    return out;
  };
  auto behind = [&](int32_t symbol) { return tried([&](int32_t next) { return followers.can_follow(symbol, next); }); };
  for (int32_t t = 0; t < count; ++t) behind_.push_back(behind(t));
  if (indentation.given && indentation.newline != kNoTerminal)
    for (int32_t symbol : {indentation.indent, indentation.dedent}) behind_[indentation.newline].add(behind(symbol));
  beginning_ = tried([&](int32_t next) { return followers.can_begin(next); });
  std::set<TerminalSet> rows(behind_.begin(), behind_.end());
  rows.insert(beginning_);
  beside_.assign(lexemes.terminals().size(), everywhere);
  for (const TerminalSet& row : rows)
    for (int32_t t = 0; t < count; ++t)
      if (row.has(t)) beside_[t].add(row);
}

}  // namespace guided
