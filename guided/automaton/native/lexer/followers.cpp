#include "lexer/followers.hpp"

namespace guided {

Followers::Followers(const Grammar& rules, int32_t symbols)
    : start_(rules.rules[rules.start].size > 0 ? rules.rules[rules.start].start : -1),
      words_((static_cast<size_t>(symbols) + 63) / 64),
      first_(rules.positions.size() * words_),
      behind_rule_(rules.rules.size() * words_),
      after_symbol_(static_cast<size_t>(symbols) * words_),
      ends_(rules.positions.size()) {
  while (changed_) {
    changed_ = false;
    for (size_t p = rules.positions.size(); p-- > 0;) look_at(rules, static_cast<int32_t>(p));
  }
}

void Followers::add(Bits& sets, int32_t set, int32_t symbol) {
  uint64_t& word = sets[static_cast<size_t>(set) * words_ + symbol / 64];
  const uint64_t bit = uint64_t{1} << (symbol % 64);
  changed_ |= !(word & bit);
  word |= bit;
}

void Followers::add_all(Bits& to, int32_t set, const Bits& from, int32_t other) {
  for (size_t w = 0; w < words_; ++w) {
    uint64_t& word = to[static_cast<size_t>(set) * words_ + w];
    const uint64_t added = from[static_cast<size_t>(other) * words_ + w] & ~word;
    changed_ |= added != 0;
    word |= added;
  }
}

void Followers::look_at(const Grammar& rules, int32_t position) {
  const Position& p = rules.positions[position];
  auto end = [&] {
    changed_ |= !ends_[position];
    ends_[position] = true;
  };
  if (p.accept) end();
  for (int32_t i = p.token_lo; i < p.token_hi; ++i) {
    const TokenEdge& edge = rules.tokens[i];
    add(first_, position, edge.token);
    add_all(after_symbol_, edge.token, first_, edge.to);
    if (ends_[edge.to]) add_all(after_symbol_, edge.token, behind_rule_, p.rule);
  }
  for (int32_t i = p.call_lo; i < p.call_hi; ++i) {
    const CallEdge& call = rules.calls[i];
    const int32_t start = rules.rules[call.rule].start;
    add_all(first_, position, first_, start);
    if (!call.tail) add_all(behind_rule_, call.rule, first_, call.after);
    if (call.tail || ends_[call.after]) add_all(behind_rule_, call.rule, behind_rule_, p.rule);
    if (!ends_[start]) continue;  // no rule is empty, but what is asked costs nothing
    if (!call.tail) add_all(first_, position, first_, call.after);
    if (call.tail || ends_[call.after]) end();
  }
}

}  // namespace guided
