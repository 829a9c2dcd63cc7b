// Token masks of states.
//
// Token tables (token_table.hpp) are keyed by the rule's content, so every grammar of a vocabulary that contains a JSON
// string shares one.
//
// The mask of a state is the union over its threads of the table's tokens and of a walk of its remainders from the
// state after returning. What is kept per state is not the mask but a *recipe*: pointers to the tables' dense bitmasks
// and a short list of further ids; filling a row is a copy, now and then an OR, and a few single bits.
//
// Cost: a recipe is one look-up per thread and a walk of the remainders, about 1 us, where the tables are known.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "token_table.hpp"

namespace guided {

struct MaskRecipe {
  std::vector<const uint32_t*> dense;
  std::vector<int32_t> sparse;
  TokenSet own;         // where too many single ids came together
  bool everything = false;  // nothing is masked
  void write(uint32_t* row, int32_t words) const;
};

class MaskBuilder {
 public:
  MaskBuilder(Arena& arena, const TokenVocabulary& vocabulary) : arena_(arena), vocabulary_(vocabulary) {}
  // With the arena's lock held.
  const MaskRecipe& recipe(int32_t state);
  TokenTable& table(const Thread& thread);
  // All tokens allowed in `state`, by walking the whole trie (the definition; also for states without tables).
  std::vector<int32_t> walk(int32_t state);
  // Calls visit(token, state after it) for every textual token that `state` allows.
  template <class Visit>
  void each_token(int32_t state, Visit&& visit);
  // Calls visit(token, state after it) for the tokens that leave the frame of `thread` before they end.
  template <class Visit>
  void each_remainder(const Thread& thread, TokenTable& table, Visit&& visit);
  // The thread as its table was built: under an unknown caller, the count as far as it matters.
  Thread table_thread(const Thread& thread) const;
  std::vector<std::shared_ptr<TokenTable>>& tables() { return kept_; }
  const TokenVocabulary& vocabulary() const { return vocabulary_; }
  Arena& arena() { return arena_; }

 private:
  // The tokens of a relative table that a thread's bounds allow.
  const TokenSet& within_bounds(const TokenTable& table, const Thread& thread);

  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  std::unordered_map<std::vector<int32_t>, TokenTable*, IntsHash> local_;
  std::map<std::vector<uint64_t>, int32_t> follows_;
  std::map<std::tuple<const TokenTable*, int64_t, int64_t>, std::unique_ptr<TokenSet>> within_bounds_;
  std::vector<std::shared_ptr<TokenTable>> kept_;
};

template <class Visit>
void MaskBuilder::each_token(int32_t state, Visit&& visit) {
  walk_trie(arena_, vocabulary_.trie, state, [&](const TokenTrie::Node& node, int32_t after) {
    if (!at_boundary(arena_, after)) return;
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) visit(vocabulary_.trie.payloads()[i], after);
  });
}

template <class Visit>
void MaskBuilder::each_remainder(const Thread& thread, TokenTable& table, Visit&& visit) {
  if (table.remainders.nodes().size() <= 1) return;
  int64_t low = 0, high = INT64_MAX;
  if (table.relative) {
    const Rule& rule = arena_.grammar().rules[arena_.grammar().positions[thread.pos].rule];
    low = rule.min - thread.reg;
    if (rule.max >= 0) high = rule.max - thread.reg;
  }
  int32_t outside = arena_.return_to(thread.ret);
  walk_trie(arena_, table.remainders, outside, [&](const TokenTrie::Node& node, int32_t after) {
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) {
      const Remainder& r = table.entries[table.remainders.payloads()[i]];
      if (r.count >= low && r.count <= high) visit(r.token, after);
    }
  });
}

}  // namespace guided
