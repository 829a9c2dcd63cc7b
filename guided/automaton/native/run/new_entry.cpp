#include "run/new_entry.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

namespace guided {

namespace {
constexpr size_t kMaxStates = 8192;
constexpr int64_t kStatesPerSeenValue = 4096;  // additional states for each seen value, if a way is known to exist
constexpr size_t kMaxBytes = 1 << 16;
constexpr size_t kMaxStatesRatio = 4;  // once a way is found, the search ends at this many times the states so far
constexpr size_t kMinWayStates = 512;
constexpr int kMaxForks = 4;   // on one way, returns to several callers at which all callers are tried
constexpr int kMaxNested = 2;  // nested searches for ways of inner entries
constexpr size_t kNoEnd = SIZE_MAX / 4;
constexpr int64_t kStepWork = 8;
constexpr int64_t kByteWork = 20;  // for a bound on the texts after one byte
constexpr int64_t kTryWork = 500;  // for a step to a state, and the check whether it is new

// The nodes of a best-first search, in order. A node is a text whose last byte has not been read yet: most nodes never
// come first. Of the texts that differ only in their last bytes, the heap contains one at a time.
class NodeQueue {
 public:
  struct Node {
    size_t bytes;  // the fewest that a way through this node can have; if any way suffices, the bytes of the text
    std::string text;
    int32_t state_before;  // the state before the last byte
    size_t parent, index;  // of the texts that differ only in their last bytes; of this text among them
    bool operator>(const Node& other) const { return std::tie(bytes, text) > std::tie(other.bytes, other.text); }
  };

  bool empty() const { return heap_.empty(); }
  // Adds the texts that continue `text`, which leads to `state`. `next_bytes`: `Node::bytes` for each next byte.
  void add_all(std::string text, int32_t state, std::vector<std::pair<size_t, uint8_t>> next_bytes) {
    std::ranges::sort(next_bytes);
    parents_.push_back({std::move(text), state, std::move(next_bytes)});
    push(parents_.size() - 1, 0);
  }
  Node pop() {
    std::ranges::pop_heap(heap_, std::greater<>());
    Node node = std::move(heap_.back());
    heap_.pop_back();
    push(node.parent, node.index + 1);
    return node;
  }

 private:
  struct Parent {
    std::string text;
    int32_t state;
    std::vector<std::pair<size_t, uint8_t>> next_bytes;  // sorted
  };
  void push(size_t parent_index, size_t index) {
    const Parent& parent = parents_[parent_index];
    if (index == parent.next_bytes.size()) return;
    const auto [bytes, byte] = parent.next_bytes[index];
    heap_.push_back({bytes, parent.text + static_cast<char>(byte), parent.state, parent_index, index});
    std::ranges::push_heap(heap_, std::greater<>());
  }

