// How an entry that is being read (uniqueness.hpp) can end with an unseen value.
//
// Problem: with the values 1 and 10 seen, an entry that has read `1` must go on, and not every way on will do: `0`
// leads to 10, which was seen. The shortest text to the end of the frame does not know the seen set, and a search
// without limits may go on for ever, because a value has infinitely many spellings: `1.0`, `1.00`, ...
//
// How: the shortest text (shortest_text.hpp) is tried first, and nearly always does. Else the search examines only
// those states from which the entry may still become a seen value, each once however it was spelled; from any other
// state the shortest text does. Of the ways to such a state the one with the fewest bytes to the end of the output is
// chosen, and among these the least in byte order. So the rest of a text is the text of the state that it leads to. The
// answer of each thread is stored. Whether there is a way at all is needed far more often, and the first way answers
// that.
//
// Where the entry is one of few strings, the unseen ones are known without a search (shortest_new_string.hpp); where
// none of them is left, nothing around the entry can end either.
//
// In: a thread. Out: the text from it to the end of the outermost entry that it reads, or that there is none.
// Cost: the bytes of the text where the first try is unseen; each seen value on the way adds its length. Once a way is
// known, a few times the states before it are examined for a better one; without one, some thousand. If these are spent
// without a way, the answer is that all ways lead to seen values, as for an integer with many spellings and few values.
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
    std::vector<Thread> after;  // the threads that it leads to, not closed
    size_t bytes = 0;           // with the tree's text from there to the end
  };
  // Null where there is none.
  const Way* find(const Thread& thread);
  // Whether there is one, which the first that is met shows.
  bool exists(const Thread& thread) { return has_way(thread, 0); }
  // Whether the innermost entry under way can end with a new value, whatever becomes of those around it.
  bool ends_innermost(const Thread& thread) {
    return has_way(thread, std::max(uniqueness_.under_way(thread.mem).first - 1, 0));
  }
  ShortestText& tree() { return tree_; }

 private:
  struct Answer {
    std::optional<Way> way;
    bool shortest;  // else any way
  };
  // `left_open`: how many of the entries under way need not end.
  const Answer* ask(const Thread& thread, int left_open, bool any);
  bool has_way(const Thread& thread, int left_open) {
    const Answer* answer = ask(thread, left_open, true);
    return answer && answer->way;
  }
  bool of_few(const Thread& thread, int left_open, Answer& found);
  std::optional<Way> of_tree(Thread at, int left_open, int depth = 0);
  std::optional<Way> of_any(const std::vector<Thread>& threads, int left_open, int depth, Way out);
  std::optional<Way> search(const Thread& thread, int left_open, bool any);
  bool refuses(const Thread& at);
  std::optional<Way> ends(int32_t state, int left_open);
  bool may_be_there(int32_t state, int left_open);
  std::vector<int32_t> essence(int32_t state);
  size_t least(const Thread& thread) { return static_cast<size_t>(tree_.least_to_end(thread)); }
  template <class Threads>
  size_t least_of(const Threads& threads);

  Arena& arena_;
  Uniqueness& uniqueness_;
  ShortestText tree_;
  ShortestNewString new_string_;
  ThreadMap<Answer> known_, inner_;
  int nesting_ = 0;
  size_t refused_ = 0;  // bytes of the text that of_tree() tried last, with the rest; 0: none came to an end
};

}  // namespace guided
