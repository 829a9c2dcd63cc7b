// Masks under a budget: the tokens after which the output can end in time.
//
// Problem: the distance to the end (completion.hpp) must be known after each token that a mask allows. Stepping through
// 90,000 tokens of a string one by one takes a hundred milliseconds.
//
// How: tokens that lead a thread to the same state have the same distance, so only one of them is examined. Example: in
// a string, all tokens of letters lead back to the string, at a distance of 2 (`"`, then `}`). With three tokens left,
// one OR allows them all; with two left, none of them is allowed. The groups belong to the token table: a token that
// stays in a frame leads to the same state wherever the frame was called. Tokens that leave the frame, or could leave
// it, are few and are examined individually.
//
// In a uniqueness scope (uniqueness.hpp), each token of a name would lead a thread to a different state. So tokens are
// grouped for a *partial* thread, whose current entry is unknown and is assumed to end with an unseen value. This
// assumption may fail for tokens along the spellings of seen values, or of values that the texts to the end write later
// in the same scope. It may also fail for tokens that end or begin entries. All of these tokens are examined
// individually, with the actual thread.
//
// Sound: an allowed token leads to a state whose distance fits the budget. The mask is never empty if the state's own
// distance fits, since the first tokens of its texts (completion.hpp) are always examined. Cost: a few ORs of bitmasks
// per state, and the tokens that are examined; one walk of the vocabulary to group the tokens of a table.
#pragma once

#include <optional>
#include <unordered_set>

#include "budget/completion.hpp"

namespace guided {

class BudgetMasks {
 public:
  BudgetMasks(MaskBuilder& masks, CompletionFinder& completions)
      : masks_(masks), arena_(masks.arena()), completions_(completions) {}
  // The number of tokens to an accepting state, without the end token. At least one allowed token leads to a smaller
  // distance. The result is at most reach_bound() + 1. Needs the arena's lock.
  int64_t distance(int32_t state);
  // The largest distance after one allowed token that can lead to an end. Needs the arena's lock.
  int64_t reach(int32_t state);
  // An upper bound on reach() that is found quickly, for states with seen sets; kUnreachable if none is known
  // (reach_bound.cpp).
  int64_t reach_bound(int32_t state);
  // Fills the row with the allowed tokens that have text and after which the distance is at most `max_distance`.
  void fill(int32_t state, int64_t max_distance, uint32_t* row);

 private:
  // For a partial thread (see the head of this file): the distances after the tokens that it can read, in groups.
  struct Outlook {
    std::vector<std::pair<int64_t, const TokenSet*>> staying_groups;  // (distance after these tokens, tokens)
    std::vector<std::pair<int64_t, int32_t>> leaving_tokens;          // (distance after the token, token)
    // Tokens that leave, and begin or end an entry; and the number of threads after them.
    std::vector<std::pair<int32_t, int32_t>> entry_changing_tokens;
    std::vector<int32_t> unsure_tokens;                  // tokens whose distance is unknown
    std::vector<Uniqueness::WrittenValue> later_values;  // values that the texts to the end write
    std::shared_ptr<const TokenGroups> groups;           // owns the sets of `staying_groups`
    // The bytes of the longest text to the end, if other counts may share this outlook; kUnreachable: unknown.
    int64_t bytes = 0;
  };
  const Outlook& outlook(const Thread& thread, TokenTable& table);
  const Outlook& outlook_of_partial(const Thread& partial, TokenTable& table);
  // What reach_bound() knows about a thread whose seen values are unknown (Uniqueness::with_noting).
  // `conditional_tokens` is empty if there are too many (`has_many_conditional_tokens`).
  struct Bound {
    bool is_known = false, has_many_conditional_tokens = false;
    int64_t bytes = 0;  // to the end, after any token except those below
    // Tokens to examine only if an entry may become a seen value; tokens to examine always.
    std::vector<int32_t> conditional_tokens, unconditional_tokens;
  };
  bool has_reach_bound(int32_t state);
  const Bound& bound(const Thread& thread, TokenTable& table);
  int when_to_examine(int32_t state, int64_t& bytes);
  std::optional<std::pair<Thread, int64_t>> nearest_repeat(const Thread& thread);
  std::optional<std::pair<Thread, int64_t>> next_entry(Thread thread);
  int64_t bytes_through_repeat(const Thread& thread);
  int64_t text_bytes(int32_t config);
  int64_t text_bytes(Thread thread);
  std::shared_ptr<const TokenGroups> groups(const Thread& partial, TokenTable& table);
  TokenGroups group_tokens(int32_t state);
  static TokenGroups separate_leaving(TokenGroups groups, const TokenTable& table, int32_t words);
  // Appends the tokens that must be examined individually, because a thread's outlook may not hold for them.
  void append_uncertain(const Thread& thread, const Outlook& outlook, const TokenTable& table,
                        std::vector<int32_t>& out);
  bool touches_entry(const Thread& partial, int32_t state);
  int32_t step(int32_t state, int32_t token);
  int64_t distance_after(int32_t state, int32_t token);

  MaskBuilder& masks_;
  ByState<int64_t> reaches_{-1};  // see reach()
  Arena& arena_;
  CompletionFinder& completions_;
  std::unordered_map<Thread, Outlook, ThreadHash> outlooks_;
  // By table, position and count.
  std::map<std::tuple<const TokenTable*, int32_t, int32_t>, std::shared_ptr<const TokenGroups>> groups_near_bounds_;
  // By table, since it contains only tokens that some caller can read on; then by thread.
  std::unordered_map<const TokenTable*, std::unordered_map<Thread, Bound, ThreadHash>> bounds_;
};

}  // namespace guided
