#include "run/finite_string_sets.hpp"

#include "base/call_meter.hpp"

namespace guided {

namespace {
constexpr int64_t kMaxStrings = 1 << 20;  // at most this many strings are few
constexpr int kDeepest = 256;             // bytes of a string
constexpr int64_t kCountWork = 64;        // per position
constexpr int kMaxDigits = 12;            // choices for digit 1 or 2 of an escape; with more, the strings are not few
}  // namespace

// Follows positions that do nothing but call one rule. Returns the first position that calls none, or -1 if several
// ways lead on.
int32_t FiniteStringSets::callee(int32_t position) const {
  for (int depth = 0; depth < kDeepest; ++depth) {
    const Position& p = grammar_.positions[position];
    if (p.accept || p.effect_lo < p.effect_hi || p.token_lo < p.token_hi) return -1;
    if (p.call_lo == p.call_hi) return position;
    if (p.call_hi - p.call_lo > 1 || p.bytes.count() > 0) return -1;
    position = grammar_.rules[grammar_.calls[p.call_lo].rule].start;
  }
  return -1;
}

int64_t FiniteStringSets::count(int32_t position, int depth) {
  auto [it, inserted] = known_.try_emplace(position, kNotKnown);  // also while it is being counted, which detects loops
  if (!inserted) return it->second;
  const int64_t found = depth > kDeepest ? kNotKnown : count_here(position, depth);
  return known_[position] = found;
}

int64_t FiniteStringSets::count_here(int32_t position, int depth) {
  CallMeter::work(kCountWork);
  position = callee(position);
  if (position < 0 || !escapes_alike(position)) return kNotKnown;
  const ByteSet& bytes = grammar_.positions[position].bytes;
  int64_t sum = bytes.has(StringProgress::kQuote);
  for (int b = 0x20; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!StringProgress::is_plain(byte) || !bytes.has(byte)) continue;
    const int64_t more = count(grammar_.step(position, byte), depth + 1);
    if (more == kNotKnown || sum + more > kMaxStrings) return kNotKnown;
    sum += more;
  }
  return sum;
}

// The number of strings of a set that can be read from a position.
int64_t FiniteStringSets::among(int32_t position, const PersistentTrie& trie, int32_t node) const {
  position = callee(position);
  if (position < 0) return 0;
  const ByteSet& bytes = grammar_.positions[position].bytes;
  int64_t sum = trie.ends(node) && bytes.has(StringProgress::kQuote);
  CallMeter::work(kLookup);
  for (const PersistentTrie::Child& c : trie.children(node))
    if (StringProgress::is_plain(c.byte) && bytes.has(c.byte))
      sum += among(grammar_.step(position, c.byte), trie, c.node);
  return sum;
}

bool FiniteStringSets::leads_to(int32_t position, uint32_t code_point, int32_t to) const {
  StringProgress character;
  character.put(code_point);
  for (char c : character.text) {
    position = callee(position);
    const auto byte = static_cast<uint8_t>(c);
    if (position < 0 || !StringProgress::is_plain(byte) || !grammar_.positions[position].bytes.has(byte)) return false;
    position = grammar_.step(position, byte);
  }
  return position == to;
}

// Whether every escape \uXXXX that continues at `escaped` leads to where its character leads from `position`.
bool FiniteStringSets::spelled_alike(int32_t escaped, int32_t position, int digits, uint32_t unit) const {
  if (digits == StringProgress::kDigits) return (unit < 0xD800 || unit > 0xDFFF) && leads_to(position, unit, escaped);
  escaped = callee(escaped);
  if (escaped < 0) return false;
  const ByteSet& bytes = grammar_.positions[escaped].bytes;
  int choices = 0;
  for (int b = 0; b < 256; ++b) {
    if (!bytes.has(static_cast<uint8_t>(b))) continue;
    const int value = StringProgress::digit(b);
    if (value < 0 || (++choices > kMaxDigits && digits < 2)) return false;
    const int32_t to = grammar_.step(escaped, static_cast<uint8_t>(b));
    if (!spelled_alike(to, position, digits + 1, unit * 16 + static_cast<uint32_t>(value))) return false;
  }
  return true;
}

// Whether a short escape leads where the character that it represents leads.
bool FiniteStringSets::stands_for(uint8_t escape, int32_t position, int32_t to) const {
  const size_t at = StringProgress::kShort.find(static_cast<char>(escape));
  return at != std::string_view::npos && leads_to(position, static_cast<uint8_t>(StringProgress::kMeaning[at]), to);
}

bool FiniteStringSets::escapes_alike(int32_t position) const {
  const Position& p = grammar_.positions[position];
  if (!p.bytes.has(StringProgress::kEscape)) return true;
  const int32_t escaped = callee(grammar_.step(position, StringProgress::kEscape));
  if (escaped < 0) return false;
  const ByteSet& bytes = grammar_.positions[escaped].bytes;
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!bytes.has(byte)) continue;
    const int32_t to = grammar_.step(escaped, byte);
    if (byte == StringProgress::kUnit ? !spelled_alike(to, position, 0, 0) : !stands_for(byte, position, to))
      return false;
  }
  return true;
}

std::optional<bool> FiniteStringSets::any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node) {
  const int64_t all = count(position, 0);
  if (all == kNotKnown) return std::nullopt;
  if (node < 0 || all > trie.count(node)) return true;
  const uint64_t key = pair_key(position, node);  // trie nodes never change
  if (const int32_t* found = any_new_.find(key)) return *found != 0;
  const bool any = all > among(position, trie, node);
  any_new_.set(key, any);
  return any;
}

std::optional<bool> FiniteStringSets::any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node,
                                                     const StringProgress& read) {
  if (read.between_characters()) return any_new_inside(position, trie, node);
  position = callee(position);
  if (position < 0) return std::nullopt;
  const ByteSet& bytes = grammar_.positions[position].bytes;
  bool any = false;
  for (int b = 0; b < 256 && !any; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!bytes.has(byte)) continue;
    StringProgress next = read;
    if (!next.read(byte)) return std::nullopt;
    const int32_t after = node < 0 ? node : trie.at(node, next.text);
    next.text.clear();
    const std::optional<bool> found = any_new_inside(grammar_.step(position, byte), trie, after, next);
    if (!found) return std::nullopt;
    any = *found;
  }
  return any;
}

bool FiniteStringSets::begins_few(int32_t begin) {
  begin = callee(begin);
  if (begin < 0) return false;
  const ByteSet& bytes = grammar_.positions[begin].bytes;
  return bytes.count() == 1 && bytes.has(StringProgress::kQuote) &&
         count(grammar_.step(begin, StringProgress::kQuote), 0) != kNotKnown;
}

std::optional<bool> FiniteStringSets::any_new(int32_t begin, const PersistentTrie& trie, int32_t node) {
  if (!begins_few(begin)) return std::nullopt;
  return any_new_inside(grammar_.step(callee(begin), StringProgress::kQuote), trie, node);
}

}  // namespace guided
