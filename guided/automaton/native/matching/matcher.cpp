#include "matching/matcher.hpp"

#include "compile/grammar.hpp"

#include <algorithm>
#include <cstring>

namespace guided {

namespace {
constexpr int kSelectiveRounds = 4;  // after this many rounds, a call compiles all deferred rules, not only needed ones
constexpr size_t kMaxPlaces = 3;     // the limit on rules that an error names
constexpr int kMaxRounds = 256;  // the limit on rounds, because failures on other threads may break the states again
}  // namespace

Matcher::Matcher(std::shared_ptr<Compiled> compiled) : compiled_(std::move(compiled)), states_(compiled_->states()) {
  state_ = states_->initial();
}

Matcher::Segment::~Segment() {
  // Releases long chains of forks in a loop, not by recursion.
  std::shared_ptr<Segment> p = std::move(parent);
  while (p && p.use_count() == 1) {
    std::shared_ptr<Segment> next = std::move(p->parent);
    p = std::move(next);
  }
}

Matcher::Matcher(Matcher& other)
    : compiled_(other.compiled_), states_(other.states_), state_(other.state_), terminated_(other.terminated_) {
  if (!other.recent_.empty()) {
    auto shared_segment = std::make_shared<Segment>();
    shared_segment->steps = std::move(other.recent_);
    shared_segment->parent = std::move(other.past_);
    shared_segment->parent_length = other.past_length_;
    other.recent_.clear();
    other.past_length_ = shared_segment->steps.size();
    other.past_total_ += other.past_length_;
    other.past_ = std::move(shared_segment);
  }
  past_ = other.past_;
  past_length_ = other.past_length_;
  past_total_ = other.past_total_;
}

// ---- calls that may have to be repeated on other states
template <class Work>
auto Matcher::run_repeatable(Work&& work) {
  for (int round = 1; round <= kMaxRounds; ++round) {
    try {
      if (round > 1) renew();
      return work();
    } catch (const RulesNeeded& needed) {
      compiled_->compile_later(needed.later, round > kSelectiveRounds);
    } catch (const StatesBroken&) {
    } catch (LimitFailure& failure) {
      add_place(failure);
      throw;
    }
  }
  throw std::runtime_error("calls on this grammar from other threads keep failing");
}

// The rules that are open before the call: they are where the limit was reached, or begin there.
void Matcher::add_place(LimitFailure& failure) const {
  std::vector<std::string> rules;
  try {
    const std::lock_guard<std::mutex> lock(states_->mutex());
    states_->open_rules(state_, rules);  // only reads, which broken states still allow
  } catch (const std::exception&) {
    return;  // the failure matters more than its place
  }
  if (rules.size() > kMaxPlaces) rules.resize(kMaxPlaces);
  for (const std::string& rule : rules) failure.rule += failure.rule.empty() ? rule : ", " + rule;
}

// ---- steps
int32_t Matcher::advance_token(int32_t state, int32_t id, bool& terminated) {
  const TokenVocabulary& v = *compiled_->vocabulary;
  if (id < 0 || id >= v.size) return kDead;
  if (terminated) return v.is_end(id) ? state : kDead;
  const int32_t next = states_->after_token(state, id);
  if (next != kDead) return next;
  if (!v.is_end(id) || !states_->accepting(state)) return kDead;
  terminated = true;
  return state;
}

void Matcher::push(int32_t state, bool terminated, int32_t token, std::shared_ptr<const std::string> text) {
  recent_.push_back({encode_state(), token, std::move(text)});
  state_ = state;
  terminated_ = terminated;
  // Renewing after the step carries the completions of the new state over, too. A failure to renew is not an error: the
  // step has been taken, and the next step tries to renew again.
  try {
    renew_if_full();
  } catch (const std::exception&) {
  }
}

void Matcher::restore(int32_t code) {
  terminated_ = code < 0;
  state_ = code < 0 ? ~code : code;
}

bool Matcher::accept_token(int32_t id) {
  bool terminated = terminated_;
  const int32_t next = run_repeatable([&] { return advance_token(state_, id, terminated = terminated_); });
  if (next == kDead) return false;
  push(next, terminated, id);
  return true;
}

std::optional<bool> Matcher::accept_known(int32_t id) {
  if (terminated_ || id >= compiled_->vocabulary->size || states_->full()) return std::nullopt;
  const int32_t next = states_->known_after_token(state_, id);
  if (next == kUnknown) return std::nullopt;
  if (next == kDead) return false;
  push(next, false, id);
  return true;
}

int32_t Matcher::advance_text(int32_t state, Span span, std::string_view bytes, bool terminated) {
  if (span == kText && bytes.empty()) return state;
  if (terminated) return kDead;
  if (span == kText) return states_->after_bytes(state, bytes);
  if (span == kEnd) return states_->token_ended(state);
  const StatesLock lock(*states_);
  for (size_t i = 0; i < bytes.size() && state != kDead; ++i)
    state = states_->step(state, static_cast<uint8_t>(bytes[i]));
  return state;
}

bool Matcher::accept_text(Span span, std::string_view bytes) {
  const int32_t next = run_repeatable([&] { return advance_text(state_, span, bytes, terminated_); });
  if (next == kDead) return false;
  push(next, terminated_, span, std::make_shared<const std::string>(bytes));
  return true;
}

bool Matcher::accept_bytes(std::string_view bytes) { return accept_text(kText, bytes); }

bool Matcher::accept_part(std::string_view bytes) { return accept_text(kPart, bytes); }

bool Matcher::end_token() { return accept_text(kEnd, {}); }

size_t Matcher::validate(const std::vector<int64_t>& ids) {
  return run_repeatable([&] {
    int32_t state = state_;
    bool terminated = terminated_;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] > INT32_MAX) return i;
      state = advance_token(state, static_cast<int32_t>(ids[i]), terminated);
      if (state == kDead) return i;
    }
    return ids.size();
  });
}

