// Interned configurations: the states of the lazily grown automaton.
//
// A *thread* consists of a position, the register of its frame, a return configuration and a memory (uniqueness.hpp). A
// *configuration* is a sorted set of threads, hash-consed and numbered. A state of the automaton is the number of a
// closed configuration. A return configuration is a number, too, so the whole graph-structured stack is shared
// (Tomita's GSS, with sets as nodes). Threads with equal position, register and memory are merged: the return
// configuration of the result is the union of theirs. So ambiguity costs a wider node, never two copies of a stack.
//
// The lowest return configuration of a stack is a *bottom*. kBottom: the output ends. kTop: an unknown caller, while a
// rule's token table is built. kFree: the same for a counter, whose register then starts at 0 and has no bounds. A
// thread that returns to a bottom is at position kExit.
//
// Adding states needs the mutex. Looking up a known step does not, since rows and configurations never move and are
// published with release stores. Memory: about 1 KB for a state from which a step was taken, otherwise 100 bytes.
#pragma once

#include <atomic>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/call_meter.hpp"
#include "base/memory_limit.hpp"
#include "base/pair_map.hpp"
#include "compile/grammar.hpp"
#include "run/finite_string_sets.hpp"
#include "run/rule_entries.hpp"
#include "run/thread_set.hpp"
#include "run/unbounded_strings.hpp"
#include "run/value_counts.hpp"
#include "values/uniqueness.hpp"

namespace guided {

// Values of Thread::pos other than positions. kExit: the thread has returned to a bottom.
enum PositionMark : int32_t { kExit = INT32_MAX };
// Values of Thread::ret other than return configurations: see the head of this file.
enum Bottom : int32_t { kBottom, kTop, kFree };

struct Config {
  const Thread* threads = nullptr;
  int32_t count = 0;
  bool accepting = false;                           // some thread has exited through kBottom
  bool has_seen_set = false;                        // some thread has a seen set
  bool counts_tokens = false;                       // some thread counts the current token
  ByteSet bytes;                                    // bytes that some thread can read if guards are ignored
  std::atomic<std::atomic<int32_t>*> row{nullptr};  // byte -> state + 2; 1: dead, 0: unknown
  std::atomic<int32_t> token_end{kUnknown};         // the state after a token that ends here, or kDead
  std::atomic<int32_t> after_return{-1};  // of a return configuration: the state after returning to it with kOutside
  const Thread* begin() const { return threads; }
  const Thread* end() const { return threads + count; }
};

class Arena {
 public:
  Arena(std::shared_ptr<const Grammar> grammar, size_t byte_limit);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const Grammar& grammar() const { return *grammar_; }
  const std::shared_ptr<const Grammar>& shared_grammar() const { return grammar_; }
  std::mutex& mutex() { return mutex_; }
  int32_t initial() const { return initial_; }
  const Config& config(int32_t id) const { return *slot(id); }
  Config& config(int32_t id) { return *slot(id); }
  int32_t size() const { return count_.load(std::memory_order_relaxed); }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Counts memory for this call and for all states. Throws LimitFailure if the call adds more than it may.
  void charge(size_t bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    CallMeter::memory(bytes);
  }
  size_t byte_limit() const { return byte_limit_; }
  bool is_full() const { return bytes() > byte_limit_; }
  void add_carried(size_t bytes) { byte_limit_.add_carried(bytes); }

