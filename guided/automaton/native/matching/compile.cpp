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

std::unique_ptr<Grammar> compile_on_this_stack(const IrGrammar& ir, const TokenVocabulary& vocabulary, int max_depth,
                                               Meter& meter) {
  LowerOptions options;
  options.live = vocabulary.live;
  options.inline_all = !vocabulary.byte_complete;
  options.caches = &vocabulary.bytes;
  options.max_depth = max_depth;
  try {
    std::unique_ptr<Grammar> grammar = assemble(lower(ir, options, meter), ir, meter);
    if (options.inline_all) prune_token_graph(*grammar, vocabulary, meter);
    find_token_rests(*grammar, vocabulary, meter);
    return grammar;
  } catch (const EmptyLanguage&) {
    // Without the vocabulary, this throws again if the specification itself is empty. Otherwise, the vocabulary cannot
    // write it.
    LowerOptions all_bytes;
    all_bytes.live = ByteSet::all();
    all_bytes.max_depth = max_depth;
    assemble(lower(ir, all_bytes, meter), ir, meter);
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
  const bool is_known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  const auto begin = reinterpret_cast<uintptr_t>(lowest);
  return is_known ? std::pair{begin, begin + size} : std::pair<uintptr_t, uintptr_t>{0, 0};
}
#endif

// Returns the depth to which lowering may recurse on the rest of this thread's stack.
int max_depth_here() {
#ifdef __linux__
  thread_local const auto [begin, end] = stack_of_this_thread();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here < begin || here >= end || here - begin < kStackReserve) return kShallowDepth;
  const uintptr_t levels = (here - begin - kStackReserve) / kStackPerLevel;
  return static_cast<int>(std::clamp<uintptr_t>(levels, kShallowDepth, kMaxDepth));
#else
  return kShallowDepth;
#endif
}

// After a long compilation, its destructor returns freed memory to the system. The allocator keeps fragmented memory,
// so a process would otherwise keep hundreds of megabytes after one hard specification.
class MemoryReturn {
 public:
  explicit MemoryReturn(const Meter& meter) : meter_(meter) {}
  MemoryReturn(const MemoryReturn&) = delete;
  ~MemoryReturn() {
#ifdef __GLIBC__
    if (meter_.worked() > kMinWork) malloc_trim(0);
#endif
  }

 private:
  static constexpr int64_t kMinWork = 4'000'000;
  const Meter& meter_;
};

// The name of the rule that is being compiled; empty if the step concerns all rules.
std::string current_rule(const IrGrammar& ir, const Meter& meter) { return meter.rule < 0 ? "" : ir.names[meter.rule]; }

}  // namespace

std::unique_ptr<Grammar> compile_grammar(const IrGrammar& ir, const TokenVocabulary& vocabulary, Meter& meter) {
  const MemoryReturn memory_return(meter);
  try {
    return compile_on_this_stack(ir, vocabulary, max_depth_here(), meter);
  } catch (LimitFailure& failure) {
    if (failure.limit != kDepthLimit) {
      failure.rule = current_rule(ir, meter);
      throw;
    }
  } catch (Unsupported& error) {
    error.rule = current_rule(ir, meter);
    throw;
  }
  std::unique_ptr<Grammar> out;
  try {
    run_with_stack(size_t{kMaxDepth} * kStackPerLevel,
                   [&] { out = compile_on_this_stack(ir, vocabulary, kMaxDepth, meter); });
  } catch (LimitFailure& failure) {
    failure.rule = current_rule(ir, meter);
    throw;
  } catch (Unsupported& error) {
    error.rule = current_rule(ir, meter);
    throw;
  }
  return out;
}

void run_with_stack(size_t bytes, const std::function<void()>& work) {
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
  const bool is_started =
      pthread_attr_setstacksize(&attributes, bytes) == 0 && pthread_create(&thread, &attributes, run, &task) == 0;
  pthread_attr_destroy(&attributes);
  if (!is_started) throw std::bad_alloc();
  pthread_join(thread, nullptr);
  if (task.failure) std::rethrow_exception(task.failure);
}

}  // namespace guided
