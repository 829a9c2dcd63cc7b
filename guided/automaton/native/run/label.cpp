#include "run/label.hpp"

#include <algorithm>

namespace guided {

Label Labels::of(const Config& config) {
  Label label;
  for (const Thread& t : config) {
    if (t.pos == kExit)
      label.leave.push_back(t.reg);
    else
      label.stay = label.stay < 0 ? count_of(t) : std::min(label.stay, count_of(t));
  }
  return label;
}

// The lowest count at which the bottom frame can end, over all stacks that `thread` represents. No recursion, since
// stacks may be deep.
int32_t Labels::count_of(const Thread& thread) {
  const auto& positions = arena_.grammar().positions;
  auto needed = [&](const Thread& t) { return t.reg + positions[t.pos].rest; };
  if (thread.ret == kFree) return needed(thread);
  std::vector<int32_t> open{thread.ret};
  while (!open.empty()) {
    const Config& c = arena_.config(open.back());
    int32_t least = INT32_MAX;
    bool known = true;
    for (const Thread& t : c) {
      auto it = t.ret == kFree ? counts_.end() : counts_.find(t.ret);
      if (t.ret != kFree && it == counts_.end()) {
        known = false;
        open.push_back(t.ret);
      } else {
        least = std::min(least, t.ret == kFree ? needed(t) : it->second);
      }
    }
    if (!known) continue;
    counts_[open.back()] = least;
    open.pop_back();
  }
  return counts_[thread.ret];
}

}  // namespace guided
