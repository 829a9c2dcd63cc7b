// Adds the nodes of a stored table to a builder, children before parents, each row once.
//
// In: a table whose rows have been checked, a builder whose first encoding is UTF-8, and the ids of tokens. Out: the
// number of a row's node. The builder checks the values of nodes, as it does for nodes from Python. Nodes are added in
// the same order as from Python, so the core gets the same grammar.
//
// Rows that this file cannot read cause a ValueError; then Python reads the table. A few nodes without children need
// data that only Python has, such as the letters of all scripts. A callback adds these nodes.
//
// Cost: 0.1 us per node, and 10 ns per edge of an automaton.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "python/builder.hpp"
#include "python/stored_table.hpp"

namespace guided {

// The numbers of the nodes that a builder has for the rows of a table; -1: none. The cost of clearing is linear in the
// rows that were set.
class RowNumbers {
 public:
  explicit RowNumbers(size_t rows) : numbers_(rows, -1) {}
  int32_t of(uint32_t row) const { return numbers_[row]; }
  void set(uint32_t row, int32_t number) {
    numbers_[row] = number;
    set_rows_.push_back(row);
  }
  void clear() {
    for (const uint32_t row : set_rows_) numbers_[row] = -1;
    set_rows_.clear();
  }

 private:
  std::vector<int32_t> numbers_;
  std::vector<uint32_t> set_rows_;
};

// Finds the token to which a node refers by id or by name.
class TokenFinder {
 public:
  TokenFinder() = default;
  TokenFinder(const TokenFinder&) = delete;
  TokenFinder& operator=(const TokenFinder&) = delete;
  virtual ~TokenFinder() = default;
  // The id of the token; -1 if there is no such token, or if several tokens have this name.
  virtual int32_t find(const StoredTable& table, bool is_text, uint32_t value) const = 0;
};

// The encodings of a table. Each is read when it is first used.
class RowEncodings {
 public:
  explicit RowEncodings(const ReadEncoding& utf8) : utf8_(utf8) {}
  // The encoding of a row; null: UTF-8, which every builder has.
  const ReadEncoding* read(const StoredTable& table, uint32_t row);

 private:
  const ReadEncoding& utf8_;
  std::vector<std::pair<uint32_t, std::unique_ptr<ReadEncoding>>> encodings_;  // by row
};

class RowReader {
 public:
  // `tokens`: null for the rows of a terminal, which refer to no tokens and no rules. `add_in_python`: adds the node of
  // a row that Python must read, and returns the node's number; null: rows that Python must read are rejected.
  RowReader(const StoredTable& table, Builder& builder, RowNumbers& numbers, RowEncodings& encodings,
            const TokenFinder* tokens, const nb::callable* add_in_python)
      : table_(table),
        builder_(builder),
        numbers_(numbers),
        encodings_(encodings),
        tokens_(tokens),
        add_in_python_(add_in_python) {}
  int32_t read(uint32_t root);

 private:
  void push_children(uint32_t row);
  void push(uint32_t row) {
    if (numbers_.of(row) < 0) stack_.push_back(row);
  }
  int32_t add(uint32_t row);
  int32_t add_automaton(FieldReader in);
  int32_t add_dispatch(FieldReader in);
  int32_t add_encoded(FieldReader in);
  int32_t add_token(uint32_t row);
  int32_t add_permutation(FieldReader in);
  int32_t add_distinct(FieldReader in);
  int32_t add_by_callback(uint32_t row);
  std::vector<std::pair<int32_t, std::vector<int32_t>>> flatten_condition(uint32_t root) const;
  // The numbers of the nodes of rows.
  std::vector<int32_t> numbers(std::span<const uint32_t> rows) const {
    std::vector<int32_t> out;
    out.reserve(rows.size());
    for (const uint32_t row : rows) out.push_back(numbers_.of(row));
    return out;
  }
  Kind kind_of_many(RowKind kind) const {
    return kind == RowKind::Seq ? Kind::Seq : kind == RowKind::Alt ? Kind::Alt : Kind::And;
  }

  const StoredTable& table_;
  Builder& builder_;
  RowNumbers& numbers_;
  RowEncodings& encodings_;
  const TokenFinder* tokens_;
  const nb::callable* add_in_python_;
  std::vector<uint32_t> stack_;
  std::vector<std::pair<const ReadEncoding*, int32_t>> encoding_numbers_;
};

// The UTF-8 bytes of a text. Throws a ValueError if it contains a surrogate.
inline std::string utf8_of(const nb::str& text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

}  // namespace guided
