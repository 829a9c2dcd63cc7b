// Counts the seen values that an entry that is a string may still become.
//
// In: a thread that reads an entry, or is about to. Out: an upper bound, without a search for a way.
//
// How: the seen names and the known names form a trie, which is walked side by side with the automaton. Characters are
// read in their plain spelling. If an escape of a character leads elsewhere, at a call, action or end, or after
// kMaxRead nodes, all strings below the node count.
// Cost: what the automaton and the names have in common, at most kMaxRead nodes.
#include <string_view>

#include "run/arena.hpp"

namespace guided {

namespace {
constexpr int kMaxRead = 2000;
}  // namespace

bool Arena::reads_bytes_alone(int32_t position) const {
  const Position& p = grammar_->positions[position];
  return !p.accept && p.call_lo == p.call_hi && p.effect_lo == p.effect_hi && p.token_lo == p.token_hi;
}

// Whether each escape of an ASCII character leads to `to`, or nowhere.
bool Arena::escapes_lead(int32_t from, uint8_t character, int32_t to) const {
  const int32_t escape = grammar_->step(from, StringProgress::kEscape);
  if (escape < 0) return true;
  auto agrees = [&](std::string_view rest) {
    int32_t at = escape;
    for (size_t i = 0; i < rest.size() && at >= 0; ++i) {
      if (!reads_bytes_alone(at)) return false;
      at = grammar_->step(at, static_cast<uint8_t>(rest[i]));
    }
    return at < 0 || at == to;
  };
  bool agree = true;
  StringProgress::each_escape(character, [&](std::string_view rest) { agree = agree && agrees(rest); });
  return agree;
}

int64_t Arena::seen_ahead(const Thread& t) {
  const int64_t all = uniqueness_.ahead(t.mem);
  const auto string = uniqueness_.string_ahead(t.mem);
  if (all == 0 || !string || string->node < 0 || !string->escape.between_characters()) return all;
  const PersistentTrie& trie = uniqueness_.trie();
  int32_t from = t.pos;
  if (!string->opened) {
    if (!reads_bytes_alone(from) || grammar_->positions[from].bytes.count() != 1) return all;
    from = grammar_->step(from, StringProgress::kQuote);
    if (from < 0) return all;
  }
  struct Place {
    int32_t position, node;
  };
  std::vector<Place> open{{from, string->node}};
  int64_t count = all - trie.count(string->node);
  for (int read = 0; !open.empty(); ++read) {
    CallMeter::work(kLookup);
    const auto [position, node] = open.back();
    open.pop_back();
    if (read >= kMaxRead || !reads_bytes_alone(position)) {
      count += trie.count(node);
      continue;
    }
    const ByteSet& bytes = grammar_->positions[position].bytes;
    count += trie.ends(node) && bytes.has(StringProgress::kQuote);
    for (const PersistentTrie::Child& child : trie.children(node)) {
      CallMeter::work(kLookup);
      const bool plain = StringProgress::is_plain(child.byte);
      const int32_t next = plain ? grammar_->step(position, child.byte) : -1;
      const bool as_it_stands =
          child.byte < 0x80 && plain ? escapes_lead(position, child.byte, next) : !bytes.has(StringProgress::kEscape);
      if (!as_it_stands)
        count += trie.count(child.node);
      else if (next >= 0)
        open.push_back({next, child.node});
    }
  }
  return count;
}

}  // namespace guided
