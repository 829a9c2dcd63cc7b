// Where a walk of the vocabulary is in the automaton, and where characters lead from there.
//
// Problem: a walk reads a hundred thousand bytes, and interning a configuration for each would fill the arena with
// states that no output visits. Most positions of a literal have no call, action or end, though: reading a byte there
// leads from one position to one other.
//
// How: a *point* is a state of the arena, or such a plain position, which needs no state. WalkPoints are numbered as
// they are visited, and those that read many bytes store a row of where these lead: a walk visits few of them, and
// reads much in each. `leading` says which character classes lead as a whole from one point to another; a walk then
// takes whole stretches of the vocabulary (class_token_sets.hpp). It examines each ASCII byte and the lead bytes of the
// other characters once.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "run/arena.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

class WalkPoints {
 public:
  // Besides points: nothing is read on there; not looked at.
  enum NoPoint : int32_t { kNowhere = -1, kNotYet = -2 };

  // Point 0 is the thread itself: it reads bytes and no more. What a call, an effect or the end leads to are other
  // threads.
  WalkPoints(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread)
      : arena_(arena), grammar_(arena.grammar()), vocabulary_(vocabulary), thread_(thread) {
    number(kPosition + thread.pos);
  }

  int32_t next(int32_t point, uint8_t byte) {
    const int32_t* row = met_[point].row;
    if (!row) return step(point, byte);
    return row[byte] == kNotYet ? step(point, byte) : row[byte];
  }
  // Of another position of the frame, as a thread by itself.
  int32_t position(int32_t pos) { return number(kPosition + pos); }
  const ByteSet& bytes(int32_t point) const { return met_[point].bytes; }
  // What the point's bytes lead to, kNotYet where that was not asked for; null where it reads few.
  const int32_t* row(int32_t point) const { return met_[point].row; }
  int32_t count() const { return static_cast<int32_t>(met_.size()); }
  // Null for a position.
  const Config* config(int32_t point) const {
    return met_[point].point < kPosition ? &arena_.config(met_[point].point) : nullptr;
  }
  // The position of the frame that alone is there, but for its end; -1 where there are several, or of other frames.
  int32_t position_of(int32_t point) const;
  // Of a position: the least that the frame must still count.
  int32_t rest(int32_t point) const { return grammar_.positions[met_[point].point - kPosition].rest; }
  // Whether nothing but positions was met.
  bool only_positions() const {
    return std::ranges::all_of(met_, [](const Numbered& n) { return n.point >= kPosition; });
  }
  // Whether a whole token may end there.
  bool at_boundary(int32_t point) const;
  // The character classes all of whose characters lead from one point to the other.
  CharClasses leading(int32_t from, int32_t to);
  // Under a counter: the point that differs from this one by one count, and a byte that leads there; kNowhere where
  // there is none.
  std::pair<int32_t, uint8_t> counted_on(int32_t point);

 private:
  static constexpr int32_t kPosition = 1 << 30;  // kPosition + p: position p; below: a state
  static constexpr int kFewBytes = 8;
  struct Numbered {
    int32_t point;
    int32_t* row;  // 256; null where few bytes are read
    ByteSet bytes;
  };

  int32_t number(int32_t point);
  size_t slot(int32_t point) const;
  int32_t step(int32_t point, uint8_t byte);
  int32_t point_of(int32_t pos);
  bool counts_on(int32_t a, int32_t b) const;
  const std::array<uint8_t, 256>* classes(int32_t point) const;
  bool characters_lead(int32_t from, int32_t to);
  bool tail_leads(int32_t from, int lo, int hi, int more, int32_t to);
  template <class Check>
  bool bytes_lead(int32_t from, int lo, int hi, Check&& check);

  Arena& arena_;
  const Grammar& grammar_;
  const TokenVocabulary& vocabulary_;
  Thread thread_;
  std::vector<Numbered> met_;
  std::deque<std::array<int32_t, 256>> rows_;
  std::vector<int32_t> numbers_;                 // open addressing over points
  std::unordered_map<int32_t, int32_t> closed_;  // position -> the state of its closure
};

}  // namespace guided
