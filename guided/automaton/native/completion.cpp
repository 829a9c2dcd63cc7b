#include "completion.hpp"

#include <algorithm>
#include <deque>

namespace guided {

namespace {
constexpr int64_t kFar = INT64_MAX / 8;
constexpr int32_t kLinkEvery = 32;         // positions of a rule at which texts are cut, so that they share their ends
constexpr size_t kLongest = 256;           // symbols of one piece at most
constexpr size_t kLeastMemory = size_t{16} << 20;  // what is always granted
constexpr size_t kSmallTrie = 4096;      // vocabularies up to this size get exact distances
// Costs of the shortest-path tree: bytes first; a call counts a little, so that no two rules wait for each other.
constexpr int64_t kByteCost = 1024, kTokenCost = 4096, kCallCost = 1;
int64_t plus(int64_t a, int64_t b) { return std::min(kFar, a + b); }
int64_t times(int64_t a, int64_t n) { return n == 0 ? 0 : a > kFar / n ? kFar : a * n; }
}  // namespace

// ---- the shortest-path tree, in bytes
void CompletionFinder::relax(int32_t r) {
  const Rule& rule = grammar_.rules[r];
  // Within a rule: repeated sweeps from the end; rules are mostly acyclic, so few are needed.
  bool changed = true;
  while (changed) {
    changed = false;
    for (int32_t pos = rule.base + rule.size - 1; pos >= rule.base; --pos) {
      const Position& p = grammar_.positions[pos];
      int64_t best = p.accept ? 0 : kFar;
      for (int w = 0; w < 4; ++w)
        for (uint64_t bits = p.bytes.w[w]; bits; bits &= bits - 1)
          best = std::min(
              best, plus(kByteCost, cost_[grammar_.step(pos, static_cast<uint8_t>(w * 64 + __builtin_ctzll(bits)))]));
      for (int32_t i = p.call_lo; i < p.call_hi; ++i)
        best = std::min(best, plus(call_cost(i), cost_[grammar_.calls[i].after]));
      for (int32_t i = p.token_lo; i < p.token_hi; ++i)
        best = std::min(best, plus(kTokenCost, cost_[grammar_.tokens[i].to]));
      for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) best = std::min(best, cost_[grammar_.effects[i].to]);
      if (best < cost_[pos]) {
        cost_[pos] = best;
        changed = true;
      }
    }
  }
}

int64_t CompletionFinder::call_cost(int32_t call) const {
  return plus(kCallCost, rule_cost_[grammar_.calls[call].rule]);
}

// What a rule's shortest text costs: at least as much as each rule that it calls on the way, so that texts are finite.
int64_t CompletionFinder::whole_cost(const Rule& rule) const {
  const Position& s = grammar_.positions[rule.start];
  if (rule.kind == RuleKind::Plain) return cost_[rule.start];
  if (rule.kind == RuleKind::Counter) {
    int64_t once = kFar;
    for (int32_t i = s.effect_lo; i < s.effect_hi; ++i) once = std::min(once, cost_[grammar_.effects[i].to]);
    return times(once, std::max<int64_t>(1, rule.min));
  }
  int64_t sum = 0, written = 0;
  std::vector<int64_t> others;
  for (int32_t i = s.effect_lo; i < s.effect_hi; ++i) {
    size_t member = static_cast<size_t>(grammar_.effects[i].effect.a);
    int64_t cost = cost_[grammar_.effects[i].to];
    if (rule.required[member]) {
      sum = plus(sum, cost);
      ++written;
    }
    if (!rule.required[member] || rule.repeatable[member]) others.push_back(cost);
  }
  if (written < rule.min) {
    int64_t most = others.empty() ? kFar : *std::max_element(others.begin(), others.end());
    sum = plus(sum, times(most, rule.min - written));
  }
  return sum;
}

void CompletionFinder::prepare() {
  if (!cost_.empty()) return;
  rule_cost_.assign(grammar_.rules.size(), kFar);
  std::vector<std::vector<int32_t>> callers(grammar_.rules.size());
  for (const Position& p : grammar_.positions)
    for (int32_t i = p.call_lo; i < p.call_hi; ++i) callers[grammar_.calls[i].rule].push_back(p.rule);
  std::deque<int32_t> work;
  std::vector<uint8_t> queued(grammar_.rules.size(), 1);
  for (size_t r = 0; r < grammar_.rules.size(); ++r) work.push_back(static_cast<int32_t>(r));
  cost_.assign(grammar_.positions.size(), kFar);
  while (!work.empty()) {
    int32_t r = work.front();
    work.pop_front();
    queued[r] = 0;
    const Rule& rule = grammar_.rules[r];
    if (rule.size == 0) continue;
    relax(r);
    int64_t cost = whole_cost(rule);
    if (cost < rule_cost_[r]) {
      rule_cost_[r] = cost;
      for (int32_t c : callers[r])
        if (!queued[c]) {
          queued[c] = 1;
          work.push_back(c);
        }
    }
  }
}

