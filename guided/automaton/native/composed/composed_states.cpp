#include "composed/composed_states.hpp"

#include <algorithm>

#include "base/token_set.hpp"

namespace guided {

ComposedStates::ComposedStates(const PartGraph& graph, std::vector<std::shared_ptr<States>> parts,
                               const TokenVocabulary& vocabulary, CallLimits limits)
    : States(limits),
      graph_(graph),
      parts_(std::move(parts)),
      vocabulary_(vocabulary),
      leaving_(graph_, parts_, vocabulary_),
      memory_limit_(limits.memory) {
  SpotSet start = empty_set();
  enter(graph_.first(), start);
  start.accepting |= graph_.may_be_empty();
  intern(std::move(start));
  add_carried(own_memory());
}

// ---- spots
void ComposedStates::add_spot(Spot spot, SpotSet& out) const {
  out.spots.push_back(spot);
  if (!part(spot.occurrence).accepting(spot.state)) return;
  out.accepting |= graph_.at(spot.occurrence).last;
  enter(graph_.at(spot.occurrence).next, out);
}

void ComposedStates::enter(const std::vector<int32_t>& occurrences, SpotSet& out) const {
  for (int32_t occurrence : occurrences) {
    if (out.entered[occurrence]) continue;
    out.entered[occurrence] = true;
    add_spot({occurrence, part(occurrence).initial()}, out);
  }
}

ComposedStates::SpotSet ComposedStates::after_byte(const std::vector<Spot>& from, uint8_t byte) const {
  SpotSet out = empty_set();
  for (const Spot& spot : from) {
    States& states = part(spot.occurrence);
    int32_t to;
    {
      const StatesLock lock(states);
      to = states.step(spot.state, byte);
    }
    if (to != kDead) add_spot({spot.occurrence, to}, out);
  }
  sort_unique(out.spots);
  return out;
}

void ComposedStates::read(int32_t state, std::string_view bytes, SpotSet& out) const {
  std::vector<Spot> current = spots(state);
  bool accepting = false;
  for (char byte : bytes) {
    SpotSet next = after_byte(current, static_cast<uint8_t>(byte));
    current = std::move(next.spots);
    accepting = next.accepting;
    if (current.empty()) return;
  }
  out.accepting |= accepting;
  for (const Spot& spot : current) {
    const StatesLock lock(part(spot.occurrence));
    if (part(spot.occurrence).ends_token(spot.state)) out.spots.push_back(spot);
  }
}

int32_t ComposedStates::intern(SpotSet&& set) {
  if (set.spots.empty() && !set.accepting) return kDead;
  sort_unique(set.spots);
  const int32_t number = size_.load(std::memory_order_relaxed);
  const auto [it, added] = ids_.try_emplace({set.spots, set.accepting}, number);
  if (!added) return it->second;
  own_memory_ += set.spots.size() * 2 * sizeof(Spot) + 200 + accepts_.set(number, set.accepting);
  states_.push_back(std::make_unique<const std::vector<Spot>>(std::move(set.spots)));
  ++size_;
  return number;
}

// ---- steps
int32_t ComposedStates::locked_after_token(int32_t state, int32_t id) {
  SpotSet out = empty_set();
  for (const Spot& spot : spots(state)) {
    const int32_t to = part(spot.occurrence).after_token(spot.state, id);
    if (to != kDead) add_spot({spot.occurrence, to}, out);
  }
  if (vocabulary_.textual(id)) read(state, vocabulary_.tokens[id], out);
  return intern(std::move(out));
}

int32_t ComposedStates::after_token(int32_t state, int32_t id) {
  const StatesLock lock(*this);
  return locked_after_token(state, id);
}

int32_t ComposedStates::after_bytes(int32_t state, std::string_view bytes) {
  const StatesLock lock(*this);
  SpotSet out = empty_set();
  read(state, bytes, out);
  return intern(std::move(out));
}

int32_t ComposedStates::step(int32_t state, uint8_t byte) { return intern(after_byte(spots(state), byte)); }

int32_t ComposedStates::step_control(int32_t state, int32_t token) {
  SpotSet out = empty_set();
  for (const Spot& spot : spots(state)) {
    States& states = part(spot.occurrence);
    int32_t to;
    {
      const StatesLock lock(states);
      to = states.step_control(spot.state, token);
    }
    if (to != kDead) add_spot({spot.occurrence, to}, out);
  }
  return intern(std::move(out));
}

// Sets the end tokens or clears them. A part alone does not determine whether the output may end.
void ComposedStates::set_end_tokens(bool accepting, uint32_t* row) const {
  for (int32_t end : vocabulary_.end_tokens) {
    clear_bit(row, end);
    if (accepting) set_bit(row, end);
  }
}

bool ComposedStates::known_mask(int32_t state, uint32_t* row, bool& masks_something) const {
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || States::is_broken()) return false;
  const auto it = masks_.find(state);
  if (it == masks_.end()) return false;
  std::ranges::copy(it->second, row);
  masks_something = true;
  return true;
}

