// Compiles stored grammars, which have rules over bytes or a lexer. Contains the Python bindings of stored tables.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "python/bindings.hpp"
#include "python/make_lexer.hpp"
#include "python/row_reader.hpp"

using namespace nanobind::literals;

namespace guided {

namespace {

// The limits of a compilation: states, seconds, memory, work, and the work of a call.
using StoredLimits = std::tuple<int64_t, double, int64_t, int64_t, int64_t>;
// Deferred rules: (name, hexadecimal digits that identify the content, upper bound on the bytes of the shortest text,
// number of the table that has the content).
using StoredLater = std::vector<std::tuple<nb::str, nb::str, uint32_t, uint32_t>>;

using SpecialIds = nb::typed<nb::dict, nb::str, nb::typed<nb::list, int>>;

constexpr size_t kMaxTerminals = 5000;
constexpr size_t kTerminalTableBytes = 1 << 16;

// Finds tokens by the names that the caller passes: name -> ids.
class NamedTokens : public TokenFinder {
 public:
  NamedTokens(nb::dict ids, const std::vector<int32_t>& ends) : ids_(std::move(ids)), ends_(ends) {}
  int32_t find(const StoredTable& table, bool is_text, uint32_t value) const override {
    if (!is_text) return check_id(value);
    PyObject* ids = PyDict_GetItemWithError(ids_.ptr(), table.text(value).ptr());
    if (!ids && PyErr_Occurred()) throw nb::python_error();
    if (!ids || !PyList_CheckExact(ids) || PyList_GET_SIZE(ids) != 1) return -1;
    return check_id(nb::cast<uint32_t>(nb::handle(PyList_GET_ITEM(ids, 0))));
  }

 private:
  int32_t check_id(uint32_t id) const {
    if (id > INT32_MAX || std::ranges::find(ends_, static_cast<int32_t>(id)) != ends_.end()) return -1;
    return static_cast<int32_t>(id);
  }
  const nb::dict ids_;
  const std::vector<int32_t>& ends_;
};

// The terminals, the symbols of indentation and the marks of a lexer, numbered as in guided/automaton/build_lexer.py.
class LexerSymbols : public TokenFinder {
 public:
  explicit LexerSymbols(const StoredTable& table) : ids_(table.text_count(), -1) {
    FieldReader in(table.fields(table.lexer));
    for (const uint32_t row : in.list()) add(*table.fields(row));
    terminals_ = count_;
    in.list();
    if (const uint32_t indentation = in.next(); indentation != kNoNumber)
      for (const size_t i : {1, 2}) add(table.fields(indentation)[i]);
    std::vector<uint32_t> marks;
    for (uint32_t count = in.next(); count > 0; --count) {
      std::ranges::copy(in.list(), std::back_inserter(marks));
      in.list();
    }
    sort_unique(marks);
    std::ranges::sort(
        marks, [&](uint32_t a, uint32_t b) { return PyUnicode_Compare(table.text(a).ptr(), table.text(b).ptr()) < 0; });
    for (const uint32_t mark : marks) add(mark);
  }
  int32_t find(const StoredTable&, bool is_text, uint32_t value) const override {
    if (is_text) return ids_[value];
    return value < static_cast<uint32_t>(count_) ? static_cast<int32_t>(value) : -1;
  }
  int32_t of(uint32_t text) const { return ids_[text]; }
  int32_t terminal(uint32_t text) const { return ids_[text] < terminals_ ? ids_[text] : -1; }
  int32_t count() const { return count_; }

