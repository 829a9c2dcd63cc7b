// Injected failures, for tests: the n-th allocation or limit check on an OS thread fails.
//
// Built only with GUIDED_FAULTS (scripts/sanitize.sh); otherwise `fault_point` is empty. Counted allocations are the
// calls of `operator new` in this module, and the few calls of `malloc` that call `fault_point` themselves. Allocations
// inside the C++ standard library's shared object are not counted. Nor is anything on a thread that holds the GIL:
// nanobind converts arguments there, in functions that must not throw.
#pragma once

#include <cstdint>

namespace guided {

enum class Fault : uint8_t { Allocation, Limit };

#ifdef GUIDED_FAULTS
// Counts a fault point. At the armed one, throws std::bad_alloc or LimitFailure.
void fault_point(Fault kind);
// Makes the n-th fault point from here on fail, once; n < 0: none. Returns the number of points since the last call.
int64_t arm_fault(int64_t n);
#else
inline void fault_point(Fault) {}
#endif

}  // namespace guided
