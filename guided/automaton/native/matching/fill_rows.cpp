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

// The caller fills rows alone for this long, because starting a thread takes about 100 us, as long as a dozen typical
// rows.
constexpr auto kTimeAlone = std::chrono::microseconds(100);

void fill_rows(const std::vector<Matcher*>& matchers, uint32_t* mask, const std::vector<int64_t>& rows, int64_t words,
               int64_t max_tokens, int threads) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  auto fill_one = [&] {
    const size_t i = next.fetch_add(1);
    if (i >= matchers.size()) return false;
    try {
      matchers[i]->fill(mask + rows[i] * words, max_tokens);
    } catch (...) {
      std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
    return true;
  };
  size_t helper_count = std::min(static_cast<size_t>(std::max(1, threads) - 1), matchers.size());
  std::vector<std::thread> pool;
  pool.reserve(helper_count);
  const auto begin = std::chrono::steady_clock::now();
  while (fill_one()) {
    if (helper_count == 0 || std::chrono::steady_clock::now() - begin < kTimeAlone) continue;
    helper_count = std::min(helper_count, matchers.size() - std::min(next.load(), matchers.size()));
    try {
      for (; helper_count > 0; --helper_count) {
        pool.emplace_back([&] {
          while (fill_one()) {
          }
        });
      }
    } catch (const std::system_error&) {  // the system cannot start more threads: the existing ones do the work
      helper_count = 0;
    }
  }
  for (std::thread& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
}

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

std::vector<double> prepare_rows(const std::vector<Matcher*>& matchers, const std::vector<int64_t>& budgets) {
  std::vector<double> seconds;
  std::vector<uint32_t> row;
  for (size_t i = 0; i < matchers.size(); ++i) {
    const double begin = thread_seconds();
    try {
      row.resize(static_cast<size_t>(matchers[i]->compiled().vocabulary->words));
      matchers[i]->fill(row.data(), budgets[i]);
    } catch (...) {  // a later call of `fill` fails as well, and reports the error
    }
    seconds.push_back(thread_seconds() - begin);
  }
  return seconds;
}

}  // namespace guided
