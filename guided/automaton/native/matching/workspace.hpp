// The states of grammars whose rules read bytes, and all data that is computed for them.
//
// Two folders of the core do the work: `run/` steps and builds masks, `budget/` finds completions. This class combines
// them under one lock, and implements the interface that matchers use (states.hpp).
#pragma once

#include <algorithm>
#include <functional>

#include "budget/budgets.hpp"
#include "budget/rest_bound.hpp"
#include "compile/later_rules.hpp"
#include "matching/states.hpp"
#include "matching/token_graph.hpp"

namespace guided {

class Workspace final : public States {
 public:
  Workspace(std::shared_ptr<const Grammar> g, const TokenVocabulary& v, CallLimits limits)
      : States(limits),
        arena(std::move(g), limits.memory),
        masks(arena, v),
        completions(masks),
        budgets(masks, completions),
        rest_bytes(arena, completions.new_entry(), v, false, least_rests),
        rest_tokens(arena, completions.new_entry(), v, true, least_rests) {
    arena.can_end_new = [this](const Thread& thread) { return completions.new_entry().exists(thread); };
    arena.innermost_can_end_new = [this](const Thread& thread) {
      return completions.new_entry().ends_innermost(thread);
    };
  }

  int32_t initial() const override { return arena.initial(); }
  bool accepting(int32_t state) const override { return arena.config(state).accepting; }
  int32_t known_after_token(int32_t state, int32_t id) const override;
  int32_t after_token(int32_t state, int32_t id) override;
  int32_t after_bytes(int32_t state, std::string_view bytes) override;
  int32_t token_ended(int32_t state) override;
  bool known_mask(int32_t state, uint32_t* row, bool& masks_something) const override;
  bool mask(int32_t state, uint32_t* row) override;
  bool budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& is_budget_bound) override;
  int64_t known_rest(int32_t state) const override { return least_rests.get(state); }
  int64_t distance(int32_t state) override;
  std::tuple<int64_t, int64_t, int64_t> rests(int32_t state) override;
  std::vector<int32_t> shortest(int32_t state, size_t limit) override;
  std::vector<int32_t> walk_mask(int32_t state) override;
  std::mutex& mutex() override { return arena.mutex(); }
  int32_t step(int32_t state, uint8_t byte) override { return arena.step(state, byte); }
  int32_t step_control(int32_t state, int32_t token) override { return arena.step_token(state, token); }
  ByteSet bytes(int32_t state) const override {
    arena.require_compiled(state);
    return arena.config(state).bytes;
  }
  std::vector<int32_t> controls(int32_t state) const override;
  bool ends_token(int32_t state) override { return at_boundary(arena, state); }
  void open_rules(int32_t state, std::vector<std::string>& out) const override;
  std::vector<int32_t> character_key(int32_t state, int steps) override;
  bool full() const override { return arena.is_full(); }
  size_t bytes() const override { return arena.bytes(); }
  int32_t size() const override { return arena.size(); }

  Arena arena;
  MaskBuilder masks;
  CompletionFinder completions;
  BudgetMasks budgets;
  ByState<int64_t> least_rests{-1};  // the lowest bound that rest_bytes or rest_tokens has found; -1: none
  RestBound rest_bytes, rest_tokens;

 private:
  void begin_call() override {
    States::begin_call();
    arena.check_not_abandoned();
  }
  void abandon_call() override {
    if (!arena.is_abandoned()) States::abandon_call();
  }
  int32_t advance_text(int32_t state, std::string_view bytes);
  int64_t rest_in_tokens(int32_t state);
};

// Compiles deferred rules of the IR, each as a separate grammar. First it waits until no other OS thread compiles rules
// of this grammar. Then it calls `find_missing` for the numbers of the rules, and `add` with their grammars before
// another thread may go on. Called without a lock.
using CompileLater =
    std::function<void(const std::function<std::vector<int32_t>()>& find_missing,
                       const std::function<void(const std::vector<std::shared_ptr<const Grammar>>&)>& add)>;

class CompiledRules final : public CompiledInto<Workspace> {
 public:
  CompiledRules(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenVocabulary> vocabulary,
                CallLimits limits, CompileLater compile = {})
      : CompiledInto(std::move(vocabulary), limits), compile_(std::move(compile)), grammar_(std::move(grammar)) {
    renew(fresh());
  }
  std::shared_ptr<const Grammar> grammar() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return grammar_;
  }
  std::shared_ptr<Workspace> workspace() { return current(); }
  std::shared_ptr<States> renewed(const std::shared_ptr<States>& old, std::vector<int32_t>& carried) override;
  void compile_later(const std::vector<int32_t>& later, bool all) override;
  // Whether the start is known to lead to an end. If values must differ, this is decided by a search, which may miss an
  // end. Otherwise, pruning has removed everything without an end.
  bool can_end();
  size_t positions() const override { return grammar()->positions.size(); }
  // Does not count rules that no text reaches. They have no positions. If the rules that call them come from the cache,
  // the grammar does not even contain them, so counting them would give different numbers for the same specification.
  size_t rules() const override {
    const std::shared_ptr<const Grammar> current = grammar();
    return static_cast<size_t>(std::ranges::count_if(current->rules, [](const Rule& rule) { return rule.size > 0; }));
  }
  bool recursive() const override { return grammar()->recursive; }

 private:
  std::shared_ptr<Workspace> fresh() const override {
    return std::make_shared<Workspace>(grammar_, *vocabulary, limits_);
  }

  const CompileLater compile_;
  std::shared_ptr<const Grammar> grammar_;
};

}  // namespace guided
