#include "matching/fill_rows.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "vocabulary/vocabulary.hpp"

namespace guided {

namespace {

// What the calling thread works before others join it: to start one costs some 100 us, as much as a dozen usual rows.
constexpr auto kAlone = std::chrono::microseconds(100);

// Calls work(i) for each i < count, on up to `threads` threads. It must not throw.
template <class Work>
void in_parallel(size_t count, int threads, const Work& work) {
  std::atomic<size_t> next{0};
  auto one = [&] {
    const size_t i = next.fetch_add(1);
    if (i >= count) return false;
    work(i);
    return true;
  };
  size_t helpers = std::min(static_cast<size_t>(std::max(1, threads) - 1), count);
  std::vector<std::thread> pool;
  pool.reserve(helpers);
  const auto begin = std::chrono::steady_clock::now();
  while (one()) {
    if (helpers == 0 || std::chrono::steady_clock::now() - begin < kAlone) continue;
    helpers = std::min(helpers, count - std::min(next.load(), count));
    try {
      for (; helpers > 0; --helpers) {
        pool.emplace_back([&] {
          while (one()) {
          }
        });
      }
    } catch (const std::system_error&) {  // the system has no more threads: those that there are do the work
      helpers = 0;
    }
  }
  for (std::thread& t : pool) t.join();
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void fill_rows(const std::vector<Matcher*>& matchers, uint32_t* mask, const std::vector<int64_t>& rows, int64_t words,
               int64_t max_tokens, int threads) {
  std::exception_ptr failure;
  std::mutex failure_mutex;
  in_parallel(matchers.size(), threads, [&](size_t i) {
    try {
      matchers[i]->fill(mask + rows[i] * words, max_tokens);
    } catch (...) {
      std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

std::vector<double> prepare_rows(const std::vector<Matcher*>& matchers, const std::vector<int64_t>& budgets,
                                 int threads) {
  std::vector<double> seconds(matchers.size(), 0.0);
  in_parallel(matchers.size(), threads, [&](size_t i) {
    const double begin = thread_seconds();
    try {
      std::vector<uint32_t> row(static_cast<size_t>(matchers[i]->compiled().vocabulary->words));
      matchers[i]->fill(row.data(), budgets[i]);
    } catch (...) {  // the call that is prepared fails again, and says so
    }
    seconds[i] = thread_seconds() - begin;
  });
  return seconds;
}

}  // namespace guided
