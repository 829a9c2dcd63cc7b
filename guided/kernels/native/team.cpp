#include "team.hpp"

#if defined(__unix__)
#include <dlfcn.h>
#endif

namespace guided {
namespace {

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

GompParallel find_parallel() {
#if defined(__unix__)
  return reinterpret_cast<GompParallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
#else
  return nullptr;
#endif
}

}  // namespace

void run_team(void (*body)(void*), void* data, int64_t threads) {
  static const GompParallel gomp_parallel = find_parallel();
  if (gomp_parallel == nullptr)
    body(data);
  else
    gomp_parallel(body, data, static_cast<unsigned>(threads), 0);
}

}  // namespace guided
