// What one call into the core may cost once a grammar is compiled: a bound on its work and on the memory that it adds.
//
// In: limits, where a call begins. Every loop whose length depends on the grammar, the vocabulary or the text passes
// `CallMeter::work`, and every allocation that outlives the call `CallMeter::memory`; both throw LimitFailure ("call_work",
// "memory") once a limit is exceeded. Work is counted in units of about 10 ns, so the bound is reached at the same place on
// every machine. What throws leaves the states half changed: `StatesLock` (matching/states.hpp) sees to it that no one
// looks at them again.
//
// How: the counters belong to the OS thread, so that no function has to pass them on. A call within a call, such as one
// into a part of a composed grammar, counts as part of the outer one. Outside of calls nothing is limited: compilation has a
// meter of its own (common.hpp), and carrying states over costs no more than what is carried.
// Cost: a subtraction on a counter of the OS thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/common.hpp"
#include "base/faults.hpp"

namespace guided {

struct CallLimits {
  int64_t work = INT64_MAX;  // units of about 10 ns
  size_t memory = SIZE_MAX;  // bytes that the states may take; one call may add as many to them, or kLeastMemory
  static constexpr size_t kLeastMemory = size_t{64} << 20;
  int64_t most_added() const { return static_cast<int64_t>(std::clamp<size_t>(memory, kLeastMemory, INT64_MAX)); }
};

// `initial-exec`: the module is loaded late, but these few bytes fit into what loaders keep free for such modules.
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
    count_.memory = limits.most_added();
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
  // What the calls that are under way have spent so far.
  static int64_t worked() { return count_.calls == 0 ? 0 : count_.limits.work - count_.work; }

 private:
  struct Count {
    int64_t work = INT64_MAX, memory = INT64_MAX;
    int32_t calls = 0;  // that are under way, one within the other
    CallLimits limits;
  };
  [[noreturn]] static void stop_work();
  [[noreturn]] static void stop_memory();
  static thread_local constinit Count count_ GUIDED_OF_THREAD;
};

}  // namespace guided
