// Limits on the work and the added memory of one call into the core, after the grammar has been compiled.
//
// In: the limits, when a call begins. Every loop whose length depends on the grammar, the vocabulary or the text calls
// `CallMeter::work`, and every allocation that outlives the call calls `CallMeter::memory`. They throw LimitFailure
// ("call_work", "memory") once a limit is exceeded. Work is counted in units of about 10 ns rather than measured, so
// every machine reaches the limit at the same point. An exception leaves the states half changed. `StatesLock`
// (matching/states.hpp) ensures that nobody reads them afterwards.
//
// How: each OS thread has its own counters, so no function has to pass them on. A nested call, such as a call into a
// part of a composed grammar, counts as part of the outer one. Outside of calls nothing is limited: compilation has its
// own meter (common.hpp), and transferring states to a new arena costs no more than computing them did.
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
  size_t memory = SIZE_MAX;  // bytes for all states; one call may add this many, or kMinMemory if that is more
  static constexpr size_t kMinMemory = size_t{64} << 20;
  int64_t max_added_memory() const { return static_cast<int64_t>(std::clamp<size_t>(memory, kMinMemory, INT64_MAX)); }
};

// `initial-exec` is safe although the module is loaded late: its few bytes fit into the static TLS that loaders
// reserve.
#if defined(__linux__)
#define GUIDED_TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define GUIDED_TLS_MODEL
#endif

class CallMeter {
 public:
  explicit CallMeter(const CallLimits& limits) {
    if (remaining_.call_depth++ > 0) return;
    remaining_.limits = limits;
    remaining_.work = limits.work;
    remaining_.memory = limits.max_added_memory();
  }
  ~CallMeter() {
    if (--remaining_.call_depth == 0) remaining_.work = remaining_.memory = INT64_MAX;
  }
  CallMeter(const CallMeter&) = delete;

  static void work(int64_t units) {
    fault_point(Fault::Limit);
    if ((remaining_.work -= units) < 0) fail_work_limit();
  }
  static void memory(size_t bytes) {
    fault_point(Fault::Limit);
    if ((remaining_.memory -= static_cast<int64_t>(bytes)) < 0) fail_memory_limit();
  }
  // The work that the current outermost call has done so far; 0 outside of calls.
  static int64_t worked() { return remaining_.call_depth == 0 ? 0 : remaining_.limits.work - remaining_.work; }

 private:
  struct Remaining {
    int64_t work = INT64_MAX, memory = INT64_MAX;
    int32_t call_depth = 0;  // how many calls are nested
    CallLimits limits;
  };
  [[noreturn]] static void fail_work_limit();
  [[noreturn]] static void fail_memory_limit();
  static thread_local constinit Remaining remaining_ GUIDED_TLS_MODEL;
};

}  // namespace guided
