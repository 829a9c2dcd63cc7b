// The shortest unseen string that an entry (uniqueness.hpp) can become.
//
// How: an answer belongs to a position of the automaton and a node of the trie of seen strings. It is the shortest text
// (shortest_text.hpp) if that is unseen. Otherwise it is the best of the answers one byte later: the one with the
// fewest bytes to the end of the output, and among these the first in byte order. So the rest of an answer is the
// answer at a later position. Nodes never change, so a newly seen value needs new answers only along its own spelling.
//
// Example: of the strings `aa`, `ab`, `b` and the seen string `b`, the answer at the start is `aa"`. Once `aa` is seen
// as well, it is `ab"`, and only the answers at the start, after `a` and after `aa` are computed again.
//
// In: a thread inside of a string, or at its beginning, and the seen strings as a trie (persistent_trie.hpp). Out: the
// rest of a string with its quotation mark, and the threads after the entry. No answer where seen strings lead to
// positions at which there is more than one byte to choose, such as a call or the next iteration of a loop.
// Cost: once for each seen value, its bytes times the possible next bytes at each; then the bytes of the text.
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
    std::vector<Thread> after;  // without their closure
  };
  // `ahead`: of the thread's memory. nullopt if another method must be used.
  std::optional<Rest> find(const Thread& thread, const Uniqueness::StringAhead& ahead);

 private:
  static constexpr int64_t kNone = kUnreachable;
  struct Best {
    int64_t bytes = kNone;  // to the end of the output; kNone: no unseen string
    uint8_t byte = 0;       // the next byte
    uint8_t escaped = 0;    // the byte after kEscape
    bool complete = true;   // all strings were considered
  };
  Best best(Thread at, int32_t node, int depth);
  Best best_in_escape(const Thread& at, int32_t node, const StringProgress& read);
  Best after_byte(const Thread& at, int32_t node, uint8_t byte, int depth);
  Best best_with_escape(const Thread& at, int32_t node, int depth);
  Best best_after_backslash(const Thread& at, int32_t node, int depth);
  int64_t tree_bytes(Thread at, int32_t node);
  Thread enter(Thread at);
  bool end_entry(const Thread& at, std::vector<Thread>& out, int depth = 0);
  int64_t bytes_behind(const Thread& at);

  Arena& arena_;
  Uniqueness& uniqueness_;
  ShortestText& tree_;
  ThreadMap<Best> known_;  // by a thread whose memory is replaced by the node
};

}  // namespace guided
