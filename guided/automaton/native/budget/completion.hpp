// Shortest completions, in tokens.
//
// Problem: under a budget, a token is allowed only if the output can still end in time. So each state needs a number of
// tokens to its end that is never too small. The shortest text in bytes can be computed once per position, but its
// number of tokens cannot: tokens cross the ends of rules, and a state has a stack. A search over states would visit as
// many states as the output has bytes, for each token of a mask.
//
// How: one text is fixed for every thread. It follows the shortest-path tree over the rules' automata
// (shortest_text.hpp). While an entry is read that may become a seen value, it follows the way to another value
// (new_entry.hpp). The text is cut into linked segments. A segment ends at calls, register actions and the frame's end,
// where the next configuration is entered. A configuration of several threads has the texts of each. So the texts of a
// state form a tree, and its distance is the fewest tokens that spell any of them. This is dynamic programming over the
// trie, in which a token that crosses from a segment into a configuration continues along each of its texts. The
// distance is an upper bound on the least number of tokens. Example: inside of a string of an array in an object, the
// text is `"]}`. With the tokens `"]` and `}`, the distance is 2; with a token `"]}`, it is 1.
//
// A matcher need not carry a completion along. After the first token of a best spelling, the state has a thread on the
// same path. The texts of its return configuration contain everything that followed on this path, since merging only
// unites configurations. So a state with bound b always allows a token that leads to a state with bound at most b - 1.
//
// For rules with a token limit, the text has the fewest tokens, and no token crosses its borders. So the limit holds
// whatever surrounds the text.
//
// If the vocabulary is small and the language regular with few states, the exact minimum is known (token_distance.hpp);
// likewise if some byte is not a token by itself (token_graph.hpp). The budgeted mask is then the largest possible one.
// Cost: O(length of the segment * longest match) once per thread, stored. The plain mask needs none of this.
#pragma once

#include <array>
#include <map>

#include "budget/new_letters.hpp"
#include "budget/token_distance.hpp"
#include "run/new_entry.hpp"

namespace guided {

struct Completion {
  std::vector<int32_t> symbols;  // of a single thread: bytes, or 256 + token; the segment up to the next link
  std::vector<int64_t> cost;     // cost[i]: tokens that spell symbols[i..] and all that follows
  int32_t next = -1;             // the configuration that follows; -1: none
  std::vector<int32_t> either;   // of several threads: the configurations of each alone
  int32_t drafted = -1;          // of a single thread with a seen set: another text, with drafts of its entries; or -1
  int32_t exit = -1;             // of a single thread: the configuration after its frame; -1: unknown
  int32_t window = -1;           // see alike.cpp; -1: unknown
  int32_t copied = -1;           // the alike configuration whose completion was copied; -1: none
  bool returns = false;          // the segment ends the frame
  bool impossible = false;       // there is no text
  bool fenced = false;           // no token crosses its borders
  int64_t total = 0;
  int64_t entries = 0;  // of a draft: the number of entries that it writes
  size_t bytes() const { return sizeof(Completion) + symbols.size() * 12 + either.size() * 4; }
};

class CompletionFinder {
 public:
  explicit CompletionFinder(MaskBuilder& masks)
      : masks_(masks),
        arena_(masks.arena()),
        grammar_(masks.arena().grammar()),
        new_entry_(arena_),
        tree_(new_entry_.tree()),
        letters_(arena_, masks.vocabulary()),
        exact_(masks) {}
  ~CompletionFinder();
  CompletionFinder(const CompletionFinder&) = delete;
  NewEntry& new_entry() { return new_entry_; }
  // Tokens to an accepting state, without the end token. With the arena's lock held.
  int64_t distance(int32_t state);
  // The tokens with which the texts of a state may begin; one of them leads to a state with a smaller distance.
  void first_tokens(int32_t state, std::vector<int32_t>& out);
  // The values that the texts of a state write in scopes that contain an unknown value.
  void written_later(int32_t state, std::vector<Uniqueness::Written>& out);
  // The symbols of a completion, at most `limit` of them.
  std::vector<int32_t> spelled(int32_t state, size_t limit);
  const Completion& completion(int32_t config, int64_t most_pieces = INT64_MAX);
  // Whether a configuration belongs to a draft. The configuration of a state never does.
  bool is_draft(int32_t config) const {
    const Config& c = arena_.config(config);
    return c.count > 0 && c.threads[0].mem < 0;
  }
  // Whether an end is known. Also false if the search gives up after many times the length of the shortest text.
  bool ends(int32_t state);

