// Where a walk of the vocabulary is in the automaton, and where characters lead from there.
//
// A *place* is a state of the arena, or, as kPosition + p, a position p that no call, effect or end leads from: it needs
// no state. Most bytes of a literal are read without the arena.
//
// `leading` says which kinds of characters all lead from one place to another: a walk then takes whole stretches of the
// vocabulary (kind_sets.hpp). It looks at each ASCII byte and at the lead bytes of the others once.
#pragma once

#include <unordered_map>

#include "arena.hpp"
#include "vocabulary.hpp"

namespace guided {

class Places {
 public:
  static constexpr int32_t kPosition = 1 << 30;

  // Of threads that differ from `thread` in their position, or are entered from it.
  Places(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread)
      : arena_(arena), grammar_(arena.grammar()), vocabulary_(vocabulary), thread_(thread) {}

  static bool is_position(int32_t place) { return place >= kPosition; }
  // The thread itself: it reads bytes and no more. What a call, an effect or the end leads to are other threads.
  int32_t start() const { return kPosition + thread_.pos; }

  int32_t next(int32_t place, uint8_t byte) {
    if (!is_position(place)) return arena_.step(place, byte);
    const int32_t pos = grammar_.step(place - kPosition, byte);
    return pos < 0 ? kDead : place_of(pos);
  }
  const ByteSet& bytes(int32_t place) const {
    return is_position(place) ? grammar_.positions[place - kPosition].bytes : arena_.config(place).bytes;
  }
  // Whether a whole token may end there.
  bool at_boundary(int32_t place) const;
  // The kinds all of whose characters lead from one place to the other (kDead: nowhere).
  Kinds leading(int32_t from, int32_t to);
  bool characters_lead(int32_t from, int32_t to);  // those past ASCII
  // Under a counter: the place that differs from this one by one count, and a byte that leads there; kDead where there
  // is none.
  std::pair<int32_t, uint8_t> counted_on(int32_t place);

 private:
  int32_t place_of(int32_t pos);
  bool counts_on(int32_t a, int32_t b) const;
  const std::vector<uint8_t>* classes(int32_t place) const;
  bool tail_leads(int32_t from, int lo, int hi, int more, int32_t to);
  template <class Check>
  bool bytes_lead(int32_t from, int lo, int hi, Check&& check);

  Arena& arena_;
  const Grammar& grammar_;
  const TokenVocabulary& vocabulary_;
  Thread thread_;
  std::unordered_map<int32_t, int32_t> closed_;  // position -> the state of its closure
};

}  // namespace guided
