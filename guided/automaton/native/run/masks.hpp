// Computes the token masks of states.
//
// Problem: a state allows some of 128,000 tokens. Trying each token takes milliseconds. Storing a row takes 16 KB per
// state, and a document visits thousands of states.
//
// How: the mask of a state is a union over its parser threads. For each thread, a *token table* (token_table.hpp)
// contains the tokens that stay in the thread's frame. For tokens that leave the frame, the table contains
// *remainders*, which are walked from the state after the frame returns. The key of a table contains the content of a
// rule, but not the grammar, so all grammars with the same rule share the table. A state does not store its row but a
// *recipe*: pointers to dense rows of tables, and short lists of further ids. Example, after `{"name": "An`:
//
//   dense    the row of "inside of a string": 90,000 ids, shared by all strings of all grammars
//   sparse   ids of tokens such as `",` and `"}` that end the string and continue as this object allows
//
// Filling a row then takes a copy, sometimes an OR, and setting a few bits.
//
// In a uniqueness scope (uniqueness.hpp), the mask contains the tokens that would be allowed if no value had been seen,
// except tokens that end an entry with a seen value, and tokens after which no unseen value is left
// (distinct_masks.cpp, entry_tokens.hpp).
//
// Cost: once the tables exist, a recipe takes one look-up per thread and a walk of the remainders, about 1 us.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
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
  std::vector<int32_t> refused;                    // ids that the fields above contain, but that are not allowed
  std::deque<TokenSet> own;                        // sets that no table contains
  bool everything = false;                         // whether every token is allowed
  void write(uint32_t* row, int32_t words) const;
  bool allows_all(int32_t size) const;  // whether all ids below `size` are allowed
  void add(const TokenSet& set);
};

// How far a frame may count between a thread's position and the frame's end.
struct Counts {
  int64_t low = 0, high = INT64_MAX;
  bool has(int64_t count) const { return count >= low && count <= high; }
};

class MaskBuilder {
 public:
  MaskBuilder(Arena& arena, const TokenVocabulary& vocabulary)
      : arena_(arena),
        vocabulary_(vocabulary),
        runs_(arena.grammar(), vocabulary.live, vocabulary.trie.string_counts()) {}
  ~MaskBuilder();
  MaskBuilder(const MaskBuilder&) = delete;
  // With the arena's lock held.
  const MaskRecipe& recipe(int32_t state);
  // Without the lock: null if the recipe has not been computed.
  const MaskRecipe* known_recipe(int32_t state) const { return recipes_.get(state); }
  TokenTable& table(const Thread& thread);
  // Finds all tokens that `state` allows by walking the whole trie. This defines the mask; it is also used for states
  // without tables.
  std::vector<int32_t> walk_all(int32_t state);
  // Calls visit(token, state after it) for every token with text that `state` allows.
  template <class Visit>
  void each_token(int32_t state, Visit&& visit);
  // Calls use(table) for each table whose remainders affect a thread's mask. `table` itself lacks the remainders of
  // tokens that can also stay.
  template <class Use>
  void each_needed_table(const Thread& thread, const TokenTable& table, Use&& use) const;
  // Calls visit(token, state after it) for the tokens that leave the frame of `thread` before they end. In that state,
  // the text of the thread's current entries is unknown. The tokens for which this matters are appended to `unsure`.
  template <class Visit>
  void each_remainder(const Thread& thread, const TokenTable& table, Visit&& visit,
                      std::vector<int32_t>* unsure = nullptr);
  // As each_remainder(), but calls visit(remainder, state after it).
  template <class Visit>
  void walk_remainders(const Thread& thread, const TokenTable& table, Visit&& visit);
  // As each_remainder(), but calls visit(token), for a thread without a seen set or with an unknown one. It uses cached
  // tables, which say how one frame continues the remainders of another. Returns false if they do not suffice; the
  // visited tokens must then be discarded.
  template <class Visit>
  bool each_cached_remainder(const Thread& thread, const TokenTable& table, Visit&& visit,
                             std::vector<int32_t>* unsure) {
    LeftFrames frames;
    return each_cached_remainder(thread, table, visit, unsure, {}, frames);
  }
  // Calls visit(token, state after it or kDead) for the tokens along which a thread may reach a seen value and that it
  // could read without its seen set. `memory`: as for is_watched().
  template <class Visit>
  void each_watched(const Thread& thread, int32_t memory, Visit&& visit);
  // The thread for which the table is built. Its caller is unknown, and its count is reduced to what matters.
  Thread table_thread(const Thread& thread) const;
  std::vector<std::shared_ptr<TokenTable>>& tables() { return tables_; }
  const TokenVocabulary& vocabulary() const { return vocabulary_; }
  Arena& arena() { return arena_; }