void Matcher::rollback(int64_t n) {
  if (n < 0) throw std::invalid_argument("rollback(" + std::to_string(n) + "): the number of steps must be at least 0");
  if (n > steps())
    throw std::invalid_argument("rollback(" + std::to_string(n) + "): only " + std::to_string(steps()) +
                                " steps were taken");
  size_t steps_left = static_cast<size_t>(n);
  if (steps_left == 0) return;
  if (steps_left <= recent_.size()) {
    restore(recent_[recent_.size() - steps_left].state);
    recent_.resize(recent_.size() - steps_left);
    return;
  }
  steps_left -= recent_.size();
  recent_.clear();
  while (steps_left > past_length_) {
    steps_left -= past_length_;
    past_total_ -= past_length_;
    past_length_ = past_->parent_length;
    past_ = std::shared_ptr<Segment>(past_->parent);
  }
  restore(past_->steps[past_length_ - steps_left].state);
  past_length_ -= steps_left;
  past_total_ -= steps_left;
  drop_empty_past();
}

// Drops empty segments, so alternating forks and rollbacks do not accumulate them.
void Matcher::drop_empty_past() {
  while (past_ && past_length_ == 0) {
    past_length_ = past_->parent_length;
    past_ = std::shared_ptr<Segment>(past_->parent);
  }
}

void Matcher::reset() {
  recent_.clear();
  past_.reset();
  past_length_ = past_total_ = 0;
  terminated_ = false;
  states_ = compiled_->states();
  state_ = states_->initial();
}

bool Matcher::accepting() const { return terminated_ || states_->accepting(state_); }

std::vector<Matcher::Step> Matcher::all_steps() const {
  std::vector<Step> all;
  std::vector<std::pair<const Segment*, size_t>> chain;
  size_t length = past_length_;
  for (const Segment* s = past_.get(); s; length = s->parent_length, s = s->parent.get()) chain.push_back({s, length});
  for (size_t i = chain.size(); i-- > 0;) {
    const auto from = chain[i].first->steps.begin();
    all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(chain[i].second));
  }
  all.insert(all.end(), recent_.begin(), recent_.end());
  return all;
}

std::vector<std::pair<int32_t, std::string>> Matcher::accepted() const {
  std::vector<std::pair<int32_t, std::string>> out;
  for (const Step& step : all_steps())
    out.emplace_back(std::max<int32_t>(step.token, kText), step.text ? *step.text : std::string());
  return out;
}

void Matcher::renew_if_full() {
  if (states_->full()) run_repeatable([&] { return renew(); });
}

// Switches to the grammar's current states, and carries all states of the past over.
void Matcher::renew() {
  if (states_->is_broken()) return repeat_steps();
  std::vector<Step> all = all_steps();
  std::vector<int32_t> codes = {state_};  // first the current state
  for (const Step& step : all) codes.push_back(step.state);
  std::shared_ptr<States> renewed = compiled_->renewed(states_, codes);
  state_ = codes.front();  // from here on nothing can fail
  for (size_t i = 0; i < all.size(); ++i) all[i].state = codes[i + 1];
  recent_ = std::move(all);
  past_.reset();
  past_length_ = past_total_ = 0;
  states_ = std::move(renewed);
}

// Repeats all steps on fresh states, because nothing can be carried over from broken states.
void Matcher::repeat_steps() {
  Matcher repeated(compiled_);
  for (const Step& step : all_steps()) {
    bool terminated = repeated.terminated_;
    const int32_t next = step.token >= 0 ? repeated.advance_token(repeated.state_, step.token, terminated)
                                         : repeated.advance_text(repeated.state_, static_cast<Span>(step.token),
                                                                 *step.text, repeated.terminated_);
    if (next == kDead) throw std::logic_error("a step that was accepted before is rejected when it is repeated");
    repeated.push(next, terminated, step.token, step.text);
  }
  states_ = std::move(repeated.states_);  // from here on nothing can fail
  state_ = repeated.state_;
  terminated_ = repeated.terminated_;
  recent_ = std::move(repeated.recent_);
  past_.reset();
  past_length_ = past_total_ = 0;
}

