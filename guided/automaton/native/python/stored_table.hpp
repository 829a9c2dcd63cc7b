// Checks the rows of a stored grammar, and gives access to them by number.
//
// In: the integers of a table, as guided/frontends/stored/tables.py writes them, and the texts to which they refer.
// Out: the kind of each row, the integers of its fields, and the parts of the grammar, which is the last row.
//
// A row is the number of a class, in the order of guided/frontends/stored/layout.py, followed by its fields. The bytes
// are untrusted. So this file checks everything that Python's reader checks: lengths, classes, that references lead to
// earlier rows, that each value has only one form, and that no two rows are equal. It raises a ValueError for a table
// that is malformed or has rare parts. Then Python's reader reads the table, or raises an error with a message. Python
// accepts every table that this file accepts. Python also reads the rows of the class `EmbeddedSchema`, whose fields
// are JSON values.
//
// Rare parts are several grammars or lexers, regions, parts with a lexer, and numbers of 2**30 and more.
//
// Cost: linear, 5 ns per integer. Memory: about 30 bytes per row. The caller holds the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "python/row_layout.hpp"

namespace guided {

using TextTuple = nanobind::typed<nanobind::tuple, nanobind::str, nanobind::ellipsis>;

constexpr uint32_t kNoNumber = 0xFFFFFFFF;    // stands for None
constexpr int64_t kMaxCount = (1 << 30) - 2;  // Python reads tables with larger counts

class StoredTable {
 public:
  using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
  // `ints`: little-endian. `number`: the number of this table. `tables`: the number of tables.
  StoredTable(const nanobind::bytes& ints, TextTuple texts, uint32_t number, uint32_t tables, int64_t max_nodes);

  size_t size() const { return kinds_.size(); }
  RowKind kind(uint32_t row) const { return kinds_[row]; }
  // The fields of a row.
  const uint32_t* fields(uint32_t row) const { return ints_.data() + positions_[row] + 1; }
  // The position of a row among the integers.
  uint32_t position(uint32_t row) const { return positions_[row]; }
  nanobind::str text(uint32_t number) const { return nanobind::borrow<nanobind::str>(texts_[number]); }
  size_t text_count() const { return text_count_; }
  bool has(RowKind kind) const { return seen_kinds_ >> static_cast<int>(kind) & 1; }

  // The maps of the grammar, as pairs: the number of a text, and the number of a text (`origins`) or row (the others).
  Pairs rules, origins, later, schemas;
  uint32_t start = 0;
  uint32_t lexer = kNoNumber;  // the row of the lexer
  // By text: the number of the rule of this name, or -1.
  std::vector<int32_t> rule_of_text;
  std::vector<uint32_t> embedded;  // the rows of all schemas

 private:
  class Checker;
  void read_grammar();
  void check_lexer() const;

  nanobind::tuple texts_;
  size_t text_count_;
  std::vector<uint32_t> ints_, positions_;
  std::vector<RowKind> kinds_;
  uint64_t seen_kinds_ = 0;
};

// Reads the fields of a row that has been checked.
class FieldReader {
 public:
  explicit FieldReader(const uint32_t* fields) : next_(fields) {}
  uint32_t next() { return *next_++; }
  // A list of items of `width` integers each.
  std::span<const uint32_t> list(size_t width = 1) {
    const size_t count = *next_++ * width;
    next_ += count;
    return {next_ - count, count};
  }
  // An upper bound; -1: no bound.
  int64_t limit() {
    const uint32_t value = *next_++;
    return value == kNoNumber ? -1 : static_cast<int64_t>(value);
  }

 private:
  const uint32_t* next_;
};

}  // namespace guided
