// Token masks of states.
//
// Problem: a state allows some of 128,000 tokens. Trying each takes milliseconds. Storing a row takes 16 KB per state,
// and a document visits thousands of states.
//
// How: the mask of a state is a union over its parser threads: of the tokens that stay in the thread's frame, which a
// *token table* (token_table.hpp) contains, and of those that leave it, whose *remainders* are walked from the state
// after returning. Tables are keyed by the content of a rule, so all grammars of a vocabulary that contain the same
// rule share one. A state stores not its row but a *recipe*: pointers to the dense rows of tables, and short lists of
// further ids. Example, after `{"name": "An`:
//
//   dense    the row of "inside of a string": 90,000 ids, shared by all strings of all grammars
//   sparse   ids of tokens such as `",` and `"}` that end the string and continue as this object allows
//
// Filling a row is then a copy, sometimes an OR, and a few single bits.
//
// In a uniqueness scope (uniqueness.hpp), a thread has the tokens that it would have if no value had been seen, except
// those that end an entry with a seen value, or after which no unseen value is left (distinct_masks.cpp,
// entry_tokens.hpp).
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
  std::vector<int32_t> refused;                    // ids to remove from all of these
  std::deque<TokenSet> own;                        // sets that no table contains
  bool everything = false;                         // every token is allowed
  void write(uint32_t* row, int32_t words) const;
  bool allows_all(int32_t size) const;  // every token of a vocabulary of this size
  void add(const TokenSet& set);
};

// How far a frame may have counted, from a thread to the frame's end.
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
  // Without the lock: null if it has not been computed.
  const MaskRecipe* known_recipe(int32_t state) const { return recipes_.get(state); }
  TokenTable& table(const Thread& thread);
  // Finds all tokens allowed in `state` by walking the whole trie (the definition; also for states without tables).
  std::vector<int32_t> walk(int32_t state);
  // Calls visit(token, state after it) for every textual token that `state` allows.
  template <class Visit>
  void each_token(int32_t state, Visit&& visit);
  // Calls use(table) for the tables with the remainders on which a thread's mask depends. `table` itself lacks the
  // remainders of tokens that can also stay.
  template <class Use>
  void each_needed(const Thread& thread, const TokenTable& table, Use&& use) const;
  // Calls visit(token, state after it) for the tokens that leave the frame of `thread` before they end. In that state,
  // the text of the thread's current entries is unknown; `unsure` receives the tokens for which this matters.
  template <class Visit>
  void each_remainder(const Thread& thread, const TokenTable& table, Visit&& visit,
                      std::vector<int32_t>* unsure = nullptr);
  // Calls visit(remainder, state after it) for these tokens.
  template <class Visit>
  void walk_remainders(const Thread& thread, const TokenTable& table, Visit&& visit);
  // As each_remainder(), without the states after the tokens, for a thread without a seen set or with an unknown one.
  // Uses cached tables of how one frame continues the remainders of another. Returns false if they do not suffice; the
  // visited tokens must then be discarded. `counts`: for the frame that the tokens left first.
  template <class Visit>
  bool each_kept_remainder(const Thread& thread, const TokenTable& table, Visit&& visit, std::vector<int32_t>* unsure) {
    LeftFrames frames;
    return each_kept_remainder(thread, table, visit, unsure, {}, frames);
  }
  // Calls visit(token, state after it or kDead) for the tokens along which a thread may reach a seen value, if it could
  // read them without its seen set. `memory`: as for is_watched().
  template <class Visit>
  void each_watched(const Thread& thread, int32_t memory, Visit&& visit);
  // The thread for which the table is built: with an unknown caller, and with the count only as far as it matters.
  Thread table_thread(const Thread& thread) const;
  std::vector<std::shared_ptr<TokenTable>>& tables() { return kept_; }
  const TokenVocabulary& vocabulary() const { return vocabulary_; }
  Arena& arena() { return arena_; }

  // Whether a state may reach a seen value, in a current entry or in the next entry after `memory`; kOutside: only in a
  // current entry.
  bool is_watched(int32_t state, int32_t memory);

 private:
  // The frames that a search for remainders has left, each with the remainders. Frames may be left in many ways, but
  // few of these differ in what follows.
  using LeftFrames = std::set<std::pair<int32_t, const TokenTable*>>;  // by the state outside, and the remainders
  static constexpr size_t kMaxFrames = 1 << 12;
  template <class Visit>
  bool each_kept_remainder(const Thread& thread, const TokenTable& table, Visit&& visit, std::vector<int32_t>* unsure,
                           Counts counts, LeftFrames& frames);
  // The first table with the same remainders.
  const TokenTable& first_alike(const TokenTable& table);
  // How far the frame of a thread may still count, if a token of its table may count further; otherwise nullopt.
  std::optional<int64_t> room_near_bound(const Thread& thread, const TokenTable& table) const;
  bool may_leave(const Thread& thread, const TokenTable& table) const;
  // Adds the tokens that leave the frame of a thread without a seen set. `staying`: those that stay.
  void add_leaving(const Thread& thread, const TokenTable& table, const TokenSet& staying, MaskRecipe& out);
  void add_by_walk(const Thread& thread, const TokenSet& staying, MaskRecipe& out);
  bool is_near_limit(int32_t state) const;
  Counts counts_at_exit(const Thread& thread) const;
  // The state after the frame of a thread, without the scopes that it opened. The current entries are unread there.
  int32_t state_outside(const Thread& thread);
  // The bytes that may follow the frame of a thread, and the number of this set.
  std::pair<ByteSet, int32_t> follow_of(const Thread& thread);
  const TokenTable& remainder_table(const Thread& thread, const TokenTable& left);
  // Steps through each of the tokens, and appends those that the thread cannot accept to `refused`.
  void verify(const Thread& thread, std::vector<int32_t>& tokens, std::vector<int32_t>& refused);
  // Whether some thread of a state does not depend on unknown values.
  bool is_sure(int32_t state);
  // What a thread with a seen set adds to a recipe.
  struct Share {
    const TokenSet* staying = nullptr;              // of its table
    const std::vector<int32_t>* leaving = nullptr;  // sorted
    std::vector<int32_t> own;                       // storage for `leaving`, if no table has it
    std::vector<int32_t> refused;                   // sorted
    bool allows(int32_t token) const {
      return (staying->has(token) || std::binary_search(leaving->begin(), leaving->end(), token)) &&
             !std::binary_search(refused.begin(), refused.end(), token);
    }
  };
  const Share& share(const Thread& thread, TokenTable& tokens);
  const EntryTokens& entry_tokens(const Thread& thread, TokenTable& tokens);
  // Appends the tokens that the seen values forbid.
  void find_refused(const Thread& thread, const EntryTokens& known, std::vector<int32_t>& refused);
  void find_repeated(const Thread& thread, const EntryTokens& known, std::vector<int32_t>& refused);
  void add_shares(const std::vector<const Share*>& shares, MaskRecipe& out) const;
  // The tokens that leave the frame if its seen set is unknown. Adds those that touch two entries to `unsure`.
  void remainders_of_unknown(Thread thread, const TokenTable& table, std::vector<int32_t>& leaving,
                             std::vector<int32_t>& unsure);
  // Computes a share if all entries are unbounded strings. Returns false if what has been read is unknown.
  bool find_strings(const Thread& thread, TokenTable& tokens, Share& share);
  // The tokens of a relative table that a thread's bounds allow.
  const TokenSet& within_bounds(const TokenTable& table, const Thread& thread);

  ByState<const MaskRecipe*> recipes_{nullptr};
  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  FreeRuns runs_;
  std::vector<PairMap> local_;  // by number of the following bytes: position and register -> index in kept_
  std::map<std::vector<uint64_t>, int32_t> follows_;
  std::map<std::tuple<const TokenTable*, int32_t, int32_t, int32_t>, std::shared_ptr<TokenTable>> remainder_tables_;
  std::multimap<uint64_t, const TokenTable*> alike_tables_;  // by a hash of the entries; the first of equal ones
  std::unordered_map<const TokenTable*, const TokenTable*> first_alike_;
  std::map<std::pair<int32_t, int32_t>, OtherTable> latest_;  // by rule and following bytes
  std::map<std::tuple<const TokenTable*, int64_t, int64_t>, std::unique_ptr<TokenSet>> within_bounds_;
  std::vector<std::shared_ptr<TokenTable>> kept_;
  ThreadMap<Share> shares_;
  ThreadMap<EntryTokens> entry_tokens_;  // by threads with noting memory
  KnownAlike alike_;
};

