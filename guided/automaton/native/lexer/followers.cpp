#include "lexer/followers.hpp"

#include <algorithm>
#include <set>

namespace guided {

Followers::Followers(const Grammar& rules, int32_t symbols)
    : start_(rules.rules[rules.start].size > 0 ? rules.rules[rules.start].start : -1),
      words_((static_cast<size_t>(symbols) + 63) / 64),
      first_(rules.positions.size() * words_),
      after_rule_(rules.rules.size() * words_),
      after_symbol_(static_cast<size_t>(symbols) * words_),
      ends_(rules.positions.size()) {
  while (has_changed_) {
    has_changed_ = false;
    for (size_t p = rules.positions.size(); p-- > 0;) update(rules, static_cast<int32_t>(p));
  }
}

void Followers::add(Bits& sets, int32_t set, int32_t symbol) {
  uint64_t& word = sets[static_cast<size_t>(set) * words_ + symbol / 64];
  const uint64_t bit = uint64_t{1} << (symbol % 64);
  has_changed_ |= !(word & bit);
  word |= bit;
}

void Followers::add_all(Bits& to, int32_t to_set, const Bits& from, int32_t from_set) {
  for (size_t w = 0; w < words_; ++w) {
    uint64_t& word = to[static_cast<size_t>(to_set) * words_ + w];
    const uint64_t new_bits = from[static_cast<size_t>(from_set) * words_ + w] & ~word;
    has_changed_ |= new_bits != 0;
    word |= new_bits;
  }
}

void Followers::update(const Grammar& rules, int32_t position) {
  const Position& p = rules.positions[position];
  auto set_end = [&] {
    has_changed_ |= !ends_[position];
    ends_[position] = true;
  };
  if (p.accept) set_end();
  for (const TokenEdge& edge : rules.tokens_of(p)) {
    add(first_, position, edge.token);
    add_all(after_symbol_, edge.token, first_, edge.to);
    if (ends_[edge.to]) add_all(after_symbol_, edge.token, after_rule_, p.rule);
  }
  for (const CallEdge& call : rules.calls_of(p)) {
    const int32_t start = rules.rules[call.rule].start;
    add_all(first_, position, first_, start);
    if (!call.tail) add_all(after_rule_, call.rule, first_, call.after);
    if (call.tail || ends_[call.after]) add_all(after_rule_, call.rule, after_rule_, p.rule);
    if (!ends_[start]) continue;  // no rule is empty, but the check costs nothing
    if (!call.tail) add_all(first_, position, first_, call.after);
    if (call.tail || ends_[call.after]) set_end();
  }
}

namespace {
constexpr size_t kMaxTerminals = 1024;
}

TriedTerminals::TriedTerminals(const Followers& followers, const LexerContexts& contexts, const Lexemes& lexemes) {
  const int32_t count = static_cast<int32_t>(lexemes.terminals().size());
  if (contexts.try_all || lexemes.terminals().size() > kMaxTerminals) {
    all_.emplace_back(lexemes.terminals().size(), true);
    return;
  }
  const Indentation& indentation = lexemes.indentation();
  TerminalSet everywhere(lexemes.terminals().size());
  for (int32_t t = 0; t < count; ++t)
    if (lexemes.terminals()[t].is_ignored || t == indentation.newline) everywhere.add(t);
  auto find_tried = [&](auto&& is_possible) {
    TerminalSet out = everywhere;
    for (int32_t t = 0; t < count; ++t)
      if (is_possible(t)) out.add(t);
    for (const auto& [marks, row] : contexts.by_marks)
      if (std::ranges::all_of(marks, is_possible))
        for (int32_t t : row) out.add(t);
    return out;
  };
  tried_first_ = find_tried([&](int32_t next) { return followers.can_begin(next); });
  tried_after_.assign(lexemes.terminals().size(), everywhere);
  tried_with_.assign(lexemes.terminals().size(), everywhere);
  if (!contexts.rows.empty()) {
    for (const LexerContexts::Row& each : contexts.rows) {
      TerminalSet row = everywhere;
      for (int32_t t : each.tried) row.add(t);
      for (int32_t t : each.preceding) tried_after_[t].add(row);
      add_row(row);
    }
    return;
  }
  auto find_after = [&](int32_t symbol) {
    return find_tried([&](int32_t next) { return followers.can_follow(symbol, next); });
  };
  for (int32_t t = 0; t < count; ++t) tried_after_[t] = find_after(t);
  if (indentation.is_given && indentation.newline != kNoTerminal)
    for (int32_t symbol : {indentation.indent, indentation.dedent})
      tried_after_[indentation.newline].add(find_after(symbol));
  std::set<TerminalSet> rows(tried_after_.begin(), tried_after_.end());
  rows.insert(tried_first_);
  for (const TerminalSet& row : rows) add_row(row);
}

void TriedTerminals::add_row(const TerminalSet& row) {
  for (size_t t = 0; t < tried_with_.size(); ++t)
    if (row.has(static_cast<int32_t>(t))) tried_with_[t].add(row);
}

}  // namespace guided