 private:
  void add(uint32_t text) {
    if (ids_[text] < 0) ids_[text] = count_++;
  }
  std::vector<int32_t> ids_;  // by text
  int32_t terminals_ = 0, count_ = 0;
};

std::shared_ptr<CompiledRules> compile_with(const StoredTable& table, Builder& builder, RowReader& reader,
                                            const std::shared_ptr<TokenVocabulary>& vocabulary,
                                            const StoredLimits& limits, const std::string& prefix,
                                            const Builder::Later& later, nb::object compile_later) {
  std::vector<int32_t> rules;
  std::vector<std::string> names;
  for (const auto& [name, row] : table.rules) {
    rules.push_back(reader.read(row));
    names.push_back(prefix + utf8_of(table.text(name)));
  }
  const auto& [states, seconds, memory, work, call_work] = limits;
  return builder.compile(vocabulary, rules, names, table.rule_of_text[table.start], states, seconds, memory, work,
                         call_work, later, std::move(compile_later));
}

std::shared_ptr<CompiledRules> compile_rules(const StoredTable& table, Builder& builder, const ReadEncoding& utf8,
                                             const nb::typed<nb::callable, int(int)>& other,
                                             const std::shared_ptr<TokenVocabulary>& vocabulary,
                                             const SpecialIds& special_ids, const std::vector<int32_t>& end_tokens,
                                             const StoredLimits& limits, const std::string& prefix,
                                             const std::vector<nb::bytes>& later, nb::object compile_later) {
  if (table.lexer != kNoNumber || later.size() != table.later.size())
    throw nb::value_error("the grammar has a lexer, or the number of digests is wrong");
  RowNumbers numbers(table.size());
  RowEncodings encodings(utf8);
  const NamedTokens tokens(special_ids, end_tokens);
  RowReader reader(table, builder, numbers, encodings, &tokens, &other);
  Builder::Later deferred_rules;
  for (size_t i = 0; i < later.size(); ++i) {
    const auto& [name, row] = table.later[i];
    deferred_rules.emplace_back(table.rule_of_text[name], later[i], table.fields(row)[2]);
  }
  return compile_with(table, builder, reader, vocabulary, limits, prefix, deferred_rules, std::move(compile_later));
}

// Compiles the patterns of a lexer, and its rules.
class LexerCompiler {
 public:
  LexerCompiler(const StoredTable& table, const ReadEncoding& utf8, std::shared_ptr<TokenVocabulary> vocabulary,
                const StoredLimits& limits)
      : table_(table),
        utf8_(utf8),
        vocabulary_(std::move(vocabulary)),
        limits_(limits),
        symbols_(table),
        numbers_(table.size()),
        encodings_(utf8),
        begin_(std::chrono::steady_clock::now()) {}

  std::shared_ptr<CompiledLexer> compile() {
    FieldReader in(table_.fields(table_.lexer));
    const std::span<const uint32_t> terminals = in.list();
    if (terminals.size() > kMaxTerminals || !table_.later.empty())
      throw nb::value_error("this lexer must be read by Python");
    const std::shared_ptr<CompiledRules> rules = compile_parser();
    std::vector<std::shared_ptr<CompiledRules>> patterns;
    for (const uint32_t row : terminals) patterns.push_back(compile_pattern(table_.fields(row)[1]));
    std::vector<bool> is_ignored(terminals.size(), false);
    for (const uint32_t name : in.list()) is_ignored[static_cast<size_t>(symbols_.terminal(name))] = true;
    const std::optional<IndentationValues> indentation = read_indentation(in.next());
    const LexerContextList by_marks = read_contexts(in);
    const bool contextual = in.next();
    const LexerContextList lalr_rows = read_lalr_rows(in);
    const std::vector<int32_t> control(terminals.size(), -1);
    return make_lexer(rules, patterns, is_ignored, read_keywords(terminals, patterns), control, by_marks, contextual,
                      lalr_rows, indentation, vocabulary_, std::get<2>(limits_), std::get<4>(limits_));
  }

