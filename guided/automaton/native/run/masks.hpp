// Token masks of states.
//
// Problem: a state allows some of 128,000 tokens. To try each is milliseconds, and to store a row for each state is 16
// KB for each, of which a document visits thousands.
//
// How: the mask of a state is the union over its parser threads of the tokens that stay in the thread's frame, which a
// *token table* (token_table.hpp) knows, and of those that leave it, whose *remainders* are walked from the state after
// returning. Tables are keyed by the content of a rule, so all grammars of a vocabulary that contain the same rule
// share one. What is stored with a state is not the row but a *recipe*: pointers to the dense rows of tables, and short
// lists of further ids. Example, after `{"name": "An`:
//
//   dense    the row of "inside of a string": 90,000 ids, shared by all strings of all grammars
//   sparse   ids of tokens such as `",` and `"}` that end the string and go on as this object allows
//
// To fill a row is then a copy, now and then an OR, and a few single bits.
//
// In a uniqueness scope (uniqueness.hpp) a thread has the tokens that it would have if no value had been seen, except
// those that end an entry with a seen value, or lead to where no other end is left (distinct_masks.cpp,
// entry_tokens.hpp).
//
// Cost: a recipe is one look-up per thread and a walk of the remainders, about 1 us, where the tables are known.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/by_state.hpp"
#include "run/entry_tokens.hpp"
#include "run/token_table.hpp"
#include "run/trie_walk.hpp"
#include "vocabulary/free_runs.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

struct MaskRecipe {
  std::vector<const uint32_t*> dense;
  std::vector<int32_t> sparse;                     // in any order
  std::vector<const std::vector<int32_t>*> lists;  // more ids
  std::vector<int32_t> refused;                    // of all these
  std::deque<TokenSet> own;                        // what no table holds
  bool everything = false;                         // nothing is masked
  void write(uint32_t* row, int32_t words) const;
  void add(const TokenSet& set);
};

// How far a frame may have counted, from a thread on, where it ends.
struct Counts {
  int64_t low = 0, high = INT64_MAX;
  bool has(int64_t count) const { return count >= low && count <= high; }
};

class MaskBuilder {
 public:
  MaskBuilder(Arena& arena, const TokenVocabulary& vocabulary)
      : arena_(arena),
        vocabulary_(vocabulary),
        runs_(arena.grammar(), vocabulary.live, vocabulary.trie.with_char_class()) {}
  ~MaskBuilder();
  MaskBuilder(const MaskBuilder&) = delete;
  // With the arena's lock held.
  const MaskRecipe& recipe(int32_t state);
  // Without the lock: null where it was not made yet.
  const MaskRecipe* known_recipe(int32_t state) const { return recipes_.get(state); }
  TokenTable& table(const Thread& thread);
  // All tokens allowed in `state`, by walking the whole trie (the definition; also for states without tables).
  std::vector<int32_t> walk(int32_t state);
  // Calls visit(token, state after it) for every textual token that `state` allows.
  template <class Visit>
  void each_token(int32_t state, Visit&& visit);
  // Of a table, the remainders that a thread's mask hangs on; null where it cannot leave its frame. `table` itself has
  // those of tokens that only leave.
  const TokenTable* needed_remainders(const Thread& thread, const TokenTable& table) const;
  // Calls visit(token, state after it) for the tokens that leave the frame of `thread` before they end. What a thread
  // that remembers was reading is not known at that state; `unsure` receives the tokens for which this matters.
  template <class Visit>
  void each_remainder(const Thread& thread, const TokenTable& table, Visit&& visit,
                      std::vector<int32_t>* unsure = nullptr);
  // Calls visit(remainder, state after it) for them.
  template <class Visit>
  void walk_remainders(const Thread& thread, const TokenTable& table, Visit&& visit);
  // As above for a thread that remembers nothing, or whose seen set is unknown, without the states after: what one
  // frame makes of another's remainders is kept. False where that does not do: what was visited is then to be
  // forgotten. `counts`: of the frame that the tokens left first.
  template <class Visit>
  bool each_kept_remainder(const Thread& thread, const TokenTable& table, Visit&& visit, std::vector<int32_t>* unsure,
                           Counts counts = {});
  // Calls visit(token, state after it or kDead) for the tokens along which a thread that remembers may come to a value
  // that was there, if its table allows them. `memory`: as for is_watched().
  template <class Visit>
  void each_watched(const Thread& thread, int32_t memory, Visit&& visit);
  // The thread as its table was built: under an unknown caller, the count as far as it matters.
  Thread table_thread(const Thread& thread) const;
  std::vector<std::shared_ptr<TokenTable>>& tables() { return kept_; }
  const TokenVocabulary& vocabulary() const { return vocabulary_; }
  Arena& arena() { return arena_; }

