#include "matching/fill_rows.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

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

}  // namespace guided
