#include "run/unbounded_strings.hpp"

#include <algorithm>
#include <utility>

#include "base/graph.hpp"
#include "values/syntax.hpp"

namespace guided {

void UnboundedStrings::find(const Rule& rule) {
  const auto quote = rule.byte_class[StringProgress::kQuote];
  const auto size = static_cast<size_t>(rule.size);
  if (std::count(rule.byte_class.begin(), rule.byte_class.end(), quote) > 1) {  // shares its class: it ends no string
    std::fill_n(known_.begin() + rule.base, size, kNo);
    return;
  }
  std::vector<std::vector<int32_t>> next(size);
  std::vector<uint8_t> ends(size, 0), cycles(size, 0);
  for (size_t s = 0; s < size; ++s) {
    const Position& p = grammar_.positions[static_cast<size_t>(rule.base) + s];
    ends[s] = p.accept || p.call_lo < p.call_hi || p.effect_lo < p.effect_hi || p.token_lo < p.token_hi;
    auto leads_to = [&](int32_t position) {
      const int32_t to = position - rule.base;
      if (next[s].empty() || next[s].back() != to) next[s].push_back(to);
      cycles[s] |= to == static_cast<int32_t>(s);
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
  std::vector<uint8_t> unbounded(size, 0), good(size, 0);  // by component; successors come first
  for (size_t c = 0; c < size; ++c) {
    unbounded[c] = members[c].size() > 1;
    good[c] = 1;
    for (int32_t s : members[c]) {
      unbounded[c] |= cycles[s];
      good[c] &= !ends[s];
      for (int32_t to : next[s]) {
        unbounded[c] |= unbounded[component[to]];
        if (component[to] != static_cast<int32_t>(c)) good[c] &= good[component[to]];
      }
    }
    good[c] &= unbounded[c];
  }
  for (size_t s = 0; s < size; ++s) known_[static_cast<size_t>(rule.base) + s] = good[component[s]] ? kYes : kNo;
}

bool UnboundedStrings::begins_string(int32_t position) {
  std::vector<int32_t> open{position};
  std::vector<uint8_t> visited(grammar_.rules.size(), 0);
  while (!open.empty()) {
    const Position& p = grammar_.positions[open.back()];
    const int32_t at = open.back();
    open.pop_back();
    if (p.accept || p.effect_lo < p.effect_hi || p.token_lo < p.token_hi) return false;
    const int32_t after = p.bytes.has(StringProgress::kQuote) ? grammar_.step(at, StringProgress::kQuote) : -1;
    if (p.bytes.count() > (after >= 0) || (after >= 0 && !goes_on(after))) return false;
    for (const CallEdge& call : grammar_.calls_of(p))
      if (!std::exchange(visited[call.rule], 1)) open.push_back(grammar_.rules[call.rule].start);
  }
  return true;
}

bool UnboundedStrings::all_entries() {
  if (entries_ == kUnknownYet) {
    entries_ = kYes;
    for (const EffectEdge& e : grammar_.effects)
      if (e.effect.op == Effect::Begin && !begins_string(e.to)) entries_ = kNo;
  }
  return entries_ == kYes;
}

}  // namespace guided
