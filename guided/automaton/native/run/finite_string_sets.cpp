#include "run/finite_string_sets.hpp"

#include "base/call_meter.hpp"

namespace guided {

namespace {
constexpr int64_t kMaxStrings = 1 << 20;  // more strings are not counted
constexpr int kMaxLength = 256;           // the most bytes of a string
constexpr int64_t kCountWork = 64;        // per position
// The most choices for the first or second digit of an escape. With more choices, there are too many strings.
constexpr int kMaxDigits = 12;
}  // namespace

// Enters rules as long as a position only calls one rule. Returns the first position that has nothing but byte edges;
// -1 if there is none.
int32_t FiniteStringSets::skip_calls(int32_t position) const {
  for (int depth = 0; depth < kMaxLength; ++depth) {
    const Position& p = grammar_.positions[position];
    if (p.accept || p.effect_lo < p.effect_hi || p.token_lo < p.token_hi) return -1;
    if (p.call_lo == p.call_hi) return position;
    if (p.call_hi - p.call_lo > 1 || p.bytes.count() > 0) return -1;
    position = grammar_.rules[grammar_.calls[p.call_lo].rule].start;
  }
  return -1;
}

int64_t FiniteStringSets::count(int32_t position, int depth) {
  // While a position is being counted, its count is kUnknownCount, so the count of every loop is unknown.
  auto [it, inserted] = counts_.try_emplace(position, kUnknownCount);
  if (!inserted) return it->second;
  const int64_t count = depth > kMaxLength ? kUnknownCount : count_here(position, depth);
  return counts_[position] = count;
}

int64_t FiniteStringSets::count_here(int32_t position, int depth) {
  CallMeter::work(kCountWork);
  position = skip_calls(position);
  if (position < 0 || !all_escapes_lead_alike(position)) return kUnknownCount;
  const ByteSet& bytes = grammar_.positions[position].bytes;
  int64_t sum = bytes.has(StringProgress::kQuote);
  for (int b = 0x20; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!StringProgress::is_plain(byte) || !bytes.has(byte)) continue;
    const int64_t rest_count = count(grammar_.step(position, byte), depth + 1);
    if (rest_count == kUnknownCount || sum + rest_count > kMaxStrings) return kUnknownCount;
    sum += rest_count;
  }
  return sum;
}

// The number of strings in a set that can be read from a position.
int64_t FiniteStringSets::count_in_set(int32_t position, const PersistentTrie& trie, int32_t node) const {
  position = skip_calls(position);
  if (position < 0) return 0;
  const ByteSet& bytes = grammar_.positions[position].bytes;
  int64_t sum = trie.is_end(node) && bytes.has(StringProgress::kQuote);
  CallMeter::work(kLookup);
  for (const PersistentTrie::Child& c : trie.children(node))
    if (StringProgress::is_plain(c.byte) && bytes.has(c.byte))
      sum += count_in_set(grammar_.step(position, c.byte), trie, c.node);
  return sum;
}

bool FiniteStringSets::character_leads_to(int32_t position, uint32_t code_point, int32_t to) const {
  StringProgress character;
  character.append(code_point);
  for (char c : character.text) {
    position = skip_calls(position);
    const auto byte = static_cast<uint8_t>(c);
    if (position < 0 || !StringProgress::is_plain(byte) || !grammar_.positions[position].bytes.has(byte)) return false;
    position = grammar_.step(position, byte);
  }
  return position == to;
}

// Whether every escape \uXXXX that continues at `escaped` leads to the same position as its character does from
// `position`.
bool FiniteStringSets::unit_escapes_lead_alike(int32_t escaped, int32_t position, int digits, uint32_t unit) const {
  if (digits == StringProgress::kDigits)
    return (unit < 0xD800 || unit > 0xDFFF) && character_leads_to(position, unit, escaped);
  escaped = skip_calls(escaped);
  if (escaped < 0) return false;
  const ByteSet& bytes = grammar_.positions[escaped].bytes;
  int choices = 0;
  for (int b = 0; b < 256; ++b) {
    if (!bytes.has(static_cast<uint8_t>(b))) continue;
    const int value = StringProgress::digit(b);
    if (value < 0 || (++choices > kMaxDigits && digits < 2)) return false;
    const int32_t to = grammar_.step(escaped, static_cast<uint8_t>(b));
    if (!unit_escapes_lead_alike(to, position, digits + 1, unit * 16 + static_cast<uint32_t>(value))) return false;
  }
  return true;
}

// Whether a short escape leads to the same position as the character that it represents.
bool FiniteStringSets::short_escape_leads_alike(uint8_t escape, int32_t position, int32_t to) const {
  const size_t i = StringProgress::kShort.find(static_cast<char>(escape));
  return i != std::string_view::npos &&
         character_leads_to(position, static_cast<uint8_t>(StringProgress::kMeaning[i]), to);
}

bool FiniteStringSets::all_escapes_lead_alike(int32_t position) const {
  const Position& p = grammar_.positions[position];
  if (!p.bytes.has(StringProgress::kEscape)) return true;
  const int32_t escaped = skip_calls(grammar_.step(position, StringProgress::kEscape));
  if (escaped < 0) return false;
  const ByteSet& bytes = grammar_.positions[escaped].bytes;
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!bytes.has(byte)) continue;
    const int32_t to = grammar_.step(escaped, byte);
    if (byte == StringProgress::kUnit ? !unit_escapes_lead_alike(to, position, 0, 0)
                                      : !short_escape_leads_alike(byte, position, to))
      return false;
  }
  return true;
}

std::optional<bool> FiniteStringSets::any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node) {
  const int64_t total = count(position, 0);
  if (total == kUnknownCount) return std::nullopt;
  if (node < 0 || total > trie.count(node)) return true;
  const uint64_t key = pair_key(position, node);  // trie nodes never change
  if (const int32_t* cached = any_new_.find(key)) return *cached != 0;
  const bool is_any_new = total > count_in_set(position, trie, node);
  any_new_.set(key, is_any_new);
  return is_any_new;
}

std::optional<bool> FiniteStringSets::any_new_inside(int32_t position, const PersistentTrie& trie, int32_t node,
                                                     const StringProgress& progress) {
  if (progress.between_characters()) return any_new_inside(position, trie, node);
  position = skip_calls(position);
  if (position < 0) return std::nullopt;
  const ByteSet& bytes = grammar_.positions[position].bytes;
  bool is_any_new = false;
  for (int b = 0; b < 256 && !is_any_new; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    if (!bytes.has(byte)) continue;
    StringProgress next_progress = progress;
    if (!next_progress.read(byte)) return std::nullopt;
    const int32_t next_node = node < 0 ? node : trie.descend(node, next_progress.text);
    next_progress.text.clear();
    const std::optional<bool> answer = any_new_inside(grammar_.step(position, byte), trie, next_node, next_progress);
    if (!answer) return std::nullopt;
    is_any_new = *answer;
  }
  return is_any_new;
}

bool FiniteStringSets::begins_one_of_few(int32_t begin) {
  begin = skip_calls(begin);
  if (begin < 0) return false;
  const ByteSet& bytes = grammar_.positions[begin].bytes;
  return bytes.count() == 1 && bytes.has(StringProgress::kQuote) &&
         count(grammar_.step(begin, StringProgress::kQuote), 0) != kUnknownCount;
}

std::optional<bool> FiniteStringSets::any_new(int32_t begin, const PersistentTrie& trie, int32_t node) {
  if (!begins_one_of_few(begin)) return std::nullopt;
  return any_new_inside(grammar_.step(skip_calls(begin), StringProgress::kQuote), trie, node);
}

}  // namespace guided
