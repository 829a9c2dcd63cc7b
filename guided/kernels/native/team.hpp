// Divides work among torch's threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

namespace guided {

// Calls `body(data)` on `threads` threads at once, and waits. It uses the threads of the OpenMP library that torch has
// loaded: a second set of threads would compete with them for the cores, since they spin while they wait for work. If
// the library is not GNU's, `body(data)` is called once, on this thread.
void run_team(void (*body)(void*), void* data, int64_t threads);

// Calls work(i) for each i below `count`, on up to `threads` threads, in any order. Rethrows the first exception.
template <typename Work>
void share(int64_t count, int64_t threads, const Work& work) {
  if (threads <= 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) work(i);
    return;
  }
  struct Shared {
    const Work& work;
    int64_t count;
    std::atomic<int64_t> next = 0;
    std::atomic_flag failed = ATOMIC_FLAG_INIT;
    std::exception_ptr error = nullptr;
  } shared{work, count};
  const auto body = [](void* data) {
    auto& shared_state = *static_cast<Shared*>(data);
    try {
      for (int64_t i = shared_state.next++; i < shared_state.count; i = shared_state.next++) shared_state.work(i);
    } catch (...) {
      shared_state.next = shared_state.count;
      if (!shared_state.failed.test_and_set()) shared_state.error = std::current_exception();
    }
  };
  run_team(body, &shared, threads < count ? threads : count);
  if (shared.error) std::rethrow_exception(shared.error);
}

}  // namespace guided
