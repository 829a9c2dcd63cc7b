// Masks of grammars with a lexer: token tables put together along the parser.
//
// In: states (readings.hpp). Out: the tokens that can come next, or those after which the output can still end within a
// budget. Of each reading the table of its lexeme says which tokens stay in the lexeme, and for each terminal that it
// may end as, what follows; what the parser cannot take is left out (lexer_tables.hpp).
//
// Cost: a mask is kept for its state, up to a limit of memory; making one visits the tables along its tokens' terminals.
#pragma once

#include "lexer/lexer_tables.hpp"

namespace guided {

class LexedMasks {
 public:
  LexedMasks(Readings& readings, Places& places, LexedRests& rests, LexerTables& tables,
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
    return tables_.table(reading.lexeme, tables_.below_root(reading.rivals));
  }
  void add(int32_t place, const Table& table, uint32_t* row);
  void add_within(int32_t place, const Table& table, int64_t most, uint32_t* row);
  int64_t most_after(int32_t place, const Table& table);
  int64_t most_staying(int32_t place, const Table& table, bool lines = false);
  void add_marks(int32_t state, int64_t most, uint32_t* row);

  Readings& readings_;
  Places& places_;
  LexedRests& rests_;
  LexerTables& tables_;
  const TokenVocabulary& vocabulary_;
  const size_t most_;
  size_t memory_ = 0;
  std::unordered_map<int32_t, std::vector<uint32_t>> masks_;
  std::unordered_map<int32_t, int64_t> most_after_;
};

}  // namespace guided
