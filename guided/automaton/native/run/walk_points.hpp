// Where a walk of the vocabulary is in the automaton, and where characters lead from there.
//
// Problem: a walk reads a hundred thousand bytes, and interning a configuration for each would fill the arena with
// states that no output visits. But most positions of a literal have no call, action or end: reading a byte there leads
// from one position to one other position.
//
// How: a *point* is a state of the arena, or such a plain position, which needs no state. Points are numbered as they
// are visited. A point that reads many bytes stores a row of where each leads: a walk visits few of these points, and
// reads much in each. `leading` says which character classes lead as a whole from one point to another, so a walk can
// take whole stretches of the vocabulary (class_token_sets.hpp). It examines each ASCII byte and the lead bytes of the
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
  // Results that are not points: nothing can be read there; not computed yet.
  enum NoPoint : int32_t { kNowhere = -1, kNotYet = -2 };

  // Point 0 is the thread itself, without its closure: it only reads bytes. Calls, effects and ends lead to other
  // threads.
  WalkPoints(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread)
      : arena_(arena), grammar_(arena.grammar()), vocabulary_(vocabulary), thread_(thread) {
    number(kPosition + thread.pos);
  }

  int32_t next(int32_t point, uint8_t byte) {
    const int32_t* row = points_[point].row;
    if (!row) return step(point, byte);
    return row[byte] == kNotYet ? step(point, byte) : row[byte];
  }
  // The point of another position of the frame, as a single thread.
  int32_t position(int32_t pos) { return number(kPosition + pos); }
  const ByteSet& bytes(int32_t point) const { return points_[point].bytes; }
  // Where the point's bytes lead, kNotYet if not computed yet; null if it reads few bytes.
  const int32_t* row(int32_t point) const { return points_[point].row; }
  int32_t count() const { return static_cast<int32_t>(points_.size()); }
  // Null for a position.
  const Config* config(int32_t point) const {
    return points_[point].point < kPosition ? &arena_.config(points_[point].point) : nullptr;
  }
  // The only position of the frame at this point, ignoring exits; -1 if there are several, or some of other frames.
  int32_t position_of(int32_t point) const;
  // For a position: the least that the frame must still count.
  int32_t rest(int32_t point) const { return grammar_.positions[points_[point].point - kPosition].rest; }
  // Whether only positions were visited.
  bool only_positions() const {
    return std::ranges::all_of(points_, [](const Numbered& n) { return n.point >= kPosition; });
  }
  // Whether a whole token may end there.
  bool at_boundary(int32_t point) const;
  // The character classes all of whose characters lead from one point to the other.
  CharClasses leading(int32_t from, int32_t to);
  // Under a counter: the point that differs from this one by one count, and a byte that leads there; kNowhere if there
  // is none.
  std::pair<int32_t, uint8_t> counted_on(int32_t point);

 private:
  static constexpr int32_t kPosition = 1 << 30;  // kPosition + p: position p; below: a state
  static constexpr int kFewBytes = 8;
  struct Numbered {
    int32_t point;
    int32_t* row;  // 256 points; null if few bytes are read
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
  std::vector<Numbered> points_;
  std::deque<std::array<int32_t, 256>> rows_;
  std::vector<int32_t> numbers_;                 // open addressing over points
  std::unordered_map<int32_t, int32_t> closed_;  // position -> the state of its closure
};

}  // namespace guided
