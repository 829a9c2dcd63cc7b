#include "matching/matcher.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

namespace guided {

Matcher::Matcher(std::shared_ptr<Compiled> compiled) : compiled_(std::move(compiled)), work_(compiled_->workspace()) {
  state_ = work_->arena.initial();
}

bool Compiled::can_end() {
  Arena& arena = current_->arena;
  if (grammar->known.empty() || arena.unbounded().all_entries()) return true;
  std::lock_guard<std::mutex> lock(arena.mutex());
  return current_->completions.ends(arena.initial());
}

Matcher::Segment::~Segment() {
  // Long chains of forks are released one by one, not by recursion.
  std::shared_ptr<Segment> p = std::move(parent);
  while (p && p.use_count() == 1) {
    std::shared_ptr<Segment> next = std::move(p->parent);
    p = std::move(next);
  }
}

Matcher::Matcher(Matcher& other)
    : compiled_(other.compiled_), work_(other.work_), state_(other.state_), terminated_(other.terminated_) {
  if (!other.recent_.empty()) {
    auto shared = std::make_shared<Segment>();
    shared->states = std::move(other.recent_);
    shared->parent = std::move(other.past_);
    shared->parent_length = other.past_length_;
    other.recent_.clear();
    other.past_length_ = shared->states.size();
    other.past_total_ += other.past_length_;
    other.past_ = std::move(shared);
  }
  past_ = other.past_;
  past_length_ = other.past_length_;
  past_total_ = other.past_total_;
}

// ---- steps
int32_t Matcher::advance(int32_t state, std::string_view bytes) {
  Arena& arena = work_->arena;
  size_t i = 0;
  for (; i < bytes.size(); ++i) {
    int32_t next = arena.peek(state, static_cast<uint8_t>(bytes[i]));
    if (next == kUnknown) break;
    if (next == kDead) return kDead;
    state = next;
  }
  if (i < bytes.size()) {
    std::lock_guard<std::mutex> lock(arena.mutex());
    state = arena.step_text(state, bytes.substr(i));
    if (state == kDead) return kDead;
  }
  return at_boundary(arena, state) ? state : kDead;
}

int32_t Matcher::advance_token(int32_t state, int32_t id, bool& terminated) {
  const TokenVocabulary& v = *compiled_->vocabulary;
  if (id < 0 || id >= v.size) return kDead;
  if (terminated) return v.is_end(id) ? state : kDead;
  int32_t next = v.textual(id) ? advance(state, v.tokens[id]) : kDead;
  if (!compiled_->grammar->tokens.empty()) {  // a token with text may be named by its id, too
    std::lock_guard<std::mutex> lock(work_->arena.mutex());
    next = work_->arena.either(next, work_->arena.step_token(state, id));
  }
  if (next != kDead) return next;
  if (!v.is_end(id) || !work_->arena.config(state).accepting) return kDead;
  terminated = true;
  return state;
}

void Matcher::push(int32_t state, bool terminated) {
  recent_.push_back(coded());
  state_ = state;
  terminated_ = terminated;
  renew_if_full();
}

void Matcher::restore(int32_t code) {
  terminated_ = code < 0;
  state_ = code < 0 ? ~code : code;
}

bool Matcher::accept_token(int32_t id) {
  bool terminated = terminated_;
  int32_t next = advance_token(state_, id, terminated);
  if (next == kDead) return false;
  push(next, terminated);
  return true;
}

std::optional<bool> Matcher::accept_known(int32_t id) {
  const TokenVocabulary& v = *compiled_->vocabulary;
  if (!v.textual(id) || terminated_ || !compiled_->grammar->tokens.empty() || work_->arena.full()) return std::nullopt;
  int32_t state = state_;
  for (char ch : v.tokens[id]) {
    int32_t next = work_->arena.peek(state, static_cast<uint8_t>(ch));
    if (next == kUnknown) return std::nullopt;
    if (next == kDead) return false;
    state = next;
  }
  if (!at_boundary(work_->arena, state)) return false;
  push(state, false);
  return true;
}

bool Matcher::accept_bytes(std::string_view bytes) {
  if (terminated_ && !bytes.empty()) return false;
  int32_t next = bytes.empty() ? state_ : advance(state_, bytes);
  if (next == kDead) return false;
  push(next, terminated_);
  return true;
}

size_t Matcher::validate(const std::vector<int64_t>& ids) {
  int32_t state = state_;
  bool terminated = terminated_;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] > INT32_MAX) return i;
    state = advance_token(state, static_cast<int32_t>(ids[i]), terminated);
    if (state == kDead) return i;
  }
  return ids.size();
}

