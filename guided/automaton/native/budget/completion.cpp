#include "budget/completion.hpp"

#include <algorithm>
#include <unordered_set>

namespace guided {

namespace {
// Texts are cut at every 32nd position of a rule, so texts that meet share their ends.
constexpr int32_t kLinkInterval = 32;
constexpr size_t kMaxSegmentSymbols = 256;  // symbols of one segment
constexpr size_t kSmallTrie = 4096;         // with at most this many trie nodes, exact distances are tried
constexpr int kMaxChoosing = 16;            // nested choices between threads with seen sets; then the nearest thread
// Limits on the segments of a text that may have no end: a minimum, and a number for each byte of the shortest text.
constexpr int64_t kMinSegments = 200;
constexpr int64_t kSegmentsPerByte = 8;
constexpr int64_t kSymbolWork = 8;  // for each symbol or configuration
constexpr int kMaxNested = 32;      // nested searches
constexpr int kMaxFrames = 64;      // frames that an estimate considers
}  // namespace

CompletionFinder::~CompletionFinder() {
  completions_.each([](const Completion* completion) { delete completion; });
}

// ---- segments
// Appends the segment of a thread: follows the shortest-path tree to the next link.
void CompletionFinder::follow(Thread thread, Completion& out, bool without_open_texts) {
  const int32_t caller = thread.ret;
  auto link = [&] { out.next = arena_.intern({thread}, false); };
  for (;;) {
    CallMeter::work(kSymbolWork);
    if (grammar_.is_later(thread.pos)) arena_.require_compiled(arena_.state_of_thread(thread));
    const Rule& rule = grammar_.rule_at(thread.pos);
    const bool has_symbols = !out.symbols.empty(), is_open_thread = thread.mem < 0;
    if (has_symbols && ((thread.pos - rule.base) % kLinkInterval == 0 || out.symbols.size() >= kMaxSegmentSymbols))
      return link();
    if (is_open_thread ? letters_of_open_text(thread.mem) > 0 : arena_.uniqueness().may_become_seen(thread.mem)) {
      if (has_symbols) return link();
      return is_open_thread ? follow_letters(thread, out) : append_entry_end(thread, out);
    }
    if (rule.max_tokens >= 0) return append_limited_end(thread, out);
    Thread plain_thread = thread;
    if (is_open_thread) plain_thread.mem = kOutside;
    const ShortestText::Choice c = tree_.choose(plain_thread);
    if (c.cost > kUnreachable) {
      out.is_impossible = true;
      return;
    }
    switch (c.kind) {
      case ShortestText::Choice::End:
        out.next = with_memory(thread.ret, thread.mem);
        out.ends_frame = thread.ret == caller;
        return;
      case ShortestText::Choice::Byte:
        out.symbols.push_back(c.index);
        thread.pos = grammar_.step(thread.pos, static_cast<uint8_t>(c.index));
        if (!is_open_thread) thread.mem = arena_.uniqueness().read(thread.mem, static_cast<uint8_t>(c.index));
        break;
      case ShortestText::Choice::Token:
        out.symbols.push_back(256 + grammar_.tokens[c.index].token);
        thread.pos = grammar_.tokens[c.index].to;
        break;
      case ShortestText::Choice::Call:
        if (has_symbols) return link();
        thread = arena_.callee_thread(thread, grammar_.calls[c.index]);
        break;
      case ShortestText::Choice::ApplyEffect:
        if (has_symbols) return link();
        if (!apply_effect(grammar_.effects[c.index], thread, out, without_open_texts)) return;
        break;
    }
  }
}

// Applies an effect that the segment meets. Returns false if the segment ends here.
bool CompletionFinder::apply_effect(const EffectEdge& e, Thread& thread, Completion& out, bool without_open_texts) {
  const Rule& rule = grammar_.rule_at(thread.pos);
  if (e.effect.op == Effect::Begin && !without_open_texts && is_left_open_from_here(thread))
    if (out.next = find_open_text(thread); out.next >= 0) return false;
  if (thread.mem < 0 && e.effect.changes_scopes()) return apply_effect_in_open_text(e, thread, out);
  if (!arena_.apply(rule, e.effect, thread)) {
    out.is_impossible = true;
    return false;
  }
  thread.pos = e.to;
  if (e.effect.op != Effect::Keep || !arena_.uniqueness().has_seen_unknown(thread.mem)) return true;
  out.next = arena_.intern({thread}, false);  // see written_later()
  return false;
}

// Appends the way to the end of a rule with a token limit, as one segment.
void CompletionFinder::append_limited_end(const Thread& thread, Completion& out) {
  out.is_fenced = true;
  for (int32_t pos = thread.pos; !grammar_.positions[pos].accept;) {
    const std::string& token = masks_.vocabulary().tokens[grammar_.token_rests[pos].first];
    for (char ch : token) {
      out.symbols.push_back(static_cast<uint8_t>(ch));
      pos = grammar_.step(pos, static_cast<uint8_t>(ch));
    }
  }
  out.next = with_memory(thread.ret, thread.mem);
}

// Appends the way to the end of an entry that may become a seen value, as one segment.
void CompletionFinder::append_entry_end(const Thread& thread, Completion& out) {
  const NewEntry::Way* way = new_entry_.find(thread);
  if (!way) {
    out.is_impossible = true;
    return;
  }
  for (char ch : way->text) out.symbols.push_back(static_cast<uint8_t>(ch));
  out.next = arena_.intern(way->end_threads, false);
  std::vector<Uniqueness::WrittenValue> written_values;
  arena_.uniqueness().append_written_value(thread.mem, way->text, written_values);
  if (!written_values.empty()) written_values_[&out] = std::move(written_values);
}

// Estimates the bytes from a thread to the end of the output. Considers a limited number of frames, and no seen sets.
int64_t CompletionFinder::estimate_bytes_to_end(Thread t) {
  int64_t sum = 0;
  for (int frame = 0; frame < kMaxFrames && t.pos != kExit; ++frame) {
    sum = plus(sum, tree_.min_bytes_to_frame_end(t));
    const Config& ret = arena_.config(t.ret);
    if (t.ret <= kFree || ret.count == 0) break;
    t = ret.threads[0];
  }
  return sum;
}

Thread CompletionFinder::nearest_thread(const Config& config) {
  return *std::min_element(config.begin(), config.end(), [&](const Thread& x, const Thread& y) {
    return estimate_bytes_to_end(x) < estimate_bytes_to_end(y);
  });
}

// The same configuration with the memory `memory` in all threads. Return configurations are stored without memory.
int32_t CompletionFinder::with_memory(int32_t config, int32_t memory) {
  if (memory == kOutside || config <= kFree) return config;
  std::vector<Thread> threads(arena_.config(config).begin(), arena_.config(config).end());
  for (Thread& t : threads) t.mem = memory;
  return arena_.intern(threads, false);
}

// ---- spelling in tokens
// The fewest tokens to the end if a token has reached `node` of the trie when it enters `config`. This token is
// counted.
int64_t CompletionFinder::min_tokens_across(int32_t node, int32_t config) {
  const TokenTrie& trie = masks_.vocabulary().trie;
  int64_t min_tokens = kUnreachable;
  std::vector<std::pair<int32_t, int32_t>> queue{{node, config}};
  for (size_t i = 0; i < queue.size(); ++i) {  // each pair of a node and a configuration is visited once
    CallMeter::work(kSymbolWork + static_cast<int64_t>(queue.size()));
    auto [token_node, entered_config] = queue[i];
    auto add = [&](int32_t n, int32_t c) {
      if (std::ranges::find(queue, std::pair{n, c}) == queue.end()) queue.push_back({n, c});
    };
    const Completion& c = completion_of(entered_config);
    for (int32_t alternative : c.alternatives) add(token_node, alternative);
    if (c.open_text >= 0) add(token_node, c.open_text);
    if (!c.alternatives.empty() || c.is_fenced) continue;
    for (size_t k = 0; token_node >= 0 && k < c.symbols.size(); ++k) {
      token_node = c.symbols[k] < 256 ? trie.child(token_node, static_cast<uint8_t>(c.symbols[k])) : -1;
      if (token_node >= 0 && has_token(token_node)) min_tokens = std::min(min_tokens, plus(1, cost_after(c, k + 1)));
    }
    if (token_node >= 0 && c.next >= 0 && trie.nodes()[token_node].children > 0) add(token_node, c.next);
  }
  return min_tokens;
}

bool CompletionFinder::has_token(int32_t node) const {
  const TokenTrie::Node& n = masks_.vocabulary().trie.nodes()[node];
  return n.payload_hi > n.payload_lo;
}

int64_t CompletionFinder::cost_after(const Completion& c, size_t i) {
  return i < c.symbols.size() ? c.costs[i] : c.next < 0 ? 0 : completion_of(c.next).total;
}

void CompletionFinder::compute_token_costs(Completion& c) {
  const TokenTrie& trie = masks_.vocabulary().trie;
  const size_t n = c.symbols.size();
  c.costs.assign(n, kUnreachable);
  for (size_t i = n; i-- > 0;) {
    if (c.symbols[i] >= 256) {
      c.costs[i] = plus(1, cost_after(c, i + 1));
      continue;
    }
    int32_t node = 0;
    CallMeter::work(kSymbolWork);
    for (size_t k = i; node >= 0 && k < n; ++k) {
      node = c.symbols[k] < 256 ? trie.child(node, static_cast<uint8_t>(c.symbols[k])) : -1;
      if (node >= 0 && has_token(node)) c.costs[i] = std::min(c.costs[i], plus(1, cost_after(c, k + 1)));
    }
    if (node >= 0 && c.next >= 0 && !c.is_fenced && trie.nodes()[node].children > 0)
      c.costs[i] = std::min(c.costs[i], min_tokens_across(node, c.next));
  }
  c.total = cost_after(c, 0);
}

// Whether following only the nearest thread leads to an end.
bool CompletionFinder::ends_if_nearest_is_followed(int32_t state, int64_t max_segments) {
  while (max_segments-- > 0) {
    const Config& config = arena_.config(state);
    if (config.count == 0) return false;
    const Thread thread = nearest_thread(config);
    if (thread.pos == kExit) return true;
    Completion segment;
    follow(thread, segment);
    written_values_.erase(&segment);
    if (segment.is_impossible) return false;
    if (segment.next < 0 || is_open_text(segment.next)) return true;  // an open text is only created if it ends
    state = segment.next;
  }
  return false;
}

bool CompletionFinder::ends(int32_t state) {
  const Config& c = arena_.config(state);
  if (c.accepting || c.count == 0) return c.accepting;
  const int64_t min_bytes = std::min(estimate_bytes_to_end(nearest_thread(c)), kUnreachable / kSegmentsPerByte);
  if (ends_if_nearest_is_followed(state, kMinSegments + std::min<int64_t>(min_bytes, 1 << 16))) return true;
  try {
    return completion(state, kMinSegments + kSegmentsPerByte * min_bytes).total < kUnreachable;
  } catch (const NoEnd&) {
    return false;
  }
}

// Begins a completion: lists the configurations of several threads, or appends the first segment of one thread.
void CompletionFinder::begin(int32_t id, bool only_nearest, Completion& c) {
  const Config& config = arena_.config(id);
  if (only_nearest) {  // choices are nested too deeply
    c.alternatives.push_back(arena_.intern({nearest_thread(config)}, false));
    return;
  }
  const int32_t own_config = config.count == 1 ? arena_.intern({config.threads[0]}, false) : -1;
  if (own_config != id) {
    for (const Thread& t : config) c.alternatives.push_back(arena_.intern({t}, false));
    return;
  }
  const Thread t = config.threads[0];
  if (t.pos == kExit) return;
  const int32_t open_config = find_open_text(t);
  if (open_config >= 0 && is_hard_to_end(t)) {
    c.alternatives.push_back(open_config);
    return;
  }
  follow(t, c);
  if (open_config >= 0 && c.next != open_config &&
      (completion_of(open_config).entries > 0 || arena_.uniqueness().may_become_seen(t.mem)))
    c.open_text = open_config;
}

// Computes the totals once everything that follows the segment is known.
void CompletionFinder::finish(int32_t id, Completion& c) {
  const Config& config = arena_.config(id);
  if (c.is_impossible || config.count == 0 || !c.alternatives.empty()) {
    c.total = c.bytes = kUnreachable;
    for (int32_t alternative : c.alternatives)
      if (const Completion& other = completion_of(alternative); other.total < c.total)
        static_cast<TextSize&>(c) = other;
  } else {
    const Thread& t = config.threads[0];
    compute_token_costs(c);
    c.bytes = is_open_text(id) ? kUnreachable : std::ssize(c.symbols);
    if (t.pos != kExit && t.mem >= 0) c.most_entries = arena_.uniqueness().count_entries(t.mem);
    if (c.next >= 0) {
      TextSize following = completion_of(c.next);
      following.total = 0;  // compute_token_costs() has included it
      static_cast<TextSize&>(c) = c + following;
    }
    if (c.ends_frame) c.after_frame = c.next;
    if (const int32_t continuation = c.ends_frame ? -1 : continuation_in_frame(c.next, t.ret); continuation >= 0)
      if (const Completion* continuation_completion = completions_.get(continuation))
        c.after_frame = continuation_completion->after_frame;
  }
  if (c.open_text < 0) return;
  if (const Completion& other = completion_of(c.open_text); other.total < c.total) {
    c.total = other.total;
    c.entries = other.entries;
  }
}

// The completion of a configuration that follows, for use inside completion(). It may not exist yet if the completion
// that refers to it was copied.
const Completion& CompletionFinder::completion_of(int32_t config) {
  if (const Completion* existing = completions_.get(config)) return *existing;
  if (nesting_ < kMaxNested) return completion(config);
  throw Missing{config};
}

const Completion& CompletionFinder::completion(int32_t id, int64_t max_segments) {
  if (const Completion* existing = completions_.get(id)) return *existing;
  struct Nested {
    int& count;
    explicit Nested(int& counter) : count(++counter) {}
    ~Nested() { --count; }
  } nested(nesting_);
  Search search{{}, max_segments};
  search.tasks.push_back({id});
  while (!search.tasks.empty()) {
    try {
      take_step(search);
    } catch (const Missing& missing) {
      search.tasks.push_back({missing.config});
    }
  }
  return *completions_.get(id);
}

// Takes one step for the configuration that is needed first. If the step throws Missing, the caller completes that
// configuration and repeats the step.
void CompletionFinder::take_step(Search& search) {
  CallMeter::work(kSymbolWork);
  Task& task = search.tasks.back();
  const int32_t config = task.config;
  if (completions_.get(config)) {
    store_alike(config);
    search.tasks.pop_back();
    return;
  }
  if (!task.completion) {
    const int32_t needed_first = take_alike(config, task.completion);
    if (needed_first >= 0) {
      search.tasks.push_back({needed_first});
      return;
    }
    if (--search.max_segments < 0) throw NoEnd{};
    if (!task.completion) {
      auto completion = std::make_unique<Completion>();
      task.is_choosing = arena_.config(config).has_seen_set && arena_.config(config).count > 1;
      begin(config, task.is_choosing && search.choosing_count >= kMaxChoosing, *completion);
      search.choosing_count += task.is_choosing;
      arena_.charge(completion->memory());
      task.completion = std::move(completion);
      std::vector<int32_t> needed_configs = task.completion->alternatives;
      if (task.completion->next >= 0) needed_configs.push_back(task.completion->next);
      for (int32_t needed_config : needed_configs)  // `task` may be a dangling reference from here on
        if (!completions_.get(needed_config)) search.tasks.push_back({needed_config});
      return;
    }
    arena_.charge(task.completion->memory());
  } else {
    finish(config, *task.completion);
  }
  search.choosing_count -= task.is_choosing;
  arena_.charge(completions_.set(config, task.completion.release()));
}

std::vector<int32_t> CompletionFinder::spelled_symbols(int32_t state, size_t limit) {
  std::vector<int32_t> out;
  for (int32_t config_id = state; config_id >= 0 && out.size() < limit;) {
    const Config& config = arena_.config(config_id);
    if (config.count == 0) break;
    Thread thread = config.threads[0];
    if (config.count > 1) {
      const Completion& c = completion(config_id);
      for (int32_t alternative : c.alternatives)
        if (completion(alternative).total == c.total) thread = arena_.config(alternative).threads[0];
    }
    if (thread.pos == kExit) break;
    Completion segment;
    follow(thread, segment, true);
    written_values_.erase(&segment);
    for (size_t i = 0; i < segment.symbols.size() && out.size() < limit; ++i) out.push_back(segment.symbols[i]);
    config_id = segment.next;
  }
  return out;
}

int64_t CompletionFinder::distance(int32_t state) {
  if (!grammar_.token_distance.empty()) {
    int64_t min_distance = kUnreachable;
    for (const Thread& t : arena_.config(state))
      min_distance = std::min<int64_t>(min_distance, t.pos == kExit ? 0 : grammar_.token_distance[t.pos]);
    return min_distance;
  }
  const bool is_small = masks_.vocabulary().trie.nodes().size() <= kSmallTrie && !grammar_.too_large;
  if (is_small && !grammar_.recursive && grammar_.known.empty() && grammar_.token_rests.empty()) {
    if (exact_distances_.empty()) grammar_.too_large = !exact_distances_.is_affordable();
    if (!grammar_.too_large) return exact_distances_.find(state);
  }
  return completion(state).total;
}

void CompletionFinder::first_tokens(int32_t state, std::vector<int32_t>& out) {
  completion(state);
  const TokenTrie& trie = masks_.vocabulary().trie;
  std::vector<std::pair<int32_t, int32_t>> queue{{0, state}};
  std::unordered_set<uint64_t> visited;
  for (size_t i = 0; i < queue.size(); ++i) {
    CallMeter::work(kSymbolWork);
    auto [node, config] = queue[i];
    if (!visited.insert(pair_key(node, config)).second) continue;
    const Completion& c = completion(config);
    for (int32_t alternative : c.alternatives) queue.push_back({node, alternative});
    if (c.open_text >= 0) queue.push_back({node, c.open_text});
    if (!c.alternatives.empty() || c.is_impossible || (c.is_fenced && node > 0)) continue;
    for (size_t k = 0; node >= 0 && k < c.symbols.size(); ++k) {
      node = c.symbols[k] < 256 ? trie.child(node, static_cast<uint8_t>(c.symbols[k])) : -1;
      if (node < 0) break;
      const TokenTrie::Node& n = trie.nodes()[node];
      out.insert(out.end(), trie.payloads().begin() + n.payload_lo, trie.payloads().begin() + n.payload_hi);
    }
    if (node >= 0 && c.next >= 0 && !(c.is_fenced && node > 0)) queue.push_back({node, c.next});
  }
}

void CompletionFinder::written_later(const std::vector<int32_t>& states, std::vector<Uniqueness::WrittenValue>& out) {
  for (int32_t state : states) completion(state);
  std::vector<int32_t> stack = states;
  std::unordered_set<int32_t> visited(states.begin(), states.end()), visited_scopes;
  while (!stack.empty()) {
    CallMeter::work(kSymbolWork);
    const int32_t config = stack.back();
    stack.pop_back();
    if (is_open_text(config)) continue;  // an open text chooses no values
    const auto is_outside = [&](const Thread& t) { return !arena_.uniqueness().is_in_scope(t.mem); };
    if (std::all_of(arena_.config(config).begin(), arena_.config(config).end(), is_outside)) continue;
    for (const Thread& t : arena_.config(config))
      arena_.uniqueness().append_values_after_unknown(t.mem, visited_scopes, out);
    const Completion& c = completion(config);
    if (auto it = written_values_.find(&c); it != written_values_.end())
      out.insert(out.end(), it->second.begin(), it->second.end());
    for (int32_t alternative : c.alternatives)
      if (visited.insert(alternative).second) stack.push_back(alternative);
    if (c.next >= 0 && visited.insert(c.next).second) stack.push_back(c.next);
  }
}

}  // namespace guided
