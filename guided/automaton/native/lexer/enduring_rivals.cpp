#include "lexer/enduring_rivals.hpp"

#include <set>

namespace guided {

namespace {
constexpr size_t kMost = 1024;  // states that are visited for one rival
}

int32_t EnduringRivals::hindering(int32_t rivals, int32_t last) {
  if (rivals == 0) return 0;
  const uint64_t key = pair_key(rivals, last);
  if (const auto known = hindering_.find(key); known != hindering_.end()) return known->second;
  int32_t out = 0;
  for (int32_t rival : std::vector<int32_t>(rivals_.of(rivals)))
    if (!endures(rival, last)) out = rivals_.add(out, rival);
  return hindering_[key] = out;
}

bool EnduringRivals::endures(int32_t rival, int32_t begin) {
  const uint64_t key = pair_key(rival, begin);
  auto [known, added] = endures_.try_emplace(key, false);
  if (!added) return known->second;
  using At =
      std::pair<int32_t, int32_t>;  // the last terminal, if no separator follows it, and what the rival has become
  std::set<At> met;
  std::vector<At> todo;
  auto reach = [&](int32_t last, int32_t rivals) {
    if (rivals == kDropped) return false;
    if (rivals != 0 && met.emplace(last, rivals).second) todo.emplace_back(last, rivals);
    return met.size() <= kMost;
  };
  reach(begin, rivals_.add(0, rival));
  while (!todo.empty()) {
    const auto [last, at] = todo.back();
    todo.pop_back();
    for (const std::string& separator : separators_)
      if (!reach(kNoTerminal, rivals_.advance(at, separator))) return false;
    if (last == newline_ && newline_ != kNoTerminal && !reach(last, rivals_.advance(at, uint8_t{' '}))) return false;
    for (const auto& [terminal, text] : texts_)
      if ((last == kNoTerminal || meet_(last, terminal)) && !reach(terminal, rivals_.advance(at, text))) return false;
  }
  return endures_[key] = true;
}

}  // namespace guided