  // Without the lock: the state after `byte`, kDead, or kUnknown if the step has not been computed.
  int32_t peek(int32_t state, uint8_t byte) const {
    const std::atomic<int32_t>* row = slot(state)->row.load(std::memory_order_acquire);
    return row ? row[byte].load(std::memory_order_acquire) - 2 : kUnknown;
  }
  // Without the lock: the state after a token that ends in `state`, kDead, or kUnknown if it has not been computed.
  int32_t peek_token_end(int32_t state) const {
    const Config& c = *slot(state);
    return c.counts_tokens ? c.token_end.load(std::memory_order_acquire) : state;
  }
  // The following need the lock.
  int32_t end_token(int32_t state);  // the state after a token that ends in `state`, or kDead (token_counts.cpp)
  int32_t step(int32_t state, uint8_t byte);
  int32_t step_text(int32_t state, std::string_view text);
  int32_t step_token(int32_t state, int32_t token);  // a control token
  int32_t union_of(int32_t a, int32_t b);            // the state with the threads of both
  int32_t with_next_entry(int32_t state);            // see Uniqueness::with_next_entry
  int32_t return_to(int32_t ret, int32_t memory);    // the state after returning to `ret`
  // The thread at the start of the rule that `caller` calls.
  Thread callee_thread(const Thread& caller, const CallEdge& call) {
    const int32_t ret = call.tail ? caller.ret : intern({{call.after, caller.reg, caller.ret}}, false);
    return {grammar_->rules[call.rule].start, initial_register(call.rule), ret, caller.mem};
  }
  int32_t state_of_thread(Thread thread);      // the state that consists of this thread, without its closure
  int32_t close(std::vector<Thread>& kernel);  // the state of the closure of these threads
  int32_t intern(const std::vector<Thread>& threads, bool is_closed);
  int32_t top(int32_t state);            // the state of the top of its stack (top_of_stack.cpp)
  bool leaves_top(int32_t state) const;  // whether some thread has returned from the top
  // Transfers a state of `other` to this arena. `carried` remembers what earlier calls have transferred.
  struct Carried {
    std::unordered_map<int32_t, int32_t> states;
    Uniqueness::Carried uniqueness;
  };
  int32_t import(const Arena& other, int32_t state, Carried& carried);

  // ---- rules that are compiled when they are first entered (later_rules.hpp); these functions need the lock
  // Call this before computing what follows a state. Throws RulesNeeded if the state is about to enter rules that are
  // not compiled. From then on, the arena is unusable, because the interrupted operation may be half done.
  void require_compiled(int32_t state) const;
  bool is_abandoned() const { return is_abandoned_.load(std::memory_order_relaxed); }
  void check_not_abandoned() const {
    if (is_abandoned_) throw RulesNeeded{};
  }

