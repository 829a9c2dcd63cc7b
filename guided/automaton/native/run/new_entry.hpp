// How an entry that is being read (uniqueness.hpp) can end with an unseen value.
//
// Problem: with the values 1 and 10 seen, an entry that has read `1` must continue, and not every continuation works:
// `0` leads to 10, which has been seen. The shortest text to the end of the frame ignores the seen set. An unlimited
// search may never end, because a value has infinitely many spellings: `1.0`, `1.00`, ...
//
// How: the shortest text (shortest_text.hpp) is tried first, and nearly always suffices. Otherwise the search examines
// only states from which the entry may still become a seen value, each once, however it was spelled. From any other
// state the shortest text suffices. Of the ways to such a state, the one with the fewest bytes to the end of the output
// is chosen, and among these the first in byte order. So the rest of a way is the way from each state on it, and a value
// that is seen later does not change the way unless it is the one to which the way leads. The answer of each thread is
// cached. Whether any way exists is asked far more often, and the first way answers that.
//
// If the entry is a string, its shortest unseen value is usually known without a search (shortest_new_string.hpp). If it
// is one of few strings (finite_string_sets.hpp) and none of them is left, no entry around it can end either.
//
// In: a thread. Out: the text from it to the end of the outermost entry that it reads, or that there is none.
// Cost: the bytes of the text if the first try is unseen; each seen value on the way adds its length. Once a way is
// known, the search examines a few times the states so far for a better one; without a way, some thousand. If these are
// used up without a way, the answer is that all ways lead to seen values, as for an integer with many spellings and few
// values.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "run/shortest_new_string.hpp"

namespace guided {

class NewEntry {
 public:
  explicit NewEntry(Arena& arena)
      : arena_(arena), uniqueness_(arena.uniqueness()), tree_(arena), new_string_(arena, tree_) {}
  struct Way {
    std::string text;
    std::vector<Thread> after;  // the threads to which it leads, without their closure
    size_t bytes = 0;           // including the tree's text from there to the end of the output
  };
  // Null if there is none.
  const Way* find(const Thread& thread);
  // Whether a way exists. The first one that is found decides.
  bool exists(const Thread& thread) { return has_way(thread, 0); }
  // Whether the innermost current entry can end with an unseen value, ignoring the entries around it.
  bool ends_innermost(const Thread& thread) {
    return has_way(thread, std::max(uniqueness_.under_way(thread.mem).first - 1, 0));
  }
  ShortestText& tree() { return tree_; }

 private:
  struct Answer {
    std::optional<Way> way;
    bool shortest;  // otherwise any way
  };
  // `left_open`: how many of the current entries, from the outermost, need not end.
  const Answer* ask(const Thread& thread, int left_open, bool any);
  bool has_way(const Thread& thread, int left_open) {
    const Answer* answer = ask(thread, left_open, true);
    return answer && answer->way;
  }
  bool of_string(const Thread& thread, int left_open, Answer& found);
  std::optional<Way> of_tree(Thread at, int left_open, int depth = 0);
  std::optional<Way> of_any(const std::vector<Thread>& threads, int left_open, int depth, Way out);
  std::optional<Way> search(const Thread& thread, int left_open, bool any);
  bool refuses(const Thread& at);
  std::optional<Way> ends(int32_t state, int left_open);
  bool may_be_there(int32_t state, int left_open);
  std::vector<int32_t> essence(int32_t state);
  size_t least(const Thread& thread) { return static_cast<size_t>(tree_.least_to_end(thread)); }
  size_t least_after(int32_t state, uint8_t byte);
  template <class Threads>
  size_t least_of(const Threads& threads);

  Arena& arena_;
  Uniqueness& uniqueness_;
  ShortestText tree_;
  ShortestNewString new_string_;
  ThreadMap<Answer> known_, inner_;
  int nesting_ = 0;
  size_t refused_ = 0;  // bytes of the text that of_tree() refused last, to the end of the output; 0: none
};

}  // namespace guided
