#include "matching/workspace.hpp"

#include <algorithm>

namespace guided {

// ---- steps
int32_t Workspace::known_after_token(int32_t state, int32_t id) const {
  const TokenVocabulary& v = masks.vocabulary();
  if (!v.textual(id) || !arena.grammar().tokens.empty()) return kUnknown;
  for (char ch : v.tokens[id]) {
    state = arena.peek(state, static_cast<uint8_t>(ch));
    if (state == kUnknown || state == kDead) return state;
  }
  return at_boundary(arena, state) ? arena.peek_token_end(state) : kDead;
}

int32_t Workspace::advance_text(int32_t state, std::string_view bytes) {
  size_t i = 0;
  for (; i < bytes.size(); ++i) {
    int32_t next = arena.peek(state, static_cast<uint8_t>(bytes[i]));
    if (next == kUnknown) break;
    if (next == kDead) return kDead;
    state = next;
  }
  if (i < bytes.size()) {
    const StatesLock lock(*this);
    state = arena.step_text(state, bytes.substr(i));
    if (state == kDead) return kDead;
  }
  return bytes.empty() ? state : token_ended(state);
}

int32_t Workspace::token_ended(int32_t state) {
  if (!at_boundary(arena, state)) return kDead;
  const int32_t next = arena.peek_token_end(state);
  if (next != kUnknown) return next;
  const StatesLock lock(*this);
  return arena.end_token(state);
}

int32_t Workspace::after_bytes(int32_t state, std::string_view bytes) { return advance_text(state, bytes); }

int32_t Workspace::after_token(int32_t state, int32_t id) {
  const TokenVocabulary& v = masks.vocabulary();
  const int32_t next = v.textual(id) ? advance_text(state, v.tokens[id]) : kDead;
  if (arena.grammar().tokens.empty()) return next;
  const StatesLock lock(*this);  // the grammar may also name a token with text by its id
  return arena.union_of(next, arena.step_token(state, id));
}

// ---- masks
bool Workspace::known_mask(int32_t state, uint32_t* row, bool& masks_something) const {
  const MaskRecipe* recipe = masks.known_recipe(state);
  if (!recipe) return false;
  recipe->write(row, masks.vocabulary().words);
  masks_something = !recipe->everything;
  return true;
}

bool Workspace::mask(int32_t state, uint32_t* row) {
  const MaskRecipe* recipe = nullptr;
  {
    const StatesLock lock(*this);
    recipe = &masks.recipe(state);
  }
  recipe->write(row, masks.vocabulary().words);
  return !recipe->everything;
}

bool Workspace::budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& is_budget_bound) {
  // A budget that cannot remove any token needs no budget mask.
  auto is_plenty = [&](int64_t rest) { return rest >= 0 && rest <= max_tokens - 2; };
  bool masks_something = true;
  if (is_plenty(least_rests.get(state)) && known_mask(state, row, masks_something)) return masks_something;
  {
    StatesLock lock(*this);
    // For rules that are not compiled yet, only the bound in bytes exists.
    const bool has_only_bytes = !arena.grammar().later.empty();
    if (!is_plenty(rest_bytes.bound_after_token(state)) &&
        (has_only_bytes || (!is_plenty(rest_in_tokens(state)) && !is_plenty(budgets.reach_bound(state))))) {
      const int64_t needed_tokens = budgets.distance(state) + 1;
      if (max_tokens < needed_tokens) {
        lock.unlock();
        throw BudgetFailure(needed_tokens, max_tokens);
      }
      const int64_t max_rest = max_tokens - 2;  // without this token and the end token
      if (budgets.reach(state) > max_rest) {
        is_budget_bound = true;
        budgets.fill(state, max_rest, row);
        for (int32_t token : controls(state))
          if (completions.distance(arena.step_token(state, token)) <= max_rest) set_bit(row, token);
        if (arena.config(state).accepting)
          for (int32_t end : masks.vocabulary().end_tokens) set_bit(row, end);
        return true;
      }
    }
  }
  return mask(state, row);
}

// The bound in tokens uses fixed texts, which ignore token limits. If there are limits, only the bound in bytes is
// used.
int64_t Workspace::rest_in_tokens(int32_t state) {
  return arena.grammar().token_rests.empty() ? rest_tokens.bound_after_token(state) : kUnreachable;
}

int64_t Workspace::distance(int32_t state) {
  const StatesLock lock(*this);
  return budgets.distance(state);
}

