#include "budget/completion.hpp"

#include <algorithm>
#include <unordered_set>

namespace guided {

namespace {
constexpr int32_t kLinkEvery = 32;   // texts are cut at multiples of this position, so that they share their ends
constexpr size_t kLongest = 256;     // symbols of one piece
constexpr size_t kSmallTrie = 4096;  // vocabularies up to this size get exact distances
constexpr int kMaxChoices = 16;      // nested choices between threads with seen sets
// Limits on the pieces of a text that may not end: a minimum, and a number per byte of the shortest text.
constexpr int64_t kMinPieces = 200;
constexpr int64_t kPiecesOfByte = 8;
constexpr int64_t kSymbolWork = 8;  // per symbol or configuration
constexpr int kMaxNested = 32;      // nested searches
constexpr int kMaxFrames = 64;      // frames that an estimate considers
}  // namespace

CompletionFinder::~CompletionFinder() {
  completions_.each([](const Completion* completion) { delete completion; });
}

// ---- pieces
// Follows the tree from a thread to the next link. `exactly`: without drafts.
void CompletionFinder::follow(Thread at, Completion& out, bool exactly) {
  const int32_t caller = at.ret;
  auto link = [&] { out.next = arena_.intern({at}, false); };
  for (;;) {
    CallMeter::work(kSymbolWork);
    if (grammar_.is_later(at.pos)) arena_.need(arena_.lone(at));
    const Rule& rule = grammar_.rule_at(at.pos);
    const bool begun = !out.symbols.empty(), drafted = at.mem < 0;
    if (begun && ((at.pos - rule.base) % kLinkEvery == 0 || out.symbols.size() >= kLongest)) return link();
    if (drafted ? letters_of_draft(at.mem) > 0 : arena_.uniqueness().alive(at.mem)) {
      if (begun) return link();
      return drafted ? follow_letters(at, out) : end_entry(at, out);
    }
    if (rule.max_tokens >= 0) return end_limited(at, out);
    Thread plain = at;
    if (drafted) plain.mem = kOutside;
    const ShortestText::Choice c = tree_.choose(plain);
    if (c.cost > kUnreachable) {
      out.impossible = true;
      return;
    }
    switch (c.kind) {
      case ShortestText::Choice::End:
        out.next = with_memory(at.ret, at.mem);
        out.returns = at.ret == caller;
        return;
      case ShortestText::Choice::Byte:
        out.symbols.push_back(c.index);
        at.pos = grammar_.step(at.pos, static_cast<uint8_t>(c.index));
        if (!drafted) at.mem = arena_.uniqueness().read(at.mem, static_cast<uint8_t>(c.index));
        break;
      case ShortestText::Choice::Token:
        out.symbols.push_back(256 + grammar_.tokens[c.index].token);
        at.pos = grammar_.tokens[c.index].to;
        break;
      case ShortestText::Choice::Call:
        if (begun) return link();
        at = arena_.called(at, grammar_.calls[c.index]);
        break;
      case ShortestText::Choice::Operate:
        if (begun) return link();
        if (!operate(grammar_.effects[c.index], at, out, exactly)) return;
        break;
    }
  }
}

// Applies an action on the way. Returns false if the piece ends here.
bool CompletionFinder::operate(const EffectEdge& e, Thread& at, Completion& out, bool exactly) {
  const Rule& rule = grammar_.rule_at(at.pos);
  if (e.effect.op == Effect::Begin && !exactly && is_drafted_from_here(at))
    if (out.next = draft(at); out.next >= 0) return false;
  if (at.mem < 0 && e.effect.changes_scopes()) return draft_effect(e, at, out);
  if (!arena_.apply(rule, e.effect, at)) {
    out.impossible = true;
    return false;
  }
  at.pos = e.to;
  if (e.effect.op != Effect::Keep || !arena_.uniqueness().has_unknown(at.mem)) return true;
  out.next = arena_.intern({at}, false);  // see written_later()
  return false;
}

// The way to the end of a rule with a token limit, as one piece.
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

// The way to the end of an entry that may become a seen value, as one piece.
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

// An estimate of the bytes from a thread to the end, over a limited number of frames and without seen sets.
int64_t CompletionFinder::estimate(Thread t) {
  int64_t sum = 0;
  for (int frame = 0; frame < kMaxFrames && t.pos != kExit; ++frame) {
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

// A return configuration, with `memory` in its threads.
int32_t CompletionFinder::with_memory(int32_t config, int32_t memory) {
  if (memory == kOutside || config <= kFree) return config;
  std::vector<Thread> threads(arena_.config(config).begin(), arena_.config(config).end());
  for (Thread& t : threads) t.mem = memory;
  return arena_.intern(threads, false);
}

// ---- spelling in tokens
// The fewest tokens, including the current one, if this token is at `node` of the trie when `config` is entered.
int64_t CompletionFinder::across(int32_t node, int32_t config) {
  const TokenTrie& trie = masks_.vocabulary().trie;
  int64_t best = kUnreachable;
  std::vector<std::pair<int32_t, int32_t>> crossing{{node, config}};
  for (size_t i = 0; i < crossing.size(); ++i) {  // each (node, configuration) once
    CallMeter::work(kSymbolWork + static_cast<int64_t>(crossing.size()));
    auto [at, entered] = crossing[i];
    auto enter = [&](int32_t n, int32_t c) {
      if (std::ranges::find(crossing, std::pair{n, c}) == crossing.end()) crossing.push_back({n, c});
    };
    const Completion& c = stored(entered);
    for (int32_t one : c.either) enter(at, one);
    if (c.drafted >= 0) enter(at, c.drafted);
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

int64_t CompletionFinder::cost_after(const Completion& c, size_t i) {
  return i < c.symbols.size() ? c.cost[i] : c.next < 0 ? 0 : stored(c.next).total;
}

void CompletionFinder::spell(Completion& c) {
  const TokenTrie& trie = masks_.vocabulary().trie;
  const size_t n = c.symbols.size();
  c.cost.assign(n, kUnreachable);
  for (size_t i = n; i-- > 0;) {
    if (c.symbols[i] >= 256) {
      c.cost[i] = plus(1, cost_after(c, i + 1));
      continue;
    }
    int32_t node = 0;
    CallMeter::work(kSymbolWork);
    for (size_t k = i; node >= 0 && k < n; ++k) {
      node = c.symbols[k] < 256 ? trie.child(node, static_cast<uint8_t>(c.symbols[k])) : -1;
      if (node >= 0 && ends_token(node)) c.cost[i] = std::min(c.cost[i], plus(1, cost_after(c, k + 1)));
    }
    if (node >= 0 && c.next >= 0 && !c.fenced && trie.nodes()[node].children > 0)
      c.cost[i] = std::min(c.cost[i], across(node, c.next));
  }
  c.total = cost_after(c, 0);
}

// Whether always following the nearest thread leads to an end.
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
    if (piece.next < 0 || is_draft(piece.next)) return true;  // a draft is only made if it ends
    state = piece.next;
  }
  return false;
}

bool CompletionFinder::ends(int32_t state) {
  const Config& c = arena_.config(state);
  if (c.accepting || c.count == 0) return c.accepting;
  const int64_t least = std::min(estimate(nearest(c)), kUnreachable / kPiecesOfByte);
  if (ends_straight(state, kMinPieces + std::min<int64_t>(least, 1 << 16))) return true;
  try {
    return completion(state, kMinPieces + kPiecesOfByte * least).total < kUnreachable;
  } catch (const NoEnd&) {
    return false;
  }
}

// Begins a completion: the configurations of several threads, or the first piece of one.
void CompletionFinder::begin(int32_t id, bool nearest_alone, Completion& c) {
  const Config& config = arena_.config(id);
  if (nearest_alone) {  // otherwise there may be more and more choices
    c.either.push_back(arena_.intern({nearest(config)}, false));
    return;
  }
  const int32_t alone = config.count == 1 ? arena_.intern({config.threads[0]}, false) : -1;
  if (alone != id) {
    for (const Thread& t : config) c.either.push_back(arena_.intern({t}, false));
    return;
  }
  const Thread t = config.threads[0];
  if (t.pos == kExit) return;
  const int32_t drafted = draft(t);
  if (drafted >= 0 && is_hard_to_end(t)) {
    c.either.push_back(drafted);
    return;
  }
  follow(t, c);
  if (drafted >= 0 && c.next != drafted && (stored(drafted).entries > 0 || arena_.uniqueness().alive(t.mem)))
    c.drafted = drafted;
}

// Computes the totals, once everything to which the texts lead is known.
void CompletionFinder::finish(int32_t id, Completion& c) {
  const Config& config = arena_.config(id);
  auto take = [&](const Completion& one) {
    if (one.total >= c.total) return;
    c.total = one.total;
    c.entries = one.entries;
  };
  if (c.impossible || config.count == 0 || !c.either.empty()) {
    c.total = kUnreachable;
    for (int32_t one : c.either) take(stored(one));
  } else {
    spell(c);
    if (c.next >= 0) c.entries += stored(c.next).entries;
    if (c.returns) c.exit = c.next;
    if (const int32_t after = c.returns ? -1 : in_frame(c.next, config.threads[0].ret); after >= 0)
      if (const Completion* rest = completions_.get(after)) c.exit = rest->exit;
  }
  if (c.drafted >= 0) take(stored(c.drafted));
}

// The completion of a later configuration, for use inside of completion(). After a copy, it may not exist yet.
const Completion& CompletionFinder::stored(int32_t config) {
  if (const Completion* known = completions_.get(config)) return *known;
  if (nested_ < kMaxNested) return completion(config);
  throw Missing{config};
}

const Completion& CompletionFinder::completion(int32_t id, int64_t most_pieces) {
  if (const Completion* known = completions_.get(id)) return *known;
  struct Nested {
    int& count;
    explicit Nested(int& of) : count(++of) {}
    ~Nested() { --count; }
  } nested(nested_);
  Search search{{}, most_pieces};
  search.tasks.push_back({id});
  while (!search.tasks.empty()) {
    try {
      go_on(search);
    } catch (const Missing& missing) {
      search.tasks.push_back({missing.config});
    }
  }
  return *completions_.get(id);
}

// Takes one step for the configuration that is needed first. After a Missing, the step is repeated.
void CompletionFinder::go_on(Search& search) {
  CallMeter::work(kSymbolWork);
  Task& task = search.tasks.back();
  const int32_t config = task.config;
  if (completions_.get(config)) {
    keep_alike(config);
    search.tasks.pop_back();
    return;
  }
  if (!task.completion) {
    const int32_t before = take_alike(config, task.completion);
    if (before >= 0) {
      search.tasks.push_back({before});
      return;
    }
    if (--search.most_pieces < 0) throw NoEnd{};
    if (!task.completion) {
      auto completion = std::make_unique<Completion>();
      task.chooses = arena_.config(config).remembers && arena_.config(config).count > 1;
      begin(config, task.chooses && search.choices >= kMaxChoices, *completion);
      search.choices += task.chooses;
      arena_.charge(completion->bytes());
      task.completion = std::move(completion);
      std::vector<int32_t> need = task.completion->either;
      if (task.completion->next >= 0) need.push_back(task.completion->next);
      for (int32_t x : need)  // `task` may be invalid from here on
        if (!completions_.get(x)) search.tasks.push_back({x});
      return;
    }
    arena_.charge(task.completion->bytes());
  } else {
    finish(config, *task.completion);
  }
  search.choices -= task.chooses;
  arena_.charge(completions_.set(config, task.completion.release()));
}

std::vector<int32_t> CompletionFinder::spelled(int32_t state, size_t limit) {
  std::vector<int32_t> out;
  for (int32_t at = state; at >= 0 && out.size() < limit;) {
    const Config& config = arena_.config(at);
    if (config.count == 0) break;
    Thread thread = config.threads[0];
    if (config.count > 1) {
      const Completion& c = completion(at);
      for (int32_t one : c.either)
        if (completion(one).total == c.total) thread = arena_.config(one).threads[0];
    }
    if (thread.pos == kExit) break;
    Completion piece;
    follow(thread, piece, true);
    written_.erase(&piece);
    for (size_t i = 0; i < piece.symbols.size() && out.size() < limit; ++i) out.push_back(piece.symbols[i]);
    at = piece.next;
  }
  return out;
}

int64_t CompletionFinder::distance(int32_t state) {
  if (!grammar_.token_distance.empty()) {
    int64_t least = kUnreachable;
    for (const Thread& t : arena_.config(state))
      least = std::min<int64_t>(least, t.pos == kExit ? 0 : grammar_.token_distance[t.pos]);
    return least;
  }
  const bool small = masks_.vocabulary().trie.nodes().size() <= kSmallTrie && !grammar_.too_large;
  if (small && !grammar_.recursive && grammar_.known.empty() && grammar_.token_rests.empty()) {
    if (exact_.empty()) grammar_.too_large = !exact_.is_affordable();
    if (!grammar_.too_large) return exact_.find(state);
  }
  return completion(state).total;
}

void CompletionFinder::first_tokens(int32_t state, std::vector<int32_t>& out) {
  completion(state);
  const TokenTrie& trie = masks_.vocabulary().trie;
  std::vector<std::pair<int32_t, int32_t>> open{{0, state}};
  std::unordered_set<uint64_t> visited;
  for (size_t i = 0; i < open.size(); ++i) {
    CallMeter::work(kSymbolWork);
    auto [node, config] = open[i];
    if (!visited.insert(pair_key(node, config)).second) continue;
    const Completion& c = completion(config);
    for (int32_t one : c.either) open.push_back({node, one});
    if (c.drafted >= 0) open.push_back({node, c.drafted});
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
  std::unordered_set<int32_t> visited{state};
  while (!open.empty()) {
    CallMeter::work(kSymbolWork);
    const int32_t config = open.back();
    open.pop_back();
    if (is_draft(config)) continue;  // a draft chooses no values
    for (const Thread& t : arena_.config(config)) arena_.uniqueness().written_since(t.mem, out);
    const Completion& c = completion(config);
    if (auto it = written_.find(&c); it != written_.end()) out.insert(out.end(), it->second.begin(), it->second.end());
    for (int32_t one : c.either)
      if (visited.insert(one).second) open.push_back(one);
    if (c.next >= 0 && visited.insert(c.next).second) open.push_back(c.next);
  }
}

}  // namespace guided
