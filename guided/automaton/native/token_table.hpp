// Token tables: which tokens a frame allows, found by one walk of the vocabulary's trie.
//
// A table answers, for one thread (position, register) under an unknown caller, which tokens stay inside its frame, and
// for those that leave it what remains of them after the exit, as a small trie. It depends on the caller only by the set
// of bytes that may follow (remainders that start with another byte are not kept).
//
// Counters: in a rule whose guards look at nothing but the count, a table is built once with the bounds off, each token
// labelled with how far it counts; a lookup asks only for the labels that fit (Label). Tokens that leave and remain are
// labelled the same way.
//
// Cost: a subtree of the trie whose bytes all lead back to the state is taken whole, or, under a counter, by the tokens'
// lengths; 1-2 ms for a JSON string over 128,000 tokens, 10-50 us for usual positions.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "arena.hpp"
#include "vocabulary.hpp"

namespace guided {

// Some token ids, as a bitmask where there are many.
struct TokenSet {
  std::vector<uint32_t> dense;   // words of a mask row, or empty
  std::vector<int32_t> sparse;   // sorted ids, where not dense
  bool has(int32_t id) const {
    if (dense.empty()) return std::binary_search(sparse.begin(), sparse.end(), id);
    return dense[static_cast<size_t>(id) >> 5] >> (id & 31) & 1;
  }
  template <class Visit>
  void each(Visit&& visit) const {
    for (size_t w = 0; w < dense.size(); ++w)
      for (uint32_t x = dense[w]; x; x &= x - 1) visit(static_cast<int32_t>(w * 32) + __builtin_ctz(x));
    for (int32_t id : sparse) visit(id);
  }
  void add_to(uint32_t* row) const {
    for (size_t w = 0; w < dense.size(); ++w) row[w] |= dense[w];
    for (int32_t id : sparse) row[id >> 5] |= 1u << (id & 31);
  }
  size_t bytes() const { return sizeof(TokenSet) + dense.size() * 4 + sparse.size() * 4; }
};
TokenSet make_token_set(std::vector<int32_t> ids, int32_t words);
TokenSet make_token_set(std::vector<uint32_t> bits);  // from a mask row
inline void set_bit(uint32_t* row, int32_t id) { row[id >> 5] |= 1u << (id & 31); }

// Tokens that lead to the same state; one of them stands for all.
struct TokenGroup {
  int32_t one;
  TokenSet tokens;
};
using TokenGroups = std::vector<TokenGroup>;

// What a token does to a counter's frame that it enters at count c: it may stay inside with the count at c + stay
// (-1: it never stays), or end exactly at the frame's end with the count at c + leave, for each `leave`.
struct Label {
  int32_t stay = -1;
  std::vector<int32_t> leave;
  bool operator<(const Label& o) const { return stay != o.stay ? stay < o.stay : leave < o.leave; }
};

struct Remainder {  // payload of the remainder trie
  int32_t token;
  int32_t count;  // how far the frame had counted at the exit (relative tables; else 0)
  int32_t touched;  // of entries of an untold scope (memory.hpp) before the exit
  int32_t depth;    // bytes of the token before the exit
};

struct TokenTable {
  bool relative = false;
  bool overflow = false;  // too many remainders: walk the vocabulary instead
  TokenSet all;           // plain: the tokens; relative: those that stay, with no bound near
  std::vector<std::pair<Label, TokenSet>> labels;  // relative tables
  int32_t furthest = 0;   // largest count in any label or remainder
  bool touches_entries = false;    // some token begins or ends an entry of an untold scope (memory.hpp) in the frame
  std::vector<int32_t> unsure;     // tokens that touch two
  TokenTrie remainders;
  std::vector<Remainder> entries;
  // The tokens that stay, by the state that they lead to (see budgets.hpp). Grammars share tables: set once, under the lock.
  std::shared_ptr<const TokenGroups> groups;
  std::mutex groups_lock;
  size_t bytes() const;
  // Whether a table that is nearly the same can be made of it.
  bool is_plain() const { return !relative && !overflow && !touches_entries && unsure.empty() && !all.dense.empty(); }
  // Of a relative table, the tokens allowed with `room` counts left before the upper bound and `missing` to the lower.
  TokenSet allowed(int64_t room, int64_t missing, int32_t words) const;
};

// `thread`: with an unknown caller; `follow`: the bytes that may come after its frame. With the arena's lock held.
// `other`, if not null: the table of a position of the same rule, with the same register, memory and bytes that follow.
// Where characters lead to the same place from both, the tokens below are the same, and only the others are walked.
struct OtherTable {
  int32_t pos;
  const TokenTable* table;
};
std::shared_ptr<TokenTable> build_token_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                              const ByteSet& follow, const OtherTable* other = nullptr);
// The same for the remainders of another frame's tokens, which go on in this one. In place of tokens the table has numbers
// of `left.entries`; its own entries are tokens again.
std::shared_ptr<TokenTable> build_remainder_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                                  const ByteSet& follow, const TokenTable& left);

// ---- walking

// A breadth-first walk of the trie along the automaton. Nodes are numbered breadth first, so memory is read in order;
// most neighbours are met in one state, whose row is looked up once. visit(node number, state, depth) is called for
// every node that is reached, and says whether to go on below it.
template <class Visit>
void walk_nodes(Arena& arena, const TokenTrie& trie, int32_t state, Visit&& visit) {
  struct Item {
    int32_t node, state;
  };
  thread_local std::vector<Item> spare;  // walks may nest; the inner one finds no spare
  std::vector<Item> queue = std::move(spare);
  queue.assign(1, {0, state});
  size_t level_end = 1;
  int32_t depth = 0, row_of = -1;
  const std::atomic<int32_t>* row = nullptr;
  const Config* config = nullptr;
  for (size_t head = 0; head < queue.size(); ++head) {
    if (head == level_end) {
      ++depth;
      level_end = queue.size();
    }
    const Item item = queue[head];
    if (!visit(item.node, item.state, depth) || trie.nodes()[item.node].children == 0) continue;
    if (item.state != row_of || !row) {
      row_of = item.state;
      config = &arena.config(item.state);
      row = config->row.load(std::memory_order_relaxed);
    }
    trie.children(item.node, config->bytes, [&](int32_t c) {
      uint8_t byte = trie.nodes()[c].byte;
      int32_t next = row ? row[byte].load(std::memory_order_relaxed) - 2 : kUnknown;
      if (next == kUnknown) {
        next = arena.step(item.state, byte);
        row = config->row.load(std::memory_order_relaxed);
      }
      if (next != kDead) queue.push_back({c, next});
    });
  }
  if (queue.capacity() <= (1u << 20)) spare = std::move(queue);
}

template <class Visit>
void walk_trie(Arena& arena, const TokenTrie& trie, int32_t state, Visit&& visit) {
  walk_nodes(arena, trie, state, [&](int32_t n, int32_t after, int32_t) {
    const TokenTrie::Node& node = trie.nodes()[n];
    if (node.payload_hi > node.payload_lo) visit(node, after);
    return true;
  });
}

// Whether a whole token may end in this state (see Position::boundary).
inline bool at_boundary(const Arena& arena, int32_t state) {
  const Grammar& g = arena.grammar();
  if (!g.single) return true;
  for (const Thread& t : arena.config(state))
    if (t.pos == kExit || g.positions[t.pos].boundary) return true;
  return false;
}

}  // namespace guided