void Matcher::rollback(int64_t n) {
  if (n < 0) throw std::invalid_argument("rollback(" + std::to_string(n) + "): a number of steps is at least 0");
  if (n > steps())
    throw std::invalid_argument("rollback(" + std::to_string(n) + "): only " + std::to_string(steps()) +
                                " steps were taken");
  size_t left = static_cast<size_t>(n);
  if (left == 0) return;
  if (left <= recent_.size()) {
    restore(recent_[recent_.size() - left]);
    recent_.resize(recent_.size() - left);
    return;
  }
  left -= recent_.size();
  recent_.clear();
  while (left > past_length_) {
    left -= past_length_;
    past_total_ -= past_length_;
    past_length_ = past_->parent_length;
    past_ = std::shared_ptr<Segment>(past_->parent);
  }
  restore(past_->states[past_length_ - left]);
  past_length_ -= left;
  past_total_ -= left;
  drop_empty_past();
}

// Segments of which nothing is left are let go, so that forks and rollbacks in turn leave nothing behind.
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
  work_ = compiled_->workspace();
  state_ = work_->arena.initial();
}

bool Matcher::accepting() const { return terminated_ || work_->arena.config(state_).accepting; }

void Matcher::renew_if_full() {
  if (!work_->arena.full()) return;
  std::shared_ptr<Workspace> renewed = compiled_->renewed(work_);
  if (renewed == work_) return;
  std::vector<int32_t> all;  // the whole past, oldest first
  std::vector<std::pair<const Segment*, size_t>> chain;
  size_t length = past_length_;
  for (const Segment* s = past_.get(); s; length = s->parent_length, s = s->parent.get()) chain.push_back({s, length});
  for (size_t i = chain.size(); i-- > 0;) {
    const auto from = chain[i].first->states.begin();
    all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(chain[i].second));
  }
  all.insert(all.end(), recent_.begin(), recent_.end());
  Arena::Carried known;
  int32_t state;
  {
    std::scoped_lock lock(work_->arena.mutex(), renewed->arena.mutex());
    state = renewed->arena.import(work_->arena, state_, known);
    for (int32_t& code : all) {
      int32_t moved = renewed->arena.import(work_->arena, code < 0 ? ~code : code, known);
      code = code < 0 ? ~moved : moved;
    }
    // What must be kept may itself be large: leave room, or every step would start over.
    renewed->arena.raise_limit(renewed->arena.bytes() * 2);
  }
  state_ = state;  // from here on nothing can fail
  recent_ = std::move(all);
  past_.reset();
  past_length_ = past_total_ = 0;
  work_ = std::move(renewed);
}

// ---- masks
bool Matcher::fill_known(uint32_t* row, bool& masks_something) const {
  if (terminated_) {
    std::memset(row, 0, static_cast<size_t>(compiled_->vocabulary->words) * 4);
    for (int32_t end : compiled_->vocabulary->end_tokens) set_bit(row, end);
    masks_something = true;
    return true;
  }
  const MaskRecipe* recipe = work_->masks.known_recipe(state_);
  if (!recipe) return false;
  recipe->write(row, compiled_->vocabulary->words);
  masks_something = !recipe->everything;
  return true;
}

bool Matcher::fill(uint32_t* row, int64_t max_tokens) {
  bool masks_something = true;
  budget_bound_ = false;
  // A budget that cannot take anything is none.
  auto is_plenty = [&](int64_t rest) { return rest >= 0 && rest <= max_tokens - 2; };
  if (terminated_ || max_tokens < 0 || is_plenty(work_->least_rests.get(state_)))
    if (fill_known(row, masks_something)) return masks_something;
  const int32_t words = compiled_->vocabulary->words;
  Arena& arena = work_->arena;
  const MaskRecipe* recipe = nullptr;
  {
    std::lock_guard<std::mutex> lock(arena.mutex());
    if (max_tokens >= 0 && !is_plenty(work_->rest_bytes.after_token(state_)) &&
        !is_plenty(work_->rest_tokens.after_token(state_)) && !is_plenty(work_->budgets.reach_bound(state_))) {
      const int64_t needed = min_tokens_locked();
      if (max_tokens < needed) throw BudgetFailure(needed, max_tokens);
      const int64_t most = max_tokens - 2;  // that token, and the end token
      if (work_->budgets.reach(state_) > most) {
        budget_bound_ = true;
        work_->budgets.fill(state_, most, row);
        for (int32_t token : next_tokens_locked(arena, state_))
          if (work_->completions.distance(arena.step_token(state_, token)) <= most) set_bit(row, token);
        if (arena.config(state_).accepting)
          for (int32_t end : compiled_->vocabulary->end_tokens) set_bit(row, end);
        return true;
      }
    }
    recipe = &work_->masks.recipe(state_);
  }
  recipe->write(row, words);
  return !recipe->everything;
}

