// Finds how an entry that is being read (uniqueness.hpp) can end with an unseen value.
//
// Problem: with the values 1 and 10 seen, an entry that has read `1` must continue, and not every continuation works:
// `0` leads to 10, which has been seen. The shortest text to the end of the frame (shortest_text.hpp) ignores the seen
// set. An unlimited search may never end, because a value has infinitely many spellings: `1.0`, `1.00`, ...
//
// How: the shortest text is tried first, and nearly always suffices. Otherwise a search examines only states from which
// the entry may still become a seen value, each of them once, however it was spelled. From any other state, the
// shortest text suffices. Of the ways to such other states, the one with the fewest bytes to the end of the output is
// chosen; if several have equally few, the first in byte order. So a search from any state on the chosen way chooses
// the rest of this way. A value that is seen later does not change the way unless the way leads to it. Answers are
// cached by thread. Most queries only ask whether any way exists, so the first way that is found answers them.
// A way whose entry is a detour (entry_detours.hpp) is chosen only if no other way is found.
//
// If the entry is a string, its shortest unseen value is usually found without a search (shortest_new_string.hpp). If
// the entry is one of few strings (finite_string_sets.hpp) and all of them have been seen, the outer entries cannot
// end, either.
//
// In: a thread. Out: the text from the thread to the end of the outermost entry that it reads, or the answer that there
// is none.
// Cost: the bytes of the text if the first try gives an unseen value; each seen value on the way adds its length. Once
// a way is known, the search for a better one ends after a few times the states examined so far. As long as none is
// known, it ends after some thousand states, and the answer is that there is none: for example for an integer with many
// spellings and few values.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "run/entry_detours.hpp"
#include "run/shortest_new_string.hpp"

namespace guided {

class NewEntry {
 public:
  explicit NewEntry(Arena& arena)
      : arena_(arena),
        uniqueness_(arena.uniqueness()),
        tree_(arena),
        new_string_(arena, tree_),
        detours_(arena, tree_) {}
  struct Way {
    std::string text;
    std::vector<Thread> end_threads;  // the threads to which the way leads, without their closure
    size_t bytes = 0;                 // including the shortest text from there to the end of the output
  };
  // Null if there is no way.
  const Way* find(const Thread& thread);
  // Whether a way exists. The first way that is found suffices.
  bool exists(const Thread& thread) { return has_way(thread, 0); }
  // Whether the innermost current entry can end with an unseen value. The outer entries are ignored.
  bool ends_innermost(const Thread& thread) {
    return has_way(thread, std::max(uniqueness_.count_open_entries(thread.mem).first - 1, 0));
  }
  ShortestText& tree() { return tree_; }
  EntryDetours& detours() { return detours_; }

 private:
  struct Answer {
    std::optional<Way> way;
    bool is_shortest;  // whether `way` is the shortest; otherwise, it is any way
  };
  // `outer_count`: how many of the current entries, counted from the outermost, need not end.
  const Answer* find_answer(const Thread& thread, int outer_count, bool any_suffices);
  bool has_way(const Thread& thread, int outer_count) {
    const Answer* answer = find_answer(thread, outer_count, true);
    return answer && answer->way;
  }
  bool answer_string(const Thread& thread, int outer_count, Answer& answer);
  std::optional<Way> follow_tree(Thread thread, int outer_count, int depth = 0);
  std::optional<Way> follow_any(const std::vector<Thread>& threads, int outer_count, int depth, Way out);
  bool may_avoid_detour(const Thread& thread, int outer_count);
  bool is_detour(const Way& way);
  std::optional<Way> search(const Thread& thread, int outer_count, bool any_suffices, bool avoids_detours);
  bool ends_with_seen_value(const Thread& thread);
  template <class Considers>
  std::optional<Way> shortest_end(int32_t state, int outer_count, Considers&& considers);
  bool may_become_seen(int32_t state, int outer_count);
  std::vector<int32_t> state_key(int32_t state);
  size_t min_bytes(const Thread& thread) { return static_cast<size_t>(tree_.min_bytes_to_end(thread)); }
  template <class Considers>
  size_t min_bytes_after(int32_t state, uint8_t byte, Considers&& considers);
  template <class Threads>
  size_t min_bytes_of_any(const Threads& threads);

  Arena& arena_;
  Uniqueness& uniqueness_;
  ShortestText tree_;
  ShortestNewString new_string_;
  EntryDetours detours_;
  ThreadMap<Answer> answers_, inner_answers_;
  int nesting_ = 0;
};

}  // namespace guided
