// Injected failures, for tests: the n-th allocation or limit check on an OS thread fails.
//
// Built only with GUIDED_FAULTS (scripts/sanitize.sh); otherwise `fault_point` is empty. The counted allocations are
// all calls of `operator new` in this module, and the few calls of `malloc` whose callers call `fault_point`
// themselves. Allocations inside the shared library of the C++ standard library are not counted. On an OS thread that
// holds the GIL, nothing is counted: nanobind converts arguments there, in functions that must not throw.
#pragma once

#include <cstdint>

namespace guided {

enum class Fault : uint8_t { Allocation, Limit };

#ifdef GUIDED_FAULTS
// Counts a fault point. Throws std::bad_alloc or LimitFailure if this point is armed.
void fault_point(Fault kind);
// Makes the n-th fault point from now on (counted from 0) fail once; with n < 0, none fails. Returns the number of
// points since the last call.
int64_t arm_fault(int64_t n);
#else
inline void fault_point(Fault) {}
#endif

}  // namespace guided