  // Whether a state may reach a seen value, either in a current entry or in the next entry after `memory`. With
  // kOutside, only current entries are considered.
  bool is_watched(int32_t state, int32_t memory);
  // Whether a state or a later one is watched. Unlike is_watched(), also true within scopes that were opened meanwhile.
  bool may_become_watched(int32_t state, int32_t memory);

 private:
  // The frames that a search for remainders has left, each with the remainders. Frames may be left in many ways, but
  // few of these ways differ in what follows.
  // Elements: (state outside of the frame, table with the remainders).
  using LeftFrames = std::set<std::pair<int32_t, const TokenTable*>>;
  static constexpr size_t kMaxFrames = 1 << 12;
  // `counts`: the allowed counts of the frame that the tokens have left first.
  template <class Visit>
  bool each_cached_remainder(const Thread& thread, const TokenTable& table, Visit&& visit, std::vector<int32_t>* unsure,
                             Counts counts, LeftFrames& frames);
  // The first table that has the same remainders.
  const TokenTable& first_equal_table(const TokenTable& table);
  // How far the frame of a thread may still count, if a token of the table may count further; otherwise nullopt.
  std::optional<int64_t> counts_to_upper_bound(const Thread& thread, const TokenTable& table) const;
  bool may_leave(const Thread& thread, const TokenTable& table) const;
  // Adds the tokens that leave the frame of a thread without a seen set. `staying`: the tokens that stay.
  void add_leaving(const Thread& thread, const TokenTable& table, const TokenSet& staying, MaskRecipe& out);
  void add_by_walk(const Thread& thread, const TokenSet& staying, MaskRecipe& out);
  // The tokens that a top of a stack allows, without those that leave it. `leaving`: disjoint ranges of the trie's
  // payloads, in ascending order.
  struct TopWalk {
    struct Range {
      int32_t from, to;
    };
    TokenSet staying;
    std::vector<Range> leaving;
  };
  void add_walked(int32_t state, MaskRecipe& out);
  const TopWalk& walk_of_top(int32_t top);
  bool is_near_limit(int32_t state) const;
  Counts counts_at_exit(const Thread& thread) const;
  // The state after the frame of a thread has returned and the scopes that the frame opened are closed. The text of the
  // current entries is unknown there.
  int32_t state_outside(const Thread& thread);
  // The set of bytes that may follow the frame of a thread, and the number of this set.
  std::pair<ByteSet, int32_t> following_bytes(const Thread& thread);
  const TokenTable& remainder_table(const Thread& thread, const TokenTable& first_table);
  // Steps through each of the tokens, and appends the tokens that the thread cannot accept to `refused`.
  void check_tokens(const Thread& thread, std::vector<int32_t>& tokens, std::vector<int32_t>& refused);
  // Whether some thread of a state does not depend on unknown values.
  bool is_sure(int32_t state);
  // The part of a recipe that a thread with a seen set contributes.
  struct Share {
    const TokenSet* staying = nullptr;              // of its table
    const std::vector<int32_t>* leaving = nullptr;  // sorted
    std::vector<int32_t> own;                       // storage for `leaving` if no table contains the list
    std::vector<int32_t> refused;                   // sorted
    bool allows(int32_t token) const {
      return (staying->has(token) || std::binary_search(leaving->begin(), leaving->end(), token)) &&
             !std::binary_search(refused.begin(), refused.end(), token);
    }
  };
  const Share& share_of(const Thread& thread, TokenTable& token_table);
  const EntryTokens& entry_tokens(const Thread& thread, TokenTable& token_table);
  // Appends the tokens that the seen values forbid.
  void find_refused(const Thread& thread, const EntryTokens& entry_tokens, std::vector<int32_t>& refused);
  void find_repeated(const Thread& thread, const EntryTokens& entry_tokens, std::vector<int32_t>& refused);
  void add_shares(const std::vector<const Share*>& shares, MaskRecipe& out) const;
  // Appends the tokens with which the thread leaves its frame, assuming that its seen set is unknown, to `leaving`.
  // Those of them that touch two entries are also appended to `unsure`.
  void find_leaving_if_unknown(Thread thread, const TokenTable& table, std::vector<int32_t>& leaving,
                               std::vector<int32_t>& unsure);
  // Computes a share if all entries are unbounded strings. Returns false if the thread is inside a nested value, or if
  // the text of its current entry is unknown.
  bool compute_string_share(const Thread& thread, TokenTable& token_table, Share& share);
  // The tokens of a relative table that a thread's bounds allow.
  const TokenSet& within_bounds(const TokenTable& table, const Thread& thread);

