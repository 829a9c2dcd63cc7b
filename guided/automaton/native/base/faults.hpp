// Failures on purpose, for tests: the n-th allocation or check of a limit on an OS thread fails.
//
// Built in only with GUIDED_FAULTS (scripts/sanitize.sh); otherwise `fault_point` is empty. The allocations are those of
// `operator new` within this module, and the few of `malloc` that call `fault_point` themselves. Allocations inside the C++
// library's own shared object are not counted, nor are those of a thread that holds the GIL: nanobind converts arguments
// there, in functions that may not throw.
#pragma once

#include <cstdint>

namespace guided {

enum class Fault : uint8_t { Allocation, Limit };

#ifdef GUIDED_FAULTS
// Counts a point, and throws std::bad_alloc or LimitFailure at the one that was armed.
void fault_point(Fault kind);
// The n-th point from here on fails, once; n < 0: none does. Returns the points that were passed since the last call.
int64_t arm_fault(int64_t n);
#else
inline void fault_point(Fault) {}
#endif

}  // namespace guided
