#include "budget/completion.hpp"

#include <algorithm>
#include <deque>

namespace guided {

namespace {
constexpr int64_t kFar = ShortestText::kFar;
constexpr int32_t kLinkEvery = 32;  // positions of a rule at which texts are cut, so that they share their ends
constexpr size_t kLongest = 256;    // symbols of one piece at most
constexpr size_t kLeastMemory = size_t{16} << 20;  // what is always granted
constexpr size_t kSmallTrie = 4096;                // vocabularies up to this size get exact distances
constexpr int kMostChoices = 16;                   // choices of threads that remember, on the way to one completion
// Pieces of a text whose end is in doubt, and for each byte that the shortest would have.
constexpr int64_t kLeastPieces = 200;
constexpr int64_t kPiecesOfByte = 8;
constexpr int kMostFrames = 64;  // that an estimate looks at
int64_t plus(int64_t a, int64_t b) { return std::min(kFar, a + b); }
}  // namespace

CompletionFinder::~CompletionFinder() {
  completions_.each([](const Completion* completion) { delete completion; });
}

// ---- pieces
// The tree's path from a thread up to the next link.
void CompletionFinder::follow(Thread at, Completion& out) {
  auto link = [&] { out.next = arena_.intern({at}, false); };
  for (;;) {
    if (grammar_.is_later(at.pos)) arena_.need(arena_.lone(at));
    const Rule& rule = grammar_.rules[grammar_.positions[at.pos].rule];
    const bool begun = !out.symbols.empty();
    if (begun && ((at.pos - rule.base) % kLinkEvery == 0 || out.symbols.size() >= kLongest)) return link();
    if (arena_.uniqueness().alive(at.mem)) {
      if (begun) return link();
      return end_entry(at, out);
    }
    if (rule.max_tokens >= 0) return end_limited(at, out);
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
        at.mem = arena_.uniqueness().read(at.mem, static_cast<uint8_t>(c.index));
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
        if (!arena_.apply(rule, e.effect, at)) {
          out.impossible = true;
          return;
        }
        at.pos = e.to;
        if (e.effect.op == Effect::Keep && arena_.uniqueness().has_unknown(at.mem))
          return link();  // see written_later()
        break;
      }
    }
  }
}

// The way to the end of a rule with a limit of tokens, as one piece.
void CompletionFinder::end_limited(const Thread& thread, Completion& out) {
  out.fenced = true;
  for (int32_t at = thread.pos; !grammar_.positions[at].accept;) {
    const std::string& text = masks_.vocabulary().tokens[grammar_.token_rests[at].first];
    for (char ch : text) {
      out.symbols.push_back(static_cast<uint8_t>(ch));
      at = grammar_.step(at, static_cast<uint8_t>(ch));
    }
  }
  out.next = with_memory(thread.ret, thread.mem);
}

// The way to the end of an entry that may come to a value that was there, as one piece.
void CompletionFinder::end_entry(const Thread& at, Completion& out) {
  const NewEntry::Way* way = new_entry_.find(at);
  if (!way) {
    out.impossible = true;
    return;
  }
  for (char ch : way->text) out.symbols.push_back(static_cast<uint8_t>(ch));
  out.next = arena_.intern(way->after, false);
  std::vector<Uniqueness::Written> written;
  arena_.uniqueness().write(at.mem, way->text, written);
  if (!written.empty()) written_[&out] = std::move(written);
}

// Bytes from a thread to the end, as far as the frames around it are known, whatever was written.
int64_t CompletionFinder::estimate(Thread t) {
  int64_t sum = 0;
  for (int frame = 0; frame < kMostFrames && t.pos != kExit; ++frame) {
    sum = plus(sum, tree_.least_bytes(t));
    const Config& ret = arena_.config(t.ret);
    if (t.ret <= kFree || ret.count == 0) break;
    t = ret.threads[0];
  }
  return sum;
}

Thread CompletionFinder::nearest(const Config& config) {
  return *std::min_element(config.begin(), config.end(),
                           [&](const Thread& x, const Thread& y) { return estimate(x) < estimate(y); });
}

// A return configuration, entered with a memory.
int32_t CompletionFinder::with_memory(int32_t config, int32_t memory) {
  if (memory == kOutside || config <= kFree) return config;
  std::vector<Thread> threads(arena_.config(config).begin(), arena_.config(config).end());
  for (Thread& t : threads) t.mem = memory;
  return arena_.intern(threads, false);
}

// ---- spelling in tokens
const Completion& CompletionFinder::known(int32_t config) const { return *completions_.get(config); }

// The fewest tokens, this one included, where a token stands at `node` of the trie when `config` is entered.
int64_t CompletionFinder::across(int32_t node, int32_t config) {
  const TokenTrie& trie = masks_.vocabulary().trie;
  int64_t best = kFar;
  crossing_.assign(1, {node, config});
  entered_.clear();
  for (size_t i = 0; i < crossing_.size(); ++i) {  // each (node, configuration) once
    auto [at, entered] = crossing_[i];
    auto enter = [&](int32_t n, int32_t c) {
      if (entered_.insert(pair_key(n, c)).second) crossing_.push_back({n, c});
    };
    const Completion& c = known(entered);
    for (int32_t one : c.either) enter(at, one);
    if (!c.either.empty() || c.fenced) continue;
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
    if (node >= 0 && c.next >= 0 && !c.fenced && trie.nodes()[node].children > 0)
      c.cost[i] = std::min(c.cost[i], across(node, c.next));
  }
  c.total = cost_after(c, 0);
}

