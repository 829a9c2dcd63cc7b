// Masks of grammars with a lexer: token tables put together along the parser.
//
// In: states (parse_paths.hpp). Out: the tokens that can come next, or those after which the output can still end within a
// budget. Of each reading the table of its lexeme says which tokens stay in the lexeme, and for each terminal that it
// may end as, what follows; what the parser cannot take is left out (lexer_tables.hpp).
//
// What a table gives at the top of a stack is kept, so that other stacks with that top find it (lexed_masks.cpp).
//
// Cost: a mask is kept for its state, up to a limit of memory; making one visits the tables along its tokens' terminals.
#pragma once

#include <deque>

#include "base/pair_map.hpp"
#include "lexer/lexer_tables.hpp"

namespace guided {

class LexedMasks {
 public:
  LexedMasks(ParsePaths& readings, Places& places, LexedRests& rests, LexerTables& tables,
             const TokenVocabulary& vocabulary, size_t memory)
      : readings_(readings), places_(places), rests_(rests), tables_(tables), vocabulary_(vocabulary), most_(memory) {}
  // The words of a row. Valid until the next call.
  const std::vector<uint32_t>& mask(int32_t state);
  // Null where it is not kept.
  const std::vector<uint32_t>* known(int32_t state) const {
    const auto at = masks_.find(state);
    return at == masks_.end() ? nullptr : &at->second;
  }
  // No less than the tokens that are left after any token of the mask.
  int64_t most_after(int32_t state);
  // The tokens after which at most `most` are left, in a row of zeros.
  void fill(int32_t state, int64_t most, uint32_t* row);
  size_t memory() const { return memory_; }

 private:
  using Table = LexerTables::Table;
  const Table& table_of(const Reading& reading) {
    return tables_.table(reading.lexeme, tables_.below_root(reading.competing));
  }
  bool is_proven(int32_t place, const Table& table) {
    return !table.unsure && most_staying(place, table, rests_.all_sure(place)) < kNever;
  }
  void add_within(int32_t place, const Table& table, int64_t most, uint32_t* row);
  int64_t most_after(int32_t place, const Table& table);
  int64_t most_staying(int32_t place, const Table& table, bool lines = false);
  void add_marks(int32_t state, int64_t most, uint32_t* row);

  // ---- by the top of the stack: lexed_masks.cpp
  // A sequence of lexemes that leaves a top, or the beginning of some.
  struct Way {
    int32_t before;               // of these; -1: none
    const LexerTables::End* end;  // with which the last one ends
    bool leaves;
  };
  struct Share {
    bool known = false;                   // nothing but the ways hangs on what is below the top
    std::vector<const TokenSet*> tokens;  // that are allowed whatever is below
    std::vector<Way> ways;                // each behind the ones that it goes on from
  };
  struct Path {  // a way that may not be needed
    Path* before;
    const LexerTables::End* end;
    int32_t number = -1;
    int32_t add_to(std::vector<Way>& ways);
  };
  void add(int32_t place, const Table& table, uint32_t* row);
  void add_from_place(int32_t place, const Table& table, uint32_t* row);
  void add_after(int32_t after, const LexerTables::End& end, uint32_t* row);
  const Share& share(int32_t top, const Table& table);
  Share find_share(int32_t top, const Table& table);
  void go(int32_t from, const LexerTables::End& end, Path* before, Share& out);
  bool follow(int32_t after, const LexerTables::End& end, Path& path, Share& out);

  ParsePaths& readings_;
  Places& places_;
  LexedRests& rests_;
  LexerTables& tables_;
  const TokenVocabulary& vocabulary_;
  const size_t most_;
  size_t memory_ = 0;
  std::unordered_map<int32_t, std::vector<uint32_t>> masks_;
  std::unordered_map<int32_t, int64_t> most_after_;
  PairMap share_numbers_;  // by top and table
  std::deque<Share> shares_;
  int64_t clearings_ = 0;  // of the tables, when `shares_` was begun
};

}  // namespace guided
