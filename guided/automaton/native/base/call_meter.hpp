// Limits on the work and the added memory of one call into the core, after the grammar has been compiled.
//
// In: the limits, when a call begins. Every loop whose length depends on the grammar, the vocabulary or the text calls
// `CallMeter::work`, and every allocation that outlives the call calls `CallMeter::memory`. They throw LimitFailure
// ("call_work", "memory") once a limit is exceeded. Work is counted in units of about 10 ns rather than measured, so
// every machine reaches the limit at the same point. An exception leaves the states half changed: `StatesLock`
// (matching/states.hpp) ensures that nobody reads them afterwards.
//
// How: each OS thread has its own counters, so no function has to pass them on. A nested call, such as a call into a
// part of a composed grammar, counts as part of the outer one. Outside of calls nothing is limited: compilation has its
// own meter (common.hpp), and transferring states to a new arena costs no more than these states did.
// Cost: one subtraction on a thread-local counter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/common.hpp"
#include "base/faults.hpp"

namespace guided {

struct CallLimits {
  int64_t work = INT64_MAX;  // units of about 10 ns
  size_t memory = SIZE_MAX;  // bytes for all states; one call may add as many, but at least kMinMemory
  static constexpr size_t kMinMemory = size_t{64} << 20;
  int64_t max_added_memory() const { return static_cast<int64_t>(std::clamp<size_t>(memory, kMinMemory, INT64_MAX)); }
};

// `initial-exec`: the module is loaded late, but its few bytes fit into the static TLS that loaders reserve.
#if defined(__linux__)
#define GUIDED_OF_THREAD __attribute__((tls_model("initial-exec")))
#else
#define GUIDED_OF_THREAD
#endif

class CallMeter {
 public:
  explicit CallMeter(const CallLimits& limits) {
    if (count_.calls++ > 0) return;
    count_.limits = limits;
    count_.work = limits.work;
    count_.memory = limits.max_added_memory();
  }
  ~CallMeter() {
    if (--count_.calls == 0) count_.work = count_.memory = INT64_MAX;
  }
  CallMeter(const CallMeter&) = delete;

  static void work(int64_t units) {
    fault_point(Fault::Limit);
    if ((count_.work -= units) < 0) stop_work();
  }
  static void memory(size_t bytes) {
    fault_point(Fault::Limit);
    if ((count_.memory -= static_cast<int64_t>(bytes)) < 0) stop_memory();
  }
  // The work of the current calls so far.
  static int64_t worked() { return count_.calls == 0 ? 0 : count_.limits.work - count_.work; }

 private:
  struct Count {
    int64_t work = INT64_MAX, memory = INT64_MAX;
    int32_t calls = 0;  // the nesting depth of the current calls
    CallLimits limits;
  };
  [[noreturn]] static void stop_work();
  [[noreturn]] static void stop_memory();
  static thread_local constinit Count count_ GUIDED_OF_THREAD;
};

}  // namespace guided