template <class Visit>
void MaskBuilder::each_token(int32_t state, Visit&& visit) {
  walk_trie(arena_, vocabulary_.trie, state, [&](const TokenTrie::Node& node, int32_t after) {
    if (!at_boundary(arena_, after)) return;
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) visit(vocabulary_.trie.payloads()[i], after);
  });
}

template <class Use>
void MaskBuilder::each_needed(const Thread& thread, const TokenTable& table, Use&& use) const {
  if (!may_leave(thread, table)) return;
  use(table);
  if (room_near_bound(thread, table) && !table.staying_entries.empty())
    use(table.remainders_of_staying(table.staying_entries.size(), vocabulary_.tokens));
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
                                      std::vector<int32_t>* unsure, Counts counts, LeftFrames& frames) {
  if (table.remainders.nodes().size() <= 1) return true;
  if (table.relative) counts = counts_at_exit(thread);
  const TokenTable& left = first_alike(table);
  const int32_t outside = state_outside(thread);
  if (!frames.emplace(outside, &left).second) return true;
  if (frames.size() > kMaxFrames) return false;
  const std::vector<Thread> callers(arena_.config(outside).begin(), arena_.config(outside).end());
  for (const Thread& t : callers) {
    if (t.pos == kExit) continue;
    const TokenTable& here = remainder_table(t, left);
    if (here.relative || here.overflow) return false;
  }
  for (const Thread& t : callers) {
    if (t.pos == kExit) continue;
    const TokenTable& here = remainder_table(t, left);
    auto each = [&](const std::vector<int32_t>& numbers, auto&& use) {
      for (int32_t i : numbers)
        if (const Remainder& r = left.entries[static_cast<size_t>(i)]; counts.has(r.count)) use(r);
    };
    each(here.all.sparse, [&](const Remainder& r) {
      visit(r.token);
      if (unsure && r.touched > 0) unsure->push_back(r.token);
    });
    if (unsure) each(here.unsure, [&](const Remainder& r) { unsure->push_back(r.token); });
    if (!each_kept_remainder(t, here, visit, unsure, counts, frames)) return false;
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
