// How far characters of some character classes can be read, whatever they are.
//
// In: a position of a rule, character classes (token_trie.hpp), a number. Out: whether so many characters of these
// character classes, any of them in any order, can be read from there without being refused and without a call, an
// effect or the frame's end on the way, and a token may end after each. In a search for "customer" that is true of all
// characters for ever; where "admin" may not come twice, of any nine: so a walk takes all tokens below a node that are
// shorter than that, though they lead to many different places (table_walk.cpp).
//
// How: a position can be read on from for n characters if all that one character leads to can for n - 1. What is known
// of a position is kept: that it goes on at least so far, and at most so far.
// Cost: a position's characters are looked at once, some us; then O(positions within reach), each asked of at most once
// for each number.
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
  static constexpr int32_t kMost = 32;  // characters that are looked ahead; few tokens are longer

  // Of one rule and some character classes. `ends`: positions where the rule may end are as good as others.
  class Runs {
   public:
    Runs(FreeRuns& all, const Rule& rule, CharClasses char_classes, bool ends);
    CharClasses char_classes() const { return classes_of_; }
    bool reads(int32_t position, int32_t characters);
    // The most characters, up to kMost; -1 where a token cannot end or something else happens.
    int32_t length(int32_t position);

   private:
    struct Known {
      int32_t next_lo = 0, next_hi = 0;  // in next_: where one character leads
      int32_t least = 0, most = kMost;
    };
    Known& look(int32_t position);
    FreeRuns& all_;
    const int32_t base_;
    const CharClasses classes_of_;
    const bool ends_;
    std::vector<int32_t> numbers_;  // by position of the rule, into known_; -1: not looked at
    std::vector<Known> known_;
    std::vector<int32_t> next_;
  };

  // `weights`: how many tokens hold a character of each class.
  FreeRuns(const Grammar& grammar, const ByteSet& live, const std::array<int32_t, 64>& weights)
      : grammar_(grammar), live_(live), weights_(weights) {}
  // Of character classes for which the runs from a position are long and take in much of the vocabulary. Null where
  // there are none. `follow`: character classes of the bytes that may follow the frame.
  Runs* find(int32_t position, CharClasses follow);

 private:
  // Where the characters of each class lead; a class is readable if all of its characters lead to quiet positions.
  struct Reading {
    CharClasses readable = 0;
    std::vector<std::pair<CharClasses, int32_t>> next;  // by position, each once
  };
  struct Tail {  // where the last bytes of characters past ASCII lead, from inside of them
    bool readable = true;
    std::vector<int32_t> next;
    void add(const Tail& other);
    void settle();
  };
  // Whether nothing happens there but that bytes are read, the frame's end aside.
  bool quiet(int32_t position) const;
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
