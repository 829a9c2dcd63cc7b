// A matcher is the state of one output while it is being written.
//
// It consists of a state number and the past: for each step, the state number before it and the accepted token or text.
// fork() copies the state number; both matchers share the past, which is an immutable chain. rollback(n) drops n steps.
// Everything that is computed for a state is stored with the grammar's states (states.hpp), which all its matchers
// share, on any number of OS threads. One thread at a time uses a matcher. When the states exceed their memory limit,
// fresh states replace them, and the matcher carries its own states over. When the states are broken, it repeats its
// steps on fresh states.
#pragma once

#include <atomic>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>

#include "base/token_set.hpp"
#include "matching/states.hpp"

namespace guided {

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Compiled> compiled);
  Matcher(Matcher& other);  // fork

  bool fill(uint32_t* row, int64_t max_tokens);  // max_tokens < 0: no budget
  // Whether the budget may have removed tokens from the last mask. False: the mask equals the mask without a budget.
  bool budget_bound() const { return budget_bound_; }
  // Whether a budget may remove tokens from the next mask. False: the mask equals the mask without a budget.
  bool may_bind(int64_t max_tokens) const;
  // Fills the row if the state's mask is known already; otherwise returns false.
  bool fill_known(uint32_t* row, bool& masks_something) const;
  bool accept_token(int32_t id);
  // Accepts a token without the lock if all its steps have been taken before; otherwise returns nullopt.
  std::optional<bool> accept_known(int32_t id);
  bool accept_bytes(std::string_view bytes);
  // Accepts a token in parts. Each part is a step, and so is the end of the token.
  bool accept_part(std::string_view bytes);
  bool end_token();
  size_t validate(const std::vector<int64_t>& ids);
  void rollback(int64_t n);
  void reset();
  bool accepting() const;
  bool terminated() const { return terminated_; }
  int64_t steps() const { return static_cast<int64_t>(recent_.size() + past_total_); }
  int64_t min_tokens();
  // Three values for the number of tokens that are still needed after the next token, whichever it is: an upper bound
  // from the rules, an upper bound that exists if values must differ (reach_bound.cpp), and the largest distance after
  // an allowed token.
  std::tuple<int64_t, int64_t, int64_t> rests();

  // The common prefix of all continuations: bytes, or 256 + control token.
  std::vector<int32_t> forced(size_t limit);
  std::vector<int32_t> shortest(size_t limit);
  std::vector<uint8_t> next_bytes();
  std::vector<int32_t> next_tokens();  // the control tokens that may come next
  // The number of leading bytes that can be read, and the bytes that may follow them.
  std::pair<size_t, std::vector<uint8_t>> probe(std::string_view bytes);
  // The code points that can follow `bytes`, as ranges. All of `bytes` must be readable. `begun`: the bytes of an
  // incomplete character that were read before, or none; the result has the complete characters.
  std::vector<std::pair<uint32_t, uint32_t>> characters(std::string_view bytes, std::string_view begun);
  std::vector<std::string> open_rules(std::string_view after);  // rules that are open after these bytes
  std::vector<int32_t> walk_mask();                             // the mask by its definition, without caches
  // The accepted steps: a token, or -1 and a text.
  std::vector<std::pair<int32_t, std::string>> accepted() const;
  int32_t state() const { return state_; }
  States& states() { return *states_; }
  Compiled& compiled() { return *compiled_; }
  int32_t configurations() const { return states_->size(); }
  size_t bytes() const { return states_->bytes(); }

 private:
  struct Step {
    int32_t state;                            // before the step; ~state if terminated
    int32_t token;                            // the accepted token, or a Span
    std::shared_ptr<const std::string> text;  // of a Span
  };
  // Values of Step::token other than tokens: a complete text, a part of a token, and the end of a token.
  enum Span : int32_t { kText = -1, kPart = -2, kEnd = -3 };
  struct Segment {
    std::vector<Step> steps;
    std::shared_ptr<Segment> parent;
    size_t parent_length = 0;
    ~Segment();
  };
  int32_t advance_token(int32_t state, int32_t id, bool& terminated);
  int32_t advance_text(int32_t state, Span span, std::string_view bytes, bool terminated);
  bool accept_text(Span span, std::string_view bytes);
  void push(int32_t state, bool terminated, int32_t token, std::shared_ptr<const std::string> text = nullptr);
  std::vector<Step> all_steps() const;  // oldest first
  void renew_if_full();
  void renew();
  void repeat_steps();
  // Returns the value of `work`. Calls `work` again, on other states, if it needs rules that are not compiled yet, or
  // if the states are broken.
  template <class Work>
  auto run_repeatable(Work&& work);
  void add_place(LimitFailure& failure) const;
  static std::vector<int32_t> forced_from(States& states, int32_t state, size_t limit);
  std::pair<size_t, std::vector<uint8_t>> probe_states(std::string_view bytes);
  std::vector<std::pair<uint32_t, uint32_t>> characters_after(std::string_view bytes, std::string_view begun);
  void drop_empty_past();
  int32_t encode_state() const { return terminated_ ? ~state_ : state_; }
  void restore(int32_t code);

  std::shared_ptr<Compiled> compiled_;
  std::shared_ptr<States> states_;
  int32_t state_ = 0;
  bool terminated_ = false, budget_bound_ = false;
  std::vector<Step> recent_;
  std::shared_ptr<Segment> past_;
  size_t past_length_ = 0, past_total_ = 0;
  friend class InUse;
  mutable std::atomic_flag busy_;
};

// Held during every call from Python, so using a matcher on two threads at once is an error, not a race.
class InUse {
 public:
  explicit InUse(const Matcher& matcher) : busy_(matcher.busy_) {
    if (busy_.test_and_set(std::memory_order_acquire))
      throw std::runtime_error("another thread is using this matcher: give each thread its own fork()");
  }
  ~InUse() { busy_.clear(std::memory_order_release); }
  InUse(const InUse&) = delete;

 private:
  std::atomic_flag& busy_;
};

}  // namespace guided
