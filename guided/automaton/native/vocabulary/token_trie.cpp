#include "vocabulary/token_trie.hpp"

#include <algorithm>
#include <cstring>

namespace guided {

namespace {

constexpr size_t kPrefetchDistance = 16;  // how many strings ahead of the current one are prefetched

// The state of a UTF-8 decoder: at a character boundary; one to three continuation bytes before the end of a character;
// after a lead byte that restricts the next byte (no overlong forms, surrogates or code points above 0x10FFFF); or
// after bytes that form none of kNonAscii: an invalid byte, or non-ASCII whitespace.
enum Utf8 : uint8_t { Boundary, One, Two, Three, AfterE0, AfterED, AfterF0, AfterF4, NotWhole };

Utf8 read_utf8(Utf8 state, uint8_t b) {
  const auto expect = [b](uint8_t lo, uint8_t hi, Utf8 next) { return b >= lo && b <= hi ? next : NotWhole; };
  switch (state) {
    case Boundary:
      if (b < 0x80) return Boundary;
      if (b >= 0xC2 && b <= 0xDF) return One;
      if (b == 0xE0) return AfterE0;
      if (b == 0xED) return AfterED;
      if (b >= 0xE1 && b <= 0xEF) return Two;
      if (b == 0xF0) return AfterF0;
      if (b == 0xF4) return AfterF4;
      return expect(0xF1, 0xF3, Three);
    case One:
      return expect(0x80, 0xBF, Boundary);
    case Two:
      return expect(0x80, 0xBF, One);
    case Three:
      return expect(0x80, 0xBF, Two);
    case AfterE0:
      return expect(0xA0, 0xBF, One);
    case AfterED:
      return expect(0x80, 0x9F, One);
    case AfterF0:
      return expect(0x90, 0xBF, Two);
    case AfterF4:
      return expect(0x80, 0x8F, Two);
    case NotWhole:
      break;
  }
  return NotWhole;
}

// Whether a non-ASCII character, given in UTF-8, is whitespace or a line terminator in ECMA-262. These characters are
// not in kNonAscii, because `.`, `\s` and `\S` distinguish them from all others.
bool is_white(const uint8_t* character, const uint8_t* end) {
  uint32_t code = 0;
  for (const uint8_t* byte = character; byte < end; ++byte) code = code << 8 | *byte;
  switch (code) {
    case 0xC2A0:
    case 0xE19A80:
    case 0xE280A8:
    case 0xE280A9:
    case 0xE280AF:
    case 0xE2819F:
    case 0xE38080:
    case 0xEFBBBF:
      return true;
    default:
      return code >= 0xE28080 && code <= 0xE2808A;
  }
}

}  // namespace

void TokenTrie::build(std::vector<TrieEntry> entries) {
  // Sort by the first eight bytes as one number, then by the rest.
  struct Keyed {
    uint64_t key;
    TrieEntry entry;
    // The strings are scattered in memory, so the key is used wherever it suffices.
    uint8_t byte(int32_t pos) const { return pos < 8 ? static_cast<uint8_t>(key >> (56 - 8 * pos)) : entry.bytes[pos]; }
  };
  std::vector<Keyed> sorted_entries;
  sorted_entries.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + kPrefetchDistance < entries.size()) __builtin_prefetch(entries[i + kPrefetchDistance].bytes);
    const TrieEntry& e = entries[i];
    uint64_t key = 0;
    for (int pos = 0; pos < 8; ++pos) key = key << 8 | (pos < e.size ? e.bytes[pos] : 0);
    sorted_entries.push_back({key, e});
  }
  std::sort(sorted_entries.begin(), sorted_entries.end(), [](const Keyed& x, const Keyed& y) {
    if (x.key != y.key) return x.key < y.key;
    int32_t n = std::min(x.entry.size, y.entry.size);
    int order = n > 8 ? std::memcmp(x.entry.bytes + 8, y.entry.bytes + 8, static_cast<size_t>(n - 8)) : 0;
    if (order) return order < 0;
    if (x.entry.size != y.entry.size) return x.entry.size < y.entry.size;
    return x.entry.payload < y.entry.payload;
  });

  struct Task {
    int32_t lo, hi, depth;  // entries that share their first `depth` bytes
  };
  std::vector<Task> tasks{{0, static_cast<int32_t>(sorted_entries.size()), 0}};
  std::vector<Utf8> utf8_states{Boundary};
  nodes_.assign(1, Node{});
  payloads_.clear();
  payloads_.reserve(sorted_entries.size());
  lengths_.clear();
  lengths_.reserve(sorted_entries.size());
  for (const Keyed& k : sorted_entries) {
    payloads_.push_back(k.entry.payload);
    int32_t length = 0;
    for (int32_t i = 0; i < k.entry.size; ++i) length += (k.byte(i) & 0xC0) != 0x80;
    lengths_.push_back(static_cast<uint16_t>(std::min(length, 0xFFFF)));
  }
  wide_child_bytes_.clear();
  wide_index_.clear();
  for (size_t node = 0; node < nodes_.size(); ++node) {
    Task task = tasks[node];
    int32_t i = task.lo;
    nodes_[node].payload_lo = i;
    while (i < task.hi && sorted_entries[i].entry.size == task.depth) ++i;
    nodes_[node].payload_hi = i;
    nodes_[node].subtree_hi = task.hi;
    nodes_[node].first_child = static_cast<int32_t>(nodes_.size());
    ByteSet child_bytes;
    while (i < task.hi) {
      uint8_t byte = sorted_entries[i].byte(task.depth);
      int32_t j = i + 1;
      while (j < task.hi && sorted_entries[j].byte(task.depth) == byte) ++j;
      Node child;
      child.byte = byte;
      Utf8 utf8_state = read_utf8(utf8_states[node], byte);
      if (utf8_state == Boundary && byte >= 0x80) {
        const uint8_t *to = sorted_entries[i].entry.bytes + task.depth + 1, *from = to - 1;
        while ((*from & 0xC0) == 0x80) --from;
        if (is_white(from, to)) utf8_state = NotWhole;
      }
      utf8_states.push_back(utf8_state);
      child.is_inside_character = utf8_states.back() != Boundary;
      nodes_.push_back(child);
      tasks.push_back({i, j, task.depth + 1});
      child_bytes.add(byte);
      i = j;
    }
    int32_t count = static_cast<int32_t>(nodes_.size()) - nodes_[node].first_child;
    nodes_[node].children = static_cast<uint16_t>(count);
    if (count > kNarrow) {
      wide_index_.resize(node + 1, -1);
      wide_index_[node] = static_cast<int32_t>(wide_child_bytes_.size());
      wide_child_bytes_.push_back(child_bytes);
    }
  }
  for (size_t node = nodes_.size(); node-- > 0;)
    for (int32_t c = nodes_[node].first_child; c < nodes_[node].first_child + nodes_[node].children; ++c) {
      const Node& child = nodes_[c];
      const bool is_broken =
          utf8_states[c] == NotWhole || (child.is_inside_character && child.payload_hi > child.payload_lo);
      const CharClasses own_class = child.byte < 0x80 ? char_class_of_ascii(child.byte) : kNonAscii;
      nodes_[node].classes_below |= child.classes_below | (is_broken ? kBrokenBytes : own_class);
      const int length = child.max_length_below + ((child.byte & 0xC0) != 0x80);
      nodes_[node].max_length_below =
          static_cast<uint8_t>(std::clamp<int>(length, nodes_[node].max_length_below, 0xFF));
    }
}

