#include "completion.hpp"

#include <algorithm>
#include <deque>

namespace guided {

namespace {
constexpr int64_t kFar = ShortestText::kFar;
constexpr int32_t kLinkEvery = 32;         // positions of a rule at which texts are cut, so that they share their ends
constexpr size_t kLongest = 256;           // symbols of one piece at most
constexpr size_t kLeastMemory = size_t{16} << 20;  // what is always granted
constexpr size_t kMostOpen = 1000;       // tokens that are looked at one by one
constexpr size_t kSmallTrie = 4096;      // vocabularies up to this size get exact distances
int64_t plus(int64_t a, int64_t b) { return std::min(kFar, a + b); }
}  // namespace

// ---- pieces
// The tree's path from a thread up to the next link.
void CompletionFinder::follow(Thread at, Completion& out) {
  auto link = [&] { out.next = arena_.intern({at}, false); };
  for (;;) {
    const Rule& rule = grammar_.rules[grammar_.positions[at.pos].rule];
    const bool begun = !out.symbols.empty();
    if (begun && ((at.pos - rule.base) % kLinkEvery == 0 || out.symbols.size() >= kLongest)) return link();
    if (arena_.memories().alive(at.mem)) {
      if (begun) return link();
      return end_entry(at, out);
    }
    const ShortestText::Choice c = tree_.choose(at);
    if (c.cost > kFar) {
      out.impossible = true;
      return;
    }
    switch (c.kind) {
      case ShortestText::Choice::End:
        out.next = with_memory(at.ret, at.mem);
        return;
      case ShortestText::Choice::Byte:
        out.symbols.push_back(c.index);
        at.pos = grammar_.step(at.pos, static_cast<uint8_t>(c.index));
        at.mem = arena_.memories().read(at.mem, static_cast<uint8_t>(c.index));
        break;
      case ShortestText::Choice::Token:
        out.symbols.push_back(256 + grammar_.tokens[c.index].token);
        at.pos = grammar_.tokens[c.index].to;
        break;
      case ShortestText::Choice::Call: {
        if (begun) return link();
        const CallEdge& call = grammar_.calls[c.index];
        int32_t ret = call.tail ? at.ret : arena_.intern({{call.after, at.reg, at.ret}}, false);
        at = {grammar_.rules[call.rule].start, arena_.initial_register(call.rule), ret, at.mem};
        break;
      }
      case ShortestText::Choice::Operate: {
        if (begun) return link();
        const EffectEdge& e = grammar_.effects[c.index];
        const bool untold = e.effect.op == Effect::Begin && !arena_.memories().in_scope(at.mem) && at.mem != kOutside;
        if (untold || !arena_.apply(rule, e.effect, at) || arena_.memories().touched(at.mem) > 1) {
          out.impossible = true;  // or not known, which comes to the same
          return;
        }
        at.pos = e.to;
        break;
      }
    }
  }
}

// The way to the end of an entry that may come to a value that was there, as one piece.
void CompletionFinder::end_entry(const Thread& at, Completion& out) {
  const FreshEntry::Way* way = fresh_.find(at);
  if (!way) {
    out.impossible = true;
    return;
  }
  for (char ch : way->text) out.symbols.push_back(static_cast<uint8_t>(ch));
  out.next = arena_.intern(way->after, false);
}

// A return configuration, entered with a memory.
int32_t CompletionFinder::with_memory(int32_t config, int32_t memory) {
  if (memory == kOutside || config <= kFree) return config;
  std::vector<Thread> threads(arena_.config(config).begin(), arena_.config(config).end());
  for (Thread& t : threads) t.mem = memory;
  return arena_.intern(threads, false);
}

// ---- spelling in tokens
const Completion& CompletionFinder::known(int32_t config) const {
  return *arena_.config(config).completion.load(std::memory_order_relaxed);
}

// The fewest tokens, this one included, where a token stands at `node` of the trie when `config` is entered.
int64_t CompletionFinder::across(int32_t node, int32_t config) {
  const TokenTrie& trie = masks_.vocabulary().trie;
  int64_t best = kFar;
  crossing_.assign(1, {node, config});
  entered_.clear();
  for (size_t i = 0; i < crossing_.size(); ++i) {  // each (node, configuration) once
    auto [at, entered] = crossing_[i];
    auto enter = [&](int32_t n, int32_t c) {
      if (entered_.insert(uint64_t{static_cast<uint32_t>(n)} << 32 | static_cast<uint32_t>(c)).second)
        crossing_.push_back({n, c});
    };
    const Completion& c = known(entered);
    for (int32_t one : c.either) enter(at, one);
    if (!c.either.empty()) continue;
    for (size_t k = 0; at >= 0 && k < c.symbols.size(); ++k) {
      at = c.symbols[k] < 256 ? trie.child(at, static_cast<uint8_t>(c.symbols[k])) : -1;
      if (at >= 0 && ends_token(at)) best = std::min(best, plus(1, cost_after(c, k + 1)));
    }
    if (at >= 0 && c.next >= 0 && trie.nodes()[at].children > 0) enter(at, c.next);
  }
  return best;
}

bool CompletionFinder::ends_token(int32_t node) const {
  const TokenTrie::Node& found = masks_.vocabulary().trie.nodes()[node];
  return found.payload_hi > found.payload_lo;
}

int64_t CompletionFinder::cost_after(const Completion& c, size_t i) const {
  return i < c.symbols.size() ? c.cost[i] : c.next < 0 ? 0 : known(c.next).total;
}

void CompletionFinder::spell(Completion& c) {
  const TokenTrie& trie = masks_.vocabulary().trie;
  const size_t n = c.symbols.size();
  c.cost.assign(n, kFar);
  for (size_t i = n; i-- > 0;) {
    if (c.symbols[i] >= 256) {
      c.cost[i] = plus(1, cost_after(c, i + 1));
      continue;
    }
    int32_t node = 0;
    for (size_t k = i; node >= 0 && k < n; ++k) {
      node = c.symbols[k] < 256 ? trie.child(node, static_cast<uint8_t>(c.symbols[k])) : -1;
      if (node >= 0 && ends_token(node)) c.cost[i] = std::min(c.cost[i], plus(1, cost_after(c, k + 1)));
    }
    if (node >= 0 && c.next >= 0 && trie.nodes()[node].children > 0)
      c.cost[i] = std::min(c.cost[i], across(node, c.next));
  }
  c.total = cost_after(c, 0);
}

const Completion& CompletionFinder::completion(int32_t id) {
  struct Task {
    int32_t config;
    std::unique_ptr<Completion> made;
  };
  std::vector<Task> stack;
  stack.push_back({id, nullptr});
  size_t held = 0;
  const size_t allowed = std::max(arena_.byte_limit(), kLeastMemory);
  while (!stack.empty()) {
    Task& task = stack.back();
    Config& config = arena_.config(task.config);
    if (config.completion.load(std::memory_order_relaxed)) {
      stack.pop_back();
      continue;
    }
    if (!task.made) {
      task.made = std::make_unique<Completion>();
      Completion& c = *task.made;
      const int32_t alone = config.count == 1 ? arena_.intern({config.threads[0]}, false) : -1;
      if (alone != task.config)
        for (const Thread& t : config) c.either.push_back(arena_.intern({t}, false));
      else if (config.threads[0].pos != kExit)
        follow(config.threads[0], c);
      held += c.bytes();
      if (held > allowed)
        throw LimitFailure("memory", static_cast<double>(held), static_cast<double>(allowed), allowed == kLeastMemory);
      std::vector<int32_t> need = c.either;
      if (c.next >= 0) need.push_back(c.next);
      for (int32_t x : need)  // `task` and `c` are not looked at again before the next round
        if (!arena_.config(x).completion.load(std::memory_order_relaxed)) stack.push_back({x, nullptr});
      continue;
    }
    Completion& c = *task.made;
    if (c.impossible) {
      c.total = kFar;
    } else if (config.count > 0 && c.either.empty()) {
      spell(c);
    } else {
      c.total = kFar;
      for (int32_t one : c.either) c.total = std::min(c.total, known(one).total);
    }
    arena_.charge(c.bytes());
    config.completion.store(task.made.release(), std::memory_order_release);
    stack.pop_back();
  }
  return known(id);
}

std::vector<int32_t> CompletionFinder::spelled(int32_t state, size_t limit) {
  std::vector<int32_t> out;
  int32_t at = state;
  while (at >= 0 && out.size() < limit) {
    const Completion& c = completion(at);
    at = c.next;
    for (int32_t one : c.either)
      if (known(one).total == c.total) at = one;
    for (size_t i = 0; i < c.symbols.size() && out.size() < limit; ++i) out.push_back(c.symbols[i]);
  }
  return out;
}

int64_t CompletionFinder::distance(int32_t state) {
  if (!grammar_.token_distance.empty()) {
    int64_t least = kFar;
    for (const Thread& t : arena_.config(state))
      least = std::min<int64_t>(least, t.pos == kExit ? 0 : grammar_.token_distance[t.pos]);
    return least;
  }
  if (!grammar_.recursive && grammar_.known.empty() && masks_.vocabulary().trie.nodes().size() <= kSmallTrie && !grammar_.too_large) {
    // The first search is from the start and settles it: answers must not hang on which states were asked for before.
    if (exact_.empty()) grammar_.too_large = !exact_.find(arena_.initial());
    if (!grammar_.too_large)
      if (auto exact = exact_.find(state)) return *exact;
  }
  return completion(state).total;
}

// The most tokens to the end of the frame after a token that stays in it; INT64_MAX where that is not known cheaply.
const TokenTable::Left& CompletionFinder::left_inside(const Thread& t, TokenTable& table) {
  const Rule& rule = grammar_.rules[grammar_.positions[t.pos].rule];
  // A relative table knows no bounds. Where a token may come near the upper one, any of the threads after it may be the
  // only one that is left: the farthest of them counts.
  const bool near = table.relative && rule.max >= 0 && t.reg + table.furthest > rule.max;
  TokenTable::Left& kept = near ? table.left_near_bound : table.left;
  if (kept.most.load(std::memory_order_acquire) >= 0) return kept;
  int64_t most = 0;
  std::vector<int32_t> open_ended;
  int32_t last = -1;
  bool is_open = false;
  masks_.each_token(arena_.lone(masks_.table_thread(t)), [&](int32_t token, int32_t after) {
    if (after != last && most < INT64_MAX) {
      last = after;
      const int64_t left = near ? farthest(after) : completion(after).total;
      is_open = !grammar_.known.empty() && left >= kFar && left < INT64_MAX;
      if (!is_open) most = std::max(most, left);
    }
    if (is_open) open_ended.push_back(token);
  });
  if (open_ended.size() > kMostOpen) most = INT64_MAX;
  std::lock_guard<std::mutex> lock(table.left_lock);
  if (kept.most.load(std::memory_order_relaxed) < 0) {
    kept.open_ended = std::move(open_ended);
    kept.most.store(most, std::memory_order_release);
  }
  return kept;
}

// The distance of the farthest thread of a state under kFree; INT64_MAX where frames are open inside, whose returns may
// unite several counts.
int64_t CompletionFinder::farthest(int32_t state) {
  int64_t most = 0;
  const Config& c = arena_.config(state);
  for (int32_t i = 0; i < c.count; ++i) {
    if (c.threads[i].pos == kExit) continue;
    if (c.threads[i].ret != kFree) return INT64_MAX;
    most = std::max(most, completion(arena_.intern({c.threads[i]}, false)).total);
  }
  return most;
}

// The distance after one token; 0 where the thread does not allow it.
int64_t CompletionFinder::after_token(const Thread& thread, int32_t token) {
  int32_t state = arena_.lone(thread);
  for (char ch : masks_.vocabulary().tokens[token]) {
    state = arena_.step(state, static_cast<uint8_t>(ch));
    if (state == kDead) return 0;
  }
  return distance(state);
}

int64_t CompletionFinder::reach(int32_t state) {
  Config& c = arena_.config(state);
  int64_t known = c.reach.load(std::memory_order_relaxed);
  if (known >= 0) return known;
  int64_t most = 0;
  for (int32_t i = 0; i < c.count && most < INT64_MAX; ++i) {
    const Thread t = c.threads[i];
    if (t.pos == kExit) continue;
    const Position& p = grammar_.positions[t.pos];
    for (int32_t k = p.token_lo; k < p.token_hi; ++k)
      most = std::max(most, distance(arena_.step_token(state, grammar_.tokens[k].token)));
    if (p.bytes.count() == 0) continue;
    TokenTable& table = masks_.table(t);
    const Rule& rule = grammar_.rules[p.rule];
    masks_.each_watched(t, [&](int32_t, int32_t after) {
      if (after != kDead) most = std::max(most, distance(after));
    });
    std::vector<int32_t> unsure = table.unsure;
    const bool known_inside = !table.overflow && !(table.relative && t.reg < rule.min);
    const TokenTable::Left* left = known_inside ? &left_inside(t, table) : nullptr;
    const int64_t inside = left ? left->most.load(std::memory_order_relaxed) : INT64_MAX;
    if (inside == INT64_MAX) {
      most = INT64_MAX;
      break;
    }
    const bool owns = arena_.memories().in_scope(t.mem) && p.scopes > 0;
    if (arena_.memories().in_scope(t.mem) && (p.scopes > 1 || (!owns && rule.keeps))) {
      most = INT64_MAX;  // the frame ends entries of a scope that it does not end
      break;
    }
    const int32_t memory = owns ? arena_.memories().left(t.mem) : arena_.memories().unread(t.mem);
    const int64_t outside = completion(with_memory(t.ret, memory)).total;
    if (outside >= kFar) {
      most = INT64_MAX;
      break;
    }
    most = std::max(most, inside + outside);
    auto rest = [&](int32_t token, int32_t after) {
      const int64_t needed = distance(after);
      if (needed < kFar)
        most = std::max(most, needed);
      else
        unsure.push_back(token);  // what the thread reads is not known at that state
    };
    masks_.each_remainder(t, table, rest, &unsure);
    unsure.insert(unsure.end(), left->open_ended.begin(), left->open_ended.end());
    if (!grammar_.known.empty())
      for (int32_t token : unsure) most = std::max(most, after_token(t, token));
    if (most >= kFar) most = INT64_MAX;
  }
  c.reach.store(most, std::memory_order_release);
  return most;
}

}  // namespace guided
