// Counts the seen values that an entry may still become if it is a string.
//
// In: a thread that reads an entry or is about to. Out: an upper bound, found without a search for ways.
//
// How: the seen strings and the known names form a trie, which is walked side by side with the automaton. Characters
// are read in their plain spelling. In these cases, all strings below a trie node are counted without a walk: an escape
// of a character may lead to another position than the character; the position has a call, an action, a control token
// or an end; kMaxNodes nodes have been walked.
// Cost: what the automaton and the names have in common, at most kMaxNodes nodes.
#include <string_view>

#include "run/arena.hpp"

namespace guided {

namespace {
constexpr int kMaxNodes = 2000;
}  // namespace

bool Arena::has_only_byte_edges(int32_t position) const {
  const Position& p = grammar_->positions[position];
  return !p.accept && p.call_lo == p.call_hi && p.effect_lo == p.effect_hi && p.token_lo == p.token_hi;
}

// Whether each escape of an ASCII character leads to `to` or nowhere.
bool Arena::escapes_lead_to(int32_t from, uint8_t character, int32_t to) const {
  const int32_t escape_start = grammar_->step(from, StringProgress::kEscape);
  if (escape_start < 0) return true;
  auto leads_to_target = [&](std::string_view escape_bytes) {
    int32_t pos = escape_start;
    for (size_t i = 0; i < escape_bytes.size() && pos >= 0; ++i) {
      if (!has_only_byte_edges(pos)) return false;
      pos = grammar_->step(pos, static_cast<uint8_t>(escape_bytes[i]));
    }
    return pos < 0 || pos == to;
  };
  bool all_lead_to_target = true;
  StringProgress::each_escape(character, [&](std::string_view escape_bytes) {
    all_lead_to_target = all_lead_to_target && leads_to_target(escape_bytes);
  });
  return all_lead_to_target;
}

int64_t Arena::count_seen_ahead(const Thread& t) {
  const int64_t total = uniqueness_.max_seen_ahead(t.mem);
  const auto ahead = uniqueness_.string_ahead(t.mem);
  if (total == 0 || !ahead || ahead->node < 0 || !ahead->escape.between_characters()) return total;
  const PersistentTrie& trie = uniqueness_.trie();
  int32_t from = t.pos;
  if (!ahead->is_opened) {
    if (!has_only_byte_edges(from) || grammar_->positions[from].bytes.count() != 1) return total;
    from = grammar_->step(from, StringProgress::kQuote);
    if (from < 0) return total;
  }
  struct TriePosition {
    int32_t position, node;
  };
  std::vector<TriePosition> stack{{from, ahead->node}};
  int64_t count = total - trie.count(ahead->node);
  for (int nodes_read = 0; !stack.empty(); ++nodes_read) {
    CallMeter::work(kLookup);
    const auto [position, node] = stack.back();
    stack.pop_back();
    if (nodes_read >= kMaxNodes || !has_only_byte_edges(position)) {
      count += trie.count(node);
      continue;
    }
    const ByteSet& bytes = grammar_->positions[position].bytes;
    count += trie.is_end(node) && bytes.has(StringProgress::kQuote);
    for (const PersistentTrie::Child& child : trie.children(node)) {
      CallMeter::work(kLookup);
      const bool is_plain = StringProgress::is_plain(child.byte);
      const int32_t next = is_plain ? grammar_->step(position, child.byte) : -1;
      const bool has_one_target = child.byte < 0x80 && is_plain ? escapes_lead_to(position, child.byte, next)
                                                                : !bytes.has(StringProgress::kEscape);
      if (!has_one_target)
        count += trie.count(child.node);
      else if (next >= 0)
        stack.push_back({next, child.node});
    }
  }
  return count;
}

}  // namespace guided
