#include "composed/part_graph.hpp"

#include <stdexcept>
#include <tuple>
#include <utility>

namespace guided {

PartGraph::PartGraph(std::vector<std::shared_ptr<Compiled>> parts, std::vector<Occurrence> occurrences,
                     std::vector<int32_t> first, bool is_empty)
    : parts_(std::move(parts)), occurrences_(std::move(occurrences)), first_(std::move(first)), is_empty_(is_empty) {
  auto check = [](int32_t number, size_t count) {
    if (number < 0 || static_cast<size_t>(number) >= count) throw std::out_of_range("there is no such part");
  };
  for (int32_t occurrence : first_) check(occurrence, occurrences_.size());
  for (const Occurrence& each : occurrences_) {
    check(each.part, parts_.size());
    for (int32_t next : each.next) check(next, occurrences_.size());
  }
  weigh();
}

// The algorithm of Bellman and Ford: passes until no path gets shorter.
void PartGraph::weigh() {
  constexpr int64_t kUnreachable = INT64_MAX / 4;
  std::vector<int64_t> own;
  for (const std::shared_ptr<Compiled>& part : parts_) {
    const std::shared_ptr<States> states = part->states();
    own.push_back(states->distance(states->initial()));
  }
  for (const Occurrence& each : occurrences_) rests_.push_back({.tokens = each.last ? 0 : kUnreachable, .parts = 0});
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < occurrences_.size(); ++i)
      for (int32_t next : occurrences_[i].next) {
        const Rest way{own[occurrences_[next].part] + rests_[next].tokens, rests_[next].parts + 1, next};
        if (std::tie(way.tokens, way.parts) < std::tie(rests_[i].tokens, rests_[i].parts)) {
          rests_[i] = way;
          changed = true;
        }
      }
  }
}

}  // namespace guided
