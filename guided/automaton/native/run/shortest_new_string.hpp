// Finds the shortest unseen string that an entry (uniqueness.hpp) can become.
//
// How: there is one answer for each pair of a position of the automaton and a node of the trie of seen strings. It is
// the shortest text (shortest_text.hpp) if this text is unseen. Otherwise it is the best of the answers one byte later:
// the answer with the fewest bytes to the end of the output or, among equals, the first in byte order. So the rest of
// an answer is the answer at a later position. Trie nodes never change, so a newly seen value requires new answers only
// along its own spelling.
//
// Example: for the strings `aa`, `ab`, `b` and the seen string `b`, the answer at the start is `aa"`. Once `aa` has
// been seen, too, the answer is `ab"`, and only the answers at the start, after `a` and after `aa` are computed again.
//
// In: a thread inside a string or at its beginning, and the seen strings as a trie (persistent_trie.hpp). Out: the rest
// of the string with its quotation mark, and the threads after the entry. There is no answer if seen strings lead to a
// position where more than the next byte must be chosen, such as a call or the next iteration of a loop.
// Cost: once for each seen value, its bytes times the possible next bytes at each of them; then the bytes of the text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/shortest_text.hpp"

namespace guided {

class ShortestNewString {
 public:
  ShortestNewString(Arena& arena, ShortestText& tree) : arena_(arena), uniqueness_(arena.uniqueness()), tree_(tree) {}
  struct Rest {
    std::string text;
    std::vector<Thread> end_threads;  // the threads after the entry, without their closure
  };
  // `ahead`: Uniqueness::string_ahead() of the thread's memory. nullopt if another method must be used.
  std::optional<Rest> find(const Thread& thread, const Uniqueness::StringAhead& ahead);

 private:
  static constexpr int64_t kNone = kUnreachable;
  struct Best {
    int64_t bytes = kNone;    // to the end of the output; kNone: there is no unseen string
    uint8_t byte = 0;         // the next byte
    uint8_t escaped = 0;      // if `byte` is kEscape: the byte after it
    bool is_complete = true;  // whether all strings were considered
  };
  Best find_best(Thread thread, int32_t node, int depth);
  Best find_best_in_escape(const Thread& thread, int32_t node, const StringProgress& read);
  Best best_with_byte(const Thread& thread, int32_t node, uint8_t byte, int depth);
  Best best_with_escape(const Thread& thread, int32_t node, int depth);
  Best best_after_backslash(const Thread& thread, int32_t node, int depth);
  int64_t tree_text_bytes(Thread thread, int32_t node);
  Thread enter(Thread thread);
  bool end_entry(const Thread& thread, std::vector<Thread>& out, int depth = 0);
  int64_t min_bytes_after_string(const Thread& thread);

  Arena& arena_;
  Uniqueness& uniqueness_;
  ShortestText& tree_;
  ThreadMap<Best> answers_;  // by a thread whose memory is replaced with the trie node
};

}  // namespace guided
