#include "run/visited_points.hpp"

#include <algorithm>

namespace guided {

static const auto& rule_of(const TableTask& task) { return task.arena.grammar().rule_at(task.thread.pos); }

VisitedPoints::VisitedPoints(const TableTask& task, TableBuilder& table)
    : WalkPoints(task.arena, task.vocabulary, task.thread),
      task_(task),
      table_(table),
      is_relative_(task.is_relative()),
      is_counter_(rule_of(task).kind == RuleKind::Counter),
      labels_(task.arena) {
  for (int b = 0; b < 256; ++b)
    if (task.follow.has(static_cast<uint8_t>(b))) follow_classes_ |= char_class_of(static_cast<uint8_t>(b));
}

const VisitedPoints::PointInfo& VisitedPoints::compute_info(int32_t point) {
  if (static_cast<size_t>(point) >= infos_.size()) infos_.resize(static_cast<size_t>(count()) * 2);
  PointInfo& info = infos_[point];
  info.is_known = true;
  info.point = point;
  const Uniqueness& uniqueness = task_.arena.uniqueness();
  Label label;
  if (const Config* c = config(point)) {
    for (const Thread& t : *c)
      if (t.mem != kOutside) info.touched_entries = std::max(info.touched_entries, uniqueness.touched_entries(t.mem));
    info.can_exit = c->count > 0 && c->threads[c->count - 1].pos == kExit;
    if (is_relative_) label = labels_.label_of(*c);
  } else {  // a plain position has no exit
    info.touched_entries = uniqueness.touched_entries(task_.thread.mem);
    if (is_relative_) label.stay = task_.thread.reg + rest(point);
  }
  if (at_boundary(point)) info.set = table_.set_number(std::move(label));
  return info;
}

const VisitedPoints::PointInfo& VisitedPoints::with_loops(int32_t point) {
  if (!look_up(point).loops_are_known) {
    PointInfo info = infos_[point];  // a copy, because searching for loops may add points, which moves infos_
    info.loops_are_known = true;
    if (info.set >= 0 && bytes(point).count() >= kMinLoopBytes) find_loops(info);
    infos_[point] = info;
  }
  return infos_[point];
}

void VisitedPoints::find_loops(PointInfo& info) {
  int32_t target = info.point;
  info.loops = is_relative_ ? 0 : classes_leading(info.point, target);
  if (is_counter_ && info.loops == 0) {
    auto [next_point, byte] = find_next_count(info.point);
    if (next_point == kNowhere) return;
    target = next_point;
    info.loops = classes_leading(info.point, target);
    info.chain = &chains_[info.point];
    *info.chain = {{info.set}, {info.point}, byte, info.loops, info.can_exit};
  }
  // The caller may read characters of these classes after the frame's end, so the walk must read them, too.
  if (info.can_exit) info.loops &= ~follow_classes_;
}

const VisitedPoints::Loop* VisitedPoints::loop(int32_t previous, const PointInfo& info, bool build) {
  if (info.loop) return info.loop;
  auto set = task_.vocabulary.tokens_of_classes(info.loops, build);
  if (!set) return nullptr;
  auto loop = std::make_unique<Loop>();
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!set->edges[b].empty() &&
        (bytes(info.point).has(byte) || bytes(previous).has(byte) || (info.can_exit && task_.follow.has(byte))))
      loop->edges.push_back(byte);
  }
  loop->set = std::move(set);
  loops_.push_back(std::move(loop));
  if (previous == info.point) infos_[info.point].loop = loops_.back().get();
  return loops_.back().get();
}

void VisitedPoints::extend_chain(Chain& chain, int32_t characters) {
  while (static_cast<int32_t>(chain.sets.size()) <= characters) {
    const int32_t last_point = chain.points.back();
    const int32_t next_point = last_point == kNowhere ? last_point : next(last_point, chain.byte);
    // In a table for one count, a bound may end the chain. It must end for all characters at once; otherwise it is
    // torn.
    if (!is_relative_ && last_point != kNowhere && (chain.char_classes & ~classes_leading(last_point, next_point)))
      chain.is_torn = true;
    if (next_point != kNowhere && look_up(next_point).can_exit != chain.can_exit) chain.is_torn = true;
    chain.points.push_back(next_point);
    chain.sets.push_back(next_point == kNowhere ? -1 : look_up(next_point).set);
  }
}

bool VisitedPoints::is_chain_intact(const PointInfo& info, const TokenTrie::Node& node, int32_t length) {
  if (!info.chain || is_relative_) return true;
  const auto& lengths = task_.trie().lengths();
  int32_t longest = 0;
  for (int32_t i = node.payload_lo; i < node.subtree_hi; ++i) longest = std::max<int32_t>(longest, lengths[i]);
  link_after(info, longest - length);
  return !info.chain->is_torn;
}

}  // namespace guided
