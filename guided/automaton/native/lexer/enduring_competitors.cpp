#include "lexer/enduring_competitors.hpp"

#include <set>

namespace guided {

namespace {
constexpr size_t kMost = 1024;  // states that are visited for one competitor
}

int32_t EnduringCompetitors::hindering(int32_t competing, int32_t last) {
  if (competing == 0) return 0;
  const uint64_t key = pair_key(competing, last);
  if (const auto known = hindering_.find(key); known != hindering_.end()) return known->second;
  int32_t out = 0;
  for (int32_t competitor : std::vector<int32_t>(competing_.of(competing)))
    if (!endures(competitor, last)) out = competing_.add(out, competitor);
  return hindering_[key] = out;
}

bool EnduringCompetitors::endures(int32_t competitor, int32_t begin) {
  const uint64_t key = pair_key(competitor, begin);
  auto [known, added] = endures_.try_emplace(key, false);
  if (!added) return known->second;
  using At =
      std::pair<int32_t, int32_t>;  // the last terminal, if no separator follows it, and what the competitor has become
  std::set<At> met;
  std::vector<At> todo;
  auto reach = [&](int32_t last, int32_t competing) {
    if (competing == kDropped) return false;
    if (competing != 0 && met.emplace(last, competing).second) todo.emplace_back(last, competing);
    return met.size() <= kMost;
  };
  reach(begin, competing_.add(0, competitor));
  while (!todo.empty()) {
    const auto [last, at] = todo.back();
    todo.pop_back();
    for (const std::string& separator : separators_)
      if (!reach(kNoTerminal, competing_.advance(at, separator))) return false;
    if (last == newline_ && newline_ != kNoTerminal && !reach(last, competing_.advance(at, uint8_t{' '}))) return false;
    for (const auto& [terminal, text] : texts_)
      if ((last == kNoTerminal || meet_(last, terminal)) && !reach(terminal, competing_.advance(at, text)))
        return false;
  }
  return endures_[key] = true;
}

}  // namespace guided
