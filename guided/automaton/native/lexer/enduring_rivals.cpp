#include "lexer/enduring_rivals.hpp"

#include <set>

namespace guided {

namespace {
constexpr size_t kMost = 1024;  // states that are visited for one rival
}

int32_t EnduringRivals::hindering(int32_t rivals) {
  if (rivals == 0) return 0;
  if (const auto known = hindering_.find(rivals); known != hindering_.end()) return known->second;
  int32_t out = 0;
  for (int32_t rival : std::vector<int32_t>(rivals_.of(rivals)))
    if (!endures(rival)) out = rivals_.add(out, rival);
  return hindering_[rivals] = out;
}

bool EnduringRivals::endures(int32_t rival) {
  auto [known, added] = endures_.try_emplace(rival, false);
  if (!added) return known->second;
  using At = std::pair<int32_t, int32_t>;  // the last terminal, and what the rival has become
  std::set<At> met;
  std::vector<At> todo;
  auto reach = [&](int32_t last, int32_t rivals) {
    if (rivals == kDropped) return false;
    if (rivals != 0 && met.emplace(last, rivals).second) todo.emplace_back(last, rivals);
    return met.size() <= kMost;
  };
  reach(kNoTerminal, rivals_.add(0, rival));
  while (!todo.empty()) {
    const auto [last, at] = todo.back();
    todo.pop_back();
    for (const std::string& separator : separators_)
      if (!reach(last, rivals_.advance(at, separator))) return false;
    if (last == newline_ && newline_ != kNoTerminal && !reach(last, rivals_.advance(at, uint8_t{' '}))) return false;
    for (const auto& [terminal, text] : texts_)
      if ((last == kNoTerminal || followers_.can_follow(last, terminal)) &&
          !reach(terminal, rivals_.advance(at, text)))
        return false;
  }
  return endures_[rival] = true;
}

}  // namespace guided
