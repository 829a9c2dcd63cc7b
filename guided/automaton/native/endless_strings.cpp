#include "endless_strings.hpp"

#include <algorithm>

#include "graph.hpp"

namespace guided {

void EndlessStrings::find(const Rule& rule) {
  const auto quote = rule.byte_class['"'];
  const bool alone = std::count(rule.byte_class.begin(), rule.byte_class.end(), quote) == 1;
  const auto size = static_cast<size_t>(rule.size);
  std::vector<uint8_t> byte_of(static_cast<size_t>(rule.classes));
  for (int b = 0; b < 256; ++b) byte_of[rule.byte_class[b]] = static_cast<uint8_t>(b);
  std::vector<std::vector<int32_t>> next(size);
  std::vector<uint8_t> ends(size, !alone), cycles(size, 0);
  for (size_t s = 0; s < size; ++s) {
    const Position& p = grammar_.positions[static_cast<size_t>(rule.base) + s];
    ends[s] |= p.accept || p.call_lo < p.call_hi || p.effect_lo < p.effect_hi || p.token_lo < p.token_hi;
    for (int32_t c = 0; c < rule.classes; ++c) {
      const int32_t to = c == quote ? -1 : grammar_.step(rule.base + static_cast<int32_t>(s), byte_of[c]);
      if (to < 0) continue;
      next[s].push_back(to - rule.base);
      cycles[s] |= to - rule.base == static_cast<int32_t>(s);
    }
  }
  const std::vector<int32_t> component = components(next);
  std::vector<std::vector<int32_t>> members(size);
  for (size_t s = 0; s < size; ++s) members[component[s]].push_back(static_cast<int32_t>(s));
  std::vector<uint8_t> endless(size, 0), good(size, 0);  // by component; what they lead to comes first
  for (size_t c = 0; c < size; ++c) {
    endless[c] = members[c].size() > 1;
    good[c] = 1;
    for (int32_t s : members[c]) {
      endless[c] |= cycles[s];
      good[c] &= !ends[s];
      for (int32_t to : next[s]) {
        endless[c] |= endless[component[to]];
        if (component[to] != static_cast<int32_t>(c)) good[c] &= good[component[to]];
      }
    }
    good[c] &= endless[c];
  }
  for (size_t s = 0; s < size; ++s) known_[static_cast<size_t>(rule.base) + s] = good[component[s]] ? kYes : kNo;
}

bool EndlessStrings::begins_string(int32_t position) {
  std::vector<int32_t> open{position};
  std::vector<uint8_t> met(grammar_.rules.size(), 0);
  while (!open.empty()) {
    const Position& p = grammar_.positions[open.back()];
    const int32_t at = open.back();
    open.pop_back();
    if (p.accept || p.effect_lo < p.effect_hi || p.token_lo < p.token_hi) return false;
    const int32_t after = p.bytes.has('"') ? grammar_.step(at, '"') : -1;
    if (p.bytes.count() > (after >= 0) || (after >= 0 && !goes_on(after))) return false;
    for (int32_t i = p.call_lo; i < p.call_hi; ++i) {
      const int32_t rule = grammar_.calls[i].rule;
      if (met[rule]) continue;
      met[rule] = 1;
      open.push_back(grammar_.rules[rule].start);
    }
  }
  return true;
}

bool EndlessStrings::all_entries() {
  if (entries_ == kUnknownYet) {
    entries_ = kYes;
    for (const EffectEdge& e : grammar_.effects)
      if (e.effect.op == Effect::Begin && !begins_string(e.to)) entries_ = kNo;
  }
  return entries_ == kYes;
}

}  // namespace guided
