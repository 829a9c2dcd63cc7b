#include "composed/part_graph.hpp"

#include <stdexcept>
#include <tuple>
#include <utility>

namespace guided {

PartGraph::PartGraph(std::vector<std::shared_ptr<Compiled>> parts, std::vector<Occurrence> occurrences,
                     std::vector<int32_t> first, bool may_be_empty)
    : parts_(std::move(parts)),
      occurrences_(std::move(occurrences)),
      first_(std::move(first)),
      may_be_empty_(may_be_empty) {
  auto check = [](int32_t number, size_t count) {
    if (number < 0 || static_cast<size_t>(number) >= count) throw std::out_of_range("there is no such part");
  };
  for (int32_t occurrence : first_) check(occurrence, occurrences_.size());
  for (const Occurrence& occurrence : occurrences_) {
    check(occurrence.part, parts_.size());
    for (int32_t next : occurrence.next) check(next, occurrences_.size());
  }
  compute_rests();
}

// The Bellman-Ford algorithm: repeats passes until no path gets shorter.
void PartGraph::compute_rests() {
  constexpr int64_t kUnreachable = INT64_MAX / 4;
  std::vector<int64_t> part_tokens;
  for (const std::shared_ptr<Compiled>& part : parts_) {
    const std::shared_ptr<States> states = part->states();
    part_tokens.push_back(states->distance(states->initial()));
  }
  for (const Occurrence& occurrence : occurrences_)
    rests_.push_back({.tokens = occurrence.last ? 0 : kUnreachable, .parts = 0});
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = 0; i < occurrences_.size(); ++i)
      for (int32_t next : occurrences_[i].next) {
        const Rest rest{part_tokens[occurrences_[next].part] + rests_[next].tokens, rests_[next].parts + 1, next};
        if (std::tie(rest.tokens, rest.parts) < std::tie(rests_[i].tokens, rests_[i].parts)) {
          rests_[i] = rest;
          has_changed = true;
        }
      }
  }
}

}  // namespace guided
