#include "base/faults.hpp"

#ifdef GUIDED_FAULTS

#include <Python.h>

#include <cstdlib>
#include <new>

#include "base/common.hpp"

namespace guided {

namespace {
thread_local int64_t points_passed = 0, armed_point = -1;
}  // namespace

void fault_point(Fault kind) {
  if (armed_point < 0 || PyGILState_Check() || points_passed++ != armed_point) return;
  armed_point = -1;
  if (kind == Fault::Allocation) throw std::bad_alloc();
  throw LimitFailure("call_work", 1, 0);
}

int64_t arm_fault(int64_t n) {
  const int64_t previous_count = points_passed;
  points_passed = 0;
  armed_point = n;
  return previous_count;
}

}  // namespace guided

// These functions replace only the allocations of this module, because it is linked with -Bsymbolic-functions.
void* operator new(size_t size) {
  guided::fault_point(guided::Fault::Allocation);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

#endif
