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
  Reached start = nothing();
  enter(graph_.first(), start);
  start.accepting |= graph_.is_empty();
  intern(std::move(start));
}

// ---- spots
void ComposedStates::reach(Spot spot, Reached& out) const {
  out.spots.push_back(spot);
  if (!part(spot.at).accepting(spot.state)) return;
  out.accepting |= graph_.at(spot.at).last;
  enter(graph_.at(spot.at).next, out);
}

void ComposedStates::enter(const std::vector<int32_t>& occurrences, Reached& out) const {
  for (int32_t occurrence : occurrences) {
    if (out.entered[occurrence]) continue;
    out.entered[occurrence] = true;
    reach({occurrence, part(occurrence).initial()}, out);
  }
}

ComposedStates::Reached ComposedStates::after_byte(const std::vector<Spot>& from, uint8_t byte) const {
  Reached out = nothing();
  for (const Spot& spot : from) {
    States& states = part(spot.at);
    int32_t to;
    {
      const StatesLock lock(states);
      to = states.step(spot.state, byte);
    }
    if (to != kDead) reach({spot.at, to}, out);
  }
  sort_unique(out.spots);
  return out;
}

void ComposedStates::read(int32_t state, std::string_view bytes, Reached& out) const {
  std::vector<Spot> now = spots(state);
  bool accepting = false;
  for (char byte : bytes) {
    Reached after = after_byte(now, static_cast<uint8_t>(byte));
    now = std::move(after.spots);
    accepting = after.accepting;
    if (now.empty()) return;
  }
  out.accepting |= accepting;
  for (const Spot& spot : now)
    if (part(spot.at).ends_token(spot.state)) out.spots.push_back(spot);
}

int32_t ComposedStates::intern(Reached&& reached) {
  if (reached.spots.empty() && !reached.accepting) return kDead;
  sort_unique(reached.spots);
  const int32_t number = size_.load(std::memory_order_relaxed);
  const auto [at, added] = ids_.try_emplace({reached.spots, reached.accepting}, number);
  if (!added) return at->second;
  own_memory_ += reached.spots.size() * 2 * sizeof(Spot) + 200 + accepts_.set(number, reached.accepting);
  states_.push_back(std::make_unique<const std::vector<Spot>>(std::move(reached.spots)));
  ++size_;
  return number;
}

// ---- steps
int32_t ComposedStates::locked_after_token(int32_t state, int32_t id) {
  Reached out = nothing();
  for (const Spot& spot : spots(state)) {
    const int32_t to = part(spot.at).after_token(spot.state, id);
    if (to != kDead) reach({spot.at, to}, out);
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
  Reached out = nothing();
  read(state, bytes, out);
  return intern(std::move(out));
}

int32_t ComposedStates::step(int32_t state, uint8_t byte) { return intern(after_byte(spots(state), byte)); }

int32_t ComposedStates::step_control(int32_t state, int32_t token) {
  Reached out = nothing();
  for (const Spot& spot : spots(state)) {
    States& states = part(spot.at);
    int32_t to;
    {
      const StatesLock lock(states);
      to = states.step_control(spot.state, token);
    }
    if (to != kDead) reach({spot.at, to}, out);
  }
  return intern(std::move(out));
}

// A part alone does not determine whether the output may end.
void ComposedStates::leave_end_tokens_to(bool accepting, uint32_t* row) const {
  for (int32_t end : vocabulary_.end_tokens) {
    clear_bit(row, end);
    if (accepting) set_bit(row, end);
  }
}

bool ComposedStates::known_mask(int32_t state, uint32_t* row, bool& masks_something) const {
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || States::is_broken()) return false;
  const auto at = masks_.find(state);
  if (at == masks_.end()) return false;
  std::ranges::copy(at->second, row);
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
  const auto [at, added] = masks_.try_emplace(state);
  if (added) {
    std::vector<uint32_t> all(static_cast<size_t>(vocabulary_.words)), one(all);
    for (const Spot& spot : spots(state)) {
      part(spot.at).mask(spot.state, one.data());
      for (size_t i = 0; i < all.size(); ++i) all[i] |= one[i];
      for (const LeavingTokens::Leaving& each : leaving_.of(spot)) set_bit(all.data(), each.token);
    }
    leave_end_tokens_to(accepting(state), all.data());
    masks_memory_ += all.size() * 4 + 64;
    at->second = std::move(all);
  }
  std::ranges::copy(at->second, row);
  return true;
}

bool ComposedStates::budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& bound) {
  StatesLock lock(*this);
  const int64_t needed = locked_distance(state) + 1, most = max_tokens - 2;  // without this token and the end token
  if (max_tokens < needed) {
    lock.unlock();
    throw BudgetFailure(needed, max_tokens);
  }
  std::vector<uint32_t> one(static_cast<size_t>(vocabulary_.words));
  std::fill(row, row + one.size(), 0);
  for (const Spot& spot : spots(state)) {
    const int64_t own = max_tokens - graph_.tokens_behind(spot.at);
    if (part(spot.at).distance(spot.state) + 1 <= own) {
      part(spot.at).budget_mask(spot.state, one.data(), own, bound);
      for (size_t i = 0; i < one.size(); ++i) row[i] |= one[i];
    } else {
      bound = true;
    }
    for (LeavingTokens::Leaving& each : leaving_.of(spot)) {
      if (each.left < 0) each.left = left(each.to);
      if (each.left <= most)
        set_bit(row, each.token);
      else
        bound = true;
    }
  }
  leave_end_tokens_to(accepting(state), row);
  return true;
}

