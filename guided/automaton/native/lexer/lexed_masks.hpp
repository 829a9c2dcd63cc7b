// Masks of grammars with a lexer: combines token tables by following the parser.
//
// In: states (parse_paths.hpp). Out: the allowed tokens, or those after which the output can still end within a budget.
// For each reading, the table of its lexeme has the tokens that stay in the lexeme, and for each terminal that the
// lexeme may become, the tokens that continue. Terminals that the parser does not accept are skipped
// (lexer_tables.hpp).
//
// The result for a table and the top of a stack is cached, and other stacks with the same top reuse it
// (lexed_masks.cpp).
//
// Cost: masks are cached by state, up to a memory limit. A new mask visits one table for each sequence of terminals in
// its tokens.
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
  // A bitmask row. Valid until the next call.
  const std::vector<uint32_t>& mask(int32_t state);
  // The cached mask, or null.
  const std::vector<uint32_t>* known(int32_t state) const {
    const auto at = masks_.find(state);
    return at == masks_.end() ? nullptr : &at->second;
  }
  // An upper bound on the tokens that are needed after any token of the mask.
  int64_t most_after(int32_t state);
  // Sets the bits of the tokens after which at most `most` more are needed. `row` must be zero.
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

  // A sequence of lexemes that leaves the top of a stack, or a prefix of one.
  struct Way {
    int32_t before;               // the index of the way without its last lexeme; -1: none
    const LexerTables::End* end;  // the end of the last lexeme
    bool leaves;
  };
  struct Share {
    bool known = false;                   // only `ways` depends on the stack below the top
    std::vector<const TokenSet*> tokens;  // allowed whatever is below the top
    std::vector<Way> ways;                // each after its prefixes
  };
  struct Path {  // a way that may turn out not to be needed
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
  int64_t clearings_ = 0;  // of the tables, when `shares_` was started
};

}  // namespace guided
