#include "completion.hpp"

#include <algorithm>
#include <deque>

namespace guided {

namespace {
constexpr int64_t kFar = INT64_MAX / 8;
constexpr size_t kMaxText = 1 << 22;
constexpr size_t kSymbolBytes = 12, kLeastMemory = size_t{16} << 20;  // of a symbol kept; what is always granted
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
  cost_.assign(grammar_.positions.size(), kFar);
  rule_cost_.assign(grammar_.rules.size(), kFar);
  text_.resize(grammar_.rules.size());
  text_known_.assign(grammar_.rules.size(), 0);
  std::vector<std::vector<int32_t>> callers(grammar_.rules.size());
  for (const Position& p : grammar_.positions)
    for (int32_t i = p.call_lo; i < p.call_hi; ++i) callers[grammar_.calls[i].rule].push_back(p.rule);
  std::deque<int32_t> work;
  std::vector<uint8_t> queued(grammar_.rules.size(), 1);
  for (size_t r = 0; r < grammar_.rules.size(); ++r) work.push_back(static_cast<int32_t>(r));
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
CompletionFinder::Choice CompletionFinder::choose(const Thread& at) const {
  const Position& p = grammar_.positions[at.pos];
  const Rule& rule = grammar_.rules[p.rule];
  bool free = at.ret == kFree;
  if (p.accept && (free || arena_.may_end(rule, at.reg))) return {};
  Choice best;
  best.cost = kFar + 1;
  for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) {
    const EffectEdge& e = grammar_.effects[i];
    int64_t cost = cost_[e.to];
    if (e.effect.op == Effect::Put) {  // what is required and missing comes first
      size_t member = static_cast<size_t>(e.effect.a);
      if (!rule.required[member] || arena_.seen(at.reg).has(member)) cost = plus(cost, kFar / 2);
    }
    if (cost < best.cost && arena_.apply(rule, e.effect, at.reg, free) >= 0) best = {Choice::Operate, i, cost};
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

const std::vector<int32_t>& CompletionFinder::rule_text(int32_t root) {
  std::vector<int32_t> stack{root};
  while (!stack.empty()) {
    int32_t r = stack.back();
    if (text_known_[r]) {
      stack.pop_back();
      continue;
    }
    std::vector<int32_t> out;
    Thread at{grammar_.rules[r].start, arena_.initial_register(r), kTop};
    bool complete = true;
    while (complete) {
      Choice c = choose(at);
      if (c.kind == Choice::End) break;
      if (c.kind == Choice::Byte) {
        out.push_back(c.index);
        at.pos = grammar_.step(at.pos, static_cast<uint8_t>(c.index));
      } else if (c.kind == Choice::Token) {
        out.push_back(256 + grammar_.tokens[c.index].token);
        at.pos = grammar_.tokens[c.index].to;
      } else if (c.kind == Choice::Operate) {
        const EffectEdge& e = grammar_.effects[c.index];
        at.reg = arena_.apply(grammar_.rules[r], e.effect, at.reg, false);
        at.pos = e.to;
      } else {
        const CallEdge& call = grammar_.calls[c.index];
        if (!text_known_[call.rule]) {
          stack.push_back(call.rule);
          complete = false;
          break;
        }
        out.insert(out.end(), text_[call.rule].begin(), text_[call.rule].end());
        at.pos = call.after;
      }
      if (out.size() > kMaxText) throw LimitFailure("states", static_cast<double>(out.size()), kMaxText, true);
    }
    if (complete) {
      text_[r] = std::move(out);
      text_known_[r] = 1;
      stack.pop_back();
    }
  }
  return text_[root];
}

void CompletionFinder::rest_of_frame(const Thread& thread, Completion& out) {
  Thread at = thread;
  const Rule& rule = grammar_.rules[grammar_.positions[at.pos].rule];
  for (;;) {
    Choice c = choose(at);
    if (c.kind == Choice::End) {
      out.next = at.ret;
      return;
    }
    if (c.kind == Choice::Byte) {
      out.symbols.push_back(c.index);
      at.pos = grammar_.step(at.pos, static_cast<uint8_t>(c.index));
    } else if (c.kind == Choice::Token) {
      out.symbols.push_back(256 + grammar_.tokens[c.index].token);
      at.pos = grammar_.tokens[c.index].to;
    } else if (c.kind == Choice::Call) {
      const CallEdge& call = grammar_.calls[c.index];
      const auto& text = rule_text(call.rule);
      out.symbols.insert(out.symbols.end(), text.begin(), text.end());
      at.pos = call.after;
    } else {
      if (!out.symbols.empty()) {  // one link per iteration, shared by all states that pass here
        out.next = arena_.intern({at}, false);
        return;
      }
      const EffectEdge& e = grammar_.effects[c.index];
      at.reg = arena_.apply(rule, e.effect, at.reg, at.ret == kFree);
      at.pos = e.to;
    }
    if (out.symbols.size() > kMaxText) 
      throw LimitFailure("states", static_cast<double>(out.symbols.size()), kMaxText, true);
  }
}

// ---- spelling in tokens
int64_t CompletionFinder::cost_at(const Completion* c, size_t offset) {
  while (c && offset >= c->symbols.size()) {
    offset -= c->symbols.size();
    if (c->next < 0) return 0;
    const Completion* next = arena_.config(c->next).completion.load(std::memory_order_relaxed);
    if (offset == 0) return next->total;
    c = next;
  }
  return c->cost[offset];
}

void CompletionFinder::spell(Completion& c) {
  const TokenTrie& trie = masks_.vocabulary().trie;
  size_t n = c.symbols.size();
  c.cost.assign(n, kFar);
  for (size_t i = n; i-- > 0;) {
    if (c.symbols[i] >= 256) {
      c.cost[i] = plus(1, cost_at(&c, i + 1));
      continue;
    }
    int32_t node = 0;
    const Completion* piece = &c;
    size_t at = i;
    for (size_t used = 1;; ++used) {
      while (piece && at >= piece->symbols.size()) {
        at -= piece->symbols.size();
        piece = piece->next < 0 ? nullptr : arena_.config(piece->next).completion.load(std::memory_order_relaxed);
      }
      if (!piece || piece->symbols[at] >= 256) break;
      node = trie.child(node, static_cast<uint8_t>(piece->symbols[at]));
      if (node < 0) break;
      ++at;
      const TokenTrie::Node& found = trie.nodes()[node];
      if (found.payload_hi > found.payload_lo) c.cost[i] = std::min(c.cost[i], plus(1, cost_at(&c, i + used)));
    }
  }
  c.total = n ? c.cost[0] : cost_at(&c, 0);
}

const Completion& CompletionFinder::completion(int32_t id) {
  prepare();
  struct Task {
    int32_t config;
    std::vector<Completion> candidates;
    bool expanded = false;
  };
  std::deque<Task> stack;
  stack.push_back({id, {}, false});
  while (!stack.empty()) {
    Task& task = stack.back();
    if (arena_.config(task.config).completion.load(std::memory_order_relaxed)) {
      stack.pop_back();
      continue;
    }
    if (!task.expanded) {
      task.expanded = true;
      const Config& c = arena_.config(task.config);
      for (int32_t i = 0; i < c.count; ++i) {
        Completion candidate;
        if (c.threads[i].pos != kExit) rest_of_frame(c.threads[i], candidate);
        held_ += candidate.symbols.size() * kSymbolBytes;
        const size_t allowed = std::max(arena_.byte_limit(), kLeastMemory);
        if (held_ > allowed) throw LimitFailure("memory", static_cast<double>(held_), static_cast<double>(allowed));
        task.candidates.push_back(std::move(candidate));
      }
      std::vector<int32_t> need;
      for (const Completion& candidate : task.candidates)
        if (candidate.next >= 0 && !arena_.config(candidate.next).completion.load(std::memory_order_relaxed))
          need.push_back(candidate.next);
      if (!need.empty()) {
        if (stack.size() > (1u << 21)) throw LimitFailure("states", static_cast<double>(stack.size()), 1 << 21, true);
        for (int32_t x : need) stack.push_back({x, {}, false});
        continue;
      }
    }
    Completion* best = nullptr;
    for (Completion& candidate : task.candidates) {
      spell(candidate);
      if (!best || candidate.total < best->total) best = &candidate;
    }
    auto* kept = new Completion(best ? std::move(*best) : Completion{{}, {}, -1, kFar});
    arena_.charge(sizeof(Completion) + kept->symbols.size() * kSymbolBytes);
    arena_.config(task.config).completion.store(kept, std::memory_order_release);
    stack.pop_back();
  }
  return *arena_.config(id).completion.load(std::memory_order_relaxed);
}

std::vector<int32_t> CompletionFinder::spelled(int32_t state, size_t limit) {
  std::vector<int32_t> out;
  const Completion* c = &completion(state);
  while (c && out.size() < limit) {
    for (size_t i = 0; i < c->symbols.size() && out.size() < limit; ++i) out.push_back(c->symbols[i]);
    c = c->next < 0 ? nullptr : &completion(c->next);
  }
  return out;
}

int64_t CompletionFinder::distance(int32_t state) {
  const TokenVocabulary& v = masks_.vocabulary();
  if (!grammar_.recursive && (v.trie.nodes().size() <= kSmallTrie || !v.byte_complete) && !grammar_.too_large) {
    // The first search is from the start and settles it: answers must not hang on which states were asked for before.
    if (exact_.empty() && v.byte_complete) grammar_.too_large = !exact_.find(arena_.initial());
    if (!grammar_.too_large)
      if (auto exact = exact_.find(state)) return *exact;
  }
  return completion(state).total;
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
    if (table.overflow || (table.relative && t.reg < rule.min)) {
      most = INT64_MAX;
      break;
    }
    int64_t inside = table.most_left.load(std::memory_order_relaxed);
    if (inside < 0) {
      inside = 0;
      int32_t last = -1;
      masks_.each_token(arena_.lone(masks_.table_thread(t)), [&](int32_t, int32_t after) {
        if (after != last) inside = std::max(inside, completion(after).total);
        last = after;
      });
      table.most_left.store(inside, std::memory_order_relaxed);
    }
    most = std::max(most, inside + completion(t.ret).total);
    masks_.each_remainder(t, table, [&](int32_t, int32_t after) { most = std::max(most, distance(after)); });
  }
  c.reach.store(most, std::memory_order_release);
  return most;
}

}  // namespace guided
