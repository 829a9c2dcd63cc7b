#include "run/arena.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>

namespace guided {

namespace {
constexpr size_t kSlabRows = 16;  // the first slabs have fewer, since most grammars take only a few steps
}  // namespace

Arena::Arena(std::shared_ptr<const Grammar> grammar, size_t byte_limit)
    : grammar_(std::move(grammar)),
      byte_limit_(byte_limit),
      uniqueness_(grammar_->known),
      unbounded_(*grammar_),
      counts_(*grammar_, unbounded_),
      finite_strings_(*grammar_) {
  initial_registers_.assign(grammar_->rules.size(), -1);
  uniqueness_.run_out = !grammar_->known.empty() && !unbounded_.all_entries() && counts_.least() < ValueCounts::kMany;
  for (int32_t bottom : {kBottom, kTop, kFree}) intern({{kExit, 0, bottom}}, false);
  std::vector<Thread> kernel;
  const Rule& start = grammar_->rules[grammar_->start];
  if (start.size > 0) kernel.push_back({.pos = start.start, .reg = initial_register(grammar_->start), .ret = kBottom});
  if (grammar_->nullable) kernel.push_back({.pos = kExit, .reg = 0, .ret = kBottom});
  try {
    initial_ = close(kernel);
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
  uint32_t x = static_cast<uint32_t>(id) + (1u << kFirstChunk);
  int top = 31 - __builtin_clz(x);
  if (top - kFirstChunk >= 22) throw LimitFailure("memory", 4e9, 4e9, "ask for shorter outputs");
  auto& chunk = chunks_[top - kFirstChunk];
  if (!chunk.load(std::memory_order_relaxed)) {  // allocated on first use, so large chunks cost nothing before
    fault_point(Fault::Allocation);
    auto* memory = static_cast<Config*>(std::malloc(sizeof(Config) << top));
    if (!memory) throw std::bad_alloc();
    chunk.store(memory, std::memory_order_release);
  }
  static_assert(std::is_trivially_destructible_v<Config>);
  new (slot(id)) Config;
  count_.store(id + 1, std::memory_order_relaxed);
  charge(sizeof(Config));
  return *slot(id);
}

const Thread* Arena::keep(const std::vector<Thread>& threads) {
  size_t n = threads.size();
  if (n > pool_left_) {
    size_t size = std::max<size_t>(n, std::min<size_t>(8192, size_t{64} << std::min<size_t>(pools_.size(), 7)));
    pools_.push_back(std::make_unique<Thread[]>(size));
    pool_next_ = pools_.back().get();
    pool_left_ = size;
    charge(size * sizeof(Thread));
  }
  Thread* at = pool_next_;
  std::copy(threads.begin(), threads.end(), at);
  pool_next_ += n;
  pool_left_ -= n;
  return at;
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

int32_t Arena::intern(const std::vector<Thread>& threads, bool closed) {
  CallMeter::work(kLookup + static_cast<int64_t>(threads.size()));
  const uint64_t hash = hash_threads(threads.data(), threads.size(), closed);
  NumberTable& known = closed ? closed_ids_ : open_ids_;
  const int32_t found = known.find(hash, [&](int32_t id) {
    const Config& c = config(id);
    return static_cast<size_t>(c.count) == threads.size() && std::equal(threads.begin(), threads.end(), c.threads);
  });
  if (found >= 0) return found;
  const int32_t id = size();
  Config& c = add_slot();
  c.threads = keep(threads);
  c.count = static_cast<int32_t>(threads.size());
  for (const Thread& t : threads) {
    if (t.pos == kExit)
      c.accepting |= t.ret == kBottom;
    else if (grammar_->is_later(t.pos))
      c.bytes = ByteSet::all();  // a later rule may read any byte
    else
      c.bytes |= grammar_->positions[t.pos].bytes;
    c.remembers |= t.mem > kLastUnknownSet;
    c.counts |= closed && is_counting(t);
  }
  known.add(hash, id);
  charge(16);
  return id;
}

int32_t Arena::lone(Thread thread) {
  kernel_.assign(1, thread);
  return intern(kernel_, true);
}

int32_t Arena::return_to(int32_t ret, int32_t memory) {
  int32_t known = kUnknown;
  if (memory == kOutside) {
    known = config(ret).closed.load(std::memory_order_relaxed);
  } else if (const int32_t* found = returns_.find(pair_key(ret, memory))) {
    known = *found;
  }
  if (known >= 0) return known;
  std::vector<Thread> kernel;
  pop({.pos = 0, .reg = 0, .ret = ret, .mem = memory}, kernel);
  int32_t id = close(kernel);
  if (memory == kOutside) {
    config(ret).closed.store(id, std::memory_order_release);
  } else {
    returns_.set(pair_key(ret, memory), id);
    charge(24);
  }
  return id;
}

void Arena::need(int32_t state) const {
  need_nothing();
  if (grammar_->later.empty()) return;
  std::vector<int32_t> later;
  for (const Thread& t : config(state))
    if (t.pos != kExit && grammar_->is_later(t.pos)) later.push_back(grammar_->rule_at(t.pos).later);
  if (later.empty()) return;
  given_up_ = true;
  throw RulesNeeded{std::move(later)};
}

// Computes the state after `byte`.
int32_t Arena::after(int32_t state, uint8_t byte) {
  need(state);
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
  if (c.remembers) {  // states with seen sets are rarely visited again: no row for all bytes
    if (const int32_t* known = steps_.find(pair_key(state, byte))) return *known;
    charge(24);
    const int32_t id = after(state, byte);
    steps_.set(pair_key(state, byte), id);
    return id;
  }
  std::atomic<int32_t>* row = c.row.load(std::memory_order_relaxed);
  if (!row) {
    row = add_row();
    c.row.store(row, std::memory_order_release);
  }
  int32_t known = row[byte].load(std::memory_order_relaxed);
  if (known) return known - 2;
  int32_t id = after(state, byte);
  row[byte].store(id + 2, std::memory_order_release);
  return id;
}

int32_t Arena::step_text(int32_t state, std::string_view text) {
  for (size_t i = 0; i < text.size() && state != kDead; ++i) state = step(state, static_cast<uint8_t>(text[i]));
  return state;
}

int32_t Arena::raw_state(const Thread& thread) {
  std::vector<Thread> kernel{thread};
  raw_ = true;
  int32_t id = close(kernel);
  raw_ = false;
  return id;
}

int32_t Arena::raw_step(int32_t state, uint8_t byte) {
  if (const int32_t* known = raw_steps_.find(pair_key(state, byte))) return *known;
  charge(24);
  raw_ = true;
  int32_t id = after(state, byte);
  raw_ = false;
  raw_steps_.set(pair_key(state, byte), id);
  return id;
}

int32_t Arena::step_token(int32_t state, int32_t token) {
  const uint64_t key = pair_key(state, token);
  if (const int32_t* known = token_steps_.find(key)) return *known;
  need(state);
  std::vector<Thread> kernel;
  for (const Thread& t : config(state)) {
    if (t.pos == kExit) continue;
    const Position& p = grammar_->positions[t.pos];
    const std::span edges(grammar_->tokens.begin() + p.token_lo, grammar_->tokens.begin() + p.token_hi);
    const auto found = std::ranges::lower_bound(edges, token, {}, &TokenEdge::token);  // one edge per token, sorted
    if (found != edges.end() && found->token == token)
      kernel.push_back({.pos = found->to, .reg = t.reg, .ret = t.ret, .mem = t.mem});
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

int32_t Arena::either(int32_t a, int32_t b) {
  if (a == kDead || b == kDead || a == b) return a == kDead ? b : a;
  std::vector<Thread> all(config(a).begin(), config(a).end());
  all.insert(all.end(), config(b).begin(), config(b).end());
  merge_threads(all, 0);
  return intern(all, true);
}

int32_t Arena::with_next_entry(int32_t state) {
  std::vector<Thread> threads(config(state).begin(), config(state).end());
  bool changed = false;
  for (Thread& t : threads) {
    const int32_t mem = uniqueness_.with_next_entry(t.mem);
    changed |= mem != t.mem;
    t.mem = mem;
  }
  if (!changed) return state;
  merge_threads(threads, 0);
  return intern(threads, true);
}

int32_t Arena::import(const Arena& other, int32_t state, Carried& carried) {
  std::unordered_map<int32_t, int32_t>& known = carried.states;
  for (int32_t bottom : {kBottom, kTop, kFree}) known[bottom] = bottom;
  // A return configuration has a lower number than all that return to it, so ascending order is dependency order.
  std::vector<int32_t> need{state}, order;
  std::unordered_map<int32_t, char> visited;
  while (!need.empty()) {
    int32_t id = need.back();
    need.pop_back();
    if (known.count(id) || !visited.emplace(id, 0).second) continue;
    order.push_back(id);
    for (const Thread& t : other.config(id))
      if (t.pos != kExit) need.push_back(t.ret);
  }
  std::sort(order.begin(), order.end());
  for (int32_t id : order) {
    std::vector<Thread> threads;
    bool entered = false;
    for (Thread t : other.config(id)) {
      if (t.pos != kExit) {
        const int32_t later = other.grammar_->rule_at(t.pos).later;
        if (later >= 0 && grammar_->later[later].compiled >= 0) {
          const int32_t rule = grammar_->later[later].compiled;
          t.pos = grammar_->rules[rule].start;
          t.reg = initial_register(rule);
          entered = true;
        }
        if (grammar_->rule_at(t.pos).kind == RuleKind::Set) t.reg = intern_seen(other.seen(t.reg));
        t.ret = known.at(t.ret);
        t.mem = uniqueness_.import(other.uniqueness_, t.mem, carried.uniqueness);
      }
      threads.push_back(t);
    }
    std::sort(threads.begin(), threads.end());
    known[id] = entered ? close(threads) : intern(threads, id == state);
  }
  return known.at(state);
}

}  // namespace guided