  // Whether a state may come to a value that was there, in an entry that is being read or in the next one after `memory`;
  // kOutside: only in one that is being read.
  bool is_watched(int32_t state, int32_t memory);

 private:
  bool is_near_limit(int32_t state) const;
  Counts counts_at_exit(const Thread& thread) const;
  // The state after the frame of a thread, the scopes closed that opened in it. What was being read is not known.
  int32_t state_outside(const Thread& thread);
  // The bytes that may follow the frame of a thread, numbered.
  std::pair<ByteSet, int32_t> follow_of(const Thread& thread);
  const TokenTable& remainder_table(const Thread& thread, const TokenTable& left);
  // Whether each of the tokens can be accepted by the thread, stepped through.
  void verify(const Thread& thread, std::vector<int32_t>& tokens, std::vector<int32_t>& refused);
  // Whether some thread of a state does not hang on values that are not known.
  bool is_sure(int32_t state);
  // What a thread that remembers adds to a recipe.
  struct Share {
    const TokenSet* staying = nullptr;              // of its table
    const std::vector<int32_t>* leaving = nullptr;  // sorted
    std::vector<int32_t> own;                       // where these are its own
    std::vector<int32_t> refused;                   // sorted
    bool allows(int32_t token) const {
      return (staying->has(token) || std::binary_search(leaving->begin(), leaving->end(), token)) &&
             !std::binary_search(refused.begin(), refused.end(), token);
    }
  };
  const Share& share(const Thread& thread, TokenTable& tokens);
  const EntryTokens& entry_tokens(const Thread& thread, TokenTable& tokens);
  // The tokens that what was written forbids.
  void find_refused(const Thread& thread, const EntryTokens& known, std::vector<int32_t>& refused);
  void find_repeated(const Thread& thread, const EntryTokens& known, std::vector<int32_t>& refused);
  void add_shares(const std::vector<const Share*>& shares, MaskRecipe& out) const;
  // The tokens that leave the frame, if its seen set were unknown, and those that touch two entries.
  void remainders_of_unknown(Thread thread, const TokenTable& table, std::vector<int32_t>& leaving,
                             std::vector<int32_t>& unsure);
  // Where all entries are strings that can always end in a new way. False where it is not known what was read.
  bool find_strings(const Thread& thread, TokenTable& tokens, Share& share);
  // The tokens of a relative table that a thread's bounds allow.
  const TokenSet& within_bounds(const TokenTable& table, const Thread& thread);

  ByState<const MaskRecipe*> recipes_{nullptr};
  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  FreeRuns runs_;
  std::vector<PairMap> local_;  // by the bytes that follow: position and register -> place in kept_
  std::map<std::vector<uint64_t>, int32_t> follows_;
  std::map<std::tuple<const TokenTable*, int32_t, int32_t, int32_t>, std::shared_ptr<TokenTable>> remainder_tables_;
  std::map<std::pair<int32_t, int32_t>, OtherTable> latest_;  // by rule and bytes that follow
  std::map<std::tuple<const TokenTable*, int64_t, int64_t>, std::unique_ptr<TokenSet>> within_bounds_;
  std::vector<std::shared_ptr<TokenTable>> kept_;
  ThreadMap<Share> shares_;
  ThreadMap<EntryTokens> entry_tokens_;  // by threads whose uniqueness take notes
  KnownAlike alike_;
};

