#include "run/met_places.hpp"

#include <algorithm>

namespace guided {

static const auto& rule_of(const TableTask& task) {
  const Grammar& grammar = task.arena.grammar();
  return grammar.rules[grammar.positions[task.thread.pos].rule];
}

MetPlaces::MetPlaces(const TableTask& task, TableBuilder& table)
    : Places(task.arena, task.vocabulary, task.thread),
      task_(task),
      table_(table),
      relative_(task.relative()),
      counter_(rule_of(task).kind == RuleKind::Counter),
      labels_(task.arena) {
  for (int b = 0; b < 256; ++b)
    if (task.follow.has(static_cast<uint8_t>(b))) follow_kinds_ |= kind_of(static_cast<uint8_t>(b));
}

const MetPlaces::Met& MetPlaces::look(int32_t place) {
  if (static_cast<size_t>(place) >= met_.size()) met_.resize(static_cast<size_t>(count()) * 2);
  Met& met = met_[place];
  met.known = true;
  met.place = place;
  const Memories& memories = task_.arena.memories();
  Label label;
  if (const Config* c = config(place)) {
    for (const Thread& t : *c)
      if (t.mem != kOutside) met.touched = std::max(met.touched, memories.touched(t.mem));
    met.exits = c->count > 0 && c->threads[c->count - 1].pos == kExit;
    if (relative_) label = labels_.of(*c);
  } else {  // a position has no exit
    met.touched = memories.touched(task_.thread.mem);
    if (relative_) label.stay = task_.thread.reg + rest(place);
  }
  if (at_boundary(place)) met.set = table_.set_of(std::move(label));
  return met;
}

const MetPlaces::Met& MetPlaces::with_loops(int32_t place) {
  if (!meet(place).looped) {
    Met met = met_[place];  // looking for loops may meet more places
    met.looped = true;
    if (met.set >= 0 && bytes(place).count() >= kManyBytes) find_loops(met);
    met_[place] = met;
  }
  return met_[place];
}

void MetPlaces::find_loops(Met& met) {
  int32_t to = met.place;
  met.loops = relative_ ? 0 : leading(met.place, to);
  if (counter_ && met.loops == 0) {
    auto [further, byte] = counted_on(met.place);
    if (further == kNowhere) return;
    to = further;
    met.loops = leading(met.place, to);
    met.chain = &chains_[met.place];
    *met.chain = {{met.set}, {met.place}, byte, met.loops, met.exits};
  }
  if (met.exits) met.loops &= ~follow_kinds_;  // an exit that may be taken must be seen at every node
}

const MetPlaces::Loop* MetPlaces::loop(int32_t before, const Met& met, bool build) {
  if (met.loop) return met.loop;
  auto set = task_.vocabulary.of_kinds(met.loops, build);
  if (!set) return nullptr;
  auto loop = std::make_unique<Loop>();
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!set->edges[b].empty() &&
        (bytes(met.place).has(byte) || bytes(before).has(byte) || (met.exits && task_.follow.has(byte))))
      loop->edges.push_back(byte);
  }
  loop->set = std::move(set);
  loops_.push_back(std::move(loop));
  if (before == met.place) met_[met.place].loop = loops_.back().get();
  return loops_.back().get();
}

void MetPlaces::lengthen(Chain& chain, int32_t further) {
  while (static_cast<int32_t>(chain.sets.size()) <= further) {
    const int32_t last = chain.places.back();
    const int32_t after = last == kNowhere ? last : next(last, chain.byte);
    // With its bounds on, a counter may end the loop; then it does so for all characters, or it is none.
    if (!relative_ && last != kNowhere && (chain.kinds & ~leading(last, after))) chain.torn = true;
    if (after != kNowhere && meet(after).exits != chain.exits) chain.torn = true;
    chain.places.push_back(after);
    chain.sets.push_back(after == kNowhere ? -1 : meet(after).set);
  }
}

bool MetPlaces::holds(const Met& met, const TokenTrie::Node& node, int32_t length) {
  if (!met.chain || relative_) return true;
  const auto& lengths = task_.trie().lengths();
  int32_t longest = 0;
  for (int32_t i = node.payload_lo; i < node.subtree_hi; ++i) longest = std::max<int32_t>(longest, lengths[i]);
  link(met, longest - length);
  return !met.chain->torn;
}

}  // namespace guided
