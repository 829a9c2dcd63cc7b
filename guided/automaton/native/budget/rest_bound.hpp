// How much is left at most after one more token, from the rules alone.
//
// In: a grammar; then states. Out: a number of tokens within which an output can end after any token that a state
// allows, so that a larger budget takes nothing from its mask and nothing has to be followed (budgets.hpp does that
// where this bound is too weak). It bounds what completion.hpp finds, which follows the tree of shortest_text.hpp: each
// run of bytes is spelled by itself, in tokens or, for a start, in bytes.
//
// How: of a frame on the stack the text to its end is known by its position, and by what its register can still ask for
// at most. A token may leave frames, which only makes the rest shorter, and then stands somewhere in the innermost
// frame that is left or in one of those called there: the worst position of a rule and of all that it calls. In rules
// that call themselves each frame on the way began with a byte of its own, and no token has more of these bytes than
// the vocabulary's richest (rest_rules.cpp). An entry that may come to a value that was there (uniqueness.hpp) ends
// another way; where some loop of two characters is always near, a few bytes more make a new value, and of few strings
// (finite_string_sets.hpp) none is longer than the longest.
//
// Nothing is known (kUnreachable) of vocabularies in which some byte is no token, of arrays and objects that must differ,
// and of permutations whose separators differ. Cost: once for a grammar, linear in its positions; one look-up for each
// thread of a state.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "base/by_state.hpp"
#include "run/shortest_text.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

class RestBound {
 public:
  // `spells`: runs of bytes are spelled in tokens; else each byte counts as one, which is quicker to find.
  // `least`: receives the least that was found for a state.
  RestBound(Arena& arena, ShortestText& tree, const TokenVocabulary& vocabulary, bool spells, ByState<int64_t>& least)
      : arena_(arena),
        grammar_(arena.grammar()),
        tree_(tree),
        vocabulary_(vocabulary),
        spells_(spells),
        least_(least) {}
  // With the arena's lock held.
  int64_t after_token(int32_t state);

 private:
  struct Rest {
    int64_t now = 0, after = 0;  // from here, and after any bytes of a token that are read from here
  };
  struct Entry {                          // in a frame
    std::vector<int32_t> inside, behind;  // positions where it is under way, and where it has ended
  };
  struct Member {  // of a component of rules that call each other
    int32_t rule;
    std::vector<int32_t> calling, callees;
    int64_t rounds;
    bool reads;  // before each of its calls
  };
  struct Steps {  // of a rule: the effects of its register
    std::vector<int32_t> puts, incs, mores;
  };
  void prepare();
  bool find_entries();
  bool find_inside(bool few, std::vector<int32_t>& inside);
  bool has_room() const;
  template <class Visit>
  void each_next_inside(int32_t position, Visit&& visit) const;
  int64_t longest_from(int32_t position, std::unordered_map<int32_t, int64_t>& longest, int depth) const;
  const Entry& entry_at(int32_t begin);
  int loop_bytes(int32_t position) const;
  Steps steps(int32_t rule) const;
  bool has_known_shape(int32_t rule, const Steps& steps) const;
  int64_t more_iterations(int32_t rule) const;
  int64_t rest(int32_t position, int depth);
  int64_t along_tree(int32_t position, int depth);
  bool reads(int32_t position) const;
  int64_t spelled(int32_t position) const;
  int64_t most(const std::vector<int32_t>& effects, int depth);
  int64_t whole(int32_t rule, int depth);
  int64_t whole_set(int32_t rule, int depth);
  int64_t owed(int32_t rule);
  void bound_rules();
  void bound_component(const std::vector<int32_t>& rules, const std::vector<int32_t>& component);
  int64_t most_in_token(const ByteSet& bytes) const;
  int64_t most_rounds(std::vector<Member>& members) const;
  template <class LeftOut>
  bool has_cycle(const std::vector<Member>& members, LeftOut&& left_out) const;
  ByteSet bytes_before(int32_t rule, const std::vector<int32_t>& calling, bool& reads) const;
  ByteSet first_bytes(int32_t rule) const;
  int64_t of_frame(const Thread& thread) const;
  Rest of_caller(int32_t config);

  Arena& arena_;
  const Grammar& grammar_;
  ShortestText& tree_;
  const TokenVocabulary& vocabulary_;
  const bool spells_;
  ByState<int64_t>& least_;
  bool prepared_ = false, known_ = false;
  int64_t frames_of_entry_ = 1;   // that are open in an entry at once
  int64_t room_ = 0;              // that a count needs within its bound, in entries
  std::vector<int32_t> bounded_;  // counters in entries that have one
  int64_t entry_ = 0;             // bytes of an entry that ends in a new way
  int32_t most_written_ = 0;      // values in a scope for which that holds
  std::vector<int64_t> rest_;     // by position: to the end of the frame, or to its next iteration or member
  std::vector<int32_t> path_;     // positions that wait for the next one
  std::vector<int64_t> whole_;    // by rule: its shortest text
  std::vector<Steps> steps_;
  std::vector<int64_t> owed_;      // by rule: what its register asks for at most; of a counter one iteration
  std::vector<int64_t> more_;      // by counter: iterations when there are enough of them
  std::vector<int64_t> anywhere_;  // by rule: from the worst position in it and in what it calls
  std::unordered_map<int32_t, Entry> entries_;  // by where they begin
  std::unordered_map<int32_t, Rest> callers_;
};

}  // namespace guided