// The tree's next step. Guards are asked, so that a count short of its bound goes on and a full one ends.
CompletionFinder::Choice CompletionFinder::choose(const Thread& at) {
  const Position& p = grammar_.positions[at.pos];
  const Rule& rule = grammar_.rules[p.rule];
  bool free = at.ret == kFree;
  if (p.accept && (free || arena_.may_end(rule, at.reg))) return {};
  Choice best;
  best.cost = kFar + 1;
  // What is required and missing comes first, the cheapest of it; then whatever else an effect opens.
  auto comes_first = [&](const Effect& e) {
    auto member = static_cast<size_t>(e.a);
    return e.op != Effect::Put || (rule.required[member] && !arena_.seen(at.reg).has(member));
  };
  for (bool first : {true, false}) {
    if (p.effect_lo == p.effect_hi || best.kind == Choice::Operate) break;
    for (int32_t i : cheapest_effects(at.pos)) {
      const EffectEdge& e = grammar_.effects[i];
      if (comes_first(e.effect) != first || arena_.apply(rule, e.effect, at.reg, free) < 0) continue;
      best = {Choice::Operate, i, cost_[e.to]};
      break;
    }
  }
  // Costs ask no guards, so a byte may lead nearer to an effect that is spent (white space before a member that was
  // written): where an effect (one more iteration, one more member) is open, it is taken. An end whose guard does not
  // hold yet waits for an effect, too.
  bool read = !p.accept && best.kind != Choice::Operate;
  for (int w = 0; read && w < 4; ++w)
    for (uint64_t bits = p.bytes.w[w]; bits; bits &= bits - 1) {
      int32_t b = w * 64 + __builtin_ctzll(bits);
      int64_t cost = plus(kByteCost, cost_[grammar_.step(at.pos, static_cast<uint8_t>(b))]);
      if (cost < best.cost) best = {Choice::Byte, b, cost};
    }
  for (int32_t i = p.call_lo; read && i < p.call_hi; ++i) {
    int64_t cost = plus(call_cost(i), cost_[grammar_.calls[i].after]);
    if (cost < best.cost) best = {Choice::Call, i, cost};
  }
  for (int32_t i = p.token_lo; read && i < p.token_hi; ++i) {
    int64_t cost = plus(kTokenCost, cost_[grammar_.tokens[i].to]);
    if (cost < best.cost) best = {Choice::Token, i, cost};
  }
  return best;
}

const std::vector<int32_t>& CompletionFinder::cheapest_effects(int32_t pos) {
  std::vector<int32_t>& order = effects_[pos];
  const Position& p = grammar_.positions[pos];
  if (order.empty()) {
    for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return cost_[grammar_.effects[a].to] < cost_[grammar_.effects[b].to];
    });
  }
  return order;
}

// The tree's path from a thread up to the next link.
void CompletionFinder::follow(Thread at, Completion& out) {
  auto link = [&] { out.next = arena_.intern({at}, false); };
  for (;;) {
    const Rule& rule = grammar_.rules[grammar_.positions[at.pos].rule];
    const bool begun = !out.symbols.empty();
    if (begun && ((at.pos - rule.base) % kLinkEvery == 0 || out.symbols.size() >= kLongest)) return link();
    Choice c = choose(at);
    switch (c.kind) {
      case Choice::End:
        out.next = at.ret;
        return;
      case Choice::Byte:
        out.symbols.push_back(c.index);
        at.pos = grammar_.step(at.pos, static_cast<uint8_t>(c.index));
        break;
      case Choice::Token:
        out.symbols.push_back(256 + grammar_.tokens[c.index].token);
        at.pos = grammar_.tokens[c.index].to;
        break;
      case Choice::Call: {
        if (begun) return link();
        const CallEdge& call = grammar_.calls[c.index];
        int32_t ret = call.tail ? at.ret : arena_.intern({{call.after, at.reg, at.ret}}, false);
        at = {grammar_.rules[call.rule].start, arena_.initial_register(call.rule), ret};
        break;
      }
      case Choice::Operate: {
        if (begun) return link();
        const EffectEdge& e = grammar_.effects[c.index];
        at.reg = arena_.apply(rule, e.effect, at.reg, at.ret == kFree);
        at.pos = e.to;
        break;
      }
    }
  }
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
  prepare();
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
    if (config.count > 0 && c.either.empty()) {
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
  if (!grammar_.recursive && masks_.vocabulary().trie.nodes().size() <= kSmallTrie && !grammar_.too_large) {
    // The first search is from the start and settles it: answers must not hang on which states were asked for before.
    if (exact_.empty()) grammar_.too_large = !exact_.find(arena_.initial());
    if (!grammar_.too_large)
      if (auto exact = exact_.find(state)) return *exact;
  }
  return completion(state).total;
}

// The most tokens to the end of the frame after a token that stays in it; INT64_MAX where that is not known cheaply.
int64_t CompletionFinder::most_inside(const Thread& t, TokenTable& table) {
  const Rule& rule = grammar_.rules[grammar_.positions[t.pos].rule];
  // A relative table knows no bounds. Where a token may come near the upper one, any of the threads after it may be the
  // only one that is left: the farthest of them counts.
  const bool near = table.relative && rule.max >= 0 && t.reg + table.furthest > rule.max;
  std::atomic<int64_t>& kept = near ? table.most_left_near_bound : table.most_left;
  int64_t most = kept.load(std::memory_order_relaxed);
  if (most >= 0) return most;
  most = 0;
  int32_t last = -1;
  masks_.each_token(arena_.lone(masks_.table_thread(t)), [&](int32_t, int32_t after) {
    if (after == last || most == INT64_MAX) return;
    last = after;
    most = std::max(most, near ? farthest(after) : completion(after).total);
  });
  kept.store(most, std::memory_order_relaxed);
  return most;
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
    int64_t inside = table.overflow || (table.relative && t.reg < rule.min) ? INT64_MAX : most_inside(t, table);
    if (inside == INT64_MAX) {
      most = INT64_MAX;
      break;
    }
    most = std::max(most, inside + completion(t.ret).total);
    masks_.each_remainder(t, table, [&](int32_t, int32_t after) { most = std::max(most, distance(after)); });
  }
  c.reach.store(most, std::memory_order_release);
  return most;
}

}  // namespace guided
