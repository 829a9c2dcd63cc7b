// Finds *free runs*: how many arbitrary characters of given classes can be read from a position.
//
// Problem: in `.*customer.*`, every character is allowed everywhere. But characters lead to different positions, which
// say how much of "customer" has just been read. So there is no loop back to the same position, by which tokens could
// be taken together (class_token_sets.hpp).
//
// In: a position of a rule, a set of character classes (token_trie.hpp) and a number n. Out: whether every string of n
// characters of these classes can be read from there. No call, action or end of the frame may be on the way, and a
// token may end after each character. If so, a walk of the trie takes all tokens below a node that have at most n more
// characters at once, although they lead to many different positions (table_walk.cpp). In a search for "customer", this
// holds for every n. In a text that must not contain "admin" twice, it holds for n = 9 at the start, since "adminadmin"
// has ten letters.
//
// How: a position has a run of n characters if all positions to which one character leads have runs of n - 1. A lower
// and an upper bound on the longest run are stored for each position, and each query improves them.
// Cost: the characters of a position are examined once, in microseconds. Then a query takes O(positions within reach),
// and examines each of them at most once for each n.
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
  static constexpr int32_t kMaxRun = 32;  // the longest run that is searched for, in characters; few tokens are longer

  // The runs of one rule for some character classes. `may_pass_ends`: a run may pass through positions where the rule
  // may end.
  class Runs {
   public:
    Runs(FreeRuns& owner, const Rule& rule, CharClasses char_classes, bool may_pass_ends);
    CharClasses char_classes() const { return char_classes_; }
    // Whether there is a run of this length.
    bool has_run(int32_t position, int32_t characters);
    // The length of the longest run, at most kMaxRun; -1 if a run cannot even pass through this position.
    int32_t longest_run(int32_t position);

   private:
    struct Bounds {
      int32_t next_lo = 0, next_hi = 0;    // in next_: the positions to which one character leads
      int32_t lower = 0, upper = kMaxRun;  // bounds on the longest run
    };
    Bounds& examine(int32_t position);
    FreeRuns& owner_;
    const int32_t base_;
    const CharClasses char_classes_;
    const bool may_pass_ends_;
    std::vector<int32_t> bounds_index_;  // by position of the rule: index into bounds_; -1: not examined yet
    std::vector<Bounds> bounds_;
    std::vector<int32_t> next_;
  };

  // `weights`: by character class, how many tokens contain a character of it.
  FreeRuns(const Grammar& grammar, const ByteSet& live, const std::array<int32_t, 64>& weights)
      : grammar_(grammar), live_(live), weights_(weights) {}
  // The runs for character classes that have long runs from a position and make up much of the vocabulary, or null if
  // there are no such classes. `follow`: the character classes of the bytes that may follow the frame.
  Runs* find(int32_t position, CharClasses follow);

 private:
  // Where one character leads from a position.
  struct CharacterTargets {
    CharClasses readable = 0;                           // classes whose characters all lead to passive positions
    std::vector<std::pair<CharClasses, int32_t>> next;  // (classes, a position to which some of their characters lead)
  };
  // Where the remaining bytes of a non-ASCII character lead.
  struct Tail {
    bool readable = true;  // all paths lead to passive positions
    std::vector<int32_t> next;
    void add(const Tail& other);
  };
  // Whether a position between characters has only byte edges, and a token may end there. The frame may end there, too.
  bool is_passive(int32_t position) const;
  // Whether a position inside a character has only byte edges, and the frame cannot end there.
  bool has_only_byte_edges(int32_t position) const;
  const CharacterTargets& targets_at(int32_t position);
  void read_ascii(int32_t position, CharacterTargets& out) const;
  const Tail& tail(int32_t position, int lo, int hi, int remaining);
  Tail non_ascii_tail(int32_t position);
  template <class Visit>
  void each_byte(int32_t position, int lo, int hi, Visit&& visit) const;
  int64_t weight(CharClasses char_classes) const;
  CharClasses lasting_classes(int32_t position);
  Runs& runs(int32_t position, CharClasses char_classes, CharClasses follow);

  const Grammar& grammar_;
  const ByteSet live_;
  const std::array<int32_t, 64> weights_;
  std::unordered_map<int32_t, CharacterTargets> targets_;
  std::unordered_map<uint64_t, Tail> tails_;
  std::map<std::tuple<int32_t, CharClasses, bool>, std::unique_ptr<Runs>> runs_;
  std::map<std::pair<int32_t, CharClasses>, Runs*> best_runs_;
};

}  // namespace guided
