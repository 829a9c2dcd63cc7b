// Walks a trie of tokens along the automaton, state by state.
//
// The result is exact for a state whose callers are known. Remainders are also walked in this way. Tables
// (table_walk.hpp) are built by a faster walk, which searches for loops and needs no state for most bytes.
// In: the arena, a trie (token_trie.hpp) and a state. Out: visit(...) is called for each node that the automaton
// reaches and at which tokens end.
// Cost: O(nodes reached); bytes that the state cannot read are not examined.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "run/arena.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

constexpr int64_t kNodeWork = 2;  // for each node that is reached

// Walks breadth-first, in the order of node numbers, so memory is read in order. Most adjacent nodes are reached in the
// same state, whose row is looked up once. `state` is the state at `node`. enter(node, state) is called for every node
// that is reached; it returns whether to walk the node's children.
template <class Enter>
void walk_trie_from(Arena& arena, const TokenTrie& trie, int32_t node, int32_t state, Enter&& enter) {
  struct Item {
    int32_t node, state;
  };
  thread_local std::vector<Item> spare_queue;  // walks may nest; an inner walk finds `spare_queue` empty
  std::vector<Item> queue = std::move(spare_queue);
  queue.assign(1, {node, state});
  int32_t row_state = -1;
  const std::atomic<int32_t>* row = nullptr;
  const Config* config = nullptr;
  for (size_t head = 0; head < queue.size(); ++head) {
    CallMeter::work(kNodeWork);
    const Item item = queue[head];
    const TokenTrie::Node& current = trie.nodes()[item.node];
    if (!enter(current, item.state) || current.children == 0) continue;
    if (item.state != row_state || !row) {
      row_state = item.state;
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
  if (queue.capacity() <= (1u << 20)) spare_queue = std::move(queue);
}

// Walks the whole trie. visit(node, state) is called for every node that is reached and at which tokens end.
template <class Visit>
void walk_trie(Arena& arena, const TokenTrie& trie, int32_t state, Visit&& visit) {
  walk_trie_from(arena, trie, 0, state, [&](const TokenTrie::Node& node, int32_t node_state) {
    if (node.payload_hi > node.payload_lo) visit(node, node_state);
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