  std::vector<Parent> parents_;
  std::vector<Node> heap_;
};
}  // namespace

const NewEntry::Way* NewEntry::find(const Thread& thread) {
  const Answer* answer = find_answer(thread, 0, false);
  return answer && answer->way ? &*answer->way : nullptr;
}

// Null: inside another search, no way was found, possibly because the limit on nesting was reached. `any_suffices`: any
// way suffices, not only the shortest.
const NewEntry::Answer* NewEntry::find_answer(const Thread& thread, int outer_count, bool any_suffices) {
  // If `outer_count` is positive, only the innermost entry has to end.
  auto& answers = outer_count ? inner_answers_ : answers_;
  if (const Answer* answer = answers.find(thread); answer && (any_suffices || answer->is_shortest)) return answer;
  Answer result{follow_tree(thread, outer_count), true};
  const bool is_answered = result.way || answer_string(thread, outer_count, result);
  const bool may_be_better =
      (!is_answered || (result.way && is_detour(*result.way))) && may_avoid_detour(thread, outer_count);
  std::optional<Way> better;
  if (may_be_better && !any_suffices) better = search(thread, outer_count, false, true);
  if (better)
    result = {std::move(better), true};
  else if (!is_answered)
    result = {search(thread, outer_count, any_suffices, false), !any_suffices};
  else if (may_be_better && any_suffices)
    result.is_shortest = false;
  if (!result.way && nesting_ > 0) return nullptr;
  result.is_shortest |= !result.way;
  arena_.charge(128 + (result.way ? result.way->text.size() : 0));
  Answer* answer = answers.find(thread);
  return answer ? &(*answer = std::move(result)) : &answers.add(thread, std::move(result));
}

// Answers for an entry that is a string, without a search. Returns false if a search is needed.
bool NewEntry::answer_string(const Thread& thread, int outer_count, Answer& answer) {
  const std::optional<Uniqueness::StringAhead> ahead = uniqueness_.string_ahead(thread.mem);
  if (!ahead) return false;
  if (arena_.any_new_string(thread.pos, *ahead) == false) {  // then the outer entries cannot end, either
    answer = {std::nullopt, true};
    return true;
  }
  if (uniqueness_.count_open_entries(thread.mem).first != outer_count + 1) return false;  // others must end, too
  std::optional<ShortestNewString::Rest> rest = new_string_.find(thread, *ahead);
  if (!rest) return false;
  answer = {Way{std::move(rest->text), std::move(rest->end_threads), 0}, true};
  answer.way->bytes = answer.way->text.size() + min_bytes_of_any(answer.way->end_threads);
  return true;
}

// Follows the shortest text; nullopt if it ends with a seen value. If an inner entry would end with a seen value, its
// own way is inserted.
std::optional<NewEntry::Way> NewEntry::follow_tree(Thread thread, int outer_count, int depth) {
  const Grammar& g = arena_.grammar();
  Way out;
  // The inner entries that are being read, and the size of the text at their start.
  std::vector<std::pair<Thread, size_t>> inner_entries;
  if (uniqueness_.count_open_entries(thread.mem).second) inner_entries.push_back({thread, 0});
  while (out.text.size() < kMaxBytes) {
    CallMeter::work(kStepWork);
    const int open_count = uniqueness_.count_open_entries(thread.mem).first;
    if (open_count <= outer_count) {
      out.end_threads = {thread};
      out.bytes = out.text.size() + min_bytes(thread);
      return out;
    }
    const Rule& rule = g.rule_at(thread.pos);
    const ShortestText::Choice c = tree_.choose(thread);
    if (c.cost > kUnreachable || ends_with_seen_value(thread)) {
      if (open_count == outer_count + 1 || inner_entries.empty() || depth >= kMaxForks || nesting_ == kMaxNested)
        return std::nullopt;
      auto [inner_start, start_size] = inner_entries.back();
      if (uniqueness_.count_open_entries(inner_start.mem).first != open_count) return std::nullopt;
      ++nesting_;
      const Answer* inner = find_answer(inner_start, open_count - 1, false);
      --nesting_;
      if (!inner || !inner->way) return std::nullopt;
      out.text.resize(start_size);
      out.text += inner->way->text;
      if (inner->way->end_threads.size() > 1)
        return follow_any(inner->way->end_threads, outer_count, depth, std::move(out));
      thread = inner->way->end_threads.front();
      inner_entries.pop_back();
      continue;
    }
    switch (c.kind) {
      case ShortestText::Choice::End: {
        const Config& ret = arena_.config(thread.ret);
        const int32_t mem = thread.mem;
        if (ret.count != 1) {
          std::vector<Thread> callers(ret.begin(), ret.end());
          for (Thread& caller : callers) caller.mem = mem;
          return follow_any(callers, outer_count, depth, std::move(out));
        }
        thread = ret.threads[0];
        thread.mem = mem;
        if (thread.pos == kExit) return std::nullopt;
        break;
      }
      case ShortestText::Choice::Byte:
        out.text += static_cast<char>(c.index);
        thread.pos = g.step(thread.pos, static_cast<uint8_t>(c.index));
        thread.mem = uniqueness_.read(thread.mem, static_cast<uint8_t>(c.index));
        break;
      case ShortestText::Choice::Token:
        return std::nullopt;
      case ShortestText::Choice::Call:
        thread = arena_.callee_thread(thread, g.calls[c.index]);
        break;
      case ShortestText::Choice::ApplyEffect: {
        const EffectEdge& e = g.effects[c.index];
        if (!arena_.apply(rule, e.effect, thread)) return std::nullopt;
        thread.pos = e.to;
        if (e.effect.op == Effect::Begin) inner_entries.push_back({thread, out.text.size()});
        if (e.effect.op == Effect::Keep && !inner_entries.empty()) inner_entries.pop_back();
        break;
      }
    }
  }
  return std::nullopt;
}

// Whether an entry would end here if its value had not been seen. If so, a longer text may not give the shortest unseen
// value.
bool NewEntry::ends_with_seen_value(const Thread& thread) {
  const Grammar& g = arena_.grammar();
  const Position& p = g.positions[thread.pos];
  for (const EffectEdge& edge : g.effects_of(p)) {
    Thread next = thread;
    const Effect& effect = edge.effect;
    if (effect.op == Effect::Keep && !arena_.apply(g.rules[p.rule], effect, next)) return true;
  }
  return false;
}

// Extends `out` by the shortest way of any of these threads, and merges all ways with the same text.
std::optional<NewEntry::Way> NewEntry::follow_any(const std::vector<Thread>& threads, int outer_count, int depth,
                                                  Way out) {
  std::optional<Way> best;
  for (size_t i = 0; i < threads.size() && depth < kMaxForks; ++i) {
    std::optional<Way> way = threads[i].pos == kExit ? std::nullopt : follow_tree(threads[i], outer_count, depth + 1);
    if (!way) continue;
    if (best && way->text == best->text) {  // some of these threads may turn out to have no continuation
      best->end_threads.insert(best->end_threads.end(), way->end_threads.begin(), way->end_threads.end());
      best->bytes = std::min(best->bytes, way->bytes);
    } else if (!best || way->bytes < best->bytes) {
      best = std::move(way);
    }
  }
  if (!best) return std::nullopt;
  out.bytes = out.text.size() + best->bytes;
  out.text += best->text;
  out.end_threads = std::move(best->end_threads);
  return out;
}

template <class Threads>
size_t NewEntry::min_bytes_of_any(const Threads& threads) {
  size_t best = kNoEnd;
  for (const Thread& t : threads) best = std::min(best, min_bytes(t));
  return best;
}

// The fewest bytes to the end of the output after those threads of a state that are considered read this byte.
template <class Considers>
size_t NewEntry::min_bytes_after(int32_t state, uint8_t byte, Considers&& considers) {
  const Grammar& g = arena_.grammar();
  size_t best = kNoEnd;
  for (const Thread& t : arena_.config(state))
    if (t.pos != kExit && g.positions[t.pos].bytes.has(byte) && considers(t))
      best = std::min(best, min_bytes({g.step(t.pos, byte), t.reg, t.ret, t.mem}));
  return best;
}

// A best-first search (A*; Hart, Nilsson and Raphael, 1968): the order is the fewest bytes that a way through a state
// can have, then byte order. Once the entry can no longer become a seen value, the shortest text gives the rest. The
// bytes after the entry count, too, since another name may require another value. Of equally short ways, the first in
// byte order is found, whatever other values have been seen. So each thread on the way returns the rest of the same
// text, and so does a thread that has seen more values, unless the way's value is among them. With `any_suffices`, the
// search is breadth-first and ends with the first way, since the shortest values may all have been seen. With
// `avoids_detours`, it finds no detours.
std::optional<NewEntry::Way> NewEntry::search(const Thread& thread, int outer_count, bool any_suffices,
                                              bool avoids_detours) {
  const bool is_unbounded = uniqueness_.is_in_string(thread.mem) && arena_.unbounded().is_unbounded(thread.pos);
  const bool has_way = is_unbounded || arena_.surely_continues(thread);
  size_t state_count = 1,
         max_states = kMaxStates + (has_way ? kStatesPerSeenValue * uniqueness_.max_seen_ahead(thread.mem) : 0);
  std::unordered_set<std::vector<int32_t>, IntsHash> visited;
  std::optional<Way> best;
  std::string best_prefix;
  auto is_worse = [&](size_t bytes, const std::string& text) {
    return best && (any_suffices || std::tie(bytes, text) >= std::tie(best->bytes, best_prefix));
  };
  const int32_t entry = uniqueness_.open_entry(thread.mem, outer_count);
  auto is_considered = [&](const Thread& t) {
    return !avoids_detours || (uniqueness_.open_entry(t.mem, outer_count) == entry && may_avoid_detour(t, outer_count));
  };
  auto try_end = [&](const std::string& text, int32_t state) {
    std::optional<Way> way = shortest_end(state, outer_count, is_considered);
    if (!way || (avoids_detours && is_detour(*way))) return false;
    const size_t bytes = text.size() + way->bytes;
    if (is_worse(bytes, text)) return true;
    if (!best) max_states = std::min(max_states, std::max(kMinWayStates, kMaxStatesRatio * state_count));
    best = Way{text + way->text, std::move(way->end_threads), bytes};
    best_prefix = text;
    return true;
  };
  NodeQueue queue;
  auto expand = [&](size_t bytes_so_far, std::string text, int32_t state) {
    if (!visited.insert(state_key(state)).second) return;
    std::vector<std::pair<size_t, uint8_t>> next_bytes;
    arena_.config(state).bytes.each([&](uint8_t byte) {
      CallMeter::work(kByteWork);
      const size_t length = text.size() + 1;
      next_bytes.push_back(
          {any_suffices ? length : std::max(bytes_so_far, length + min_bytes_after(state, byte, is_considered)), byte});
    });
    queue.add_all(std::move(text), state, std::move(next_bytes));
  };
  expand(0, {}, arena_.raw_state(thread));
  while (!queue.empty() && state_count < max_states) {
    CallMeter::work(kStepWork);
    NodeQueue::Node node = queue.pop();
    if (is_worse(node.bytes, node.text)) break;
    CallMeter::work(kTryWork);
    const int32_t state = arena_.raw_step(node.state_before, static_cast<uint8_t>(node.text.back()));
    if (state == kDead || visited.contains(state_key(state))) continue;
    if (avoids_detours && std::ranges::none_of(arena_.config(state), is_considered)) continue;
    if (try_end(node.text, state) && !may_become_seen(state, outer_count)) continue;
    ++state_count;
    expand(node.bytes, std::move(node.text), state);
  }
  return best;
}

// Of the shortest texts (shortest_text.hpp) of a state's threads, the shortest one that ends the entry with an unseen
// value.
template <class Considers>
std::optional<NewEntry::Way> NewEntry::shortest_end(int32_t state, int outer_count, Considers&& considers) {
  Way result;
  for (const Thread& t : arena_.config(state))
    if (uniqueness_.count_open_entries(t.mem).first <= outer_count) result.end_threads.push_back(t);
  if (!result.end_threads.empty()) {
    result.bytes = min_bytes_of_any(result.end_threads);
    std::erase_if(result.end_threads, [&](const Thread& t) { return min_bytes(t) > result.bytes; });
    return result;
  }
  std::optional<Way> best;
  for (const Thread& t : arena_.config(state)) {
    std::optional<Way> way = t.pos != kExit && considers(t) ? follow_tree(t, outer_count) : std::nullopt;
    if (way && (!best || way->bytes < best->bytes)) best = std::move(way);
  }
  return best;
}

// Whether the outermost entry after the first `outer_count` may end without being a detour.
bool NewEntry::may_avoid_detour(const Thread& thread, int outer_count) {
  if (thread.pos == kExit || !detours_.any()) return false;
  return detours_.may_avoid(thread, uniqueness_.count_open_entries(thread.mem).first - outer_count - 1);
}

// Whether the entry that a way ends is a detour.
bool NewEntry::is_detour(const Way& way) {
  return std::ranges::all_of(way.end_threads,
                             [&](const Thread& t) { return t.pos != kExit && detours_.ends_detour(t.pos); });
}

bool NewEntry::may_become_seen(int32_t state, int outer_count) {
  const Config& c = arena_.config(state);
  return std::any_of(c.begin(), c.end(),
                     [&](const Thread& t) { return uniqueness_.may_become_seen_inside(t.mem, outer_count); });
}

// States with equal keys reach the same values by the same texts, however the text so far was spelled.
std::vector<int32_t> NewEntry::state_key(int32_t state) {
  std::vector<int32_t> out;
  for (const Thread& t : arena_.config(state))
    out.insert(out.end(), {t.pos, t.reg, t.ret, uniqueness_.representative(t.mem)});
  return out;
}

}  // namespace guided