 private:
  // Compiles the rules for a vocabulary in which each terminal is a token.
  std::shared_ptr<CompiledRules> compile_parser() {
    const int32_t end = symbols_.count();
    auto terminal_tokens = std::make_shared<TokenVocabulary>(std::vector<std::string>(static_cast<size_t>(end)),
                                                             std::vector<uint8_t>(static_cast<size_t>(end), 0),
                                                             std::vector<int32_t>{end}, end + 1, kTerminalTableBytes);
    Builder builder;
    builder.encoding(utf8_);
    RowReader reader(table_, builder, numbers_, encodings_, &symbols_, nullptr);
    auto rules = compile_with(table_, builder, reader, terminal_tokens, remaining_limits(), "", {}, nb::none());
    numbers_.clear();
    return rules;
  }
  std::shared_ptr<CompiledRules> compile_pattern(uint32_t row) {
    Builder builder;
    builder.encoding(utf8_);
    const int32_t node = RowReader(table_, builder, numbers_, encodings_, nullptr, nullptr).read(row);
    numbers_.clear();
    const auto& [states, seconds, memory, work, call_work] = remaining_limits();
    return builder.compile(vocabulary_, {node}, {"start"}, 0, states, seconds, memory, work, call_work, {}, nb::none());
  }
  LexerKeywordList read_keywords(std::span<const uint32_t> terminals,
                                 const std::vector<std::shared_ptr<CompiledRules>>& patterns) {
    LexerKeywordList out;
    for (size_t terminal = 0; terminal < terminals.size(); ++terminal) {
      FieldReader in(table_.fields(terminals[terminal]) + 2);  // after its name and its node
      for (const uint32_t keyword : in.list()) {
        const uint32_t* fields = table_.fields(keyword);
        const int32_t keyword_terminal = symbols_.of(fields[0]);
        const bool has_same_pattern = table_.fields(terminals[static_cast<size_t>(keyword_terminal)])[1] == fields[1];
        out.emplace_back(
            static_cast<int32_t>(terminal), keyword_terminal, fields[2] != 0,
            has_same_pattern ? patterns[static_cast<size_t>(keyword_terminal)] : compile_pattern(fields[1]));
      }
    }
    return out;
  }
  std::optional<IndentationValues> read_indentation(uint32_t row) const {
    if (row == kNoNumber) return std::nullopt;
    FieldReader in(table_.fields(row));
    const int32_t newline = symbols_.terminal(in.next()), indent = symbols_.of(in.next());
    const int32_t dedent = symbols_.of(in.next());
    std::array<std::vector<int32_t>, 2> brackets;
    for (std::vector<int32_t>& terminals : brackets) terminals = read_terminals(in);
    const auto tab = static_cast<int32_t>(in.next()), levels = static_cast<int32_t>(in.next());
    return IndentationValues{newline,     indent, dedent, brackets[0],
                             brackets[1], tab,    levels, static_cast<int32_t>(in.next())};
  }
  std::vector<int32_t> read_terminals(FieldReader& in) const {
    std::vector<int32_t> out;
    for (const uint32_t name : in.list())
      if (const int32_t terminal = symbols_.terminal(name); terminal >= 0) out.push_back(terminal);
    return out;
  }
  LexerContextList read_contexts(FieldReader& in) const {
    LexerContextList out;
    for (uint32_t count = in.next(); count > 0; --count) {
      std::vector<int32_t> marks;
      for (const uint32_t mark : in.list()) marks.push_back(symbols_.of(mark));
      out.emplace_back(std::move(marks), read_terminals(in));
    }
    return out;
  }
  LexerContextList read_lalr_rows(FieldReader& in) const {
    LexerContextList out;
    for (uint32_t count = in.next(); count > 0; --count) {
      std::vector<int32_t> tried = read_terminals(in);
      out.emplace_back(std::move(tried), read_terminals(in));
    }
    return out;
  }
  // The limits, with the remaining seconds.
  StoredLimits remaining_limits() const {
    StoredLimits out = limits_;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    std::get<1>(out) -= elapsed.count();
    if (std::get<1>(out) <= 0) throw LimitFailure("seconds", elapsed.count(), std::get<1>(limits_));
    return out;
  }

