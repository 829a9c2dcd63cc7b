#include "python/stored_table.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/common.hpp"

namespace guided {

namespace nb = nanobind;

namespace {

constexpr int kMaxNesting = 12;    // of Dispatch and MaxTokens rows; Python's reader allows a little more
constexpr size_t kMaxProbes = 32;  // per row, on average

[[noreturn]] void reject() { throw nb::value_error("the stored table is malformed, or has rare parts"); }

void check_that(bool condition) {
  if (!condition) reject();
}

bool is_hex(PyObject* text) {
  const Py_ssize_t length = PyUnicode_GET_LENGTH(text);
  for (Py_ssize_t i = 0; i < length; ++i) {
    const Py_UCS4 c = PyUnicode_READ_CHAR(text, i);
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return length % 2 == 0;
}

}  // namespace

// Checks the rows, one after the other.
class StoredTable::Checker {
 public:
  Checker(StoredTable& table, uint32_t number, uint32_t tables)
      : table_(table), number_(number), tables_(tables), seen_text_(table.text_count(), 0) {}

  void check() {
    const size_t size = table_.ints_.size();
    while (pos_ < size) {
      const auto begin = static_cast<uint32_t>(pos_);
      const uint32_t kind = next();
      check_that(kind < kKinds && !(kRare >> kind & 1));
      depth_ = 0;
      for (const FieldLayout& field : row_layout()[kind]) check_field(field);
      const auto row = static_cast<RowKind>(kind);
      if (row == RowKind::Dispatch || row == RowKind::MaxTokens) check_that(++depth_ <= kMaxNesting);
      if (row == RowKind::Embedded) table_.embedded.push_back(static_cast<uint32_t>(table_.kinds_.size()));
      if (row == RowKind::Grammar || row == RowKind::Lexer) check_that(!table_.has(row));
      table_.positions_.push_back(begin);
      table_.kinds_.push_back(row);
      table_.seen_kinds_ |= kinds_of({row});
      row_depths_.push_back(static_cast<uint8_t>(depth_));
    }
    check_that(!table_.kinds_.empty() && table_.kinds_.back() == RowKind::Grammar);
    check_rows_differ();
  }

 private:
  uint32_t next() {
    check_that(pos_ < table_.ints_.size());
    return table_.ints_[pos_++];
  }
  uint32_t next_text() {
    const uint32_t number = next();
    check_that(number < table_.text_count());
    return number;
  }
  // A list of items of `width` integers each.
  std::span<const uint32_t> next_list(size_t width = 1) {
    const size_t count = size_t{next()} * width;
    check_that(count <= table_.ints_.size() - pos_);
    pos_ += count;
    return {table_.ints_.data() + pos_ - count, count};
  }
  void check_row(uint32_t row, Kinds kinds) {
    check_that(row < table_.kinds_.size() && (kinds >> static_cast<int>(table_.kinds_[row]) & 1));
    depth_ = std::max(depth_, int{row_depths_[row]});
  }
  void check_count(uint32_t value) { check_that(value <= kMaxCount); }
  void check_names() {
    const std::span<const uint32_t> names = next_list();
    for (size_t i = 0; i < names.size(); ++i) {
      check_that(names[i] < table_.text_count());
      if (i == 0) continue;
      const int order = PyUnicode_Compare(table_.text(names[i - 1]).ptr(), table_.text(names[i]).ptr());
      check_that(order < 0);
    }
  }
  void check_token() {
    const uint32_t is_text = next();
    check_that(is_text <= 1);
    if (is_text)
      next_text();
    else
      check_count(next());
  }
  void check_states() {
    for (uint32_t count = next(); count > 0; --count) {
      check_that(next() <= 1);
      next_list(3);
    }
  }
  void check_contexts() {
    std::set<std::vector<uint32_t>> keys;
    for (uint32_t count = next(); count > 0; --count) {
      const size_t begin = pos_;
      check_names();
      check_that(keys.emplace(table_.ints_.begin() + static_cast<ptrdiff_t>(begin),
                              table_.ints_.begin() + static_cast<ptrdiff_t>(pos_))
                     .second);
      check_names();
    }
  }
  // Checks a mapping from texts to rows of these kinds, or to texts if there are no kinds. No key may occur twice.
  void check_map(Kinds kinds) {
    ++map_count_;
    for (uint32_t count = next(); count > 0; --count) {
      const uint32_t key = next_text();
      check_that(seen_text_[key] != map_count_);
      seen_text_[key] = map_count_;
      if (kinds)
        check_row(next(), kinds);
      else
        next_text();
    }
  }
  void check_field(const FieldLayout& field) {
    using enum FieldForm;
    switch (field.form) {
      case Count:
        return check_count(next());
      case Limit:
        if (const uint32_t value = next(); value != kNoNumber) check_count(value);
        return;
      case Flag:
        return check_that(next() <= 1);
      case Text:
        next_text();
        return;
      case Numbers:
        next_list();
        return;
      case Pairs:
        next_list(2);
        return;
      case States:
        return check_states();
      case Texts:
        for (const uint32_t number : next_list()) check_that(number < table_.text_count());
        return;
      case Names:
        return check_names();
      case Token:
        return check_token();
      case Tokens:
        for (uint32_t count = next(); count > 0; --count) check_token();
        return;
      case Row:
        return check_row(next(), field.kinds);
      case OptionalRow:
        if (const uint32_t row = next(); row != kNoNumber) check_row(row, field.kinds);
        return;
      case Rows:
        for (const uint32_t row : next_list()) check_row(row, field.kinds);
        return;
      case Digits:
        for (uint32_t count = next(); count > 0; --count) next_list(4);
        return;
      case Contexts:
        return check_contexts();
      case Later: {
        const uint32_t number = next();
        return check_that(number_ < number && number < tables_);
      }
      case Hex:
        return check_that(is_hex(table_.text(next_text()).ptr()));
      case Value:
        next();
        return;
      case TextMap:
        return check_map(0);
      case RowMap:
        return check_map(field.kinds);
    }
  }
  // Rejects equal rows. The number of probes is bounded, because an attacker could choose rows whose hashes collide.
  void check_rows_differ() {
    const std::vector<uint32_t>& begins = table_.positions_;
    const size_t rows = begins.size(), slots = std::bit_ceil(rows * 2);
    auto row_of = [&](size_t row) {
      const size_t end = row + 1 < rows ? begins[row + 1] : table_.ints_.size();
      return std::span<const uint32_t>(table_.ints_.data() + begins[row], end - begins[row]);
    };
    std::vector<uint32_t> row_of_slot(slots, kNoNumber);
    size_t probes = kMaxProbes * rows;
    for (size_t row = 0; row < rows; ++row) {
      const std::span<const uint32_t> ints = row_of(row);
      uint64_t hash = ints.size();
      for (const uint32_t value : ints) hash = (std::rotl(hash, 5) ^ value) * 0x9E3779B97F4A7C15ull;
      size_t slot = mix(hash) & (slots - 1);
      for (; row_of_slot[slot] != kNoNumber; slot = (slot + 1) & (slots - 1)) {
        const std::span<const uint32_t> other = row_of(row_of_slot[slot]);
        const size_t cost = 1 + std::min(ints.size(), other.size()) / 16;
        check_that(cost <= probes);
        probes -= cost;
        check_that(!std::ranges::equal(ints, other));
      }
      row_of_slot[slot] = static_cast<uint32_t>(row);
    }
  }