bool ComposedStates::mask(int32_t state, uint32_t* row) {
  const StatesLock lock(*this);
  if (masks_memory_ + leaving_.memory() > memory_limit_ / 2) {
    masks_.clear();
    leaving_.clear();
    masks_memory_ = 0;
  }
  const auto [it, added] = masks_.try_emplace(state);
  if (added) {
    std::vector<uint32_t> union_row(static_cast<size_t>(vocabulary_.words)), part_row(union_row);
    for (const Spot& spot : spots(state)) {
      part(spot.occurrence).mask(spot.state, part_row.data());
      for (size_t i = 0; i < union_row.size(); ++i) union_row[i] |= part_row[i];
      for (const LeavingTokens::LeavingToken& leaving_token : leaving_.find(spot))
        set_bit(union_row.data(), leaving_token.token);
    }
    set_end_tokens(accepting(state), union_row.data());
    masks_memory_ += union_row.size() * 4 + 64;
    it->second = std::move(union_row);
  }
  std::ranges::copy(it->second, row);
  return true;
}

bool ComposedStates::budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& is_budget_bound) {
  StatesLock lock(*this);
  const int64_t needed = locked_distance(state) + 1, max_rest = max_tokens - 2;  // without this token and the end token
  if (max_tokens < needed) {
    lock.unlock();
    throw BudgetFailure(needed, max_tokens);
  }
  std::vector<uint32_t> part_row(static_cast<size_t>(vocabulary_.words));
  std::fill(row, row + part_row.size(), 0);
  for (const Spot& spot : spots(state)) {
    const int64_t part_budget = max_tokens - graph_.tokens_after(spot.occurrence);
    if (part(spot.occurrence).distance(spot.state) + 1 <= part_budget) {
      part(spot.occurrence).budget_mask(spot.state, part_row.data(), part_budget, is_budget_bound);
      for (size_t i = 0; i < part_row.size(); ++i) row[i] |= part_row[i];
    } else {
      is_budget_bound = true;
    }
    for (LeavingTokens::LeavingToken& leaving_token : leaving_.find(spot)) {
      if (leaving_token.distance < 0) leaving_token.distance = distance_from(leaving_token.to);
      if (leaving_token.distance <= max_rest)
        set_bit(row, leaving_token.token);
      else
        is_budget_bound = true;
    }
  }
  set_end_tokens(accepting(state), row);
  return true;
}

int64_t ComposedStates::locked_distance(int32_t state) const {
  if (accepting(state)) return 0;
  int64_t min_distance = INT64_MAX;
  for (const Spot& spot : spots(state)) min_distance = std::min(min_distance, distance_from(spot));
  return min_distance;
}

int64_t ComposedStates::distance(int32_t state) {
  const StatesLock lock(*this);
  return locked_distance(state);
}

std::tuple<int64_t, int64_t, int64_t> ComposedStates::rests(int32_t state) {
  const StatesLock lock(*this);
  int64_t max_rest = 0;
  for (const Spot& spot : spots(state)) {
    max_rest =
        std::max(max_rest, std::get<2>(part(spot.occurrence).rests(spot.state)) + graph_.tokens_after(spot.occurrence));
    for (LeavingTokens::LeavingToken& leaving_token : leaving_.find(spot))
      max_rest = std::max(max_rest, leaving_token.distance = distance_from(leaving_token.to));
  }
  return {max_rest, max_rest, max_rest};
}

std::vector<int32_t> ComposedStates::shortest(int32_t state, size_t limit) {
  const StatesLock lock(*this);
  std::vector<int32_t> out;
  if (accepting(state)) return out;
  Spot best = spots(state).front();
  for (const Spot& spot : spots(state))
    if (distance_from(spot) < distance_from(best)) best = spot;
  out = part(best.occurrence).shortest(best.state, limit);
  for (int32_t i = graph_.shortest_next(best.occurrence); i >= 0 && out.size() < limit; i = graph_.shortest_next(i)) {
    const std::vector<int32_t> symbols = part(i).shortest(part(i).initial(), limit - out.size());
    out.insert(out.end(), symbols.begin(), symbols.end());
  }
  return out;
}

std::vector<int32_t> ComposedStates::walk_mask(int32_t state) {
  const StatesLock lock(*this);
  std::vector<int32_t> out;
  for (int32_t id = 0; id < vocabulary_.size; ++id)
    if (vocabulary_.is_end(id) ? accepting(state) : locked_after_token(state, id) != kDead) out.push_back(id);
  return out;
}

// ---- looking ahead
ByteSet ComposedStates::bytes(int32_t state) const {
  ByteSet out;
  for (const Spot& spot : spots(state)) out |= part(spot.occurrence).bytes(spot.state);
  return out;
}

