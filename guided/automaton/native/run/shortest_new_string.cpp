#include "run/shortest_new_string.hpp"

#include <algorithm>

namespace guided {

namespace {
constexpr int kLongestNew = 512;      // bytes of a string
constexpr int kMaxStringFrames = 32;  // frames that begin or end together with a string
constexpr int64_t kNewByteWork = 3;
}  // namespace

// Enters the rules that are called at positions that do nothing but call one rule.
Thread ShortestNewString::enter(Thread at) {
  const Grammar& g = arena_.grammar();
  for (int depth = 0; depth < kMaxStringFrames; ++depth) {
    const Position& p = g.positions[at.pos];
    if (p.call_hi != p.call_lo + 1 || p.bytes.count() > 0) break;
    at = arena_.called(at, g.calls[p.call_lo]);
  }
  return at;
}

// Appends the threads after the entry, which must end without another byte. Returns false if there are none.
bool ShortestNewString::end_entry(const Thread& from, std::vector<Thread>& out, int depth) {
  const Grammar& g = arena_.grammar();
  Thread at = from;
  for (; depth < kMaxStringFrames; ++depth) {
    const ShortestText::Choice c = tree_.choose(at);
    if (c.cost > kUnreachable) return false;
    if (c.kind == ShortestText::Choice::End) {
      const std::vector<Thread> callers(arena_.config(at.ret).begin(), arena_.config(at.ret).end());
      bool any = false;
      for (Thread caller : callers) {
        if (caller.pos == kExit) continue;
        caller.mem = at.mem;
        any |= end_entry(caller, out, depth + 1);
      }
      return any;
    }
    if (c.kind != ShortestText::Choice::Operate) return false;
    const EffectEdge& e = g.effects[c.index];
    if (!arena_.apply(g.rule_at(at.pos), e.effect, at)) return false;
    at.pos = e.to;
    if (e.effect.op != Effect::Keep) continue;
    out.push_back(at);
    return true;
  }
  return false;
}

// The fewest bytes from after the quotation mark to the end of the output, ignoring seen sets.
int64_t ShortestNewString::bytes_behind(const Thread& at) {
  std::vector<Thread> after;
  int64_t fewest = kNone;
  if (end_entry({at.pos, at.reg, at.ret, kOutside}, after))
    for (const Thread& t : after) fewest = std::min(fewest, tree_.least_to_end(t));
  return fewest;
}

// The bytes of the tree's text; kNone if its string is in the trie, or if it is not a plain string.
int64_t ShortestNewString::tree_bytes(Thread at, int32_t node) {
  const Grammar& g = arena_.grammar();
  for (int64_t bytes = 1; bytes < kLongestNew; ++bytes) {
    CallMeter::work(kNewByteWork);
    at = enter(at);
    const ShortestText::Choice c = tree_.choose(at);
    if (c.cost > kUnreachable || c.kind != ShortestText::Choice::Byte) return kNone;
    const auto byte = static_cast<uint8_t>(c.index);
    at.pos = g.step(at.pos, byte);
    if (byte == StringProgress::kQuote) {
      if (node >= 0 && uniqueness_.trie().ends(node)) return kNone;
      return std::min(kNone, bytes + bytes_behind(at));
    }
    if (!StringProgress::is_plain(byte)) return kNone;
    if (node >= 0) node = uniqueness_.trie().child(node, byte);
  }
  return kNone;
}

ShortestNewString::Best ShortestNewString::after_byte(const Thread& at, int32_t node, uint8_t byte, int depth) {
  CallMeter::work(kNewByteWork);
  const PersistentTrie& trie = uniqueness_.trie();
  Thread to = at;
  to.pos = arena_.grammar().step(at.pos, byte);
  Best rest;
  if (byte != StringProgress::kQuote)
    rest = best(to, node < 0 ? node : trie.child(node, byte), depth + 1);
  else if (node < 0 || !trie.ends(node))
    rest.bytes = bytes_behind(to);
  return {std::min(kNone, rest.bytes + 1), byte, 0, rest.complete};
}

// The best text that begins with a two-byte escape, for characters whose other spellings are longer or missing.
ShortestNewString::Best ShortestNewString::best_with_escape(const Thread& at, int32_t node, int depth) {
  Thread begun = at;
  begun.pos = arena_.grammar().step(at.pos, StringProgress::kEscape);
  const Best rest = best_after_backslash(enter(begun), node, depth);
  return {std::min(kNone, rest.bytes + 1), StringProgress::kEscape, rest.byte, rest.complete};
}

// The same from after its backslash.
ShortestNewString::Best ShortestNewString::best_after_backslash(const Thread& at, int32_t node, int depth) {
  const Grammar& g = arena_.grammar();
  Best found;
  for (size_t i = 0; i < StringProgress::kShort.size(); ++i) {
    const auto byte = static_cast<uint8_t>(StringProgress::kShort[i]);
    if (!g.positions[at.pos].bytes.has(byte)) continue;
    CallMeter::work(kNewByteWork);
    Thread to = at;
    to.pos = g.step(at.pos, byte);
    const int32_t after = node < 0 ? node : uniqueness_.trie().at(node, StringProgress::kMeaning.substr(i, 1));
    const Best rest = best(to, after, depth + 1);
    const int64_t bytes = std::min(kNone, rest.bytes + 1);
    const bool complete = found.complete && rest.complete;
    if (bytes < found.bytes || (bytes == found.bytes && byte < found.byte)) found = {bytes, byte};
    found.complete = complete;
  }
  return found;
}

ShortestNewString::Best ShortestNewString::best(Thread at, int32_t node, int depth) {
  at = enter(at);
  at.mem = node;
  if (const Best* known = known_.find(at)) return *known;
  if (depth > kLongestNew) return {kNone, 0, 0, false};
  Best found;
  if (const int64_t of_tree = tree_bytes(at, node); of_tree < kNone) {
    found = {of_tree, static_cast<uint8_t>(tree_.choose(at).index)};
  } else {
    const ByteSet& bytes = arena_.grammar().positions[at.pos].bytes;
    bool complete = arena_.reads_bytes_alone(at.pos);
    for (int b = 0x20; b < 256 && complete; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      if (!bytes.has(byte)) continue;
      const Best one =
          byte == StringProgress::kEscape ? best_with_escape(at, node, depth) : after_byte(at, node, byte, depth);
      complete = one.complete;
      if (one.bytes < found.bytes) found = one;
    }
    found.complete = complete;
  }
  arena_.charge(48);
  return known_.add(at, found);
}

// The same, possibly within an escape. After its backslash, only two-byte escapes are considered; later, none is known.
ShortestNewString::Best ShortestNewString::best_in_escape(const Thread& at, int32_t node, const StringProgress& read) {
  if (read.between_characters()) return best(at, node, 0);
  return read.escape == 0 && read.high == 0 ? best_after_backslash(enter(at), node, 0) : Best{};
}

std::optional<ShortestNewString::Rest> ShortestNewString::find(const Thread& thread,
                                                               const Uniqueness::StringAhead& ahead) {
  Rest out;
  Thread at = thread;
  int32_t node = ahead.node;
  StringProgress read = ahead.escape;
  read.text.clear();
  auto step = [&](uint8_t byte) {
    out.text += static_cast<char>(byte);
    at.pos = arena_.grammar().step(at.pos, byte);
    at.mem = uniqueness_.read(at.mem, byte);
  };
  if (!ahead.opened) {
    at = enter(at);
    const ByteSet& bytes = arena_.grammar().positions[at.pos].bytes;
    const bool only_quote = bytes.count() == 1 && bytes.has(StringProgress::kQuote);
    if (!only_quote || !arena_.reads_bytes_alone(at.pos)) return std::nullopt;
    step(StringProgress::kQuote);
  }
  for (;;) {
    const Best next = best_in_escape(at, node, read);
    if (next.bytes >= kNone || !next.complete) return std::nullopt;
    at = enter(at);
    step(next.byte);
    if (next.byte == StringProgress::kQuote && read.escape < 0) break;
    read.read(next.byte);
    if (next.escaped != 0) {
      at = enter(at);
      step(next.escaped);
      read.read(next.escaped);
    }
    if (node >= 0) node = uniqueness_.trie().at(node, read.text);
    read.text.clear();
  }
  if (!end_entry(at, out.after)) return std::nullopt;
  return out;
}

}  // namespace guided