// Whether the nearest thread each time comes to an end.
bool CompletionFinder::ends_straight(int32_t state, int64_t most_pieces) {
  while (most_pieces-- > 0) {
    const Config& config = arena_.config(state);
    if (config.count == 0) return false;
    const Thread at = nearest(config);
    if (at.pos == kExit) return true;
    Completion piece;
    follow(at, piece);
    written_.erase(&piece);
    if (piece.impossible) return false;
    if (piece.next < 0) return true;
    state = piece.next;
  }
  return false;
}

bool CompletionFinder::ends(int32_t state) {
  const Config& c = arena_.config(state);
  if (c.accepting || c.count == 0) return c.accepting;
  const int64_t least = std::min(estimate(nearest(c)), kFar / kPiecesOfByte);
  if (ends_straight(state, kLeastPieces + std::min<int64_t>(least, 1 << 16))) return true;
  try {
    return completion(state, kLeastPieces + kPiecesOfByte * least).total < kFar;
  } catch (const NoEnd&) {
    return false;
  }
}

const Completion& CompletionFinder::completion(int32_t id, int64_t most_pieces) {
  struct Task {
    int32_t config;
    std::unique_ptr<Completion> made;
    bool chooses = false;
  };
  int choices = 0;  // under way
  std::vector<Task> stack;
  stack.push_back({id, nullptr, false});
  size_t held = 0;
  const size_t allowed = std::max(arena_.byte_limit(), kLeastMemory);
  while (!stack.empty()) {
    Task& task = stack.back();
    const Config& config = arena_.config(task.config);
    if (completions_.get(task.config)) {
      stack.pop_back();
      continue;
    }
    if (!task.made) {
      task.made = std::make_unique<Completion>();
      Completion& c = *task.made;
      const int32_t alone = config.count == 1 ? arena_.intern({config.threads[0]}, false) : -1;
      task.chooses = config.remembers && config.count > 1;
      if (task.chooses && ++choices > kMostChoices)  // of values that must differ there may be one more without end
        c.either.push_back(arena_.intern({nearest(config)}, false));
      else if (alone != task.config)
        for (const Thread& t : config) c.either.push_back(arena_.intern({t}, false));
      else if (config.threads[0].pos != kExit)
        follow(config.threads[0], c);
      if (--most_pieces < 0) throw NoEnd{};
      held += c.bytes();
      if (held > allowed) throw LimitFailure("memory", static_cast<double>(held), static_cast<double>(allowed));
      std::vector<int32_t> need = c.either;
      if (c.next >= 0) need.push_back(c.next);
      for (int32_t x : need)  // `task` and `c` are not looked at again before the next round
        if (!completions_.get(x)) stack.push_back({x, nullptr, false});
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
    choices -= task.chooses;
    arena_.charge(completions_.set(task.config, task.made.release()));
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
  const bool small = masks_.vocabulary().trie.nodes().size() <= kSmallTrie && !grammar_.too_large;
  if (small && !grammar_.recursive && grammar_.known.empty() && grammar_.token_rests.empty()) {
    // The first search is from the start and settles it: answers must not hang on which states were asked for before.
    if (exact_.empty()) grammar_.too_large = !exact_.find(arena_.initial());
    if (!grammar_.too_large)
      if (auto exact = exact_.find(state)) return *exact;
  }
  return completion(state).total;
}

void CompletionFinder::first_tokens(int32_t state, std::vector<int32_t>& out) {
  completion(state);
  const TokenTrie& trie = masks_.vocabulary().trie;
  std::vector<std::pair<int32_t, int32_t>> open{{0, state}};
  std::unordered_set<uint64_t> met;
  for (size_t i = 0; i < open.size(); ++i) {
    auto [node, config] = open[i];
    if (!met.insert(pair_key(node, config)).second) continue;
    const Completion& c = known(config);
    for (int32_t one : c.either) open.push_back({node, one});
    if (!c.either.empty() || c.impossible || (c.fenced && node > 0)) continue;
    for (size_t k = 0; node >= 0 && k < c.symbols.size(); ++k) {
      node = c.symbols[k] < 256 ? trie.child(node, static_cast<uint8_t>(c.symbols[k])) : -1;
      if (node < 0) break;
      const TokenTrie::Node& at = trie.nodes()[node];
      out.insert(out.end(), trie.payloads().begin() + at.payload_lo, trie.payloads().begin() + at.payload_hi);
    }
    if (node >= 0 && c.next >= 0 && !(c.fenced && node > 0)) open.push_back({node, c.next});
  }
}

void CompletionFinder::written_later(int32_t state, std::vector<Uniqueness::Written>& out) {
  completion(state);
  std::vector<int32_t> open{state};
  std::unordered_set<int32_t> met{state};
  while (!open.empty()) {
    const int32_t config = open.back();
    open.pop_back();
    for (const Thread& t : arena_.config(config)) arena_.uniqueness().written_since(t.mem, out);
    const Completion& c = known(config);
    if (auto it = written_.find(&c); it != written_.end()) out.insert(out.end(), it->second.begin(), it->second.end());
    for (int32_t one : c.either)
      if (met.insert(one).second) open.push_back(one);
    if (c.next >= 0 && met.insert(c.next).second) open.push_back(c.next);
  }
}

}  // namespace guided
