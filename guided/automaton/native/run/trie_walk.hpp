// Walks a trie of tokens along the automaton, state by state.
//
// The result is exact for one state whose callers are known. Remainders are walked in this way, too. Tables
// (table_walk.hpp) come from a faster walk, which looks for loops and needs no state for most bytes.
// In: the arena, a trie (token_trie.hpp) and a state. Out: visit(...) is called for each node that the automaton
// reaches and where tokens end.
// Cost: O(nodes reached); bytes that the state cannot read are not examined.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "run/arena.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

constexpr int64_t kNodeWork = 2;  // per node that is reached

// Breadth first, in the order of node numbers, so memory is read in order. Most adjacent nodes are reached in the same
// state, whose row is looked up once. `state` is the state at `node`. enter(node, state) is called for every node that
// is reached; it returns whether to walk the node's children.
template <class Enter>
void walk_trie_from(Arena& arena, const TokenTrie& trie, int32_t node, int32_t state, Enter&& enter) {
  struct Item {
    int32_t node, state;
  };
  thread_local std::vector<Item> spare;  // walks may nest; an inner walk finds `spare` empty
  std::vector<Item> queue = std::move(spare);
  queue.assign(1, {node, state});
  int32_t row_of = -1;
  const std::atomic<int32_t>* row = nullptr;
  const Config* config = nullptr;
  for (size_t head = 0; head < queue.size(); ++head) {
    CallMeter::work(kNodeWork);
    const Item item = queue[head];
    const TokenTrie::Node& at = trie.nodes()[item.node];
    if (!enter(at, item.state) || at.children == 0) continue;
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

// Walks the whole trie: visit(node, state) is called for every node that is reached and where tokens end.
template <class Visit>
void walk_trie(Arena& arena, const TokenTrie& trie, int32_t state, Visit&& visit) {
  walk_trie_from(arena, trie, 0, state, [&](const TokenTrie::Node& node, int32_t at) {
    if (node.payload_hi > node.payload_lo) visit(node, at);
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
