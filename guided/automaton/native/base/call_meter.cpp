#include "base/call_meter.hpp"

namespace guided {

// What remains of the limits; negative once a limit is exceeded.
thread_local constinit CallMeter::Remaining CallMeter::remaining_;

void CallMeter::fail_work_limit() {
  const auto allowed = static_cast<double>(remaining_.limits.work);
  throw LimitFailure("call_work", allowed - static_cast<double>(remaining_.work), allowed);
}

void CallMeter::fail_memory_limit() {
  const auto allowed = static_cast<double>(remaining_.limits.max_added_memory());
  throw LimitFailure("memory", allowed - static_cast<double>(remaining_.memory), allowed);
}

}  // namespace guided
