// Shortest completions, in tokens.
//
// Problem: under a budget, a token is allowed only if the output can still end in time. So each state needs a number of
// tokens that is certain to suffice to end the output. The shortest text in bytes can be computed once per position,
// but its number of tokens cannot: tokens cross the ends of rules, and a state has a stack. For each token of a mask, a
// search over states would visit as many states as the output has bytes.
//
// How: each thread has one fixed text. It follows the shortest-path tree over the rules' automata (shortest_text.hpp).
// While an entry is read that may become a seen value, the text follows the way to another value (new_entry.hpp). The
// text is cut into linked segments. A segment ends at calls, register actions and the frame's end, where the next
// configuration is entered. A configuration of several threads has the texts of all of them. So the texts of a state
// form a tree, and the state's distance is the fewest tokens that spell any of them. It is computed by dynamic
// programming over the trie: a token that crosses from a segment into a configuration continues along each of the
// configuration's texts. The distance is an upper bound on the least number of tokens. Example: inside a string of an
// array in an object, the text is `"]}`. With the tokens `"]` and `}`, the distance is 2; with a token `"]}`, it is 1.
//
// A matcher need not carry a completion along. After the first token of a best spelling, the state has a thread on the
// same path. When threads are merged, the union of their return configurations keeps all texts, so the rest of the path
// is still among the state's texts. So a state with distance d always allows a token that leads to a state with a
// distance of at most d - 1.
//
// For rules with a token limit, the text has the fewest tokens, and no token crosses the start or end of the text. So
// the limit holds whatever surrounds the text.
//
// The exact minimum is known if the vocabulary is small and the language is regular with few states
// (token_distance.hpp), or if some byte is not a token by itself (token_graph.hpp). The mask under a budget is then the
// largest possible one.
// Cost: O(length of the segment * longest match), once per thread. Masks without a budget need none of this.
#pragma once

#include <algorithm>
#include <array>
#include <map>

#include "budget/new_letters.hpp"
#include "budget/token_distance.hpp"
#include "run/new_entry.hpp"

namespace guided {

// What a text writes, or the difference between two texts.
struct TextSize {
  int64_t total = 0;         // tokens
  int64_t bytes = 0;         // kUnreachable: unknown
  int64_t entries = 0;       // of an open text: the number of entries that it writes
  int32_t most_entries = 0;  // the most entries that the scopes have at one time (Uniqueness::count_entries)
  friend TextSize operator+(const TextSize& a, const TextSize& b) {
    return {a.total + b.total, a.has_bytes() && b.has_bytes() ? a.bytes + b.bytes : kUnreachable, a.entries + b.entries,
            std::max(a.most_entries, b.most_entries)};
  }
  friend TextSize operator-(const TextSize& a, const TextSize& b) {
    return {a.total - b.total, a.has_bytes() && b.has_bytes() ? a.bytes - b.bytes : kUnreachable, a.entries - b.entries,
            a.most_entries};
  }
  bool has_bytes() const { return bytes < kUnreachable; }
};

struct Completion : TextSize {
  // Of a single thread: the segment up to the next link, as bytes, 256 + token, or 256 for a letter of an open text.
  std::vector<int32_t> symbols;
  std::vector<int64_t> costs;  // costs[i]: the number of tokens that spell symbols[i..] and everything that follows
  int32_t next = -1;           // the configuration that follows; -1: none
  std::vector<int32_t> alternatives;  // of several threads: one configuration for each of them
  // Of a single thread with a seen set: the configuration of another text, with open texts of its entries; or -1.
  int32_t open_text = -1;
  int32_t after_frame = -1;    // of a single thread: the configuration after its frame; -1: unknown
  int32_t window = -1;         // see alike.cpp; -1: unknown
  int32_t copied_from = -1;    // the configuration whose completion was copied; -1: none
  bool ends_frame = false;     // whether the segment ends the frame
  bool is_impossible = false;  // whether there is no text
  bool is_fenced = false;      // whether no token crosses the start or end of the segment
  size_t memory() const { return sizeof(Completion) + symbols.size() * 12 + alternatives.size() * 4; }
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
        exact_distances_(masks) {}
  ~CompletionFinder();
  CompletionFinder(const CompletionFinder&) = delete;
  NewEntry& new_entry() { return new_entry_; }
  // Tokens to an accepting state, without the end token. With the arena's lock held.
  int64_t distance(int32_t state);
  // Appends the tokens with which the texts of a state may begin. One of them leads to a state with a smaller distance.
  void first_tokens(int32_t state, std::vector<int32_t>& out);
  // Appends the values that the texts of a state write in scopes that contain an unknown value.
  void written_later(const std::vector<int32_t>& states, std::vector<Uniqueness::WrittenValue>& out);
  // The symbols of a completion of a state, at most `limit` of them.
  std::vector<int32_t> spelled_symbols(int32_t state, size_t limit);
  const Completion& completion(int32_t config, int64_t max_segments = INT64_MAX);
  // Whether a configuration belongs to an open text. The configurations of states never do.
  bool is_open_text(int32_t config) const {
    const Config& c = arena_.config(config);
    return c.count > 0 && c.threads[0].mem < 0;
  }
  // Whether an end is known. Also false if the search gives up, after many times the length of the shortest text.
  bool ends(int32_t state);

