// What a matcher asks of a compiled grammar: its states.
//
// A state is a number: what was written so far, as far as it matters for what comes. `Matcher` (matcher.hpp) keeps the
// history of one output and needs nothing else. Three kinds of grammars implement it: those whose rules read bytes
// (workspace.hpp), those with a lexer (lexer/lexed_states.hpp), and those that are composed of parts of either kind
// (composed/composed_states.hpp).
//
// States are shared by matchers on any number of threads. Methods whose names begin with `known` take no lock and wait
// for nobody; the others lock for themselves, but for those under "looking ahead", whose caller holds a `StatesLock`.
//
// An exception in the middle of a call (a limit, no memory) may leave tables half changed. `StatesLock` then marks the
// states as *broken*: later calls throw `StatesBroken`, the matcher goes over to fresh states of the grammar, and repeats
// there what it has accepted (matcher.cpp). Steps and masks that were published before remain right.
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
#include "vocabulary/vocabulary.hpp"

namespace guided {

// Thrown by calls on states that an exception has left half changed.
struct StatesBroken {};

class States {
 public:
  using Flag = std::shared_ptr<std::atomic<bool>>;
  // `broken`: set for all states that share it, as those of one lexer do.
  explicit States(CallLimits limits, Flag broken = std::make_shared<std::atomic<bool>>(false))
      : limits_(limits), broken_(std::move(broken)) {}
  States(const States&) = delete;
  virtual ~States() = default;

  virtual int32_t initial() const = 0;
  virtual bool accepting(int32_t state) const = 0;
  // The state after a token, with text or named by the grammar, no end; kDead where it is not allowed, kUnknown where
  // that has yet to be computed.
  virtual int32_t known_after_token(int32_t state, int32_t id) const = 0;
  virtual int32_t after_token(int32_t state, int32_t id) = 0;
  virtual int32_t after_bytes(int32_t state, std::string_view bytes) = 0;
  // The state once a token ends, of which `step` has read the bytes; kDead: it may not end there.
  virtual int32_t token_ended(int32_t state) { return state; }
  // Write the row of the tokens that can come next; false where it has yet to be computed.
  virtual bool known_mask(int32_t state, uint32_t* row, bool& masks_something) const = 0;
  virtual bool mask(int32_t state, uint32_t* row) = 0;
  // The same, without the tokens after which an output does not end within `max_tokens`, the token and the end token
  // counted. `bound`: some may lack for that reason.
  virtual bool budget_mask(int32_t state, uint32_t* row, int64_t max_tokens, bool& bound) = 0;
  // Tokens to an end, the end token not counted.
  virtual int64_t distance(int32_t state) = 0;
  // After any one token: see Matcher::rests.
  virtual std::tuple<int64_t, int64_t, int64_t> rests(int32_t state) = 0;
  // A shortest completion, bytes or 256 + control token.
  virtual std::vector<int32_t> shortest(int32_t state, size_t limit) = 0;
  virtual std::vector<int32_t> walk_mask(int32_t state) = 0;

  // ---- looking ahead, with the lock held
  virtual std::mutex& mutex() = 0;
  virtual int32_t step(int32_t state, uint8_t byte) = 0;
  virtual int32_t step_control(int32_t state, int32_t token) = 0;
  virtual ByteSet bytes(int32_t state) const = 0;  // those with which `step` may not be dead
  // Character classes all of whose characters lead back to the state; some may lack.
  virtual CharClasses loops(int32_t) { return 0; }
  virtual std::vector<int32_t> controls(int32_t state) const = 0;  // control tokens that the grammar names here
  // Whether a token may end in the state; not where the grammar names whole tokens, and one is under way.
  virtual bool ends_token(int32_t state) const {
    static_cast<void>(state);
    return true;
  }
  virtual void open_rules(int32_t state, std::vector<std::string>& out) const = 0;
  // States with equal keys are followed by the same characters; `steps` have been taken to find out.
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

 protected:
  friend class StatesLock;
  // A call begins, with the lock held. Throws StatesBroken.
  virtual void begin_call() {
    if (broken_->load(std::memory_order_relaxed)) throw StatesBroken{};
  }
  // An exception has left a call, with the lock held.
  virtual void abandon_call() { broken_->store(true, std::memory_order_relaxed); }

 private:
  const CallLimits limits_;
  const Flag broken_;
};

// Held during each call that may change states: it excludes other calls, meters this one, and marks the states as broken if
// an exception leaves it.
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
  // The states are complete: what is thrown from here on does not concern them.
  void unlock() { lock_.unlock(); }

 private:
  States& states_;
  CallMeter meter_;
  std::unique_lock<std::mutex> lock_;
  const int exceptions_;
};

// A grammar compiled for a vocabulary, and the states that were visited. When these are over their limit, or broken,
// fresh ones take their place; each matcher goes over to them at its next step, and the old ones go with their last
// matcher.
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<const TokenVocabulary> vocabulary) : vocabulary(std::move(vocabulary)) {}
  Compiled(const Compiled&) = delete;
  virtual ~Compiled() = default;
  // The latest states, which are not broken.
  virtual std::shared_ptr<States> states() = 0;
  // The states that replace `old`, with these ones (~state after an end token) carried over.
  virtual std::shared_ptr<States> renewed(const std::shared_ptr<States>& old, std::vector<int32_t>& carried) = 0;
  // Compiles these of the rules that are compiled when they are first entered (RulesNeeded), or all. No lock is held.
  virtual void compile_later(const std::vector<int32_t>&, bool) {}
  virtual size_t positions() const = 0;
  virtual size_t rules() const = 0;
  virtual bool recursive() const = 0;
  virtual int64_t rebuilds() const = 0;

  const std::shared_ptr<const TokenVocabulary> vocabulary;
};

}  // namespace guided
