// Collects the results of a vocabulary walk, and builds a token table from them.
//
// In: the task (TableTask); during the walk: stretches of the trie's payloads that end at one point, single tokens,
// complete sets, and tokens that leave the frame. Out: the table, with a set of tokens for each label, and a trie of
// the remainders of the tokens that left.
// Cost: a stretch is noted in O(1) and copied once, at the end; O(bytes) for the remainders.
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

// One thread with an unknown caller, and the bytes that may come after its frame.
struct TableTask {
  Arena& arena;
  const TokenVocabulary& vocabulary;
  Thread thread;
  ByteSet follow;
  FreeRuns* runs = nullptr;          // for walks of the vocabulary
  const TokenTable* left = nullptr;  // the table whose remainders are walked; null: walk the vocabulary

  const TokenTrie& trie() const { return left ? left->remainders : vocabulary.trie; }
  bool relative() const { return thread.ret == kFree; }
};

// What happens to tokens that end at a point.
struct Ending {
  int32_t set = -1;     // the set of the table that receives them; -1: none may end there
  int32_t touched = 0;  // see Uniqueness::touched
};

class TableBuilder {
 public:
  explicit TableBuilder(const TableTask& task)
      : task_(task), trie_(task.trie()), relative_(task.relative()), table_(std::make_shared<TokenTable>()) {
    table_->relative = relative_;
  }

  // The set for tokens with this label; a plain table has one, number 0.
  int32_t set_of(Label label);

  // ---- tokens that stay: payloads from..to of the trie
  void take(const Ending& ending, int32_t from, int32_t to) {
    if (ending.set < 0 || from == to) return;
    if (ending.touched > 0) note_entries(ending.touched, from, to);
    auto& stretches = sets_[ending.set].stretches;
    if (!stretches.empty() && stretches.back().second == from)
      stretches.back().second = to;
    else
      stretches.push_back({from, to});
  }
  void take_one(int32_t set, int32_t payload) {
    if (set >= 0) sets_[set].ids.push_back(trie_.payloads()[payload]);
  }
  // Takes all tokens of a set at once, or most of them. Call this before single tokens are taken or dropped.
  void take_all(int32_t set, std::vector<uint32_t> bits, std::vector<int32_t> ids) {
    sets_[set].bits = std::move(bits);
    sets_[set].ids = std::move(ids);
  }
  // Takes tokens that are stored elsewhere, until the table is finished.
  void take_list(int32_t set, std::span<const int32_t> ids) {
    if (set >= 0) sets_[set].lists.push_back(ids);
  }
  // Removes tokens from what take_all() or take_list() has taken.
  void drop(int32_t from, int32_t to) {
    if (relative_ && dropped_.empty()) dropped_.resize(static_cast<size_t>(task_.vocabulary.words));
    uint32_t* row = relative_ ? dropped_.data() : sets_[0].bits.data();
    for (int32_t i = from; i < to; ++i)
      relative_ ? set_bit(row, trie_.payloads()[i]) : clear_bit(row, trie_.payloads()[i]);
  }
  // Some of these tokens begin or end entries of a scope whose seen set is unknown.
  void note_entries(int32_t touched, int32_t from, int32_t to);
  void note_some_entries() { table_->touches_entries = true; }

  // ---- tokens that leave
  // The frame ends after `depth` bytes of the tokens, in a configuration with exits. The remaining bytes may follow.
  void leave(const Config& config, int32_t depth, int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i)
      for (int32_t k = config.count - 1; k >= 0 && config.threads[k].pos == kExit; --k)
        left_.push_back({trie_.payloads()[i], depth, relative_ ? config.threads[k].reg : 0,
                         task_.arena.uniqueness().touched(config.threads[k].mem)});
    if (left_.size() > kMaxRemainders) table_->overflow = true;
  }
  // The same for a frame with one exit, which has touched no entry. Only for plain tables.
  void leave(int32_t depth, int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i) left_.push_back({trie_.payloads()[i], depth, 0, 0});
    if (left_.size() > kMaxRemainders) table_->overflow = true;
  }
  // Copies a remainder from another table of the same frame.
  void leave_as(const Remainder& r) { left_.push_back({r.token, r.depth, r.count, r.touched}); }

  bool overflow() const { return table_->overflow; }
  // Discards everything that a plain table has taken.
  void restart();
  // `within_bytes`: see TokenTable.
  std::shared_ptr<TokenTable> finish(bool within_bytes);

 private:
  static constexpr size_t kMaxRemainders = 300000;  // a table with more is not worth its memory
  // Tokens with one label: stretches of the trie's payloads, bits, ids.
  struct Collected {
    Label label;
    std::vector<std::pair<int32_t, int32_t>> stretches;
    std::vector<uint32_t> bits;
    std::vector<int32_t> ids;
    std::vector<std::span<const int32_t>> lists;
  };
  struct Left {
    int32_t token, depth, count, touched;
  };

  TokenSet tokens_of(Collected& set) const;
  void finish_sets();
  std::vector<int32_t> group_by_stay();
  void finish_remainders();
  void drop_repeated();

  const TableTask& task_;
  const TokenTrie& trie_;
  const bool relative_;
  std::shared_ptr<TokenTable> table_;
  std::vector<Collected> sets_;
  std::map<Label, int32_t> set_numbers_;
  std::vector<Left> left_;
  std::vector<uint32_t> dropped_;  // tokens that are not taken from lists
};

}  // namespace guided