void TokenTrie::add_lines() {
  struct Visit {
    int32_t node;
    uint16_t depth;
    CharClasses char_classes;  // of the string
  };
  lines_.clear();
  classes_below_.clear();
  lines_.reserve(nodes_.size() + 1);
  line_of_.resize(nodes_.size());
  string_counts_.fill(0);
  for (size_t i = 0; i < payloads_.size(); ++i) {
    const auto payload = static_cast<size_t>(payloads_[i]);
    if (payload >= payload_index_.size()) payload_index_.resize(payload + 1, -1);
    payload_index_[payload] = static_cast<int32_t>(i);
  }
  std::vector<Visit> stack{{0, 0, 0}};
  while (!stack.empty()) {
    const Visit current = stack.back();
    stack.pop_back();
    const Node& n = nodes_[current.node];
    line_of_[current.node] = static_cast<int32_t>(lines_.size());
    lines_.push_back({0, n.payload_lo, current.depth, n.byte, n.max_length_below});
    classes_below_.push_back(n.classes_below);
    for (CharClasses k = current.char_classes; n.payload_hi > n.payload_lo && k; k &= k - 1)
      string_counts_[static_cast<size_t>(__builtin_ctzll(k))] += n.payload_hi - n.payload_lo;
    for (int32_t c = n.first_child + n.children; c-- > n.first_child;) {
      const CharClasses own_class = nodes_[c].byte < 0x80 ? char_class_of_ascii(nodes_[c].byte) : kNonAscii;
      stack.push_back({c, static_cast<uint16_t>(current.depth + 1), current.char_classes | own_class});
    }
  }
  // The subtree of a line ends at the next line that is not deeper.
  std::vector<int32_t> open_lines;  // by depth: the line whose subtree has not ended
  const auto count = static_cast<int32_t>(lines_.size());
  for (int32_t i = 0; i < count; ++i) {
    while (open_lines.size() > lines_[i].depth) {
      lines_[open_lines.back()].skip = i;
      open_lines.pop_back();
    }
    open_lines.push_back(i);
  }
  for (int32_t i : open_lines) lines_[i].skip = count;
  lines_.push_back({count + 1, static_cast<int32_t>(payloads_.size()), 0, 0, 0});
}

}  // namespace guided
