// Detours: entries after which the next entry is no closer to the end of the frame.
//
// Problem: in `{"uniqueItems": true, "contains": {"type": "object"}, "minContains": 2}`, the shortest end is `{},{}`,
// but the second `{}` has been seen. The number 0 is a shorter unseen entry than `{"":0}`. But it is not one of the
// entries that must still come, so after it the shortest end is `,{}` again, and then the same holds for 1, 2, ...
//
// How: an entry begins at a Begin edge and ends at a Keep edge of the same frame. After the entry, the shortest text to
// the end of the frame (shortest_text.hpp) may contain another entry. If the shortest text from there is not shorter
// than from the Begin edge, the entry is a *detour*. A way to the end of the output (new_entry.hpp) avoids detours where
// it can. So it contains finitely many entries: each of them brings the frame closer to its end.
//
// In: a grammar. Out: whether the end of an entry is a detour, and whether a thread in an entry may avoid it.
// Cost: once for each position after which entries begin, linear in the positions inside these entries, and for each of
// their ends in the positions up to the next entry. Then a look-up for each frame of a thread; nothing in grammars
// without detours.
#pragma once

#include <cstdint>
#include <vector>

#include "run/shortest_text.hpp"

namespace guided {

class EntryDetours {
 public:
  EntryDetours(Arena& arena, ShortestText& tree) : arena_(arena), grammar_(arena.grammar()), tree_(tree) {}
  // Whether an entry may be a detour. The caller must hold the arena's lock.
  bool any();
  // Whether an entry that has ended at this position may have been a detour.
  bool ends_detour(int32_t position_after_entry) {
    return any() && is_after_detour_[static_cast<size_t>(position_after_entry)];
  }
  // Whether an entry that a thread is reading may end without being a detour: the innermost one, after the first
  // `inner_count`.
  bool may_avoid(const Thread& thread, int inner_count);

 private:
  void prepare();
  void mark_entry(const Position& before, int32_t begin);
  void mark_avoiding();
  int64_t next_entry_cost(int32_t position, int32_t scopes) const;
  template <class Visit>
  void each_next(int32_t from, int32_t scopes, Visit&& visit) const;

  Arena& arena_;
  const Grammar& grammar_;
  ShortestText& tree_;
  bool is_prepared_ = false, any_ = false;
  // By position. `open_entries_`: the entries that are open in the frame, as bits. `may_avoid_`: one of them may end
  // without being a detour.
  std::vector<uint64_t> open_entries_;
  std::vector<uint8_t> may_avoid_, is_after_detour_;
};

}  // namespace guided
