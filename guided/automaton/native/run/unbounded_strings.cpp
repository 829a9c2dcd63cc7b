#include "run/unbounded_strings.hpp"

#include <algorithm>
#include <utility>

#include "base/graph.hpp"
#include "values/syntax.hpp"

namespace guided {

void UnboundedStrings::examine(const Rule& rule) {
  const auto quote = rule.byte_class[StringProgress::kQuote];
  const auto size = static_cast<size_t>(rule.size);
  // If the quotation mark is in one byte class with other bytes, it does not end a string here.
  if (std::count(rule.byte_class.begin(), rule.byte_class.end(), quote) > 1) {
    std::fill_n(answers_.begin() + rule.base, size, kNo);
    return;
  }
  std::vector<std::vector<int32_t>> next(size);
  std::vector<uint8_t> has_other_edges(size, 0), has_self_loop(size, 0);
  for (size_t s = 0; s < size; ++s) {
    const Position& p = grammar_.positions[static_cast<size_t>(rule.base) + s];
    has_other_edges[s] = p.accept || p.call_lo < p.call_hi || p.effect_lo < p.effect_hi || p.token_lo < p.token_hi;
    auto leads_to = [&](int32_t position) {
      const int32_t to = position - rule.base;
      if (next[s].empty() || next[s].back() != to) next[s].push_back(to);
      has_self_loop[s] |= to == static_cast<int32_t>(s);
    };
    for (int32_t c = 0; p.row >= 0 && c < rule.classes; ++c)
      if (const int32_t to = grammar_.next[p.row + c]; c != quote && to >= 0) leads_to(to);
    for (int32_t i = p.byte_lo; i < p.byte_hi; ++i)
      if (const ByteSpan& span = grammar_.spans[i];
          span.lo != StringProgress::kQuote || span.hi != StringProgress::kQuote)
        leads_to(span.to);
  }
  const std::vector<int32_t> component = components(next);
  std::vector<std::vector<int32_t>> members(size);
  for (size_t s = 0; s < size; ++s) members[component[s]].push_back(static_cast<int32_t>(s));
  std::vector<uint8_t> reaches_cycle(size, 0), is_unbounded_from(size, 0);  // by component; successors come first
  for (size_t c = 0; c < size; ++c) {
    reaches_cycle[c] = members[c].size() > 1;
    is_unbounded_from[c] = 1;
    for (int32_t s : members[c]) {
      reaches_cycle[c] |= has_self_loop[s];
      is_unbounded_from[c] &= !has_other_edges[s];
      for (int32_t to : next[s]) {
        reaches_cycle[c] |= reaches_cycle[component[to]];
        if (component[to] != static_cast<int32_t>(c)) is_unbounded_from[c] &= is_unbounded_from[component[to]];
      }
    }
    is_unbounded_from[c] &= reaches_cycle[c];
  }
  for (size_t s = 0; s < size; ++s)
    answers_[static_cast<size_t>(rule.base) + s] = is_unbounded_from[component[s]] ? kYes : kNo;
}

bool UnboundedStrings::begins_unbounded_string(int32_t position) {
  std::vector<int32_t> stack{position};
  std::vector<uint8_t> visited(grammar_.rules.size(), 0);
  while (!stack.empty()) {
    const Position& p = grammar_.positions[stack.back()];
    const int32_t current = stack.back();
    stack.pop_back();
    if (p.accept || p.effect_lo < p.effect_hi || p.token_lo < p.token_hi) return false;
    const int32_t after_quote =
        p.bytes.has(StringProgress::kQuote) ? grammar_.step(current, StringProgress::kQuote) : -1;
    if (p.bytes.count() > (after_quote >= 0) || (after_quote >= 0 && !is_unbounded(after_quote))) return false;
    for (const CallEdge& call : grammar_.calls_of(p))
      if (!std::exchange(visited[call.rule], 1)) stack.push_back(grammar_.rules[call.rule].start);
  }
  return true;
}

bool UnboundedStrings::has_only_unbounded_entries() {
  if (entries_answer_ == kNotComputed) {
    entries_answer_ = kYes;
    for (const EffectEdge& e : grammar_.effects)
      if (e.effect.op == Effect::Begin && !begins_unbounded_string(e.to)) entries_answer_ = kNo;
  }
  return entries_answer_ == kYes;
}

}  // namespace guided