 private:
  struct NoEnd {};  // thrown if a completion has more pieces than allowed
  struct Missing {  // thrown if searches are nested too deeply: this completion is needed first
    int32_t config;
  };
  struct Task {
    int32_t config;
    std::unique_ptr<Completion> completion = nullptr;  // not finished
    bool chooses = false;                              // between threads with seen sets
  };
  struct Search {
    std::vector<Task> tasks;  // the last one is needed first
    int64_t most_pieces;
    int choices = 0;  // current tasks that choose
  };
  void go_on(Search& search);
  const Completion& stored(int32_t config);
  bool ends_straight(int32_t state, int64_t most_pieces);
  int64_t estimate(Thread thread);
  Thread nearest(const Config& config);
  void follow(Thread at, Completion& out, bool exactly = false);
  bool operate(const EffectEdge& edge, Thread& at, Completion& out, bool exactly);
  void begin(int32_t config, bool nearest_alone, Completion& out);
  void finish(int32_t config, Completion& out);
  void end_limited(const Thread& at, Completion& out);
  void end_entry(const Thread& at, Completion& out);
  int32_t with_memory(int32_t config, int32_t memory);
  int64_t across(int32_t node, int32_t config);
  bool ends_token(int32_t node) const;
  int64_t cost_after(const Completion& c, size_t i);
  void spell(Completion& c);

  // ---- texts that are alike (alike.cpp)
  struct Rounds {  // iterations of one frame that are all alike, backwards from the last
    Thread last;
    int64_t count = 0;                            // of `last`
    std::vector<int32_t> configs;                 // where each begins
    std::unordered_map<int32_t, size_t> windows;  // window -> the first iteration with it
    size_t first = 0, period = 0;                 // where windows begin to repeat; period 0: they have not yet
    bool unlike = false;
    std::unordered_map<int32_t, bool> leading;  // by position of the frame: whether its text leads to an iteration
  };
  enum class MemoryUse : int8_t { None, Own, Outer };  // entries of a rule: none, in scopes that it opens, in others
  int32_t take_alike(int32_t config, std::unique_ptr<Completion>& out);
  int32_t take_round(const Thread& thread, int64_t left, int32_t config, std::unique_ptr<Completion>& out);
  void keep_alike(int32_t config);
  bool copy(int32_t alike, int64_t tokens, int64_t entries, int32_t config, std::unique_ptr<Completion>& out);
  int32_t in_frame(int32_t config, int32_t caller);
  bool add_round(Rounds& rounds, int32_t config);
  int64_t rounds_left(const Thread& thread);
  Thread in_round(const Thread& thread, int64_t count);
  bool keeps_memory(const Thread& thread);
  bool enters(const Thread& thread);
  void find_memory_use();
  bool leads_to(Rounds& rounds, int32_t config);
  int32_t window(int32_t config);
  bool describe(int32_t config, int64_t base, size_t left, std::vector<int32_t>& out);

  // ---- drafts of entries (drafts.cpp)
  int32_t draft(const Thread& thread);
  static int letters_of_draft(int32_t memory);
  void follow_letters(const Thread& at, Completion& out);
  bool draft_effect(const EffectEdge& edge, Thread& at, Completion& out);
  bool comes_nearer(const Thread& entry, const NewLetters::Way& way);
  bool is_drafted_from_here(const Thread& thread);
  bool is_hard_to_end(const Thread& thread);

  ByState<const Completion*> completions_{nullptr};  // by configuration
  MaskBuilder& masks_;
  Arena& arena_;
  const Grammar& grammar_;
  NewEntry new_entry_;
  ShortestText& tree_;
  std::map<std::array<int32_t, 4>, Rounds> rounds_;   // by position, register, memory, window after the frame
  std::map<std::array<int32_t, 4>, Rounds*> frames_;  // by rule instead of position; null: unlike
  std::map<std::array<int32_t, 4>, int32_t> alike_;   // by the key of rounds_: a configuration to copy
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> windows_;
  std::vector<MemoryUse> memory_use_;  // by rule; filled when it is first needed
  int nested_ = 0;                     // current calls of completion()
  NewLetters letters_;
  // For written_later(); nearly always empty.
  std::unordered_map<const Completion*, std::vector<Uniqueness::Written>> written_;
  TokenDistances exact_;
};

}  // namespace guided