  const StoredTable& table_;
  const ReadEncoding& utf8_;
  const std::shared_ptr<TokenVocabulary> vocabulary_;
  const StoredLimits limits_;
  const LexerSymbols symbols_;
  RowNumbers numbers_;
  RowEncodings encodings_;
  const std::chrono::steady_clock::time_point begin_;
};

std::shared_ptr<CompiledLexer> compile_stored_lexer(const StoredTable& table, const ReadEncoding& utf8,
                                                    std::shared_ptr<TokenVocabulary> vocabulary,
                                                    const StoredLimits& limits) {
  if (table.lexer == kNoNumber) throw nb::value_error("there is no lexer");
  return LexerCompiler(table, utf8, std::move(vocabulary), limits).compile();
}

nb::typed<nb::dict, nb::str, nb::str> origins_of(const StoredTable& table) {
  nb::typed<nb::dict, nb::str, nb::str> out;
  for (const auto& [name, origin] : table.origins) out[table.text(name)] = table.text(origin);
  return out;
}

std::vector<nb::str> rule_names(const StoredTable& table) {
  std::vector<nb::str> out;
  for (const auto& [name, row] : table.rules) out.push_back(table.text(name));
  return out;
}

// Pairs of a rule and the position of its schema's row.
std::vector<std::pair<nb::str, uint32_t>> schemas_of(const StoredTable& table) {
  std::vector<std::pair<nb::str, uint32_t>> out;
  for (const auto& [name, row] : table.schemas) out.emplace_back(table.text(name), table.position(row));
  return out;
}

std::vector<uint32_t> embedded_of(const StoredTable& table) {
  std::vector<uint32_t> out;
  for (const uint32_t row : table.embedded) out.push_back(table.position(row));
  return out;
}

StoredLater later_of(const StoredTable& table) {
  StoredLater out;
  for (const auto& [name, row] : table.later) {
    const uint32_t* fields = table.fields(row);
    out.emplace_back(table.text(name), table.text(fields[1]), fields[2], fields[0]);
  }
  return out;
}

constexpr auto kStoredTable = R"(Check a table.

Args:
    ints: the integers of the table, as little-endian 32-bit words.
    texts: the texts to which it refers, each once.
    number, tables: the number of this table, and the number of all tables.
    max_nodes: the limit on nodes.

Raises:
    ValueError: the table is malformed, or only Python's reader can read it (stored_table.hpp). Python's reader
        distinguishes these cases.)";

constexpr auto kCompileRules = R"(Compile the grammar, which must not have a lexer.

Args:
    builder: a builder without nodes, whose first encoding is UTF-8.
    utf8: the encoding UTF-8.
    other: adds the node at a position of the table to the builder, and returns its number.
    vocabulary: the tokens for which the grammar is compiled.
    special_ids: the name of a token -> its ids.
    end_tokens: the ids that end an output.
    limits: states, seconds, memory, work and the work of a call; see `Builder.compile`.
    prefix: is prepended to the names of rules.
    later: a digest of each deferred rule, in the order of the attribute `later`.
    compile_later: see `Builder.compile`.

Raises:
    ValueError: a node is malformed, or must be read by Python. Others: see `Builder.compile`.)";

constexpr auto kCompileLexer = R"(Compile the grammar, which must have a lexer.

Args:
    utf8: the encoding UTF-8.
    vocabulary: the tokens for which the grammar is compiled.
    limits: states, seconds, memory, work and the work of a call; see `Builder.compile`.

Raises:
    ValueError: a node is malformed, or must be read by Python. Others: see `Builder.compile`.)";

}  // namespace

void bind_stored_grammar(nb::module_& m) {
  nb::class_<StoredTable>(m, "StoredTable", "The rows of a stored grammar, checked.")
      .def(nb::init<const nb::bytes&, TextTuple, uint32_t, uint32_t, int64_t>(), "ints"_a, "texts"_a, "number"_a,
           "tables"_a, "max_nodes"_a, kStoredTable)
      .def("__len__", &StoredTable::size, "The number of rows.")
      .def_prop_ro(
          "has_lexer", [](const StoredTable& table) { return table.lexer != kNoNumber; }, "Whether it has a lexer.")
      .def_prop_ro(
          "start", [](const StoredTable& table) { return table.text(table.start); }, "The name of the start rule.")
      .def_prop_ro("rules", &rule_names, "The names of the rules.")
      .def_prop_ro("origins", &origins_of, "The name of a rule -> its location in the specification.")
      .def_prop_ro("schemas", &schemas_of,
                   "(name of a rule, position of its schema in the table) for each rule with a schema.")
      .def_prop_ro("embedded", &embedded_of, "The positions of all schemas in the table.")
      .def_prop_ro(
          "later", &later_of,
          "Deferred rules: (name, hexadecimal digits that identify the content, upper bound on the bytes of the\n"
          "shortest text, number of the table that has the content).")
      .def("compile_rules", &compile_rules, "builder"_a, "utf8"_a, "other"_a, "vocabulary"_a, "special_ids"_a,
           "end_tokens"_a, "limits"_a, "prefix"_a, "later"_a, "compile_later"_a.none(), kCompileRules)
      .def("compile_lexer", &compile_stored_lexer, "utf8"_a, "vocabulary"_a, "limits"_a, kCompileLexer);
}

}  // namespace guided