  ByState<const MaskRecipe*> recipes_{nullptr};
  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  FreeRuns runs_;
  std::vector<PairMap> table_indices_;  // by number of the following bytes: (position, register) -> index in tables_
  std::map<std::vector<uint64_t>, int32_t> follow_numbers_;
  std::map<std::tuple<const TokenTable*, int32_t, int32_t, int32_t>, std::shared_ptr<TokenTable>> remainder_tables_;
  // By a hash of the entries; of equal tables, only the first.
  std::multimap<uint64_t, const TokenTable*> tables_by_content_;
  std::unordered_map<const TokenTable*, const TokenTable*> first_equal_tables_;
  std::unordered_map<int32_t, std::unique_ptr<TopWalk>> top_walks_;    // by top
  std::map<std::pair<int32_t, int32_t>, SiblingTable> latest_tables_;  // by rule and following bytes
  std::map<std::tuple<const TokenTable*, int64_t, int64_t>, std::unique_ptr<TokenSet>> within_bounds_;
  std::vector<std::shared_ptr<TokenTable>> tables_;
  ThreadMap<Share> shares_;
  // By table, since it contains only tokens that some caller can read on; then by threads with a memory of with_noting().
  std::unordered_map<const TokenTable*, ThreadMap<EntryTokens>> entry_tokens_;
  AlikeTokensMap alike_tokens_;
};

template <class Visit>
void MaskBuilder::each_token(int32_t state, Visit&& visit) {
  walk_trie(arena_, vocabulary_.trie, state, [&](const TokenTrie::Node& node, int32_t next_state) {
    if (!at_boundary(arena_, next_state)) return;
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) visit(vocabulary_.trie.payloads()[i], next_state);
  });
}

template <class Use>
void MaskBuilder::each_needed_table(const Thread& thread, const TokenTable& table, Use&& use) const {
  if (!may_leave(thread, table)) return;
  use(table);
  if (counts_to_upper_bound(thread, table) && !table.staying_entries.empty())
    use(table.remainders_of_staying(table.staying_entries.size(), vocabulary_.tokens));
}

template <class Visit>
void MaskBuilder::walk_remainders(const Thread& thread, const TokenTable& table, Visit&& visit) {
  if (table.remainders.nodes().size() <= 1) return;
  const Counts counts = table.is_relative ? counts_at_exit(thread) : Counts{};
  const int32_t outside = state_outside(thread);
  walk_trie(arena_, table.remainders, outside, [&](const TokenTrie::Node& node, int32_t state) {
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i)
      if (const Remainder& r = table.entries[table.remainders.payloads()[i]]; counts.has(r.count)) visit(r, state);
  });
}

