#include "run/visited_points.hpp"

#include <algorithm>

namespace guided {

static const auto& rule_of(const TableTask& task) { return task.arena.grammar().rule_at(task.thread.pos); }

VisitedPoints::VisitedPoints(const TableTask& task, TableBuilder& table)
    : WalkPoints(task.arena, task.vocabulary, task.thread),
      task_(task),
      table_(table),
      relative_(task.relative()),
      counter_(rule_of(task).kind == RuleKind::Counter),
      labels_(task.arena) {
  for (int b = 0; b < 256; ++b)
    if (task.follow.has(static_cast<uint8_t>(b))) follow_classes_ |= char_class_of(static_cast<uint8_t>(b));
}

const VisitedPoints::PointInfo& VisitedPoints::make_info(int32_t point) {
  if (static_cast<size_t>(point) >= infos_.size()) infos_.resize(static_cast<size_t>(count()) * 2);
  PointInfo& info = infos_[point];
  info.known = true;
  info.point = point;
  const Uniqueness& uniqueness = task_.arena.uniqueness();
  Label label;
  if (const Config* c = config(point)) {
    for (const Thread& t : *c)
      if (t.mem != kOutside) info.touched = std::max(info.touched, uniqueness.touched(t.mem));
    info.exits = c->count > 0 && c->threads[c->count - 1].pos == kExit;
    if (relative_) label = labels_.of(*c);
  } else {  // a position has no exit
    info.touched = uniqueness.touched(task_.thread.mem);
    if (relative_) label.stay = task_.thread.reg + rest(point);
  }
  if (at_boundary(point)) info.set = table_.set_of(std::move(label));
  return info;
}

const VisitedPoints::PointInfo& VisitedPoints::with_loops(int32_t point) {
  if (!look_up(point).loops_are_known) {
    PointInfo info = infos_[point];  // a copy: looking for loops may add points, which moves met_
    info.loops_are_known = true;
    if (info.set >= 0 && bytes(point).count() >= kManyBytes) find_loops(info);
    infos_[point] = info;
  }
  return infos_[point];
}

void VisitedPoints::find_loops(PointInfo& info) {
  int32_t to = info.point;
  info.loops = relative_ ? 0 : leading(info.point, to);
  if (counter_ && info.loops == 0) {
    auto [further, byte] = counted_on(info.point);
    if (further == kNowhere) return;
    to = further;
    info.loops = leading(info.point, to);
    info.chain = &chains_[info.point];
    *info.chain = {{info.set}, {info.point}, byte, info.loops, info.exits};
  }
  if (info.exits) info.loops &= ~follow_classes_;  // these may follow the frame's end, so the walk must read them
}

const VisitedPoints::Loop* VisitedPoints::loop(int32_t before, const PointInfo& info, bool build) {
  if (info.loop) return info.loop;
  auto set = task_.vocabulary.tokens_of_classes(info.loops, build);
  if (!set) return nullptr;
  auto loop = std::make_unique<Loop>();
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!set->edges[b].empty() &&
        (bytes(info.point).has(byte) || bytes(before).has(byte) || (info.exits && task_.follow.has(byte))))
      loop->edges.push_back(byte);
  }
  loop->set = std::move(set);
  loops_.push_back(std::move(loop));
  if (before == info.point) infos_[info.point].loop = loops_.back().get();
  return loops_.back().get();
}

void VisitedPoints::lengthen(Chain& chain, int32_t further) {
  while (static_cast<int32_t>(chain.sets.size()) <= further) {
    const int32_t last = chain.points.back();
    const int32_t after = last == kNowhere ? last : next(last, chain.byte);
    // In a table for one count, a bound may end the chain. It must end for all characters; otherwise it is torn.
    if (!relative_ && last != kNowhere && (chain.char_classes & ~leading(last, after))) chain.torn = true;
    if (after != kNowhere && look_up(after).exits != chain.exits) chain.torn = true;
    chain.points.push_back(after);
    chain.sets.push_back(after == kNowhere ? -1 : look_up(after).set);
  }
}

bool VisitedPoints::holds(const PointInfo& info, const TokenTrie::Node& node, int32_t length) {
  if (!info.chain || relative_) return true;
  const auto& lengths = task_.trie().lengths();
  int32_t longest = 0;
  for (int32_t i = node.payload_lo; i < node.subtree_hi; ++i) longest = std::max<int32_t>(longest, lengths[i]);
  link(info, longest - length);
  return !info.chain->torn;
}

}  // namespace guided