  const SeenSet& seen(int32_t reg) const { return seen_[reg]; }
  // Applies an effect. Returns false if the effect's guard forbids it. Under kFree, bounds are not checked.
  bool apply(const Rule& rule, const Effect& effect, Thread& thread);
  // Whether the guard of a permutation's effect allows the effect.
  bool allows(const Rule& rule, const Effect& effect, int32_t reg);
  bool may_end(const Rule& rule, int32_t reg) const;
  int32_t initial_register(int32_t rule);
  Uniqueness& uniqueness() { return uniqueness_; }
  UnboundedStrings& unbounded() { return unbounded_; }
  // Whether a position is inside a string that can always end with an unseen value.
  bool is_in_unbounded_string(int32_t position) {
    return counts_.is_in_string(position) && unbounded_.is_unbounded(position);
  }
  FiniteStringSets& finite_strings() { return finite_strings_; }
  // Whether an entry at a position, inside a string or before one, can become an unseen string
  // (finite_string_sets.hpp).
  std::optional<bool> any_new_string(int32_t position, const Uniqueness::StringAhead& ahead) {
    return ahead.is_opened ? finite_strings_.any_new_inside(position, uniqueness_.trie(), ahead.node, ahead.escape)
                           : finite_strings_.any_new(position, uniqueness_.trie(), ahead.node);
  }
  // Whether at least two characters of a string or number lead from a position back to itself.
  bool repeats(int32_t position) { return counts_.repeats(position); }
  // Like repeats(), for digits before the point of a number.
  bool repeats_digits(int32_t position) { return counts_.repeats_digits(position); }
  bool is_in_string(int32_t position) { return counts_.is_in_string(position); }
  // Whether a position has only byte edges, and the frame cannot end there.
  bool has_only_byte_edges(int32_t position) const;
  // The register of a permutation with the same members but another count.
  int32_t with_count(int32_t reg, int64_t count) {
    SeenSet set = seen_[reg];
    set.count = count;
    return intern_seen(set);
  }
  // The register of a permutation without a condition after the effects `puts` have written members.
  int32_t with_members(const Rule& rule, int32_t reg, std::span<const int32_t> puts) {
    SeenSet set = seen_[reg];
    for (const int32_t edge : puts) {
      const auto member = static_cast<size_t>(grammar_->effects[edge].effect.a);
      set.bits[member / 64] |= uint64_t{1} << (member % 64);
    }
    set.count += static_cast<int64_t>(puts.size());
    if (rule.max < 0) set.count = std::min(set.count, rule.min);
    return intern_seen(set);
  }
  // Whether a thread can continue regardless of the values that its scopes have seen. Also false if this is unknown.
  // `all_new`: assume that the current entries do not end with seen values.
  bool surely_continues(const Thread& thread, bool all_new = false);
  // Steps that do not check whether entries can still end with unseen values. The check itself uses them.
  int32_t raw_step(int32_t state, uint8_t byte);
  int32_t raw_state(const Thread& thread);
  // Whether a thread that reads an entry can end it with an unseen value. Set once; until then, threads are not
  // checked.
  std::function<bool(const Thread&)> can_end_new;
  // Like can_end_new, for the innermost entry alone, ignoring the entries around it.
  std::function<bool(const Thread&)> innermost_can_end_new;

 private:
  // Log2 of the first chunk's size; each chunk is as large as all chunks before it.
  static constexpr int kLog2FirstChunk = 5;
  Config* slot(int32_t id) const {
    uint32_t x = static_cast<uint32_t>(id) + (1u << kLog2FirstChunk);
    int top = 31 - __builtin_clz(x);
    return chunks_[top - kLog2FirstChunk].load(std::memory_order_acquire) + (x - (1u << top));
  }
  int32_t compute_step(int32_t state, uint8_t byte);
  Config& add_slot();
  std::atomic<int32_t>* add_row();
  const Thread* store_threads(const std::vector<Thread>& threads);
  int32_t apply_to_register(const Rule& rule, const Effect& effect, int32_t reg, bool free);
  bool can_end_entry(const Thread& thread);  // entries_ahead.cpp
  bool can_begin_entry(const Thread& thread, int call_depth = 0);
  int32_t min_values_ahead(const Thread& thread);
  bool has_more_values(int32_t count, int32_t memory);
  bool has_more_than_seen_ahead(int32_t count, const Thread& thread);
  int64_t count_seen_ahead(const Thread& thread);  // seen_ahead.cpp
  bool escapes_lead_to(int32_t from, uint8_t character, int32_t to) const;
  std::optional<bool> can_string_end_new(const Thread& thread);
  // What may happen first after a position, within its frame.
  struct Ahead {
    std::vector<int32_t> begins;    // positions where an entry begins
    std::vector<int32_t> members;   // effects that begin a permutation's member or separator
    std::vector<int32_t> calls;     // calls of rules in which entries of the scope begin
    bool ends_permutation = false;  // the permutation may end, unless its guard forbids it
    bool ends_frame = false;        // any other frame may end
    bool ends_scope = false;        // a scope may end
    void add(const Ahead& more);
    auto operator<=>(const Ahead&) const = default;
  };
  const Ahead& ahead_of(int32_t position);
  const Ahead& nearest_ahead_of(int32_t position);
  bool can_have_any_number(int32_t position);
  bool continues_on_nearest_way(const Thread& thread, int max_steps);
  int32_t compute_closure(std::vector<Thread>& kernel);
  bool is_counting(const Thread& thread) const;
  bool can_return(const Thread& thread, const std::function<bool(const Thread&)>& continues);
  bool has_no_entry(const EffectEdge& put);
  bool begins_entry(int32_t position) const;
  bool has_own_entries(int32_t rule);
  bool begins_entries_only_first(const Rule& rule) const;
  void compute_ahead(int32_t from);
  Ahead ahead_at(int32_t position, std::vector<int32_t>& next);
  int32_t intern_ahead(Ahead ahead);
  int32_t merge(int32_t a, int32_t b, int depth);
  void merge_threads(std::vector<Thread>& threads, int depth);
  void drop_higher_counts(std::vector<Thread>& threads);
  bool keeps_only_lowest_count(int32_t rule);
  void pop(const Thread& thread, std::vector<Thread>& out);
  Thread enter(RuleEntries::Entry entry);
  int32_t height(int32_t rule);
  std::vector<int32_t> left_corners(int32_t rule) const;
  int32_t intern_seen(const SeenSet& set);
  void release();
  struct MembersLeft {
    // Members that must still be written; other members that may still be written once.
    int64_t needed = 0, available = 0;
    int32_t reach = kEverySlot;  // for permutations with a condition, see MemberChoices
  };
  static MembersLeft members_left(const Rule& rule, const SeenSet& set);
  int32_t reach(const Rule& rule, int32_t reg);
  bool can_write_member(const Rule& rule, const SeenSet& set, size_t member, MembersLeft members_left);
  bool can_come_true(const Rule& rule, int32_t part, const SeenSet& set);

