// Masks under a budget: the tokens after which the output can end in time.
//
// Problem: the distance to the end (completion.hpp) must be known after each token that a mask allows. To step over
// 90,000 tokens of a string one by one is a hundred milliseconds.
//
// How: tokens that lead a thread to the same state have the same distance, so one of them is examined for all. Example:
// in a string all tokens of letters lead back to the string, at a distance of 2 (`"`, then `}`): with three tokens left
// they are allowed together by one OR, with two left none of them is. The groups belong to the token table: what stays
// in a frame leads to the same state wherever the frame was called. Tokens that leave it, or could leave it as well,
// are few and are examined individually.
//
// In a uniqueness scope (uniqueness.hpp) a thread would come to another state after each token of a name. Instead,
// tokens are grouped for a *partial* thread, of which the entry under way is unknown: it is assumed to end, with a
// value that has not been seen. That is right for all tokens but those along the spellings of seen values, or of values
// that the texts to the end write later in the same scope; and where a token ends and begins entries, more has to be
// known. These are examined individually, with the thread as it is.
//
// Sound: what is allowed leads to a state whose distance fits. Never empty where the state's own distance fits: tokens
// on its texts are always examined. Cost: some OR of bitmasks for each state, and the tokens that are examined; the
// groups of a table are a walk of the vocabulary, once.
#pragma once

#include <optional>
#include <unordered_set>

#include "budget/completion.hpp"

namespace guided {

class BudgetMasks {
 public:
  BudgetMasks(MaskBuilder& masks, CompletionFinder& completions)
      : masks_(masks), arena_(masks.arena()), completions_(completions) {}
  // Tokens to an accepting state, the end token not counted: one at least of those that the state allows leads to a
  // smaller distance, and it is at most `reach_bound` and one more. With the arena's lock held.
  int64_t distance(int32_t state);
  // The most that the distance can be after one token; INT64_MAX where it may be without bound. With the arena's lock
  // held.
  int64_t reach(int32_t state);
  // No less than that, and soon found where values must differ; kUnreachable elsewhere (reach_bound.cpp).
  int64_t reach_bound(int32_t state);
  // Sets the bits of the textual tokens after which the distance is at most `most`, all of which the state allows.
  void fill(int32_t state, int64_t most, uint32_t* row);

 private:
  // Of a partial thread, see the head.
  struct Outlook {
    std::vector<std::pair<int64_t, const TokenSet*>> staying;  // distance after them
    std::vector<std::pair<int64_t, int32_t>> leaving;
    std::vector<int32_t> beginning;             // tokens that leave and begin or end an entry
    std::vector<int32_t> unsure;                // tokens whose distance is not known
    std::vector<Uniqueness::Written> later;     // values that the texts write
    std::shared_ptr<const TokenGroups> groups;  // what `staying` points into
  };
  const Outlook& outlook(const Thread& thread, TokenTable& table);
  // Of a thread whose memory takes notes.
  struct Bound {
    bool known = false, many_if_alive = false;
    int64_t bytes = 0;                      // to the end, after any token but those that are to be looked at
    std::vector<int32_t> if_alive, always;  // these: the former where an entry may end with a value that was there
  };
  bool is_bounded(int32_t state) const;
  const Bound& bound(const Thread& thread, TokenTable& table);
  int doubt(int32_t state, int64_t& bytes);
  std::optional<std::pair<Thread, int64_t>> nearest_repeat(const Thread& thread);
  std::optional<std::pair<Thread, int64_t>> next_entry(Thread thread);
  int64_t repeating_bytes(const Thread& thread);
  int64_t text_bytes(int32_t config);
  std::shared_ptr<const TokenGroups> groups(const Thread& partial, TokenTable& table);
  TokenGroups group(int32_t state);
  static TokenGroups apart(TokenGroups groups, const TokenTable& table, int32_t words);
  // The tokens for which a thread's outlook says nothing, and those of them that are not dead.
  void look_at(const Thread& thread, const Outlook& outlook, const TokenTable& table, std::vector<int32_t>& out);
  bool begins(const Thread& partial, int32_t state);
  int32_t step(int32_t state, int32_t token);
  int64_t after(int32_t state, int32_t token);

  MaskBuilder& masks_;
  ByState<int64_t> reaches_{-1};  // see reach()
  Arena& arena_;
  CompletionFinder& completions_;
  std::unordered_map<Thread, Outlook, ThreadHash> outlooks_;
  std::unordered_map<Thread, Bound, ThreadHash> bounds_;
  std::unordered_map<int32_t, int64_t> text_bytes_;  // by configuration
};

}  // namespace guided
