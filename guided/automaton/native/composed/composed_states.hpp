// The states of composed grammars: graphs of parts that are compiled separately.
//
// In: a graph of parts (part_graph.hpp), each a compiled grammar of any kind. Out: the states of the whole grammar. In
// this way, a grammar with a lexer can be combined with other parts, although its states are not states of rules
// (lexer/lexed_states.hpp).
//
// A state is a set of spots; each spot is an occurrence of a part with a state of the part. If a part may end, the
// parts after it are entered as well, and later text decides which one applies. Every part has an end, so a state that
// is alive in a part is alive in the whole grammar. A mask is the union of the masks of the parts and the tokens that
// leave a part (leaving_tokens.hpp).
//
// The distance of a spot is the distance in its part, plus the shortest path through the parts after it. The distance
// of a state is the smallest one of its spots, or 0 if the output may end.
#pragma once

#include <atomic>
#include <map>
#include <unordered_map>

#include "base/by_state.hpp"
#include "base/memory_limit.hpp"
#include "composed/leaving_tokens.hpp"

namespace guided {

class CompiledComposition;

class ComposedStates final : public States {
 public:
  ComposedStates(const PartGraph& graph, std::vector<std::shared_ptr<States>> parts, const TokenVocabulary& vocabulary,
                 CallLimits limits);

  int32_t initial() const override { return 0; }
  bool accepting(int32_t state) const override { return accepts_.get(state) > 0; }
  int32_t known_after_token(int32_t, int32_t) const override { return kUnknown; }
  int32_t after_token(int32_t state, int32_t id) override;
  int32_t after_bytes(int32_t state, std::string_view bytes) override;
  bool known_mask(int32_t state, uint32_t* row, bool& masks_something) const override;
  bool mask(int32_t state, uint32_t* row) override;
  bool budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& is_budget_bound) override;
  int64_t distance(int32_t state) override;
  std::tuple<int64_t, int64_t, int64_t> rests(int32_t state) override;
  std::vector<int32_t> shortest(int32_t state, size_t limit) override;
  std::vector<int32_t> walk_mask(int32_t state) override;
  std::mutex& mutex() override { return mutex_; }
  int32_t step(int32_t state, uint8_t byte) override;
  int32_t step_control(int32_t state, int32_t token) override;
  ByteSet bytes(int32_t state) const override;
  std::vector<int32_t> controls(int32_t state) const override;
  void open_rules(int32_t state, std::vector<std::string>& out) const override;
  bool full() const override;
  size_t bytes() const override;
  int32_t size() const override { return size_.load(std::memory_order_relaxed); }
  bool is_broken() const override;

  const std::vector<std::shared_ptr<States>>& parts() const { return parts_; }
  // The caller must hold the lock for the next two functions. The spots of states, each given as `state`, or `~state`
  // after an end token.
  std::vector<Spot> spots_of(const std::vector<int32_t>& coded) const;
  // Copies a state of `other`. `new_states`: for each spot of that state, the new state of the part.
  int32_t import(const ComposedStates& other, int32_t state, const std::map<Spot, int32_t>& new_states);
  size_t own_memory() const { return own_memory_.load(std::memory_order_relaxed); }
  void add_carried(size_t bytes) { memory_limit_.add_carried(bytes); }

 private:
  // The spots collected so far, and the occurrences that were entered since the last byte.
  struct SpotSet {
    std::vector<Spot> spots;
    std::vector<uint8_t> entered;
    bool accepting = false;
  };
  States& part(int32_t occurrence) const { return *parts_[graph_.at(occurrence).part]; }
  const std::vector<Spot>& spots(int32_t state) const { return *states_[state]; }
  SpotSet empty_set() const { return {{}, std::vector<uint8_t>(static_cast<size_t>(graph_.size())), false}; }
  void add_spot(Spot spot, SpotSet& out) const;
  void enter(const std::vector<int32_t>& occurrences, SpotSet& out) const;
  SpotSet after_byte(const std::vector<Spot>& from, uint8_t byte) const;
  void read(int32_t state, std::string_view bytes, SpotSet& out) const;
  int32_t intern(SpotSet&& set);
  int64_t distance_from(Spot spot) const {
    return part(spot.occurrence).distance(spot.state) + graph_.tokens_after(spot.occurrence);
  }
  int64_t locked_distance(int32_t state) const;
  int32_t locked_after_token(int32_t state, int32_t id);
  void set_end_tokens(bool accepting, uint32_t* row) const;

  const PartGraph& graph_;
  std::vector<std::shared_ptr<States>> parts_;
  const TokenVocabulary& vocabulary_;
  LeavingTokens leaving_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<const std::vector<Spot>>> states_;
  ByState<int8_t> accepts_{-1};
  std::map<std::pair<std::vector<Spot>, bool>, int32_t> ids_;
  std::unordered_map<int32_t, std::vector<uint32_t>> masks_;
  size_t masks_memory_ = 0;
  std::atomic<size_t> own_memory_{0};
  MemoryLimit memory_limit_;
  std::atomic<int32_t> size_{0};
};

class CompiledComposition final : public CompiledInto<ComposedStates> {
 public:
  CompiledComposition(PartGraph graph, std::shared_ptr<const TokenVocabulary> vocabulary, CallLimits limits);
  std::shared_ptr<States> renewed(const std::shared_ptr<States>& old, std::vector<int32_t>& carried) override;
  size_t positions() const override;
  size_t rules() const override;
  bool recursive() const override;

 private:
  std::shared_ptr<ComposedStates> fresh() const override;  // over the parts' current states
  std::shared_ptr<ComposedStates> states_over(std::vector<std::shared_ptr<States>> parts) const {
    return std::make_shared<ComposedStates>(graph_, std::move(parts), *vocabulary, limits_);
  }

  const PartGraph graph_;
};

}  // namespace guided