std::tuple<int64_t, int64_t, int64_t> Workspace::rests(int32_t state) {
  const StatesLock lock(*this);
  const int64_t rest = std::min(rest_bytes.bound_after_token(state), rest_in_tokens(state));
  return {rest, budgets.reach_bound(state), budgets.reach(state)};
}

std::vector<int32_t> Workspace::shortest(int32_t state, size_t limit) {
  const StatesLock lock(*this);
  return completions.spelled_symbols(state, limit);
}

std::vector<int32_t> Workspace::walk_mask(int32_t state) {
  const StatesLock lock(*this);
  return masks.walk_all(state);
}

// ---- looking ahead
std::vector<int32_t> Workspace::controls(int32_t state) const {
  arena.require_compiled(state);
  const Grammar& g = arena.grammar();
  std::vector<int32_t> out;
  for (const Thread& t : arena.config(state)) {
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (const TokenEdge& edge : g.tokens_of(p)) out.push_back(edge.token);
  }
  sort_unique(out);
  return out;
}

void Workspace::open_rules(int32_t state, std::vector<std::string>& out) const {
  const Grammar& g = arena.grammar();
  std::vector<int32_t> rules;
  for (const Thread& t : arena.config(state))
    if (t.pos != kExit) g.add_open_rules(t.pos, rules);
  std::sort(rules.begin(), rules.end());
  for (int32_t rule : rules) {
    const int32_t origin = g.rules[rule].origin;
    if (origin >= 0 && std::find(out.begin(), out.end(), g.names[origin]) == out.end()) out.push_back(g.names[origin]);
  }
}

// The key is the state, or, if the uniqueness memory does not matter, its threads without this memory.
std::vector<int32_t> Workspace::character_key(int32_t state, int steps) {
  constexpr int kMaxSteps = 20000;
  const Config& config = arena.config(state);
  const bool memory_matters =
      config.has_seen_set && steps < kMaxSteps &&
      !std::all_of(
          config.begin(), config.end(),
          [&](const Thread& thread) { return thread.pos == kExit || arena.surely_continues(thread); });
  if (!config.has_seen_set || memory_matters) return {state};
  std::vector<int32_t> out;
  for (const Thread& thread : config) out.insert(out.end(), {thread.pos, thread.reg, thread.ret});
  return out;
}

// ---- the compiled grammar
bool CompiledRules::can_end() {
  Arena& arena = current_->arena;
  if (arena.grammar().known.empty() || arena.unbounded().has_only_unbounded_entries()) return true;
  const StatesLock lock(*current_);
  return current_->completions.ends(arena.initial());
}

void CompiledRules::compile_later(const std::vector<int32_t>& later, bool all) {
  std::vector<int32_t> missing;
  const auto find_missing = [&] {
    std::vector<int32_t> numbers;
    missing.clear();
    const std::shared_ptr<const Grammar> current = grammar();
    for (size_t i = 0; i < current->later.size(); ++i) {
      const auto number = static_cast<int32_t>(i);
      if (current->later[i].compiled >= 0 || (!all && std::ranges::find(later, number) == later.end())) continue;
      missing.push_back(number);
      numbers.push_back(current->later[i].number);
    }
    return numbers;
  };
  if (find_missing().empty()) return;
  compile_(find_missing, [&](const std::vector<std::shared_ptr<const Grammar>>& compiled) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<LaterPart> parts;
    for (size_t i = 0; i < missing.size(); ++i)
      if (grammar_->later[missing[i]].compiled < 0) parts.push_back({missing[i], compiled.at(i).get()});
    if (parts.empty()) return;
    grammar_ = append_later_rules(*grammar_, parts);
    renew(fresh());
  });
}

std::shared_ptr<States> CompiledRules::renewed(const std::shared_ptr<States>& old, std::vector<int32_t>& carried) {
  std::shared_ptr<Workspace> new_states;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (current_ == old || current_->is_broken() || current_->arena.is_abandoned()) renew(fresh());
    new_states = current_;
  }
  Arena& old_arena = static_cast<Workspace&>(*old).arena;
  Arena::Carried transferred;
  // Older states are always locked before newer ones, so there is no deadlock. Carrying states over is not metered.
  const std::lock_guard<std::mutex> old_lock(old_arena.mutex());
  const StatesLock lock(*new_states, {});
  const size_t before = new_states->arena.bytes();
  carry(carried, [&](int32_t state) { return new_states->arena.import(old_arena, state, transferred); });
  new_states->arena.add_carried(new_states->arena.bytes() - before);
  return new_states;
}

}  // namespace guided
