// The states of a compiled grammar: the interface that matchers use.
//
// A state is a number that represents the text so far, as far as it matters for the continuation. `Matcher`
// (matcher.hpp) keeps the history of one output and needs nothing else. Three kinds of grammars implement the
// interface: those whose rules read bytes (workspace.hpp), those with a lexer (lexer/lexed_states.hpp), and those that
// are composed of parts of either kind (composed/composed_states.hpp).
//
// Matchers on any number of OS threads share the states. Methods whose names begin with `known` never wait for a lock.
// Callers of the methods under "looking ahead" hold a `StatesLock`. All other methods take the lock themselves.
//
// An exception during a call (a limit, no memory) may leave tables inconsistent. `StatesLock` then marks the states as
// *broken*, and later calls throw `StatesBroken`. The matcher then switches to fresh states of the grammar, and repeats
// the steps that it has accepted (matcher.cpp). Steps and masks that were published before remain valid.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/call_meter.hpp"
#include "base/common.hpp"
#include "matching/mask_digests.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

// Thrown by calls on states that an exception has left inconsistent.
struct StatesBroken {};

class States {
 public:
  using Flag = std::shared_ptr<std::atomic<bool>>;
  // `broken`: a flag that several states may share, such as those of one lexer.
  explicit States(CallLimits limits, Flag broken = std::make_shared<std::atomic<bool>>(false))
      : limits_(limits), broken_(std::move(broken)) {}
  States(const States&) = delete;
  virtual ~States() = default;

  virtual int32_t initial() const = 0;
  virtual bool accepting(int32_t state) const = 0;
  // The state after a token that has a text or that the grammar names, and that is no end token. kDead: it is not
  // allowed. kUnknown: not computed yet.
  virtual int32_t known_after_token(int32_t state, int32_t id) const = 0;
  virtual int32_t after_token(int32_t state, int32_t id) = 0;
  virtual int32_t after_bytes(int32_t state, std::string_view bytes) = 0;
  // The state after the end of a token whose bytes `step` has read. kDead: it may not end there.
  virtual int32_t token_ended(int32_t state) { return state; }
  // The next two functions write the row of allowed tokens. `known_mask` returns false if the row is not computed yet.
  // `mask` returns whether some token is not allowed.
  virtual bool known_mask(int32_t state, uint32_t* row, bool& masks_something) const = 0;
  virtual bool mask(int32_t state, uint32_t* row) = 0;
  // Like `mask`, without the tokens after which the output cannot end within `max_tokens` tokens, including this token
  // and the end token. `is_budget_bound`: set if the budget may have removed tokens.
  virtual bool budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& is_budget_bound) = 0;
  // A number of tokens, without the end token, that suffices after any token of the mask. -1: not computed yet.
  virtual int64_t known_rest(int32_t) const { return -1; }
  // The number of tokens to the end of the output, without the end token.
  virtual int64_t distance(int32_t state) = 0;
  // See Matcher::rests.
  virtual std::tuple<int64_t, int64_t, int64_t> rests(int32_t state) = 0;
  // A shortest completion: bytes, or 256 + control token.
  virtual std::vector<int32_t> shortest(int32_t state, size_t limit) = 0;
  virtual std::vector<int32_t> walk_mask(int32_t state) = 0;

  // ---- looking ahead, with the lock held
  virtual std::mutex& mutex() = 0;
  virtual int32_t step(int32_t state, uint8_t byte) = 0;
  virtual int32_t step_control(int32_t state, int32_t token) = 0;
  virtual ByteSet bytes(int32_t state) const = 0;  // a superset of the bytes that `step` can read
  // Character classes whose characters all lead back to the state; some may be missing.
  virtual CharClasses loops(int32_t) { return 0; }
  virtual std::vector<int32_t> controls(int32_t state) const = 0;  // control tokens that may come next
  // Whether a token may end in the state: whether whole tokens lead from there to an end (Position::boundary).
  virtual bool ends_token(int32_t state) {
    static_cast<void>(state);
    return true;
  }
  virtual void open_rules(int32_t state, std::vector<std::string>& out) const = 0;
  // States with equal keys are followed by the same characters. `steps`: how many steps the caller has taken so far.
  virtual std::vector<int32_t> character_key(int32_t state, int steps) {
    static_cast<void>(steps);
    return {state};
  }

  // ---- size
  virtual bool full() const = 0;
  virtual size_t bytes() const = 0;
  virtual int32_t size() const = 0;

  // ---- failures
  virtual bool is_broken() const { return broken_->load(std::memory_order_relaxed); }
  const CallLimits& limits() const { return limits_; }

  MaskDigests mask_digests;

 protected:
  friend class StatesLock;
  // Called at the start of a call, with the lock held. Throws StatesBroken.
  virtual void begin_call() {
    if (broken_->load(std::memory_order_relaxed)) throw StatesBroken{};
  }
  // Called when an exception leaves a call, with the lock held.
  virtual void abandon_call() { broken_->store(true, std::memory_order_relaxed); }

 private:
  const CallLimits limits_;
  const Flag broken_;
};