template <class Visit>
void MaskBuilder::each_token(int32_t state, Visit&& visit) {
  walk_trie(arena_, vocabulary_.trie, state, [&](const TokenTrie::Node& node, int32_t after) {
    if (!at_boundary(arena_, after)) return;
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) visit(vocabulary_.trie.payloads()[i], after);
  });
}

template <class Visit>
void MaskBuilder::walk_remainders(const Thread& thread, const TokenTable& table, Visit&& visit) {
  if (table.remainders.nodes().size() <= 1) return;
  const Counts counts = table.relative ? counts_at_exit(thread) : Counts{};
  const int32_t outside = state_outside(thread);
  walk_trie(arena_, table.remainders, outside, [&](const TokenTrie::Node& node, int32_t after) {
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i)
      if (const Remainder& r = table.entries[table.remainders.payloads()[i]]; counts.has(r.count)) visit(r, after);
  });
}

template <class Visit>
void MaskBuilder::each_remainder(const Thread& thread, const TokenTable& table, Visit&& visit,
                                 std::vector<int32_t>* unsure) {
  int32_t looked_at = kUnknown;
  bool sure = false;
  walk_remainders(thread, table, [&](const Remainder& r, int32_t after) {
    if (after != looked_at) sure = thread.mem == kOutside || is_sure(after);
    looked_at = after;
    visit(r.token, after);
    if (unsure && (!sure || r.touched > 0)) unsure->push_back(r.token);
  });
}

template <class Visit>
bool MaskBuilder::each_kept_remainder(const Thread& thread, const TokenTable& table, Visit&& visit,
                                      std::vector<int32_t>* unsure, Counts counts) {
  if (table.remainders.nodes().size() <= 1) return true;
  if (table.relative) counts = counts_at_exit(thread);
  const int32_t outside = state_outside(thread);
  const std::vector<Thread> callers(arena_.config(outside).begin(), arena_.config(outside).end());
  for (const Thread& t : callers)
    if (t.pos != kExit && remainder_table(t, table).relative) return false;
  for (const Thread& t : callers) {
    if (t.pos == kExit) continue;
    const TokenTable& here = remainder_table(t, table);
    auto each = [&](const std::vector<int32_t>& numbers, auto&& use) {
      for (int32_t i : numbers)
        if (const Remainder& r = table.entries[static_cast<size_t>(i)]; counts.has(r.count)) use(r);
    };
    each(here.all.sparse, [&](const Remainder& r) {
      visit(r.token);
      if (unsure && r.touched > 0) unsure->push_back(r.token);
    });
    if (unsure) each(here.unsure, [&](const Remainder& r) { unsure->push_back(r.token); });
    if (!each_kept_remainder(t, here, visit, unsure, counts)) return false;
  }
  return true;
}

template <class Visit>
void MaskBuilder::each_watched(const Thread& thread, int32_t memory, Visit&& visit) {
  Uniqueness& uniqueness = arena_.uniqueness();
  if (!uniqueness.alive(thread.mem) && uniqueness.between(thread.mem) < 0) return;
  struct Item {
    int32_t node, plain, real;
  };
  Thread forgetful = thread;
  forgetful.mem = kOutside;
  std::vector<Item> queue{{0, arena_.lone(forgetful), arena_.lone(thread)}};
  for (size_t head = 0; head < queue.size(); ++head) {
    CallMeter::work(kLookup);
    const Item at = queue[head];
    const TokenTrie::Node& node = vocabulary_.trie.nodes()[at.node];
    if (head > 0 && at_boundary(arena_, at.plain))
      for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) visit(vocabulary_.trie.payloads()[i], at.real);
    if (node.children == 0 || (at.real != kDead && !is_watched(at.real, memory))) continue;
    vocabulary_.trie.children(at.node, arena_.config(at.plain).bytes, [&](int32_t child) {
      const uint8_t byte = vocabulary_.trie.nodes()[child].byte;
      const int32_t plain = arena_.step(at.plain, byte);
      if (plain != kDead) queue.push_back({child, plain, at.real == kDead ? kDead : arena_.step(at.real, byte)});
    });
  }
}

}  // namespace guided
