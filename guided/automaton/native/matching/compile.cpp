#include "matching/compile.hpp"

#include <pthread.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "compile/lower.hpp"
#include "matching/token_graph.hpp"
#include "matching/token_limits.hpp"

namespace guided {

namespace {

std::unique_ptr<Grammar> lowered(const IrGrammar& ir, const TokenVocabulary& vocabulary, int max_depth, Meter& meter) {
  LowerOptions options;
  options.live = vocabulary.live;
  options.flat = !vocabulary.byte_complete;
  options.caches = &vocabulary.bytes;
  options.max_depth = max_depth;
  try {
    std::unique_ptr<Grammar> grammar = assemble(lower(ir, options, meter), ir, meter);
    if (options.flat) prune_token_graph(*grammar, vocabulary, meter);
    find_token_rests(*grammar, vocabulary, meter);
    return grammar;
  } catch (const EmptyLanguage&) {
    // Is the specification itself empty, or can the vocabulary not write it?
    LowerOptions all;
    all.live = ByteSet::all();
    all.max_depth = max_depth;
    assemble(lower(ir, all, meter), ir, meter);
    throw VocabularyFailure("the vocabulary's tokens cannot write any output of the specification");
  }
}

#ifdef __linux__
// The address range of this thread's stack; empty if unknown.
std::pair<uintptr_t, uintptr_t> stack_of_this_thread() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {0, 0};
  void* lowest = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  const auto begin = reinterpret_cast<uintptr_t>(lowest);
  return known ? std::pair{begin, begin + size} : std::pair<uintptr_t, uintptr_t>{0, 0};
}
#endif

// The depth to which lowering may go on the rest of this thread's stack.
int depth_here() {
#ifdef __linux__
  thread_local const auto [begin, end] = stack_of_this_thread();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here < begin || here >= end || here - begin < kStackKept) return kShallow;
  const uintptr_t levels = (here - begin - kStackKept) / kStackPerLevel;
  return static_cast<int>(std::clamp<uintptr_t>(levels, kShallow, kMaxDepth));
#else
  return kShallow;
#endif
}

// Its destructor returns memory that a long compilation has freed to the system. The allocator keeps fragmented memory,
// so a process would otherwise keep hundreds of megabytes after one hard specification.
class MemoryReturn {
 public:
  explicit MemoryReturn(const Meter& meter) : meter_(meter) {}
  MemoryReturn(const MemoryReturn&) = delete;
  ~MemoryReturn() {
#ifdef __GLIBC__
    if (meter_.worked() > kLong) malloc_trim(0);
#endif
  }

 private:
  static constexpr int64_t kLong = 4'000'000;
  const Meter& meter_;
};

// The name of the rule that was compiled last; empty if it was all of them.
std::string place(const IrGrammar& ir, const Meter& meter) { return meter.rule < 0 ? "" : ir.names[meter.rule]; }

}  // namespace

std::unique_ptr<Grammar> compile_grammar(const IrGrammar& ir, const TokenVocabulary& vocabulary, Meter& meter) {
  const MemoryReturn after(meter);
  try {
    return lowered(ir, vocabulary, depth_here(), meter);
  } catch (LimitFailure& failure) {
    if (failure.limit != kDepth) {
      failure.rule = place(ir, meter);
      throw;
    }
  } catch (Unsupported& refused) {
    refused.rule = place(ir, meter);
    throw;
  }
  std::unique_ptr<Grammar> out;
  try {
    on_stack_of(size_t{kMaxDepth} * kStackPerLevel, [&] { out = lowered(ir, vocabulary, kMaxDepth, meter); });
  } catch (LimitFailure& failure) {
    failure.rule = place(ir, meter);
    throw;
  } catch (Unsupported& refused) {
    refused.rule = place(ir, meter);
    throw;
  }
  return out;
}

void on_stack_of(size_t bytes, const std::function<void()>& work) {
  struct Task {
    const std::function<void()>& work;
    std::exception_ptr failure;
  } task{work, nullptr};
  const auto run = [](void* argument) -> void* {
    Task& task = *static_cast<Task*>(argument);
    try {
      task.work();
    } catch (...) {
      task.failure = std::current_exception();
    }
    return nullptr;
  };
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) throw std::bad_alloc();
  pthread_t thread;
  const bool begun =
      pthread_attr_setstacksize(&attributes, bytes) == 0 && pthread_create(&thread, &attributes, run, &task) == 0;
  pthread_attr_destroy(&attributes);
  if (!begun) throw std::bad_alloc();
  pthread_join(thread, nullptr);
  if (task.failure) std::rethrow_exception(task.failure);
}

}  // namespace guided