int64_t ComposedStates::locked_distance(int32_t state) const {
  if (accepting(state)) return 0;
  int64_t least = INT64_MAX;
  for (const Spot& spot : spots(state)) least = std::min(least, left(spot));
  return least;
}

int64_t ComposedStates::distance(int32_t state) {
  const StatesLock lock(*this);
  return locked_distance(state);
}

std::tuple<int64_t, int64_t, int64_t> ComposedStates::rests(int32_t state) {
  const StatesLock lock(*this);
  int64_t most = 0;
  for (const Spot& spot : spots(state)) {
    most = std::max(most, std::get<2>(part(spot.at).rests(spot.state)) + graph_.tokens_behind(spot.at));
    for (LeavingTokens::Leaving& each : leaving_.of(spot)) most = std::max(most, each.left = left(each.to));
  }
  return {most, most, most};
}

std::vector<int32_t> ComposedStates::shortest(int32_t state, size_t limit) {
  const StatesLock lock(*this);
  std::vector<int32_t> out;
  if (accepting(state)) return out;
  Spot best = spots(state).front();
  for (const Spot& spot : spots(state))
    if (left(spot) < left(best)) best = spot;
  out = part(best.at).shortest(best.state, limit);
  for (int32_t at = graph_.shortest_next(best.at); at >= 0 && out.size() < limit; at = graph_.shortest_next(at)) {
    const std::vector<int32_t> more = part(at).shortest(part(at).initial(), limit - out.size());
    out.insert(out.end(), more.begin(), more.end());
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
  for (const Spot& spot : spots(state)) out |= part(spot.at).bytes(spot.state);
  return out;
}

std::vector<int32_t> ComposedStates::controls(int32_t state) const {
  std::vector<int32_t> out;
  for (const Spot& spot : spots(state))
    for (int32_t token : part(spot.at).controls(spot.state)) out.push_back(token);
  sort_unique(out);
  return out;
}

void ComposedStates::open_rules(int32_t state, std::vector<std::string>& out) const {
  for (const Spot& spot : spots(state)) {
    std::vector<std::string> found;
    {
      const StatesLock lock(part(spot.at));
      part(spot.at).open_rules(spot.state, found);
    }
    for (std::string& name : found)
      if (std::ranges::find(out, name) == out.end()) out.push_back(std::move(name));
  }
}

// ---- size
bool ComposedStates::full() const {
  return own_memory_.load(std::memory_order_relaxed) > memory_limit_.load(std::memory_order_relaxed) ||
         std::ranges::any_of(parts_, [](const std::shared_ptr<States>& states) { return states->full(); });
}

size_t ComposedStates::bytes() const {
  size_t total = own_memory_.load(std::memory_order_relaxed);
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

int32_t ComposedStates::import(const ComposedStates& other, int32_t state, const std::map<Spot, int32_t>& moved) {
  Reached reached = nothing();
  for (const Spot& spot : other.spots(state)) reached.spots.push_back({spot.at, moved.at(spot)});
  reached.accepting = other.accepting(state);
  return intern(std::move(reached));
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

// The parts themselves carry over their states.
std::shared_ptr<States> CompiledComposition::renewed(const std::shared_ptr<States>& old,
                                                     std::vector<int32_t>& carried) {
  std::lock_guard<std::mutex> lock(mutex_);
  ComposedStates& from = static_cast<ComposedStates&>(*old);
  std::vector<Spot> spots;
  {
    std::lock_guard<std::mutex> reading(from.mutex());
    spots = from.spots_of(carried);
  }
  std::map<Spot, int32_t> moved;
  std::vector<std::shared_ptr<States>> parts;
  for (size_t p = 0; p < graph_.parts().size(); ++p) {
    std::vector<int32_t> own;
    for (const Spot& spot : spots)
      if (graph_.at(spot.at).part == static_cast<int32_t>(p)) own.push_back(spot.state);
    parts.push_back(graph_.parts()[p]->renewed(from.parts()[p], own));
    size_t next = 0;
    for (const Spot& spot : spots)
      if (graph_.at(spot.at).part == static_cast<int32_t>(p)) moved[spot] = own[next++];
  }
  if (current_ == old || current_->parts() != parts || current_->is_broken()) renew(states_over(std::move(parts)));
  const std::lock_guard<std::mutex> reading(from.mutex());
  const StatesLock both(*current_, {});
  carry(carried, [&](int32_t state) { return current_->import(from, state, moved); });
  current_->leave_room();
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
