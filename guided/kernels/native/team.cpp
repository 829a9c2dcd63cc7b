#include "team.hpp"

#if defined(__unix__)
#include <dlfcn.h>
#endif

namespace guided {
namespace {

using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

Parallel find_parallel() {
#if defined(__unix__)
  return reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
#else
  return nullptr;
#endif
}

}  // namespace

void run_team(void (*body)(void*), void* data, int64_t threads) {
  static const Parallel parallel = find_parallel();
  if (parallel == nullptr)
    body(data);
  else
    parallel(body, data, static_cast<unsigned>(threads), 0);
}

}  // namespace guided