// Held during each call that may change states. It excludes other calls, meters the call, and marks the states as
// broken if an exception leaves the call.
class StatesLock {
 public:
  explicit StatesLock(States& states) : StatesLock(states, states.limits()) {}
  StatesLock(States& states, const CallLimits& limits)
      : states_(states), meter_(limits), lock_(states.mutex()), exceptions_(std::uncaught_exceptions()) {
    states_.begin_call();
  }
  ~StatesLock() {
    if (lock_.owns_lock() && std::uncaught_exceptions() > exceptions_) states_.abandon_call();
  }
  StatesLock(const StatesLock&) = delete;
  // For a caller that has finished using the states: later exceptions do not mark them as broken.
  void unlock() { lock_.unlock(); }

 private:
  States& states_;
  CallMeter meter_;
  std::unique_lock<std::mutex> lock_;
  const int exceptions_;
};

// A grammar compiled for a vocabulary, and its states. When the states exceed their memory limit or are broken, fresh
// states replace them. Each matcher switches to the fresh states at its next step. The old states are freed with their
// last matcher.
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<const TokenVocabulary> vocabulary) : vocabulary(std::move(vocabulary)) {}
  Compiled(const Compiled&) = delete;
  virtual ~Compiled() = default;
  // The current states, which are not broken.
  virtual std::shared_ptr<States> states() = 0;
  // Returns the states that replace `old`. Copies the states in `carried` (~state after an end token) into them, and
  // replaces the numbers by the new ones.
  virtual std::shared_ptr<States> renewed(const std::shared_ptr<States>& old, std::vector<int32_t>& carried) = 0;
  // Compiles the deferred rules with these numbers, or all deferred rules (see RulesNeeded). No lock is held.
  virtual void compile_later(const std::vector<int32_t>&, bool) {}
  virtual size_t positions() const = 0;
  virtual size_t rules() const = 0;
  virtual bool recursive() const = 0;
  virtual int64_t rebuilds() const = 0;

  const std::shared_ptr<const TokenVocabulary> vocabulary;
};

// A grammar compiled into states of the class `Own`.
template <class Own>
class CompiledInto : public Compiled {
 public:
  CompiledInto(std::shared_ptr<const TokenVocabulary> vocabulary, const CallLimits& limits)
      : Compiled(std::move(vocabulary)), limits_(limits) {}
  std::shared_ptr<States> states() override { return current(); }
  int64_t rebuilds() const override { return rebuilds_.load(std::memory_order_relaxed); }

 protected:
  std::shared_ptr<Own> current() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (current_->is_broken()) renew(fresh());
    return current_;
  }
  virtual std::shared_ptr<Own> fresh() const = 0;
  // Called with the lock held, or in a constructor.
  void renew(std::shared_ptr<Own> states) {
    current_ = std::move(states);
    ++rebuilds_;
  }
  // Replaces each state in `carried` (see renewed()) by import(state).
  template <class Import>
  static void carry(std::vector<int32_t>& carried, Import&& import) {
    for (int32_t& code : carried) {
      const int32_t new_state = import(code < 0 ? ~code : code);
      code = code < 0 ? ~new_state : new_state;
    }
  }

  const CallLimits limits_;
  mutable std::mutex mutex_;
  std::shared_ptr<Own> current_;  // freed after the members of derived classes
  std::atomic<int64_t> rebuilds_{-1};
};

}  // namespace guided
