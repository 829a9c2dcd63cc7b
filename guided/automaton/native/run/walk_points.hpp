// Tracks where in the automaton a walk of the vocabulary is, and where bytes and characters lead from there.
//
// Problem: a walk reads a hundred thousand bytes. Interning a configuration for each of them would fill the arena with
// states that no output reaches. But most positions of a literal have no call, action or end: there, a byte leads from
// one position to one other position.
//
// In: a thread, and bytes. Out: the numbers of the points to which the bytes lead.
//
// How: a *point* is a state of the arena or such a plain position, which needs no state. Points are numbered as they
// are visited. A point that reads many bytes stores a row that says where each byte leads: a walk visits few of these
// points, but reads many bytes at each of them. `classes_leading` returns the character classes that lead as a whole
// from one point to another, so that a walk can take whole ranges of the vocabulary (class_token_sets.hpp). It examines
// each ASCII byte, and each lead byte of other characters, once.
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
  // Results that are not points. kNowhere: nothing can be read there; kNotYet: not computed yet.
  enum NoPoint : int32_t { kNowhere = -1, kNotYet = -2 };

  // Point 0 is the thread itself, without its closure. It only reads bytes, since calls, effects and ends belong to
  // other threads.
  WalkPoints(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread)
      : arena_(arena), grammar_(arena.grammar()), vocabulary_(vocabulary), thread_(thread) {
    number_of(kFirstPosition + thread.pos);
  }

  int32_t next(int32_t point, uint8_t byte) {
    const int32_t* row = points_[point].row;
    if (!row) return step(point, byte);
    return row[byte] == kNotYet ? step(point, byte) : row[byte];
  }
  // The point that consists of a single thread at another position of the frame.
  int32_t position(int32_t pos) { return number_of(kFirstPosition + pos); }
  const ByteSet& bytes(int32_t point) const { return points_[point].bytes; }
  // By byte: where it leads from the point, or kNotYet. Null if the point reads few bytes.
  const int32_t* row(int32_t point) const { return points_[point].row; }
  int32_t count() const { return static_cast<int32_t>(points_.size()); }
  // Null for a plain position.
  const Config* config(int32_t point) const {
    return points_[point].code < kFirstPosition ? &arena_.config(points_[point].code) : nullptr;
  }
  // The only position of the frame at this point, ignoring exits; -1 if there are several positions, or positions of
  // other frames.
  int32_t position_of(int32_t point) const;
  // For a plain position: the minimum number of iterations that the frame must still count.
  int32_t rest(int32_t point) const { return grammar_.positions[points_[point].code - kFirstPosition].rest; }
  // Whether only plain positions have been visited.
  bool only_positions() const {
    return std::ranges::all_of(points_, [](const PointData& n) { return n.code >= kFirstPosition; });
  }
  // Whether a whole token may end at this point.
  bool at_boundary(int32_t point) const;
  // The character classes all of whose characters lead from one point to the other.
  CharClasses classes_leading(int32_t from, int32_t to);
  // In a counter: the point that differs from `point` only by one more count, and a byte that leads there; kNowhere if
  // there is none.
  std::pair<int32_t, uint8_t> find_next_count(int32_t point);

 private:
  static constexpr int32_t kFirstPosition = 1 << 30;  // code kFirstPosition + p: position p; smaller codes: states
  static constexpr int kMinRowBytes = 8;
  struct PointData {
    int32_t code;  // the state or the position
    int32_t* row;  // 256 points; null if the point reads few bytes
    ByteSet bytes;
  };

  int32_t number_of(int32_t code);
  size_t find_slot(int32_t code) const;
  int32_t step(int32_t point, uint8_t byte);
  int32_t code_of(int32_t pos);
  bool is_one_count_further(int32_t a, int32_t b) const;
  const std::array<uint8_t, 256>* byte_classes(int32_t point) const;
  bool non_ascii_leads_to(int32_t from, int32_t to);
  bool tails_lead_to(int32_t from, int lo, int hi, int remaining, int32_t to);
  template <class Check>
  bool bytes_lead_to(int32_t from, int lo, int hi, Check&& check);

  Arena& arena_;
  const Grammar& grammar_;
  const TokenVocabulary& vocabulary_;
  Thread thread_;
  std::vector<PointData> points_;
  std::deque<std::array<int32_t, 256>> rows_;
  std::vector<int32_t> numbers_;                   // code -> number, by open addressing
  std::unordered_map<int32_t, int32_t> closures_;  // position -> the state of its closure
};

}  // namespace guided
