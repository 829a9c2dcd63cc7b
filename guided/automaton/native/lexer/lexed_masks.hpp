// Masks of grammars with a lexer: combines token tables by following the parser.
//
// In: states (readings.hpp). Out: the allowed tokens, or the tokens after which the output can still end within a
// budget. For each reading, the table of its lexeme has the tokens that end within the lexeme, and for each terminal
// that the lexeme may become, the tokens that continue. Terminals that the parser does not accept are skipped
// (lexer_tables.hpp).
//
// The result for a table and the top of a stack is cached. Other stacks with the same top reuse it (lexed_masks.cpp).
//
// Cost: masks are cached by state, up to a memory limit. A new mask reads one table for each sequence of terminals in
// its tokens.
#pragma once

#include <deque>

#include "base/pair_map.hpp"
#include "lexer/lexer_tables.hpp"

namespace guided {

class LexedMasks {
 public:
  LexedMasks(Readings& readings, LexerPositions& positions, LexedRests& rests, LexerTables& tables,
             const TokenVocabulary& vocabulary, size_t memory)
      : readings_(readings),
        positions_(positions),
        rests_(rests),
        tables_(tables),
        vocabulary_(vocabulary),
        max_memory_(memory) {}
  // A bitmask row, valid until the next call.
  const std::vector<uint32_t>& mask(int32_t state);
  // The cached mask, or null.
  const std::vector<uint32_t>* known(int32_t state) const {
    const auto it = masks_.find(state);
    return it == masks_.end() ? nullptr : &it->second;
  }
  // An upper bound on the number of tokens that are needed after any token of the mask.
  int64_t max_rest_after(int32_t state);
  // Sets the bits of the tokens after which at most `max_rest` tokens are needed. `row` must be zero.
  void fill(int32_t state, int64_t max_rest, uint32_t* row);
  size_t memory() const { return memory_; }

 private:
  using Table = LexerTables::Table;
  const Table& table_of(const Reading& reading) {
    return tables_.table(reading.lexeme, tables_.all_tokens(reading.competitors));
  }
  // Whether every token that stays in the table's lexeme has a completion, except for lexemes in `Table::unproven`.
  bool is_proven(int32_t position, const Table& table) {
    return max_rest_staying(position, table, rests_.all_sure(position)) < kNever;
  }
  const TokenSet& find_staying(int32_t position, const Table& table);
  void add_within_budget(int32_t position, const Table& table, int64_t max_rest, uint32_t* row);
  int64_t max_rest_after(int32_t position, const Table& table);
  int64_t max_rest_staying(int32_t position, const Table& table, bool only_lines = false);
  void add_special_tokens(int32_t state, int64_t max_rest, uint32_t* row);

  // A sequence of lexemes that leaves the top of a stack, or a prefix of such a sequence.
  struct Sequence {
    int32_t prefix;               // the index of the sequence without its last lexeme; -1: none
    const LexerTables::End* end;  // the end of the last lexeme
    bool leaves_top;              // false: only a prefix of other sequences
  };
  struct Share {
    bool is_usable = false;               // nothing but `sequences` depends on the stack below the top
    std::vector<const TokenSet*> tokens;  // allowed for any stack below the top, in addition to those that stay
    std::vector<Sequence> sequences;      // each after its prefixes
  };
  // A sequence that is added to a share only when it is needed.
  struct PendingSequence {
    PendingSequence* prefix;
    const LexerTables::End* end;
    int32_t number = -1;
    int32_t add_to(std::vector<Sequence>& sequences);
  };
  int32_t top(int32_t position) { return positions_.top(position, rests_.depends_on_lines(position)); }
  void add(int32_t position, const Table& table, uint32_t* row);
  void add_from_position(int32_t position, const Table& table, uint32_t* row);
  void add_after(int32_t next_position, const LexerTables::End& end, uint32_t* row);
  const Share& share(int32_t top, const Table& table);
  Share build_share(int32_t top, const Table& table);
  void follow_end(int32_t from, const LexerTables::End& end, PendingSequence* prefix, Share& out);
  bool follow_rest(int32_t next_position, const LexerTables::End& end, PendingSequence& sequence, Share& out);

  Readings& readings_;
  LexerPositions& positions_;
  LexedRests& rests_;
  LexerTables& tables_;
  const TokenVocabulary& vocabulary_;
  const size_t max_memory_;
  size_t memory_ = 0;
  std::unordered_map<int32_t, std::vector<uint32_t>> masks_;
  std::unordered_map<int32_t, int64_t> max_rests_;
  PairMap share_numbers_;  // by top and table
  std::deque<Share> shares_;
  int64_t table_clear_count_ = 0;  // when the first of `shares_` was built
};

}  // namespace guided
