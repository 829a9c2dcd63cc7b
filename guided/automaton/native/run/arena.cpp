#include "run/arena.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>

namespace guided {

namespace {
constexpr size_t kSlabRows = 16;  // the first slabs have fewer rows, because most grammars take only a few steps
}  // namespace

Arena::Arena(std::shared_ptr<const Grammar> grammar, size_t byte_limit)
    : grammar_(std::move(grammar)),
      byte_limit_(byte_limit),
      uniqueness_(grammar_->known),
      unbounded_(*grammar_),
      counts_(*grammar_, unbounded_),
      finite_strings_(*grammar_) {
  initial_registers_.assign(grammar_->rules.size(), -1);
  uniqueness_.may_run_out =
      !grammar_->known.empty() && !unbounded_.has_only_unbounded_entries() && counts_.min_count() < ValueCounts::kMany;
  for (int32_t bottom : {kBottom, kTop, kFree}) intern({{kExit, 0, bottom}}, false);
  std::vector<Thread> kernel;
  const Rule& start = grammar_->rules[grammar_->start];
  if (start.size > 0) kernel.push_back({.pos = start.start, .reg = initial_register(grammar_->start), .ret = kBottom});
  if (grammar_->nullable) kernel.push_back({.pos = kExit, .reg = 0, .ret = kBottom});
  try {
    initial_ = close(kernel);
    add_carried(bytes());
  } catch (...) {
    release();
    throw;
  }
}

Arena::~Arena() { release(); }

void Arena::release() {
  for (auto* slab : slabs_) std::free(static_cast<void*>(slab));
  for (auto& chunk : chunks_) std::free(static_cast<void*>(chunk.load(std::memory_order_relaxed)));
}

Config& Arena::add_slot() {
  const int32_t id = size();
  uint32_t x = static_cast<uint32_t>(id) + (1u << kLog2FirstChunk);
  int top = 31 - __builtin_clz(x);
  if (top - kLog2FirstChunk >= 22) throw LimitFailure("memory", 4e9, 4e9, "ask for shorter outputs");
  auto& chunk = chunks_[top - kLog2FirstChunk];
  if (!chunk.load(std::memory_order_relaxed)) {  // allocated on first use, so large chunks cost nothing until then
    fault_point(Fault::Allocation);
    auto* memory = static_cast<Config*>(std::malloc(sizeof(Config) << top));
    if (!memory) throw std::bad_alloc();
    chunk.store(memory, std::memory_order_release);
  }
  static_assert(std::is_trivially_destructible_v<Config>);
  new (slot(id)) Config;
  count_.store(id + 1, std::memory_order_relaxed);
  charge(sizeof(Config));
  if (const size_t bytes = uniqueness_.bytes(); bytes > uniqueness_bytes_)
    charge(bytes - std::exchange(uniqueness_bytes_, bytes));
  return *slot(id);
}

const Thread* Arena::store_threads(const std::vector<Thread>& threads) {
  size_t count = threads.size();
  if (count > pool_left_) {
    size_t size = std::max<size_t>(count, std::min<size_t>(8192, size_t{64} << std::min<size_t>(pools_.size(), 7)));
    pools_.push_back(std::make_unique<Thread[]>(size));
    pool_next_ = pools_.back().get();
    pool_left_ = size;
    charge(size * sizeof(Thread));
  }
  Thread* stored = pool_next_;
  std::copy(threads.begin(), threads.end(), stored);
  pool_next_ += count;
  pool_left_ -= count;
  return stored;
}

std::atomic<int32_t>* Arena::add_row() {
  if (slab_left_ == 0) {
    const size_t rows = std::min(kSlabRows, size_t{2} << std::min<size_t>(slabs_.size(), 3));
    fault_point(Fault::Allocation);
    void* memory = std::calloc(rows, 256 * sizeof(std::atomic<int32_t>));
    if (!memory) throw std::bad_alloc();
    slabs_.push_back(static_cast<std::atomic<int32_t>*>(memory));
    slab_left_ = rows;
  }
  --slab_left_;
  charge(256 * sizeof(int32_t));
  return slabs_.back() + slab_left_ * 256;
}

int32_t Arena::intern(const std::vector<Thread>& threads, bool is_closed) {
  CallMeter::work(kLookup + static_cast<int64_t>(threads.size()));
  const uint64_t hash = hash_threads(threads.data(), threads.size(), is_closed);
  NumberTable& ids = is_closed ? closed_ids_ : open_ids_;
  const int32_t existing = ids.find(hash, [&](int32_t id) {
    const Config& c = config(id);
    return static_cast<size_t>(c.count) == threads.size() && std::equal(threads.begin(), threads.end(), c.threads);
  });
  if (existing >= 0) return existing;
  const int32_t id = size();
  Config& c = add_slot();
  c.threads = store_threads(threads);
  c.count = static_cast<int32_t>(threads.size());
  for (const Thread& t : threads) {
    if (t.pos == kExit)
      c.accepting |= t.ret == kBottom;
    else if (grammar_->is_later(t.pos))
      c.bytes = ByteSet::all();  // a rule that is not compiled yet may read any byte
    else
      c.bytes |= grammar_->positions[t.pos].bytes;
    c.has_seen_set |= t.mem > kLastUnknownSet;
    c.counts_tokens |= is_closed && is_counting(t);
  }
  ids.add(hash, id);
  charge(16);
  return id;
}

int32_t Arena::state_of_thread(Thread thread) {
  kernel_.assign(1, thread);
  return intern(kernel_, true);
}

int32_t Arena::return_to(int32_t ret, int32_t memory) {
  int32_t result = kUnknown;
  if (memory == kOutside) {
    result = config(ret).after_return.load(std::memory_order_relaxed);
  } else if (const int32_t* cached = returns_.find(pair_key(ret, memory))) {
    result = *cached;
  }
  if (result >= 0) return result;
  std::vector<Thread> kernel;
  pop({.pos = 0, .reg = 0, .ret = ret, .mem = memory}, kernel);
  int32_t id = close(kernel);
  if (memory == kOutside) {
    config(ret).after_return.store(id, std::memory_order_release);
  } else {
    returns_.set(pair_key(ret, memory), id);
    charge(24);
  }
  return id;
}

void Arena::require_compiled(int32_t state) const {
  check_not_abandoned();
  if (grammar_->later.empty()) return;
  std::vector<int32_t> later;
  for (const Thread& t : config(state))
    if (t.pos != kExit && grammar_->is_later(t.pos)) later.push_back(grammar_->rule_at(t.pos).later);
  if (later.empty()) return;
  is_abandoned_ = true;
  throw RulesNeeded{std::move(later)};
}

// Computes the state after `byte`.
int32_t Arena::compute_step(int32_t state, uint8_t byte) {
  require_compiled(state);
  std::vector<Thread> kernel;
  for (Thread t : config(state)) {
    if (t.pos == kExit) continue;
    t.pos = grammar_->step(t.pos, byte);
    if (t.pos < 0) continue;
    if (t.mem != kOutside) t.mem = uniqueness_.read(t.mem, byte);
    kernel.push_back(t);
  }
  if (kernel.empty()) return kDead;
  int32_t id = close(kernel);
  return config(id).count == 0 ? kDead : id;
}

int32_t Arena::step(int32_t state, uint8_t byte) {
  Config& c = config(state);
  if (c.has_seen_set) {  // states with seen sets are rarely visited again, so they get no row for all bytes
    if (const int32_t* cached = steps_.find(pair_key(state, byte))) return *cached;
    charge(24);
    const int32_t id = compute_step(state, byte);
    steps_.set(pair_key(state, byte), id);
    return id;
  }
  std::atomic<int32_t>* row = c.row.load(std::memory_order_relaxed);
  if (!row) {
    row = add_row();
    c.row.store(row, std::memory_order_release);
  }
  int32_t cached = row[byte].load(std::memory_order_relaxed);
  if (cached) return cached - 2;
  int32_t id = compute_step(state, byte);
  row[byte].store(id + 2, std::memory_order_release);
  return id;
}

int32_t Arena::step_text(int32_t state, std::string_view text) {
  for (size_t i = 0; i < text.size() && state != kDead; ++i) state = step(state, static_cast<uint8_t>(text[i]));
  return state;
}

int32_t Arena::raw_state(const Thread& thread) {
  std::vector<Thread> kernel{thread};
  is_raw_step_ = true;
  int32_t id = close(kernel);
  is_raw_step_ = false;
  return id;
}

int32_t Arena::raw_step(int32_t state, uint8_t byte) {
  if (const int32_t* cached = raw_steps_.find(pair_key(state, byte))) return *cached;
  charge(24);
  is_raw_step_ = true;
  int32_t id = compute_step(state, byte);
  is_raw_step_ = false;
  raw_steps_.set(pair_key(state, byte), id);
  return id;
}

int32_t Arena::step_token(int32_t state, int32_t token) {
  const uint64_t key = pair_key(state, token);
  if (const int32_t* cached = token_steps_.find(key)) return *cached;
  require_compiled(state);
  std::vector<Thread> kernel;
  for (const Thread& t : config(state)) {
    if (t.pos == kExit) continue;
    const Position& p = grammar_->positions[t.pos];
    const std::span edges(grammar_->tokens.begin() + p.token_lo, grammar_->tokens.begin() + p.token_hi);
    const auto edge = std::ranges::lower_bound(edges, token, {}, &TokenEdge::token);  // one edge per token, sorted
    if (edge != edges.end() && edge->token == token)
      kernel.push_back({.pos = edge->to, .reg = t.reg, .ret = t.ret, .mem = t.mem});
  }
  int32_t id = kDead;
  if (!kernel.empty()) {
    id = close(kernel);
    if (config(id).count == 0) id = kDead;
  }
  charge(24);
  token_steps_.set(key, id);
  return id;
}

int32_t Arena::union_of(int32_t a, int32_t b) {
  if (a == kDead || b == kDead || a == b) return a == kDead ? b : a;
  std::vector<Thread> all(config(a).begin(), config(a).end());
  all.insert(all.end(), config(b).begin(), config(b).end());
  merge_threads(all, 0);
  return intern(all, true);
}

int32_t Arena::with_next_entry(int32_t state) {
  std::vector<Thread> threads(config(state).begin(), config(state).end());
  bool has_changed = false;
  for (Thread& t : threads) {
    const int32_t mem = uniqueness_.with_next_entry(t.mem);
    has_changed |= mem != t.mem;
    t.mem = mem;
  }
  if (!has_changed) return state;
  merge_threads(threads, 0);
  return intern(threads, true);
}

int32_t Arena::import(const Arena& other, int32_t state, Carried& carried) {
  std::unordered_map<int32_t, int32_t>& new_ids = carried.states;
  for (int32_t bottom : {kBottom, kTop, kFree}) new_ids[bottom] = bottom;
  // A return configuration has a lower number than all configurations that return to it, so ascending order is
  // dependency order.
  std::vector<int32_t> pending{state}, order;
  std::unordered_map<int32_t, char> visited;
  while (!pending.empty()) {
    int32_t id = pending.back();
    pending.pop_back();
    if (new_ids.count(id) || !visited.emplace(id, 0).second) continue;
    order.push_back(id);
    for (const Thread& t : other.config(id))
      if (t.pos != kExit) pending.push_back(t.ret);
  }
  std::sort(order.begin(), order.end());
  for (int32_t id : order) {
    std::vector<Thread> threads;
    bool enters_compiled_rule = false;
    for (Thread t : other.config(id)) {
      if (t.pos != kExit) {
        const int32_t later = other.grammar_->rule_at(t.pos).later;
        if (later >= 0 && grammar_->later[later].compiled >= 0) {
          const int32_t rule = grammar_->later[later].compiled;
          t.pos = grammar_->rules[rule].start;
          t.reg = initial_register(rule);
          enters_compiled_rule = true;
        }
        if (grammar_->rule_at(t.pos).kind == RuleKind::Set) t.reg = intern_seen(other.seen(t.reg));
        t.ret = new_ids.at(t.ret);
        t.mem = uniqueness_.import(other.uniqueness_, t.mem, carried.uniqueness);
      }
      threads.push_back(t);
    }
    std::sort(threads.begin(), threads.end());
    new_ids[id] = enters_compiled_rule ? close(threads) : intern(threads, id == state);
  }
  return new_ids.at(state);
}

}  // namespace guided
