#include "fresh_entry.hpp"

#include <algorithm>

namespace guided {

namespace {
constexpr int64_t kMostStates = 4096;
constexpr size_t kMostBytes = 1 << 16;
constexpr size_t kNever = SIZE_MAX / 4;
}  // namespace

const std::string* FreshEntry::text(const Thread& thread) {
  auto it = known_.find(thread);
  if (it == known_.end()) {
    std::optional<std::string> found = of_tree(thread);
    if (!found) found = search(thread);
    arena_.charge(96 + (found ? found->size() : 0));
    it = known_.emplace(thread, std::move(found)).first;
  }
  return it->second ? &*it->second : nullptr;
}

// Along the tree, if that ends the entry with a new value.
std::optional<std::string> FreshEntry::of_tree(Thread at) {
  const Grammar& g = arena_.grammar();
  std::string out;
  std::vector<Thread> returns;  // frames that the way itself has opened
  while (out.size() < kMostBytes) {
    if (!memories_.reading(at.mem)) return out;
    const Rule& rule = g.rules[g.positions[at.pos].rule];
    const ShortestText::Choice c = tree_.choose(at);
    if (c.cost > ShortestText::kFar) return std::nullopt;
    switch (c.kind) {
      case ShortestText::Choice::End: {
        // The caller's threads are alternatives; on the way to the end of an entry there is nearly always one.
        const Config& ret = arena_.config(at.ret);
        if (ret.count != 1 || ret.threads[0].pos == kExit) return std::nullopt;
        const int32_t mem = at.mem;
        at = ret.threads[0];
        at.mem = mem;
        break;
      }
      case ShortestText::Choice::Byte:
        out += static_cast<char>(c.index);
        at.pos = g.step(at.pos, static_cast<uint8_t>(c.index));
        at.mem = memories_.read(at.mem, static_cast<uint8_t>(c.index));
        break;
      case ShortestText::Choice::Token:
        return std::nullopt;
      case ShortestText::Choice::Call: {
        const CallEdge& call = g.calls[c.index];
        int32_t ret = call.tail ? at.ret : arena_.intern({{call.after, at.reg, at.ret}}, false);
        at = {g.rules[call.rule].start, arena_.initial_register(call.rule), ret, at.mem};
        break;
      }
      case ShortestText::Choice::Operate: {
        const EffectEdge& e = g.effects[c.index];
        if (!arena_.apply(rule, e.effect, at)) return std::nullopt;
        at.pos = e.to;
        break;
      }
    }
  }
  return std::nullopt;
}

// No text from a state to the end of its entry has fewer bytes.
size_t FreshEntry::least(int32_t state) {
  size_t best = kNever;
  for (const Thread& t : arena_.config(state)) {
    if (t.pos == kExit) continue;
    if (!memories_.reading(t.mem)) return 0;
    best = std::min(best, static_cast<size_t>(tree_.least_bytes(t.pos)));
  }
  return best;
}

std::optional<std::string> FreshEntry::search(const Thread& thread) {
  const int32_t start = arena_.raw_state(thread);
  size_t bound = least(start);
  int64_t left = kMostStates + static_cast<int64_t>(bound);
  while (bound < kNever && left > 0) {
    std::string text;
    size_t next_bound = kNever;
    if (deepen(start, bound, text, next_bound, left)) return text;
    bound = next_bound;
  }
  return std::nullopt;
}

bool FreshEntry::deepen(int32_t start, size_t bound, std::string& text, size_t& next_bound, int64_t& left) {
  struct Open {
    int32_t state, byte;  // the next byte to try
  };
  std::vector<Open> path{{start, 0}};
  while (!path.empty() && left > 0) {
    Open& at = path.back();
    const Config& c = arena_.config(at.state);
    if (at.byte == 0 && path.size() > 1) {
      --left;
      const std::string* best = nullptr;
      std::optional<std::string> found;
      for (const Thread& t : c) {
        if (t.pos == kExit) continue;
        if (!memories_.reading(t.mem)) return true;
        auto it = known_.find(t);
        std::optional<std::string> way = it != known_.end() ? it->second : of_tree(t);
        if (way && (!best || way->size() < best->size())) {
          found = std::move(way);
          best = &*found;
        }
      }
      if (best && text.size() + best->size() <= bound) {
        text += *best;
        return true;
      }
      if (best) next_bound = std::min(next_bound, text.size() + best->size());
    }
    int32_t next = kDead;
    while (at.byte < 256 && next == kDead) {
      const auto byte = static_cast<uint8_t>(at.byte++);
      if (!c.bytes.has(byte)) continue;
      next = arena_.raw_step(at.state, byte);
      if (next == kDead) continue;
      const size_t whole = text.size() + 1 + least(next);
      if (whole > bound) {
        next_bound = std::min(next_bound, whole);
        next = kDead;
      }
    }
    if (next == kDead) {
      path.pop_back();
      if (!text.empty()) text.pop_back();
      continue;
    }
    text += static_cast<char>(at.byte - 1);
    path.push_back({next, 0});
  }
  return false;
}

}  // namespace guided
