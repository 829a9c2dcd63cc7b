// Checks the rows of a stored grammar, and gives access to them by number.
//
// In: the integers of a table, as guided/frontends/stored/tables.py writes them, and the texts to which they refer.
// Out: the kind of each row, the integers of its fields, and the parts of the grammar, which is the last row.
//
// A row is the number of a class, in the order of guided/frontends/stored/layout.py, followed by its fields. The bytes
// may come from strangers. So this file checks everything that Python's reader checks: lengths, classes, references to
// earlier rows only, one form for each value, no two equal rows. It refuses a table that is malformed or has rare parts
// with a ValueError. Then Python's reader reads the table, or raises an error with a message. Python accepts every
// table that is accepted here. It also reads the rows of the class `EmbeddedSchema`, whose fields are JSON values.
//
// Rare parts: several grammars or lexers, regions, parts with a lexer, and numbers of 2**30 and more.
//
// Cost: linear, 5 ns for each integer. Memory: some 30 bytes for each row. The caller holds the GIL.
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
constexpr int64_t kMaxCount = (1 << 30) - 2;  // larger counts are left to Python

class StoredTable {
 public:
  using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
  // `ints`: little-endian. `number`: the number of this table. `tables`: the number of tables.
  StoredTable(const nanobind::bytes& ints, TextTuple texts, uint32_t number, uint32_t tables, int64_t max_nodes);

  size_t size() const { return kinds_.size(); }
  RowKind kind(uint32_t row) const { return kinds_[row]; }
  // The fields of a row.
  const uint32_t* fields(uint32_t row) const { return ints_.data() + begins_[row] + 1; }
  // The position of a row among the integers.
  uint32_t begin(uint32_t row) const { return begins_[row]; }
  nanobind::str text(uint32_t number) const { return nanobind::borrow<nanobind::str>(texts_[number]); }
  size_t texts() const { return text_count_; }
  bool has(RowKind kind) const { return seen_kinds_ >> static_cast<int>(kind) & 1; }

  // The grammar: numbers of texts, and of rows.
  Pairs rules, origins, later, schemas;
  uint32_t start = 0;
  uint32_t lexer = kNoNumber;  // its row
  // By text: the number of the rule of this name, or -1.
  std::vector<int32_t> rule_of_text;
  std::vector<uint32_t> embedded;  // all rows of schemas

 private:
  class Checker;
  void read_grammar();
  void check_lexer() const;

  nanobind::tuple texts_;
  size_t text_count_;
  std::vector<uint32_t> ints_, begins_;
  std::vector<RowKind> kinds_;
  uint64_t seen_kinds_ = 0;
};

// Reads the fields of a row that has been checked.
class FieldReader {
 public:
  explicit FieldReader(const uint32_t* at) : at_(at) {}
  uint32_t next() { return *at_++; }
  // A list of integers, `width` of them in each item.
  std::span<const uint32_t> list(size_t width = 1) {
    const size_t count = *at_++ * width;
    at_ += count;
    return {at_ - count, count};
  }
  // An upper bound; -1: no bound.
  int64_t limit() {
    const uint32_t value = *at_++;
    return value == kNoNumber ? -1 : static_cast<int64_t>(value);
  }

 private:
  const uint32_t* at_;
};

}  // namespace guided