template <class Visit>
void MaskBuilder::each_remainder(const Thread& thread, const TokenTable& table, Visit&& visit,
                                 std::vector<int32_t>* unsure) {
  int32_t examined_state = kUnknown;
  bool is_sure_state = false;
  walk_remainders(thread, table, [&](const Remainder& r, int32_t state) {
    if (state != examined_state) is_sure_state = thread.mem == kOutside || is_sure(state);
    examined_state = state;
    visit(r.token, state);
    if (unsure && (!is_sure_state || r.touched_entries > 0)) unsure->push_back(r.token);
  });
}

template <class Visit>
bool MaskBuilder::each_cached_remainder(const Thread& thread, const TokenTable& table, Visit&& visit,
                                        std::vector<int32_t>* unsure, Counts counts, LeftFrames& frames) {
  if (table.remainders.nodes().size() <= 1) return true;
  if (table.is_relative) counts = counts_at_exit(thread);
  const TokenTable& first_table = first_equal_table(table);
  const int32_t outside = state_outside(thread);
  if (!frames.emplace(outside, &first_table).second) return true;
  if (frames.size() > kMaxFrames) return false;
  const std::vector<Thread> callers(arena_.config(outside).begin(), arena_.config(outside).end());
  for (const Thread& t : callers) {
    if (t.pos == kExit) continue;
    const TokenTable& caller_table = remainder_table(t, first_table);
    if (caller_table.is_relative || caller_table.overflow) return false;
  }
  for (const Thread& t : callers) {
    if (t.pos == kExit) continue;
    const TokenTable& caller_table = remainder_table(t, first_table);
    auto each_counted = [&](const std::vector<int32_t>& numbers, auto&& use) {
      for (int32_t i : numbers)
        if (const Remainder& r = first_table.entries[static_cast<size_t>(i)]; counts.has(r.count)) use(r);
    };
    each_counted(caller_table.staying.sparse, [&](const Remainder& r) {
      visit(r.token);
      if (unsure && r.touched_entries > 0) unsure->push_back(r.token);
    });
    if (unsure) each_counted(caller_table.unsure, [&](const Remainder& r) { unsure->push_back(r.token); });
    if (!each_cached_remainder(t, caller_table, visit, unsure, counts, frames)) return false;
  }
  return true;
}

template <class Visit>
void MaskBuilder::each_watched(const Thread& thread, int32_t memory, Visit&& visit) {
  Uniqueness& uniqueness = arena_.uniqueness();
  if (!uniqueness.may_become_seen(thread.mem) && uniqueness.scope_between_entries(thread.mem) < 0) return;
  struct Item {
    int32_t node, unconstrained_state, state;
  };
  Thread unconstrained = thread;
  unconstrained.mem = kOutside;
  std::vector<Item> queue{{0, arena_.state_of_thread(unconstrained), arena_.state_of_thread(thread)}};
  for (size_t head = 0; head < queue.size(); ++head) {
    CallMeter::work(kLookup);
    const Item item = queue[head];
    const TokenTrie::Node& node = vocabulary_.trie.nodes()[item.node];
    if (head > 0 && at_boundary(arena_, item.unconstrained_state))
      for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) visit(vocabulary_.trie.payloads()[i], item.state);
    if (node.children == 0 || (item.state != kDead && !may_become_watched(item.state, memory))) continue;
    vocabulary_.trie.children(item.node, arena_.config(item.unconstrained_state).bytes, [&](int32_t child) {
      const uint8_t byte = vocabulary_.trie.nodes()[child].byte;
      const int32_t unconstrained_state = arena_.step(item.unconstrained_state, byte);
      if (unconstrained_state != kDead)
        queue.push_back({child, unconstrained_state, item.state == kDead ? kDead : arena_.step(item.state, byte)});
    });
  }
}

}  // namespace guided