 private:
  struct NoEnd {};  // thrown if a completion has more segments than allowed
  struct Missing {  // thrown if searches are nested too deeply: the completion of `config` is needed first
    int32_t config;
  };
  struct Task {
    int32_t config;
    std::unique_ptr<Completion> completion = nullptr;  // null until it is begun; incomplete until the task ends
    bool is_choosing = false;                          // whether it chooses between threads with seen sets
  };
  struct Search {
    std::vector<Task> tasks;  // the last task is needed first
    int64_t max_segments;
    int choosing_count = 0;  // the number of current tasks that are choosing
  };
  void take_step(Search& search);
  const Completion& completion_of(int32_t config);
  bool ends_if_nearest_is_followed(int32_t state, int64_t max_segments);
  int64_t estimate_bytes_to_end(Thread thread);
  Thread nearest_thread(const Config& config);
  void follow(Thread thread, Completion& out, bool without_open_texts = false);
  bool apply_effect(const EffectEdge& edge, Thread& thread, Completion& out, bool without_open_texts);
  void begin(int32_t config, bool only_nearest, Completion& out);
  void finish(int32_t config, Completion& out);
  void append_limited_end(const Thread& thread, Completion& out);
  void append_entry_end(const Thread& thread, Completion& out);
  int32_t with_memory(int32_t config, int32_t memory);
  int64_t min_tokens_across(int32_t node, int32_t config);
  bool has_token(int32_t node) const;
  int64_t cost_after(const Completion& c, size_t i);
  void compute_token_costs(Completion& c);

  // ---- texts that are alike (alike.cpp)
  struct AlikeIterations {  // iterations of one frame that are all alike, from the last one backwards
    Thread last;
    int64_t count = 0;                            // of `last`
    std::vector<int32_t> configs;                 // the configuration in which each iteration begins
    std::unordered_map<int32_t, size_t> windows;  // window -> the first iteration with it
    // The iteration from which windows repeat, and their period; period 0: none has repeated yet.
    size_t first = 0, period = 0;
    bool is_unlike = false;
    // By position of the frame: whether the text from there leads to an iteration.
    std::unordered_map<int32_t, bool> leading_positions;
  };
  // Where a rule writes entries: nowhere; only in scopes that it opens; in a scope of a caller.
  enum class MemoryUse : int8_t { None, Own, Outer };
  int32_t take_alike(int32_t config, std::unique_ptr<Completion>& out);
  int32_t take_alike_iteration(const Thread& thread, int64_t iterations_left, int32_t config,
                               std::unique_ptr<Completion>& out);
  void store_alike(int32_t config);
  bool copy_completion(int32_t alike, const TextSize& difference, int32_t config, std::unique_ptr<Completion>& out);
  int32_t continuation_in_frame(int32_t config, int32_t caller);
  bool add_iteration(AlikeIterations& iterations, int32_t config);
  int64_t alike_iterations_left(const Thread& thread);
  Thread with_iteration_count(const Thread& thread, int64_t count);
  bool leaves_memory_unchanged(const Thread& thread);
  bool is_at_rule_start(const Thread& thread);
  void find_memory_use();
  bool leads_to_iteration(AlikeIterations& iterations, int32_t config);
  int32_t window_of(int32_t config);
  bool append_window(int32_t config, int64_t base, size_t symbols_left, std::vector<int32_t>& out);

  // ---- members of permutations (alike_members.cpp)
  struct MemberText {
    int32_t config;  // it begins with the member; its completion was constructed
    int32_t window;  // of `config`
    TextSize size;   // of the member alone: without what follows it
  };
  bool begins_member(int32_t pos) const;
  std::vector<int32_t> missing_members(const Thread& thread);
  int32_t take_alike_members(const Thread& thread, int32_t config, std::unique_ptr<Completion>& out);
  void store_member(int32_t config);

  // ---- open texts of entries (open_texts.cpp)
  int32_t find_open_text(const Thread& thread);
  static int letters_of_open_text(int32_t memory);
  void follow_letters(const Thread& thread, Completion& out);
  bool apply_effect_in_open_text(const EffectEdge& edge, Thread& thread, Completion& out);
  bool gets_closer_to_end(const Thread& entry, const NewLetters::Way& way);
  bool is_left_open_from_here(const Thread& thread);
  bool is_hard_to_end(const Thread& thread);

  ByState<const Completion*> completions_{nullptr};  // by configuration
  MaskBuilder& masks_;
  Arena& arena_;
  const Grammar& grammar_;
  NewEntry new_entry_;
  ShortestText& tree_;
  // By position, register, memory, and window after the frame.
  std::map<std::array<int32_t, 4>, AlikeIterations> iterations_;
  // By rule instead of position; null: the iterations are unlike.
  std::map<std::array<int32_t, 4>, AlikeIterations*> iterations_by_rule_;
  // By the key of iterations_: a configuration whose completion can be copied.
  std::map<std::array<int32_t, 4>, int32_t> completions_to_copy_;
  // By the edge that begins the member, memory, window after it, and whether it is the last one.
  std::map<std::array<int32_t, 4>, MemberText> member_texts_;
  std::unordered_map<int32_t, int32_t> positions_after_separators_;  // by rule of a permutation
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> window_numbers_;
  std::vector<MemoryUse> memory_use_;  // by rule; computed when it is first needed
  int nesting_ = 0;                    // how deeply completion() is nested
  NewLetters letters_;
  // The values that completions write, for written_later(). Nearly always empty.
  std::unordered_map<const Completion*, std::vector<Uniqueness::WrittenValue>> written_values_;
  TokenDistances exact_distances_;
};

}  // namespace guided
