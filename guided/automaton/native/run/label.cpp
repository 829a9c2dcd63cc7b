#include "run/label.hpp"

#include <algorithm>

namespace guided {

Label Labels::label_of(const Config& config) {
  Label label;
  for (const Thread& t : config) {
    if (t.pos == kExit)
      label.leave.push_back(t.reg);
    else
      label.stay = label.stay < 0 ? min_final_count(t) : std::min(label.stay, min_final_count(t));
  }
  return label;
}

// The lowest count at which the bottom frame can end, over all stacks that `thread` represents. No recursion, since
// stacks may be deep.
int32_t Labels::min_final_count(const Thread& thread) {
  const auto& positions = arena_.grammar().positions;
  auto own_count = [&](const Thread& t) { return t.reg + positions[t.pos].rest; };
  if (thread.ret == kFree) return own_count(thread);
  std::vector<int32_t> stack{thread.ret};
  while (!stack.empty()) {
    const Config& c = arena_.config(stack.back());
    int32_t min_count = INT32_MAX;
    bool is_complete = true;
    for (const Thread& t : c) {
      auto it = t.ret == kFree ? counts_.end() : counts_.find(t.ret);
      if (t.ret != kFree && it == counts_.end()) {
        is_complete = false;
        stack.push_back(t.ret);
      } else {
        min_count = std::min(min_count, t.ret == kFree ? own_count(t) : it->second);
      }
    }
    if (!is_complete) continue;
    counts_[stack.back()] = min_count;
    stack.pop_back();
  }
  return counts_[thread.ret];
}

}  // namespace guided