std::vector<int32_t> ComposedStates::controls(int32_t state) const {
  std::vector<int32_t> out;
  for (const Spot& spot : spots(state))
    for (int32_t token : part(spot.occurrence).controls(spot.state)) out.push_back(token);
  sort_unique(out);
  return out;
}

void ComposedStates::open_rules(int32_t state, std::vector<std::string>& out) const {
  for (const Spot& spot : spots(state)) {
    std::vector<std::string> part_rules;
    {
      const std::lock_guard<std::mutex> lock(part(spot.occurrence).mutex());
      part(spot.occurrence).open_rules(spot.state, part_rules);
    }
    for (std::string& name : part_rules)
      if (std::ranges::find(out, name) == out.end()) out.push_back(std::move(name));
  }
}

// ---- size
bool ComposedStates::full() const {
  return own_memory() > memory_limit_ ||
         std::ranges::any_of(parts_, [](const std::shared_ptr<States>& states) { return states->full(); });
}

size_t ComposedStates::bytes() const {
  size_t total = own_memory();
  for (const std::shared_ptr<States>& states : parts_) total += states->bytes();
  return total;
}

bool ComposedStates::is_broken() const {
  return States::is_broken() ||
         std::ranges::any_of(parts_, [](const std::shared_ptr<States>& part) { return part->is_broken(); });
}

std::vector<Spot> ComposedStates::spots_of(const std::vector<int32_t>& coded) const {
  std::vector<Spot> out;
  for (int32_t code : coded)
    out.insert(out.end(), spots(code < 0 ? ~code : code).begin(), spots(code < 0 ? ~code : code).end());
  sort_unique(out);
  return out;
}

int32_t ComposedStates::import(const ComposedStates& other, int32_t state, const std::map<Spot, int32_t>& new_states) {
  SpotSet set = empty_set();
  for (const Spot& spot : other.spots(state)) set.spots.push_back({spot.occurrence, new_states.at(spot)});
  set.accepting = other.accepting(state);
  return intern(std::move(set));
}

// ---- the compiled grammar
CompiledComposition::CompiledComposition(PartGraph graph, std::shared_ptr<const TokenVocabulary> vocabulary,
                                         CallLimits limits)
    : CompiledInto(std::move(vocabulary), limits), graph_(std::move(graph)) {
  renew(fresh());
}

std::shared_ptr<ComposedStates> CompiledComposition::fresh() const {
  std::vector<std::shared_ptr<States>> parts;
  for (const std::shared_ptr<Compiled>& part : graph_.parts()) parts.push_back(part->states());
  return states_over(std::move(parts));
}

// First, each part transfers its states. Then the carried states are copied with the new states of their spots.
std::shared_ptr<States> CompiledComposition::renewed(const std::shared_ptr<States>& old,
                                                     std::vector<int32_t>& carried) {
  std::lock_guard<std::mutex> lock(mutex_);
  ComposedStates& from = static_cast<ComposedStates&>(*old);
  std::vector<Spot> spots;
  {
    std::lock_guard<std::mutex> from_lock(from.mutex());
    spots = from.spots_of(carried);
  }
  std::map<Spot, int32_t> new_states;
  std::vector<std::shared_ptr<States>> parts;
  for (size_t p = 0; p < graph_.parts().size(); ++p) {
    std::vector<int32_t> own_states;
    for (const Spot& spot : spots)
      if (graph_.at(spot.occurrence).part == static_cast<int32_t>(p)) own_states.push_back(spot.state);
    parts.push_back(graph_.parts()[p]->renewed(from.parts()[p], own_states));
    size_t next = 0;
    for (const Spot& spot : spots)
      if (graph_.at(spot.occurrence).part == static_cast<int32_t>(p)) new_states[spot] = own_states[next++];
  }
  if (current_ == old || current_->parts() != parts || current_->is_broken()) renew(states_over(std::move(parts)));
  const std::lock_guard<std::mutex> from_lock(from.mutex());
  const StatesLock current_lock(*current_, {});
  const size_t memory_before = current_->own_memory();
  carry(carried, [&](int32_t state) { return current_->import(from, state, new_states); });
  current_->add_carried(current_->own_memory() - memory_before);
  return current_;
}

size_t CompiledComposition::positions() const {
  size_t total = 0;
  for (const std::shared_ptr<Compiled>& part : graph_.parts()) total += part->positions();
  return total;
}

size_t CompiledComposition::rules() const {
  size_t total = 0;
  for (const std::shared_ptr<Compiled>& part : graph_.parts()) total += part->rules();
  return total;
}

bool CompiledComposition::recursive() const {
  return std::ranges::any_of(graph_.parts(), [](const std::shared_ptr<Compiled>& part) { return part->recursive(); });
}

}  // namespace guided
