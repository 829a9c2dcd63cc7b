// Shortest completions, in tokens.
//
// Problem: under a budget a token is allowed only if the output can still end in time, so each state needs a number of
// tokens to its end that is never too small. The shortest text in bytes can be computed once for each position, but its
// number of tokens cannot: tokens cross the ends of rules, and a state has a stack. To search over states would visit
// as many as the output has bytes, for each token of a mask.
//
// How: for every thread one text is fixed: along the shortest-path tree over the rules' automata (shortest_text.hpp),
// or, while an entry is read that may become a seen value, along the way to another one (new_entry.hpp). It is cut into
// segments that are linked: a segment ends at calls, register actions and the frame's end, where the next configuration
// is entered. A configuration of several threads has the texts of each. So the texts of a state form a tree, and its
// distance is the fewest tokens that spell any of them: dynamic programming over the trie, where a token that crosses
// from a segment into a configuration goes on along each of its texts. It is an upper bound of the least number of
// tokens. Example: inside of a string of an array in an object the text is `"]}`. With a token `"]` and a token `}` the
// bytes give a distance of 2, with a token `"]}` of 1.
//
// No certificate needs to be carried: after the first token of a best spelling the state has a thread that is on the
// same path, under a return configuration whose texts contain all that followed on it (merging only unites
// configurations). So a state with bound b always allows a token that leads to a state with bound at most b - 1.
//
// Texts of rules with a limit of tokens are those of the fewest tokens, and no token crosses their borders, so that the
// limit is kept whatever stands around them.
//
// Where the vocabulary is small and the language regular with few states, the least number itself is known
// (token_distance.hpp), and where some byte is no token by itself, too (token_graph.hpp); the budgeted mask is then the
// largest one.
// Cost: O(length of the segment * longest match) once per thread, stored. The plain mask uses nothing of this.
#pragma once

#include <array>
#include <map>

#include "budget/new_letters.hpp"
#include "budget/token_distance.hpp"
#include "run/new_entry.hpp"

namespace guided {

struct Completion {
  std::vector<int32_t> symbols;  // of a lone thread: bytes, or 256 + token; the segment up to the next link
  std::vector<int64_t> cost;     // cost[i]: tokens that spell symbols[i..] and all that follows
  int32_t next = -1;             // the configuration that comes then; -1: none
  std::vector<int32_t> either;   // of several threads: the configurations of each alone
  int32_t drafted = -1;          // of a lone thread that remembers: another text, with drafts of its entries; or -1
  int32_t exit = -1;             // of a lone thread: what is entered where its frame ends; -1: not known
  int32_t window = -1;           // see alike.cpp; -1: not known
  int32_t copied = -1;           // from this configuration's completion, which is alike; -1: it is none
  bool returns = false;          // the segment ends the frame
  bool impossible = false;       // there is no text
  bool fenced = false;           // no token crosses its borders
  int64_t total = 0;
  int64_t entries = 0;  // of a draft: how many are written
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
  // Tokens to an accepting state, the end token not counted. With the arena's lock held.
  int64_t distance(int32_t state);
  // The tokens with which the texts of a state may begin; one of them leads to a state with a smaller distance.
  void first_tokens(int32_t state, std::vector<int32_t>& out);
  // The values that these texts write in scopes in which there is one that is not known.
  void written_later(int32_t state, std::vector<Uniqueness::Written>& out);
  // The symbols of a completion, at most `limit` of them.
  std::vector<int32_t> spelled(int32_t state, size_t limit);
  const Completion& completion(int32_t config, int64_t most_pieces = INT64_MAX);
  // Whether a configuration is of a draft: no thread of a state is.
  bool is_draft(int32_t config) const {
    const Config& c = arena_.config(config);
    return c.count > 0 && c.threads[0].mem < 0;
  }
  // Whether an end is known; false also where none has come after many times what would do if nothing had to differ.
  bool ends(int32_t state);

 private:
  struct NoEnd {};  // thrown where a completion has more pieces than allowed
  struct Missing {  // thrown where searches are nested too deep: this completion is needed before
    int32_t config;
  };
  struct Task {
    int32_t config;
    std::unique_ptr<Completion> made = nullptr;  // not finished
    bool chooses = false;                        // between threads that remember
  };
  struct Search {
    std::vector<Task> tasks;  // the last one is needed first
    int64_t most_pieces;
    int choices = 0;  // under way
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
    int64_t count = 0;                            // of the last
    std::vector<int32_t> configs;                 // where each begins
    std::unordered_map<int32_t, size_t> windows;  // the first with a window
    size_t first = 0, period = 0;                 // where they begin to repeat; 0: they have not yet
    bool unlike = false;
    std::unordered_map<int32_t, bool> leading;  // positions of the frame: whether their text leads to an iteration
  };
  enum class MemoryUse : int8_t { None, Own, Outer };  // a rule has no entries, those of a scope of its own, or others
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
  std::map<std::array<int32_t, 4>, Rounds> rounds_;   // by position, register, memory, window behind the frame
  std::map<std::array<int32_t, 4>, Rounds*> frames_;  // the same by rule: those that are not unlike
  std::map<std::array<int32_t, 4>, int32_t> alike_;   // the same: a configuration
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> windows_;
  std::vector<MemoryUse> memory_use_;  // by rule, once it is asked for
  int nested_ = 0;                     // calls of completion() that are under way
  NewLetters letters_;
  // For written_later(); nearly always none.
  std::unordered_map<const Completion*, std::vector<Uniqueness::Written>> written_;
  TokenDistances exact_;
};

}  // namespace guided
