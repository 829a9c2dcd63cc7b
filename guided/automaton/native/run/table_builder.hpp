// Collects the results of a vocabulary walk, and builds a token table from them.
//
// In: the task (TableTask); during the walk: ranges of the trie's payloads whose tokens end at the same point, single
// tokens, complete sets, and tokens that leave the frame. Out: the table, with a set of tokens for each label, and a
// trie of the remainders of the tokens that leave.
// Cost: O(1) to note a range, which is copied once at the end; O(bytes) for the remainders.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "run/arena.hpp"
#include "run/token_table.hpp"
#include "vocabulary/free_runs.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

// The task: one thread with an unknown caller, and the bytes that may follow its frame.
struct TableTask {
  Arena& arena;
  const TokenVocabulary& vocabulary;
  Thread thread;
  ByteSet follow;
  FreeRuns* runs = nullptr;            // for walks of the vocabulary
  const TokenTable* source = nullptr;  // the table whose remainders are walked; null: the vocabulary is walked

  const TokenTrie& trie() const { return source ? source->remainders : vocabulary.trie; }
  bool is_relative() const { return thread.ret == kFree; }
};

// What happens to tokens that end at a point.
struct Ending {
  int32_t set = -1;             // the set of the table that receives them; -1: no token may end there
  int32_t touched_entries = 0;  // see Uniqueness::touched_entries
};

class TableBuilder {
 public:
  explicit TableBuilder(const TableTask& task)
      : task_(task), trie_(task.trie()), is_relative_(task.is_relative()), table_(std::make_shared<TokenTable>()) {
    table_->is_relative = is_relative_;
  }

  // The number of the set for tokens with this label. A plain table has only set 0.
  int32_t set_number(Label label);

  // ---- tokens that stay: payloads from..to of the trie
  void take(const Ending& ending, int32_t from, int32_t to) {
    if (ending.set < 0 || from == to) return;
    if (ending.touched_entries > 0) note_touched_entries(ending.touched_entries, from, to);
    auto& ranges = sets_[ending.set].ranges;
    if (!ranges.empty() && ranges.back().second == from)
      ranges.back().second = to;
    else
      ranges.push_back({from, to});
  }
  void take_one(int32_t set, int32_t payload) {
    if (set >= 0) sets_[set].ids.push_back(trie_.payloads()[payload]);
  }
  // Takes all or most tokens of a set at once. Call this before single tokens are taken or dropped.
  void take_most(int32_t set, std::vector<uint32_t> bits, std::vector<int32_t> ids) {
    sets_[set].bits = std::move(bits);
    sets_[set].ids = std::move(ids);
  }
  // Takes tokens from a list that the caller keeps alive until the table is finished.
  void take_list(int32_t set, std::span<const int32_t> ids) {
    if (set >= 0) sets_[set].lists.push_back(ids);
  }
  // Removes tokens that take_most() or take_list() has taken.
  void drop(int32_t from, int32_t to) {
    if (is_relative_ && dropped_.empty()) dropped_.resize(static_cast<size_t>(task_.vocabulary.words));
    uint32_t* row = is_relative_ ? dropped_.data() : sets_[0].bits.data();
    for (int32_t i = from; i < to; ++i)
      is_relative_ ? set_bit(row, trie_.payloads()[i]) : clear_bit(row, trie_.payloads()[i]);
  }
  // Notes that some of these tokens begin or end entries of a scope whose seen set is unknown.
  void note_touched_entries(int32_t touched_entries, int32_t from, int32_t to);
  void note_some_touched_entries() { table_->touches_entries = true; }

  // ---- tokens that leave
  // Notes that the frame ends after `depth` bytes of these tokens, in a configuration with exits. The caller may read
  // the remaining bytes.
  void leave(const Config& config, int32_t depth, int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i)
      for (int32_t k = config.count - 1; k >= 0 && config.threads[k].pos == kExit; --k)
        leaving_.push_back({trie_.payloads()[i], depth, is_relative_ ? config.threads[k].reg : 0,
                            task_.arena.uniqueness().touched_entries(config.threads[k].mem)});
    if (leaving_.size() > kMaxRemainders) table_->overflow = true;
  }
  // Like the function above, for a frame with one exit that has touched no entry. Only for plain tables.
  void leave(int32_t depth, int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i) leaving_.push_back({trie_.payloads()[i], depth, 0, 0});
    if (leaving_.size() > kMaxRemainders) table_->overflow = true;
  }
  // Copies a remainder from another table of the same frame.
  void leave_as(const Remainder& r) { leaving_.push_back({r.token, r.depth, r.count, r.touched_entries}); }

  bool overflow() const { return table_->overflow; }
  // Discards everything that a plain table has taken.
  void restart();
  // `reads_only_bytes`: see TokenTable.
  std::shared_ptr<TokenTable> finish(bool reads_only_bytes);

 private:
  static constexpr size_t kMaxRemainders = 5000;  // with more, it is faster to walk the vocabulary for each state
  // Tokens with the same label: ranges of the trie's payloads, bits, ids and lists of ids.
  struct CollectedSet {
    Label label;
    std::vector<std::pair<int32_t, int32_t>> ranges;
    std::vector<uint32_t> bits;
    std::vector<int32_t> ids;
    std::vector<std::span<const int32_t>> lists;
  };
  struct LeavingToken {
    int32_t token, depth, count, touched_entries;
  };

  TokenSet tokens_of(CollectedSet& set) const;
  void finish_sets();
  std::vector<int32_t> group_by_stay_count();
  void finish_remainders();
  void drop_duplicates();

  const TableTask& task_;
  const TokenTrie& trie_;
  const bool is_relative_;
  std::shared_ptr<TokenTable> table_;
  std::vector<CollectedSet> sets_;
  std::map<Label, int32_t> set_numbers_;
  std::vector<LeavingToken> leaving_;
  std::vector<uint32_t> dropped_;  // tokens that are dropped from lists
};

}  // namespace guided