// ---- masks
bool Matcher::fill_known(uint32_t* row, bool& masks_something) const {
  if (terminated_) {
    std::memset(row, 0, static_cast<size_t>(compiled_->vocabulary->words) * 4);
    for (int32_t end : compiled_->vocabulary->end_tokens) set_bit(row, end);
    masks_something = true;
    return true;
  }
  return states_->known_mask(state_, row, masks_something);
}

bool Matcher::fill(uint32_t* row, int64_t max_tokens) {
  bool masks_something = true;
  budget_bound_ = false;
  if (terminated_ || max_tokens < 0) {
    if (fill_known(row, masks_something)) return masks_something;
    return run_repeatable([&] { return states_->mask(state_, row); });
  }
  return run_repeatable([&] { return states_->budget_mask(state_, row, max_tokens, budget_bound_); });
}

bool Matcher::may_bind(int64_t max_tokens) const {
  if (terminated_ || max_tokens < 0) return false;
  const int64_t rest = states_->known_rest(state_);
  return rest < 0 || rest > max_tokens - 2;  // without this token and the end token
}

std::tuple<int64_t, int64_t, int64_t> Matcher::rests() {
  return run_repeatable([&] { return states_->rests(state_); });
}

int64_t Matcher::min_tokens() {
  return terminated_ ? 0 : run_repeatable([&] { return states_->distance(state_) + 1; });
}

// ---- looking ahead
std::vector<int32_t> Matcher::forced(size_t limit) {
  if (terminated_) return {};
  return run_repeatable([&] { return forced_from(*states_, state_, limit); });
}

std::vector<int32_t> Matcher::forced_from(States& states, int32_t state, size_t limit) {
  std::vector<int32_t> out;
  const StatesLock lock(states);
  while (out.size() < limit && !states.accepting(state)) {
    int32_t symbol = -1, next = kDead, choices = 0;
    const ByteSet bytes = states.bytes(state);
    for (int b = 0; b < 256 && choices < 2; ++b) {
      if (!bytes.has(static_cast<uint8_t>(b))) continue;
      int32_t to = states.step(state, static_cast<uint8_t>(b));
      if (to == kDead) continue;
      symbol = b;
      next = to;
      ++choices;
    }
    std::vector<int32_t> tokens = states.controls(state);
    if (choices + static_cast<int32_t>(tokens.size()) != 1) break;
    if (choices == 0) {
      symbol = 256 + tokens[0];
      next = states.step_control(state, tokens[0]);
    }
    out.push_back(symbol);
    state = next;
  }
  return out;
}

std::vector<int32_t> Matcher::shortest(size_t limit) {
  if (terminated_) return {};
  return run_repeatable([&] { return states_->shortest(state_, limit); });
}

std::vector<uint8_t> Matcher::next_bytes() { return probe("").second; }

std::vector<int32_t> Matcher::next_tokens() {
  if (terminated_) return {};
  return run_repeatable([&] {
    const StatesLock lock(*states_);
    return states_->controls(state_);
  });
}

std::pair<size_t, std::vector<uint8_t>> Matcher::probe(std::string_view bytes) {
  if (terminated_) return {};
  return run_repeatable([&] { return probe_states(bytes); });
}

std::pair<size_t, std::vector<uint8_t>> Matcher::probe_states(std::string_view bytes) {
  std::vector<uint8_t> possible;
  const StatesLock lock(*states_);
  int32_t state = state_;
  size_t read_count = 0;
  for (; read_count < bytes.size(); ++read_count) {
    int32_t next = states_->step(state, static_cast<uint8_t>(bytes[read_count]));
    if (next == kDead) break;
    state = next;
  }
  const ByteSet set = states_->bytes(state);
  for (int b = 0; b < 256; ++b)
    if (set.has(static_cast<uint8_t>(b)) && states_->step(state, static_cast<uint8_t>(b)) != kDead)
      possible.push_back(static_cast<uint8_t>(b));
  return {read_count, possible};
}

std::vector<std::string> Matcher::open_rules(std::string_view after) {
  return run_repeatable([&] {
    const StatesLock lock(*states_);
    int32_t state = state_;
    for (char ch : after) {
      int32_t next = states_->step(state, static_cast<uint8_t>(ch));
      if (next == kDead) break;
      state = next;
    }
    std::vector<std::string> out;
    states_->open_rules(state, out);
    return out;
  });
}

std::vector<std::pair<uint32_t, uint32_t>> Matcher::characters(std::string_view bytes, std::string_view begun) {
  if (terminated_) return {};
  return run_repeatable([&] { return characters_after(bytes, begun); });
}

std::vector<int32_t> Matcher::walk_mask() {
  if (terminated_) return compiled_->vocabulary->end_tokens;
  return run_repeatable([&] { return states_->walk_mask(state_); });
}

}  // namespace guided
