#include "run/entry_detours.hpp"

#include <bit>
#include <unordered_map>
#include <unordered_set>

namespace guided {

namespace {
constexpr int64_t kEntryPositionWork = 8;
constexpr size_t kMaxCallers = 256;  // callers that are examined for one thread
}  // namespace

bool EntryDetours::any() {
  if (!is_prepared_) prepare();
  return any_;
}

void EntryDetours::prepare() {
  is_prepared_ = true;
  const size_t count = grammar_.positions.size();
  open_entries_.assign(count, 0);
  may_avoid_.assign(count, 0);
  is_after_detour_.assign(count, 0);
  std::unordered_set<int32_t> begins;
  for (const Position& position : grammar_.positions)
    for (const EffectEdge& edge : grammar_.effects_of(position))
      if (edge.effect.op == Effect::Begin && begins.insert(edge.to).second) mark_entry(position, edge.to);
  if (any_) mark_avoiding();
}

// Calls visit(position, whether the entry ends before it) for the positions after `from`. `scopes`: the number of open
// scopes where the entry begins, since inner entries end, too.
template <class Visit>
void EntryDetours::each_next(int32_t from, int32_t scopes, Visit&& visit) const {
  CallMeter::work(kEntryPositionWork);
  const Position& p = grammar_.positions[static_cast<size_t>(from)];
  grammar_.each_next(p, [&](int32_t to) { visit(to, false); });
  for (const CallEdge& call : grammar_.calls_of(p)) visit(call.after, false);
  for (const TokenEdge& token : grammar_.tokens_of(p)) visit(token.to, false);
  for (const EffectEdge& edge : grammar_.effects_of(p))
    visit(edge.to, edge.effect.op == Effect::Keep && p.scopes == scopes);
}

// Marks the positions inside the entries that begin at `begin`, and those right after detours.
void EntryDetours::mark_entry(const Position& before, int32_t begin) {
  tree_.prepare(before.rule);
  std::vector<int32_t> inside{begin};
  std::unordered_set<int32_t> visited{begin};
  for (size_t i = 0; i < inside.size(); ++i) {
    open_entries_[static_cast<size_t>(inside[i])] |= uint64_t{1} << (before.scopes % 64);
    each_next(inside[i], before.scopes, [&](int32_t to, bool has_ended) {
      if (!has_ended) {
        if (visited.insert(to).second) inside.push_back(to);
        return;
      }
      if (tree_.cost(to) < tree_.cost(begin) || next_entry_cost(to, before.scopes) < tree_.cost(begin)) return;
      is_after_detour_[static_cast<size_t>(to)] = 1;
      any_ = true;
    });
  }
}

// The cost of the next entry on a shortest text from a position to the end of the frame; the largest one, if there are
// several such texts. -1 if none of them contains an entry.
int64_t EntryDetours::next_entry_cost(int32_t position, int32_t scopes) const {
  int64_t cost = -1;
  std::vector<int32_t> path{position};
  std::unordered_set<int32_t> visited{position};
  for (size_t i = 0; i < path.size(); ++i) {
    CallMeter::work(kEntryPositionWork);
    const int64_t cost_here = tree_.cost(path[i]);
    const Position& p = grammar_.positions[static_cast<size_t>(path[i])];
    auto add = [&](int64_t edge_cost, int32_t to) {
      if (plus(edge_cost, tree_.cost(to)) == cost_here && visited.insert(to).second) path.push_back(to);
    };
    grammar_.each_next(p, [&](int32_t to) { add(kByteCost, to); });
    for (int32_t call = p.call_lo; call < p.call_hi; ++call) add(tree_.call_cost(call), grammar_.calls[call].after);
    for (const TokenEdge& token : grammar_.tokens_of(p)) add(kTokenCost, token.to);
    for (const EffectEdge& edge : grammar_.effects_of(p)) {
      if (edge.effect.op != Effect::Begin || p.scopes != scopes)
        add(0, edge.to);
      else if (tree_.cost(edge.to) == cost_here)
        cost = std::max(cost, cost_here);
    }
  }
  return cost;
}

// Marks the positions inside entries from which the entry may end without being a detour.
void EntryDetours::mark_avoiding() {
  std::unordered_map<int32_t, std::vector<int32_t>> sources;  // by position: the positions before it
  std::vector<int32_t> avoiding;
  for (size_t i = 0; i < open_entries_.size(); ++i) {
    if (!open_entries_[i]) continue;
    const auto from = static_cast<int32_t>(i);
    for (const EffectEdge& edge : grammar_.effects_of(grammar_.positions[i]))
      if (edge.effect.op == Effect::Keep && !is_after_detour_[static_cast<size_t>(edge.to)]) avoiding.push_back(from);
    each_next(from, -1, [&](int32_t to, bool) {
      if (open_entries_[static_cast<size_t>(to)]) sources[to].push_back(from);
    });
  }
  while (!avoiding.empty()) {
    CallMeter::work(kEntryPositionWork);
    const int32_t position = avoiding.back();
    avoiding.pop_back();
    if (std::exchange(may_avoid_[static_cast<size_t>(position)], 1)) continue;
    const std::vector<int32_t>& before = sources[position];
    avoiding.insert(avoiding.end(), before.begin(), before.end());
  }
}

bool EntryDetours::may_avoid(const Thread& thread, int inner_count) {
  if (!any()) return false;
  struct Frame {
    Thread thread;
    int inner_count;  // the inner entries that are open in it and its callers
  };
  std::vector<Frame> frames{{thread, inner_count}};
  for (size_t i = 0; i < frames.size(); ++i) {
    Frame frame = frames[i];
    if (frame.thread.pos == kExit) continue;
    const auto position = static_cast<size_t>(frame.thread.pos);
    const int open_count = std::popcount(open_entries_[position]);
    if (open_count > frame.inner_count) {
      if (may_avoid_[position]) return true;
      continue;
    }
    if (frames.size() > kMaxCallers) return true;
    frame.inner_count -= open_count;
    for (const Thread& caller : arena_.config(frame.thread.ret)) frames.push_back({caller, frame.inner_count});
  }
  return false;
}

}  // namespace guided
