// An upper bound on the number of tokens that are still needed after the next token, computed from the rules alone.
//
// In: a grammar; then states. Out: for each state, a number n. After any token that the state allows, the output can
// end within n tokens. A larger budget removes nothing from the state's mask, so no token has to be examined (if this
// bound is too weak, budgets.hpp examines tokens). The number is an upper bound on the distances that completion.hpp
// computes for texts along the tree of shortest_text.hpp. Here, each run of bytes in such a text is spelled separately:
// in tokens or, as a first attempt, with one token per byte.
//
// How: the number of tokens that a frame on the stack still needs is bounded by its position and by the maximum that
// its register can still require. A token may leave frames, which only makes the rest shorter. The token then ends in
// the innermost remaining frame, or in a frame that is called from there. So the bound assumes the worst position in
// the rule of that frame and in all rules that it calls. In recursive rules, one token can open many frames. But each
// of these frames begins with a byte from a known set, so their number is at most the number of such bytes in one token
// (rest_rules.cpp).
//
// The shortest end of an entry may repeat a seen value (uniqueness.hpp). Then the entry needs another end. If an entry
// can always reach a loop over two characters within a few bytes, a few more bytes make it an unseen value. If the
// entry is one of a few strings (finite_string_sets.hpp), the longest of them is the bound.
//
// The bound is unknown (kUnreachable) for vocabularies in which some byte is not a token, for arrays and objects that
// must differ, for grammars with detours (entry_detours.hpp), and for permutations whose separators differ.
// Cost: linear in the positions of the grammar, once; one look-up for each thread of a state.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "base/by_state.hpp"
#include "run/new_entry.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

class RestBound {
 public:
  // `spells_runs`: runs of bytes are spelled in tokens; otherwise each byte counts as one token, which is faster to
  // compute. `least_rests`: receives the lowest bound that has been found for each state.
  RestBound(Arena& arena, NewEntry& new_entry, const TokenVocabulary& vocabulary, bool spells_runs,
            ByState<int64_t>& least_rests)
      : arena_(arena),
        grammar_(arena.grammar()),
        tree_(new_entry.tree()),
        detours_(new_entry.detours()),
        vocabulary_(vocabulary),
        spells_runs_(spells_runs),
        least_rests_(least_rests) {}
  // The bound for a state; kUnreachable if it is unknown. The caller must hold the arena's lock.
  int64_t bound_after_token(int32_t state);

 private:
  // Upper bounds on the number of tokens that a return configuration still needs: from its positions; and after any
  // bytes of a token that are read from there.
  struct RemainingTokens {
    int64_t from_here = 0, after_token = 0;
  };
  struct Entry {
    std::vector<int32_t> positions_inside, after_entry;  // positions of the entry's frame: in the entry; right after it
  };
  struct RecursiveRule {  // a rule in a strongly connected component of the call graph
    int32_t rule;
    std::vector<int32_t> calling_positions, callees;
    int64_t max_recurrences_in_token;
    bool reads_byte;  // whether a byte is read before each of its calls
  };
  struct RegisterEffects {  // the effects on a rule's register
    std::vector<int32_t> puts, incs, more_effects;
  };
  void prepare();
  bool bound_entries();
  bool collect_inside(bool is_finite, std::vector<int32_t>& positions);
  bool may_still_count() const;
  template <class Callback>
  void for_each_successor_in_entry(int32_t position, Callback&& callback) const;
  int64_t longest_from(int32_t position, std::unordered_map<int32_t, int64_t>& longest_lengths, int depth) const;
  const Entry& entry_at(int32_t begin);
  int loop_bytes(int32_t position) const;
  RegisterEffects effects_of_rule(int32_t rule) const;
  bool is_supported_pattern(int32_t rule, const RegisterEffects& effects) const;
  int64_t count_more_iterations(int32_t rule) const;
  int64_t rest(int32_t position, int depth);
  int64_t rest_along_tree(int32_t position, int depth);
  bool reads_byte(int32_t position) const;
  int64_t tokens_for_run(int32_t position) const;
  int64_t max_rest(const std::vector<int32_t>& effects, int depth);
  int64_t rule_cost(int32_t rule, int depth);
  int64_t permutation_cost(int32_t rule, int depth);
  int64_t register_cost(int32_t rule);
  void bound_rules();
  void bound_component(const std::vector<int32_t>& rules, const std::vector<int32_t>& component);
  int64_t max_bytes_in_token(const ByteSet& bytes) const;
  int64_t max_recurrences(std::vector<RecursiveRule>& recursive_rules) const;
  template <class IsLeftOut>
  bool has_cycle(const std::vector<RecursiveRule>& recursive_rules, IsLeftOut&& is_left_out) const;
  ByteSet bytes_before_calls(int32_t rule, const std::vector<int32_t>& calling_positions, bool& reads_byte) const;
  ByteSet first_bytes(int32_t rule) const;
  int64_t rest_of_frame(const Thread& thread) const;
  RemainingTokens rest_of_caller(int32_t config);

  Arena& arena_;
  const Grammar& grammar_;
  ShortestText& tree_;
  EntryDetours& detours_;
  const TokenVocabulary& vocabulary_;
  const bool spells_runs_;
  ByState<int64_t>& least_rests_;
  bool is_prepared_ = false, is_known_ = false;
  int64_t frames_per_entry_ = 1;           // the most frames that are open in an entry at once
  int64_t min_distance_to_bound_ = 0;      // how far below its bound a count in an entry must be
  std::vector<int32_t> bounded_counters_;  // counters with an upper bound, inside entries
  int64_t entry_bytes_ = 0;                // the most bytes of an entry that must end with an unseen value
  int32_t max_seen_ = 0;                   // the most seen values in a scope for which `entry_bytes_` holds
  // By position: the tokens that are still needed to the end of the frame, or to its next iteration or member.
  std::vector<int64_t> rests_;
  std::vector<int32_t> path_;        // a chain of positions: the rest of each is computed after that of the next one
  std::vector<int64_t> rule_costs_;  // by rule: the tokens of its shortest text
  std::vector<RegisterEffects> effects_;
  std::vector<int64_t> register_costs_;   // by rule: the most that its register requires; for a counter, per iteration
  std::vector<int64_t> more_iterations_;  // by counter: the iterations after the minimum
  // By rule: the rest from the worst position in it and in the rules that it calls.
  std::vector<int64_t> worst_rests_;
  std::unordered_map<int32_t, Entry> entries_;  // by start
  std::unordered_map<int32_t, RemainingTokens> caller_rests_;
};

}  // namespace guided