  std::shared_ptr<const Grammar> grammar_;
  std::mutex mutex_;
  std::atomic<Config*> chunks_[24] = {};
  std::atomic<int32_t> count_{0};  // changed under the lock; also read without it, for statistics
  int32_t initial_ = 0;
  MemoryLimit byte_limit_;
  std::atomic<size_t> bytes_{0};
  NumberTable closed_ids_, open_ids_;  // of configurations
  std::vector<std::unique_ptr<Thread[]>> pools_;
  size_t pool_left_ = 0;
  Thread* pool_next_ = nullptr;
  std::vector<std::atomic<int32_t>*> slabs_;
  size_t slab_left_ = 0;
  PairMap merged_, token_steps_, steps_, raw_steps_, returns_;
  ThreadMap<int32_t> closures_;  // closures of single threads at positions with many effects
  Uniqueness uniqueness_;
  size_t uniqueness_bytes_ = 0;  // the bytes of uniqueness_ that have been charged
  UnboundedStrings unbounded_;
  ValueCounts counts_;
  FiniteStringSets finite_strings_;
  std::vector<int32_t> ahead_of_, nearest_ahead_of_;  // by position: index into aheads_; -1: unknown
  // By rule, see has_no_entry() and ahead_at(); -1: unknown.
  std::vector<int8_t> begins_entries_only_first_, has_own_entries_;
  std::vector<const Ahead*> aheads_;  // without duplicates
  std::map<Ahead, int32_t> ahead_numbers_;
  bool is_raw_step_ = false;                       // whether a raw step is being computed
  mutable std::atomic<bool> is_abandoned_{false};  // see require_compiled()
  std::vector<SeenSet> seen_;
  NumberTable seen_ids_;
  std::vector<int32_t> initial_registers_;
  // By rule and key, see can_come_true().
  std::unordered_map<const Rule*, std::unordered_map<std::string, bool>> can_come_true_;
  std::unordered_map<uint64_t, int32_t> reaches_;  // by rule and register
  std::vector<Thread> pending_, closed_threads_, kernel_;
  ThreadSet visited_;
  RuleEntries rule_entries_;
  std::vector<int32_t> heights_;                 // by rule; -1: unknown
  std::vector<int8_t> keeps_only_lowest_count_;  // by rule, see keeps_only_lowest_count(); -1: unknown
};

}  // namespace guided
