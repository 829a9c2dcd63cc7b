#include "run/shortest_new_string.hpp"

#include <algorithm>

namespace guided {

namespace {
constexpr int kMaxStringBytes = 512;  // bytes of a string
constexpr int kMaxStringFrames = 32;  // frames that begin or end together with a string
constexpr int64_t kByteTrialWork = 3;
}  // namespace

// While the position only calls one rule, enters that rule.
Thread ShortestNewString::enter(Thread thread) {
  const Grammar& g = arena_.grammar();
  for (int depth = 0; depth < kMaxStringFrames; ++depth) {
    const Position& p = g.positions[thread.pos];
    if (p.call_hi != p.call_lo + 1 || p.bytes.count() > 0) break;
    thread = arena_.callee_thread(thread, g.calls[p.call_lo]);
  }
  return thread;
}

// Appends the threads after the entry, which must end without another byte. Returns false if there is no such thread.
bool ShortestNewString::end_entry(const Thread& start, std::vector<Thread>& out, int depth) {
  const Grammar& g = arena_.grammar();
  Thread thread = start;
  for (; depth < kMaxStringFrames; ++depth) {
    const ShortestText::Choice c = tree_.choose(thread);
    if (c.cost > kUnreachable) return false;
    if (c.kind == ShortestText::Choice::End) {
      const std::vector<Thread> callers(arena_.config(thread.ret).begin(), arena_.config(thread.ret).end());
      bool has_any = false;
      for (Thread caller : callers) {
        if (caller.pos == kExit) continue;
        caller.mem = thread.mem;
        has_any |= end_entry(caller, out, depth + 1);
      }
      return has_any;
    }
    if (c.kind != ShortestText::Choice::ApplyEffect) return false;
    const EffectEdge& e = g.effects[c.index];
    if (!arena_.apply(g.rule_at(thread.pos), e.effect, thread)) return false;
    thread.pos = e.to;
    if (e.effect.op != Effect::Keep) continue;
    out.push_back(thread);
    return true;
  }
  return false;
}

// The fewest bytes from after the closing quotation mark to the end of the output. Seen sets are ignored.
int64_t ShortestNewString::min_bytes_after_string(const Thread& thread) {
  std::vector<Thread> end_threads;
  int64_t fewest = kNone;
  if (end_entry({thread.pos, thread.reg, thread.ret, kOutside}, end_threads))
    for (const Thread& t : end_threads) fewest = std::min(fewest, tree_.min_bytes_to_end(t));
  return fewest;
}

// The bytes of the text that the tree of shortest texts (shortest_text.hpp) gives; kNone if its string is in the trie
// or is not written in plain characters.
int64_t ShortestNewString::tree_text_bytes(Thread thread, int32_t node) {
  const Grammar& g = arena_.grammar();
  for (int64_t bytes = 1; bytes < kMaxStringBytes; ++bytes) {
    CallMeter::work(kByteTrialWork);
    thread = enter(thread);
    const ShortestText::Choice c = tree_.choose(thread);
    if (c.cost > kUnreachable || c.kind != ShortestText::Choice::Byte) return kNone;
    const auto byte = static_cast<uint8_t>(c.index);
    thread.pos = g.step(thread.pos, byte);
    if (byte == StringProgress::kQuote) {
      if (node >= 0 && uniqueness_.trie().is_end(node)) return kNone;
      return std::min(kNone, bytes + min_bytes_after_string(thread));
    }
    if (!StringProgress::is_plain(byte)) return kNone;
    if (node >= 0) node = uniqueness_.trie().child(node, byte);
  }
  return kNone;
}

ShortestNewString::Best ShortestNewString::best_with_byte(const Thread& thread, int32_t node, uint8_t byte, int depth) {
  CallMeter::work(kByteTrialWork);
  const PersistentTrie& trie = uniqueness_.trie();
  Thread next_thread = thread;
  next_thread.pos = arena_.grammar().step(thread.pos, byte);
  Best rest;
  if (byte != StringProgress::kQuote)
    rest = find_best(next_thread, node < 0 ? node : trie.child(node, byte), depth + 1);
  else if (node < 0 || !trie.is_end(node))
    rest.bytes = min_bytes_after_string(next_thread);
  return {std::min(kNone, rest.bytes + 1), byte, 0, rest.is_complete};
}

// The best text that begins with a two-byte escape, for characters whose other spellings are longer or not allowed.
ShortestNewString::Best ShortestNewString::best_with_escape(const Thread& thread, int32_t node, int depth) {
  Thread after_backslash = thread;
  after_backslash.pos = arena_.grammar().step(thread.pos, StringProgress::kEscape);
  const Best rest = best_after_backslash(enter(after_backslash), node, depth);
  return {std::min(kNone, rest.bytes + 1), StringProgress::kEscape, rest.byte, rest.is_complete};
}

// Like best_with_escape(), but from after the backslash.
ShortestNewString::Best ShortestNewString::best_after_backslash(const Thread& thread, int32_t node, int depth) {
  const Grammar& g = arena_.grammar();
  Best result;
  for (size_t i = 0; i < StringProgress::kShort.size(); ++i) {
    const auto byte = static_cast<uint8_t>(StringProgress::kShort[i]);
    if (!g.positions[thread.pos].bytes.has(byte)) continue;
    CallMeter::work(kByteTrialWork);
    Thread next_thread = thread;
    next_thread.pos = g.step(thread.pos, byte);
    const int32_t next_node = node < 0 ? node : uniqueness_.trie().descend(node, StringProgress::kMeaning.substr(i, 1));
    const Best rest = find_best(next_thread, next_node, depth + 1);
    const int64_t bytes = std::min(kNone, rest.bytes + 1);
    const bool is_complete = result.is_complete && rest.is_complete;
    if (bytes < result.bytes || (bytes == result.bytes && byte < result.byte)) result = {bytes, byte};
    result.is_complete = is_complete;
  }
  return result;
}

ShortestNewString::Best ShortestNewString::find_best(Thread thread, int32_t node, int depth) {
  thread = enter(thread);
  thread.mem = node;
  if (const Best* cached = answers_.find(thread)) return *cached;
  if (depth > kMaxStringBytes) return {kNone, 0, 0, false};
  Best result;
  if (const int64_t tree_bytes = tree_text_bytes(thread, node); tree_bytes < kNone) {
    result = {tree_bytes, static_cast<uint8_t>(tree_.choose(thread).index)};
  } else {
    const ByteSet& bytes = arena_.grammar().positions[thread.pos].bytes;
    bool is_complete = arena_.has_only_byte_edges(thread.pos);
    for (int b = 0x20; b < 256 && is_complete; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      if (!bytes.has(byte)) continue;
      const Best candidate = byte == StringProgress::kEscape ? best_with_escape(thread, node, depth)
                                                             : best_with_byte(thread, node, byte, depth);
      is_complete = candidate.is_complete;
      if (candidate.bytes < result.bytes) result = candidate;
    }
    result.is_complete = is_complete;
  }
  arena_.charge(48);
  return answers_.add(thread, result);
}

// Like find_best(), but possibly inside an escape. Right after the backslash, only two-byte escapes are considered;
// later in an escape, no text is found.
ShortestNewString::Best ShortestNewString::find_best_in_escape(const Thread& thread, int32_t node,
                                                               const StringProgress& progress) {
  if (progress.between_characters()) return find_best(thread, node, 0);
  return progress.escape == 0 && progress.high == 0 ? best_after_backslash(enter(thread), node, 0) : Best{};
}

std::optional<ShortestNewString::Rest> ShortestNewString::find(const Thread& thread,
                                                               const Uniqueness::StringAhead& ahead) {
  Rest out;
  Thread current = thread;
  int32_t node = ahead.node;
  StringProgress progress = ahead.escape;
  progress.text.clear();
  auto step = [&](uint8_t byte) {
    out.text += static_cast<char>(byte);
    current.pos = arena_.grammar().step(current.pos, byte);
    current.mem = uniqueness_.read(current.mem, byte);
  };
  if (!ahead.is_opened) {
    current = enter(current);
    const ByteSet& bytes = arena_.grammar().positions[current.pos].bytes;
    const bool reads_only_quote = bytes.count() == 1 && bytes.has(StringProgress::kQuote);
    if (!reads_only_quote || !arena_.has_only_byte_edges(current.pos)) return std::nullopt;
    step(StringProgress::kQuote);
  }
  for (;;) {
    const Best next = find_best_in_escape(current, node, progress);
    if (next.bytes >= kNone || !next.is_complete) return std::nullopt;
    current = enter(current);
    step(next.byte);
    if (next.byte == StringProgress::kQuote && progress.escape < 0) break;
    progress.read(next.byte);
    if (next.escaped != 0) {
      current = enter(current);
      step(next.escaped);
      progress.read(next.escaped);
    }
    if (node >= 0) node = uniqueness_.trie().descend(node, progress.text);
    progress.text.clear();
  }
  if (!end_entry(current, out.end_threads)) return std::nullopt;
  return out;
}

}  // namespace guided
