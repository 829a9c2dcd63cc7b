#include "run/new_entry.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

namespace guided {

namespace {
constexpr size_t kMaxStates = 8192;
constexpr int64_t kStatesOfValue = 4096;  // if a way is known to exist: additional states for each seen value
constexpr size_t kMaxBytes = 1 << 16;
constexpr size_t kStatesOfWay = 4;  // once a way is found, the search ends at this many times the states so far
constexpr size_t kMinWayStates = 512;
constexpr int kMaxForks = 4;   // returns to several callers, on one way, at which all callers are tried
constexpr int kMaxNested = 2;  // nested searches for the ways of inner entries
constexpr size_t kNever = SIZE_MAX / 4;
constexpr int64_t kStepWork = 8;
constexpr int64_t kByteWork = 20;  // for a bound on the texts after a byte
constexpr int64_t kTryWork = 500;  // for a step to a state, and the check whether it is new
}  // namespace

const NewEntry::Way* NewEntry::find(const Thread& thread) {
  const Answer* answer = ask(thread, 0, false);
  return answer && answer->way ? &*answer->way : nullptr;
}

// Null: no way was found, possibly because of the limit on nesting. `any`: any way suffices, not only the shortest.
const NewEntry::Answer* NewEntry::ask(const Thread& thread, int left_open, bool any) {
  auto& known = left_open ? inner_ : known_;  // with `left_open`, only the innermost entry has to end
  if (const Answer* answer = known.find(thread); answer && (any || answer->shortest)) return answer;
  const size_t around = std::exchange(refused_, 0);
  Answer found{of_tree(thread, left_open), true};
  if (!found.way && !of_string(thread, left_open, found)) found = {search(thread, left_open, any), !any};
  refused_ = around;
  if (!found.way && nesting_ > 0) return nullptr;
  found.shortest |= !found.way;
  arena_.charge(128 + (found.way ? found.way->text.size() : 0));
  Answer* answer = known.find(thread);
  return answer ? &(*answer = std::move(found)) : &known.add(thread, std::move(found));
}

// Answers without a search for an entry that is a string. False if a search is needed.
bool NewEntry::of_string(const Thread& thread, int left_open, Answer& found) {
  const std::optional<Uniqueness::StringAhead> ahead = uniqueness_.string_ahead(thread.mem);
  if (!ahead) return false;
  if (arena_.any_new_string(thread.pos, *ahead) == false) {  // then no entry around it can end either
    found = {std::nullopt, true};
    return true;
  }
  if (ahead->inside || left_open > 0) return false;
  std::optional<ShortestNewString::Rest> rest = new_string_.find(thread, *ahead);
  if (!rest) return false;
  found = {Way{std::move(rest->text), std::move(rest->after), 0}, true};
  found.way->bytes = found.way->text.size() + least_of(found.way->after);
  return true;
}

// Follows the shortest text; nullopt if it ends in a seen value. An inner entry that would do so takes its own way.
std::optional<NewEntry::Way> NewEntry::of_tree(Thread at, int left_open, int depth) {
  const Grammar& g = arena_.grammar();
  Way out;
  std::vector<std::pair<Thread, size_t>> begun;  // the inner entries being read, with the text's size at their start
  if (uniqueness_.under_way(at.mem).second) begun.push_back({at, 0});
  while (out.text.size() < kMaxBytes) {
    CallMeter::work(kStepWork);
    const int open = uniqueness_.under_way(at.mem).first;
    if (open <= left_open) {
      out.after = {at};
      out.bytes = out.text.size() + least(at);
      return out;
    }
    const Rule& rule = g.rule_at(at.pos);
    const ShortestText::Choice c = tree_.choose(at);
    if (c.cost > kUnreachable || refuses(at)) {
      if (open == left_open + 1) refused_ = out.text.size() + least(at);
      if (open == left_open + 1 || begun.empty() || depth >= kMaxForks || nesting_ == kMaxNested) return std::nullopt;
      auto [thread, size] = begun.back();
      if (uniqueness_.under_way(thread.mem).first != open) return std::nullopt;
      ++nesting_;
      const Answer* inner = ask(thread, open - 1, false);
      --nesting_;
      if (!inner || !inner->way) return std::nullopt;
      out.text.resize(size);
      out.text += inner->way->text;
      if (inner->way->after.size() > 1) return of_any(inner->way->after, left_open, depth, std::move(out));
      at = inner->way->after.front();
      begun.pop_back();
      continue;
    }
    switch (c.kind) {
      case ShortestText::Choice::End: {
        const Config& ret = arena_.config(at.ret);
        const int32_t mem = at.mem;
        if (ret.count != 1) {
          std::vector<Thread> callers(ret.begin(), ret.end());
          for (Thread& caller : callers) caller.mem = mem;
          return of_any(callers, left_open, depth, std::move(out));
        }
        at = ret.threads[0];
        at.mem = mem;
        if (at.pos == kExit) return std::nullopt;
        break;
      }
      case ShortestText::Choice::Byte:
        out.text += static_cast<char>(c.index);
        at.pos = g.step(at.pos, static_cast<uint8_t>(c.index));
        at.mem = uniqueness_.read(at.mem, static_cast<uint8_t>(c.index));
        break;
      case ShortestText::Choice::Token:
        return std::nullopt;
      case ShortestText::Choice::Call:
        at = arena_.called(at, g.calls[c.index]);
        break;
      case ShortestText::Choice::Operate: {
        const EffectEdge& e = g.effects[c.index];
        if (!arena_.apply(rule, e.effect, at)) return std::nullopt;
        at.pos = e.to;
        if (e.effect.op == Effect::Begin) begun.push_back({at, out.text.size()});
        if (e.effect.op == Effect::Keep && !begun.empty()) begun.pop_back();
        break;
      }
    }
  }
  return std::nullopt;
}

// Whether an entry could end here if its value were unseen. Then a longer text need not give the shortest unseen value.
bool NewEntry::refuses(const Thread& at) {
  const Grammar& g = arena_.grammar();
  const Position& p = g.positions[at.pos];
  for (const EffectEdge& edge : g.effects_of(p)) {
    Thread after = at;
    const Effect& effect = edge.effect;
    if (effect.op == Effect::Keep && !arena_.apply(g.rules[p.rule], effect, after)) return true;
  }
  return false;
}

// Extends `out` by the shortest way of these threads, and merges all ways with the same text.
std::optional<NewEntry::Way> NewEntry::of_any(const std::vector<Thread>& threads, int left_open, int depth, Way out) {
  std::optional<Way> best;
  for (size_t i = 0; i < threads.size() && depth < kMaxForks; ++i) {
    std::optional<Way> way = threads[i].pos == kExit ? std::nullopt : of_tree(threads[i], left_open, depth + 1);
    if (!way) continue;
    if (best && way->text == best->text) {  // some of these threads may have no continuation
      best->after.insert(best->after.end(), way->after.begin(), way->after.end());
      best->bytes = std::min(best->bytes, way->bytes);
    } else if (!best || way->bytes < best->bytes) {
      best = std::move(way);
    }
  }
  if (!best) return std::nullopt;
  out.bytes = out.text.size() + best->bytes;
  out.text += best->text;
  out.after = std::move(best->after);
  return out;
}

template <class Threads>
size_t NewEntry::least_of(const Threads& threads) {
  size_t best = kNever;
  for (const Thread& t : threads) best = std::min(best, least(t));
  return best;
}

// The least bytes after a byte that a state reads.
size_t NewEntry::least_after(int32_t state, uint8_t byte) {
  const Grammar& g = arena_.grammar();
  size_t best = kNever;
  for (const Thread& t : arena_.config(state))
    if (t.pos != kExit && g.positions[t.pos].bytes.has(byte))
      best = std::min(best, least({g.step(t.pos, byte), t.reg, t.ret, t.mem}));
  return best;
}

// Best first (A*; Hart, Nilsson and Raphael, 1968): by the fewest bytes that a way through a state can have, then in byte
// order. Once the entry can no longer become a seen value, the tree gives the rest. The bytes after the entry count,
// too: another name may require another value. Of equally short ways, the earliest in byte order is found, whatever
// other values were seen. So each thread on the way returns the rest of the same text, and so does a thread with more
// seen values if this one is not among them. With `any`, the search is breadth first, and the first way ends it: the
// shortest values may all have been seen.
std::optional<NewEntry::Way> NewEntry::search(const Thread& thread, int left_open, bool any) {
  struct Node {
    size_t bytes;  // that a way from here has at least, with the text so far; with `any`, those of the text
    std::string text;
    int32_t state;
    bool operator>(const Node& other) const { return std::tie(bytes, text) > std::tie(other.bytes, other.text); }
  };
  std::vector<Node> open{{0, {}, arena_.raw_state(thread)}};
  const bool unbounded = uniqueness_.in_string(thread.mem) && arena_.unbounded().goes_on(thread.pos);
  const bool there = unbounded || arena_.goes_on_surely(thread);
  size_t found = 1, most = kMaxStates + (there ? kStatesOfValue * uniqueness_.ahead(thread.mem) : 0);
  std::unordered_set<std::vector<int32_t>, IntsHash> visited;
  std::optional<Way> best;
  std::string best_prefix;
  auto is_worse = [&](size_t bytes, const std::string& text) {
    return best && (any || std::tie(bytes, text) >= std::tie(best->bytes, best_prefix));
  };
  auto try_end = [&](const Node& at) {
    std::optional<Way> way = ends(at.state, left_open);
    if (!way) return false;
    const size_t bytes = at.text.size() + way->bytes;
    if (is_worse(bytes, at.text)) return true;
    if (!best) most = std::min(most, std::max(kMinWayStates, kStatesOfWay * found));
    best = Way{at.text + way->text, std::move(way->after), bytes};
    best_prefix = at.text;
    return true;
  };
  while (!open.empty() && found < most) {
    CallMeter::work(kStepWork);
    std::ranges::pop_heap(open, std::greater<>());
    const Node at = std::move(open.back());
    open.pop_back();
    if (is_worse(at.bytes, at.text)) break;
    if (!visited.insert(essence(at.state)).second) continue;
    const ByteSet bytes = arena_.config(at.state).bytes;
    for (int byte = 0; byte < 256; ++byte) {
      Node next{at.bytes, at.text + static_cast<char>(byte), kDead};
      if (is_worse(next.bytes, next.text)) break;
      if (!bytes.has(static_cast<uint8_t>(byte))) continue;
      CallMeter::work(kByteWork);
      next.bytes = any ? next.text.size()
                       : std::max(at.bytes, next.text.size() + least_after(at.state, static_cast<uint8_t>(byte)));
      if (is_worse(next.bytes, next.text)) continue;
      CallMeter::work(kTryWork);
      next.state = arena_.raw_step(at.state, static_cast<uint8_t>(byte));
      if (next.state == kDead || visited.contains(essence(next.state))) continue;
      if (try_end(next) && !may_be_there(next.state, left_open)) continue;
      ++found;
      open.push_back(std::move(next));
      std::ranges::push_heap(open, std::greater<>());
    }
  }
  return best;
}

// The shortest of the tree's texts from a state that end the entry with an unseen value.
std::optional<NewEntry::Way> NewEntry::ends(int32_t state, int left_open) {
  Way ended;
  for (const Thread& t : arena_.config(state))
    if (uniqueness_.under_way(t.mem).first <= left_open) ended.after.push_back(t);
  if (!ended.after.empty()) {
    ended.bytes = least_of(ended.after);
    std::erase_if(ended.after, [&](const Thread& t) { return least(t) > ended.bytes; });
    return ended;
  }
  std::optional<Way> best;
  for (const Thread& t : arena_.config(state)) {
    std::optional<Way> found = t.pos == kExit ? std::nullopt : of_tree(t, left_open);
    if (found && (!best || found->bytes < best->bytes)) best = std::move(found);
  }
  return best;
}

bool NewEntry::may_be_there(int32_t state, int left_open) {
  const Config& c = arena_.config(state);
  return std::any_of(c.begin(), c.end(), [&](const Thread& t) { return uniqueness_.alive_inside(t.mem, left_open); });
}

// A key: states with equal keys reach the same values by the same texts, however these were spelled so far.
std::vector<int32_t> NewEntry::essence(int32_t state) {
  std::vector<int32_t> out;
  for (const Thread& t : arena_.config(state)) out.insert(out.end(), {t.pos, t.reg, t.ret, uniqueness_.essence(t.mem)});
  return out;
}

}  // namespace guided