  StoredTable& table_;
  const uint32_t number_, tables_;
  size_t pos_ = 0;
  int depth_ = 0;  // how deep Dispatch and MaxTokens rows nest in the current row
  std::vector<uint8_t> row_depths_;
  uint32_t map_count_ = 0;           // the maps read so far
  std::vector<uint32_t> seen_text_;  // by text: the last map in which it is a key
};

StoredTable::StoredTable(const nb::bytes& ints, TextTuple texts, uint32_t number, uint32_t tables, int64_t max_nodes)
    : texts_(std::move(texts)), text_count_(nb::len(texts_)), ints_(ints.size() / sizeof(uint32_t)) {
  check_that(ints.size() % sizeof(uint32_t) == 0 && ints_.size() < kNoNumber);
  if (!ints_.empty()) std::memcpy(ints_.data(), ints.c_str(), ints.size());
  if constexpr (std::endian::native == std::endian::big)
    for (uint32_t& value : ints_) value = __builtin_bswap32(value);
  for (nb::handle text : texts_) check_that(PyUnicode_CheckExact(text.ptr()));
  Checker(*this, number, tables).check();
  // An OtherTokens row becomes up to three nodes.
  const auto other_tokens = static_cast<int64_t>(std::ranges::count(kinds_, RowKind::OtherTokens));
  check_that(static_cast<int64_t>(size()) + 2 * other_tokens <= max_nodes);
  check_that(!(has(RowKind::MaxTokens) && has(RowKind::Entry)));
  read_grammar();
  if (lexer != kNoNumber)
    check_lexer();
  else
    check_that(!has(RowKind::Lexer));
}

void StoredTable::read_grammar() {
  FieldReader in(fields(static_cast<uint32_t>(size()) - 1));
  auto read_map = [&](Pairs& out) {
    for (uint32_t count = in.next(); count > 0; --count) {
      const uint32_t key = in.next();
      out.emplace_back(key, in.next());
    }
  };
  Pairs regions;
  read_map(rules);
  start = in.next();
  read_map(origins);
  lexer = in.next();
  read_map(regions);
  read_map(later);
  const bool is_composed = in.next();
  read_map(schemas);
  rule_of_text.assign(text_count(), -1);
  for (size_t rule = 0; rule < rules.size(); ++rule) rule_of_text[rules[rule].first] = static_cast<int32_t>(rule);
  check_that(regions.empty() && !is_composed && rule_of_text[start] >= 0);
  for (const auto& [name, row] : later) check_that(rule_of_text[name] >= 0);
  for (const auto& [name, row] : schemas) check_that(rule_of_text[name] >= 0);
}

// Checks that terminals, symbols of indentation and marks have different names, and that keywords and ignored terminals
// are terminals.
void StoredTable::check_lexer() const {
  enum Role : uint8_t { Nothing, IsTerminal, IsSymbol };
  std::vector<uint8_t> role(text_count(), Nothing);
  FieldReader in(fields(lexer));
  const std::span<const uint32_t> terminals = in.list();
  for (const uint32_t row : terminals) {
    uint8_t& name_role = role[*fields(row)];
    check_that(name_role == Nothing);
    name_role = IsTerminal;
  }
  for (const uint32_t row : terminals) {
    FieldReader terminal(fields(row) + 2);  // after its name and its node
    for (const uint32_t keyword : terminal.list()) check_that(role[*fields(keyword)] == IsTerminal);
  }
  for (const uint32_t name : in.list()) check_that(role[name] == IsTerminal);
  if (const uint32_t indentation = in.next(); indentation != kNoNumber)
    for (const size_t at : {1, 2})
      if (uint8_t& name_role = role[fields(indentation)[at]]; name_role == Nothing) name_role = IsSymbol;
  for (uint32_t count = in.next(); count > 0; --count) {
    for (const uint32_t mark : in.list()) check_that(role[mark] == Nothing);
    in.list();
  }
}

}  // namespace guided