std::vector<int32_t> Matcher::next_tokens_locked(const Arena& arena, int32_t state) {
  const Grammar& g = arena.grammar();
  std::vector<int32_t> out;
  for (const Thread& t : arena.config(state)) {
    if (t.pos == kExit) continue;
    const Position& p = g.positions[t.pos];
    for (int32_t i = p.token_lo; i < p.token_hi; ++i) out.push_back(g.tokens[i].token);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::tuple<int64_t, int64_t, int64_t> Matcher::rests() {
  std::lock_guard<std::mutex> lock(work_->arena.mutex());
  const int64_t rest = std::min(work_->rest_bytes.after_token(state_), work_->rest_tokens.after_token(state_));
  return {rest, work_->budgets.reach_bound(state_), work_->budgets.reach(state_)};
}

int64_t Matcher::min_tokens() {
  if (terminated_) return 0;
  std::lock_guard<std::mutex> lock(work_->arena.mutex());
  return min_tokens_locked();
}

int64_t Matcher::min_tokens_locked() { return work_->budgets.distance(state_) + 1; }

// ---- looking ahead
std::vector<int32_t> Matcher::forced(size_t limit) {
  std::vector<int32_t> out;
  if (terminated_) return out;
  Arena& arena = work_->arena;
  std::lock_guard<std::mutex> lock(arena.mutex());
  int32_t state = state_;
  while (out.size() < limit && !arena.config(state).accepting) {
    int32_t only = -1, next = kDead, choices = 0;
    const ByteSet bytes = arena.config(state).bytes;
    for (int b = 0; b < 256 && choices < 2; ++b) {
      if (!bytes.has(static_cast<uint8_t>(b))) continue;
      int32_t to = arena.step(state, static_cast<uint8_t>(b));
      if (to == kDead) continue;
      only = b;
      next = to;
      ++choices;
    }
    std::vector<int32_t> tokens = next_tokens_locked(arena, state);
    if (choices + static_cast<int32_t>(tokens.size()) != 1) break;
    if (choices == 0) {
      only = 256 + tokens[0];
      next = arena.step_token(state, tokens[0]);
    }
    out.push_back(only);
    state = next;
  }
  return out;
}

std::vector<int32_t> Matcher::shortest(size_t limit) {
  if (terminated_) return {};
  std::lock_guard<std::mutex> lock(work_->arena.mutex());
  return work_->completions.spelled(state_, limit);
}

std::vector<uint8_t> Matcher::next_bytes() { return probe("").second; }

std::vector<int32_t> Matcher::next_tokens() {
  if (terminated_) return {};
  return next_tokens_locked(work_->arena, state_);
}

std::pair<size_t, std::vector<uint8_t>> Matcher::probe(std::string_view bytes) {
  Arena& arena = work_->arena;
  std::lock_guard<std::mutex> lock(arena.mutex());
  int32_t state = state_;
  size_t read = 0;
  std::vector<uint8_t> possible;
  if (terminated_) return {0, possible};
  for (; read < bytes.size(); ++read) {
    int32_t next = arena.step(state, static_cast<uint8_t>(bytes[read]));
    if (next == kDead) break;
    state = next;
  }
  const ByteSet set = arena.config(state).bytes;
  for (int b = 0; b < 256; ++b)
    if (set.has(static_cast<uint8_t>(b)) && arena.step(state, static_cast<uint8_t>(b)) != kDead)
      possible.push_back(static_cast<uint8_t>(b));
  return {read, possible};
}

std::vector<std::string> Matcher::open_rules(std::string_view after) {
  Arena& arena = work_->arena;
  std::lock_guard<std::mutex> lock(arena.mutex());
  int32_t state = state_;
  for (char ch : after) {
    int32_t next = arena.step(state, static_cast<uint8_t>(ch));
    if (next == kDead) break;
    state = next;
  }
  std::vector<std::string> out;
  const Grammar& g = arena.grammar();
  for (const Thread& t : arena.config(state)) {
    if (t.pos == kExit) continue;
    int32_t origin = g.rules[g.positions[t.pos].rule].origin;
    if (origin >= 0 && std::find(out.begin(), out.end(), g.names[origin]) == out.end()) out.push_back(g.names[origin]);
  }
  return out;
}

std::vector<int32_t> Matcher::walk_mask() {
  if (terminated_) return compiled_->vocabulary->end_tokens;
  std::lock_guard<std::mutex> lock(work_->arena.mutex());
  return work_->masks.walk(state_);
}

void fill_rows(const std::vector<Matcher*>& matchers, uint32_t* mask, const std::vector<int64_t>& rows, int64_t words,
               int64_t max_tokens, int threads) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  auto work = [&] {
    for (size_t i = next.fetch_add(1); i < matchers.size(); i = next.fetch_add(1)) {
      try {
        matchers[i]->fill(mask + rows[i] * words, max_tokens);
      } catch (...) {
        std::lock_guard<std::mutex> lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  size_t count = std::min(static_cast<size_t>(std::max(1, threads)), matchers.size());
  std::vector<std::thread> pool;
  pool.reserve(count);
  try {
    while (pool.size() + 1 < count) pool.emplace_back(work);
  } catch (const std::system_error&) {  // the system has no more threads: those that there are do the work
  }
  work();
  for (std::thread& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace guided
