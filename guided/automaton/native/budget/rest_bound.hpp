// A bound on the tokens that are needed after one more token, from the rules alone.
//
// In: a grammar; then states. Out: a number of tokens within which an output can end after any token that a state
// allows. A larger budget removes nothing from the state's mask, so no token has to be examined (budgets.hpp does that
// if this bound is too weak). The number bounds the distances of completion.hpp, whose texts follow the tree of
// shortest_text.hpp. Here, each run of bytes in such a text is spelled separately: in tokens or, as a first attempt,
// with one token for each byte.
//
// How: the text to the end of a frame on the stack is bounded by its position, and by the most that its register can
// still require. A token may leave frames, which only makes the rest shorter. It then ends in the innermost remaining
// frame, or in a frame that is called from there. So the worst position of that rule and of all rules that it calls is
// assumed. In recursive rules, one token can open many frames. But each of these frames begins with a byte from a known
// set, so their number is at most the number of such bytes that one token can have (rest_rules.cpp).
//
// An entry that may become a seen value (uniqueness.hpp) may have to end differently. If a loop over two characters is
// always nearby, a few more bytes give an unseen value. If the entry is one of few strings (finite_string_sets.hpp),
// the longest of them is the bound.
//
// Nothing is known (kUnreachable) for vocabularies in which some byte is not a token, for arrays and objects that must
// differ, and for permutations whose separators differ. Cost: once per grammar, linear in its positions; one look-up
// for each thread of a state.
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
  // `spells`: runs of bytes are spelled in tokens; otherwise each byte counts as one token, which is faster to compute.
  // `least`: receives the lowest bound found for a state.
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
  struct Entry {
    std::vector<int32_t> inside, behind;  // positions of its frame: in the entry, and right after it
  };
  struct Member {  // of a component of rules that call each other
    int32_t rule;
    std::vector<int32_t> calling, callees;
    int64_t rounds;
    bool reads;  // a byte is read before each of its calls
  };
  struct Steps {  // the effects on a rule's register
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
  int64_t frames_of_entry_ = 1;   // frames that are open in an entry at once
  int64_t room_ = 0;              // how far below its bound a count in an entry must be
  std::vector<int32_t> bounded_;  // counters in entries that have a bound
  int64_t entry_ = 0;             // the most bytes of an entry that must end with an unseen value
  int32_t most_written_ = 0;      // the most seen values in a scope for which `entry_` holds
  std::vector<int64_t> rest_;     // by position: to the end of the frame, or to its next iteration or member
  std::vector<int32_t> path_;     // positions whose rest is computed after that of the next one
  std::vector<int64_t> whole_;    // by rule: its shortest text
  std::vector<Steps> steps_;
  std::vector<int64_t> owed_;      // by rule: the most that its register requires; for a counter, per iteration
  std::vector<int64_t> more_;      // by counter: iterations after the minimum
  std::vector<int64_t> anywhere_;  // by rule: from the worst position in it and in the rules that it calls
  std::unordered_map<int32_t, Entry> entries_;  // by start
  std::unordered_map<int32_t, Rest> callers_;
};

}  // namespace guided
