#include "base/call_meter.hpp"

namespace guided {

// What is left of the limits; negative once a limit is exceeded.
thread_local constinit CallMeter::Count CallMeter::count_;

void CallMeter::stop_work() {
  const auto allowed = static_cast<double>(count_.limits.work);
  throw LimitFailure("call_work", allowed - static_cast<double>(count_.work), allowed);
}

void CallMeter::stop_memory() {
  const auto allowed = static_cast<double>(count_.limits.max_added_memory());
  throw LimitFailure("memory", allowed - static_cast<double>(count_.memory), allowed);
}

}  // namespace guided
