// Free runs: how many arbitrary characters of some classes can be read from a position.
//
// The problem: in `.*customer.*` every character is allowed everywhere, but each leads to another position (how much of
// "customer" has just been read), so tokens cannot be taken by looking for a loop back to the same position
// (class_token_sets.hpp).
//
// In: a position of a rule, a set of character classes (token_trie.hpp) and a number n. Out: whether any n characters
// of these classes, in any order, can be read from there, with no call, action or end of the frame on the way, so that
// a token may end after each of them. A walk of the trie then allows at once all tokens below a node that are at most n
// characters long, though they lead to many different positions (table_walk.cpp). In a search for "customer" this holds
// for every n; in a text that must not contain "admin" twice it holds for n = 9 at the start, as "adminadmin" has ten
// letters.
//
// How: a position has a run of n characters if all positions that one character leads to have runs of n - 1. For each
// position a lower and an upper bound of the longest run are stored and improved by each question.
// Cost: the characters of a position are examined once, in microseconds; then O(positions within reach), each of them
// at most once for each n.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/grammar.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

class FreeRuns {
 public:
  static constexpr int32_t kMaxRun = 32;  // the longest run that is looked for, in characters; few tokens are longer

  // The runs of one rule for some character classes. `ends`: a run may pass through positions where the rule may end.
  class Runs {
   public:
    Runs(FreeRuns& all, const Rule& rule, CharClasses char_classes, bool ends);
    CharClasses char_classes() const { return classes_of_; }
    // Whether there is a run of this length.
    bool reads(int32_t position, int32_t characters);
    // The length of the longest run, at most kMaxRun; -1 if a run cannot even pass through this position.
    int32_t length(int32_t position);

   private:
    struct Known {
      int32_t next_lo = 0, next_hi = 0;   // in next_: the positions that one character leads to
      int32_t least = 0, most = kMaxRun;  // bounds of the longest run
    };
    Known& look(int32_t position);
    FreeRuns& all_;
    const int32_t base_;
    const CharClasses classes_of_;
    const bool ends_;
    std::vector<int32_t> numbers_;  // by position of the rule: index into known_; -1: not examined yet
    std::vector<Known> known_;
    std::vector<int32_t> next_;
  };

  // `weights`: by character class, how many tokens contain a character of it.
  FreeRuns(const Grammar& grammar, const ByteSet& live, const std::array<int32_t, 64>& weights)
      : grammar_(grammar), live_(live), weights_(weights) {}
  // The runs for character classes that have long runs from a position and make up much of the vocabulary, or null if
  // there are none. `follow`: character classes of the bytes that may follow the frame.
  Runs* find(int32_t position, CharClasses follow);

 private:
  // Where one character leads from a position.
  struct Reading {
    CharClasses readable = 0;                           // classes whose characters all lead to passive positions
    std::vector<std::pair<CharClasses, int32_t>> next;  // (classes, position that some of them lead to)
  };
  // Where the remaining bytes of a non-ASCII character lead from inside it.
  struct Tail {
    bool readable = true;  // all of them lead to passive positions
    std::vector<int32_t> next;
    void add(const Tail& other);
  };
  // Whether a position between characters has byte edges only, and a token may end there. It may be the frame's end.
  bool is_passive(int32_t position) const;
  // Whether a position inside a character has byte edges only.
  bool only_reads(int32_t position) const;
  const Reading& reading(int32_t position);
  void read_ascii(int32_t position, Reading& out) const;
  const Tail& tail(int32_t position, int lo, int hi, int more);
  Tail others(int32_t position);
  template <class Visit>
  void each_byte(int32_t position, int lo, int hi, Visit&& visit) const;
  int64_t weight(CharClasses char_classes) const;
  CharClasses lasting(int32_t position);
  Runs& runs(int32_t position, CharClasses char_classes, CharClasses follow);

  const Grammar& grammar_;
  const ByteSet live_;
  const std::array<int32_t, 64> weights_;
  std::unordered_map<int32_t, Reading> readings_;
  std::unordered_map<uint64_t, Tail> tails_;
  std::map<std::tuple<int32_t, CharClasses, bool>, std::unique_ptr<Runs>> runs_;
  std::map<std::pair<int32_t, CharClasses>, Runs*> found_;
};

}  // namespace guided
