// Python bindings of grammars with a lexer.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "python/bindings.hpp"
#include "python/make_lexer.hpp"

using namespace nanobind::literals;

namespace guided {

namespace nb = nanobind;

namespace {

Indentation make_indentation(const IndentationValues& values, int32_t terminals, int32_t symbols) {
  const auto& [newline, indent, dedent, opening, closing, tab, levels, width] = values;
  Indentation out{.is_given = true,
                  .newline = newline,
                  .indent = indent,
                  .dedent = dedent,
                  .opens = std::vector<uint8_t>(static_cast<size_t>(terminals)),
                  .closes = std::vector<uint8_t>(static_cast<size_t>(terminals)),
                  .tab = tab,
                  .most_levels = levels,
                  .most_width = width,
                  .terminals = terminals};
  auto is_in = [](int32_t number, int32_t low, int32_t high) { return number >= low && number < high; };
  bool is_valid = is_in(newline, kNoTerminal, terminals) && is_in(indent, 0, symbols) && is_in(dedent, 0, symbols) &&
                  is_in(tab, 1, 1 << 16) && is_in(levels, 1, 1 << 16) && is_in(width, 0, 1 << 16);
  for (int32_t each : opening) is_valid = is_valid && is_in(each, 0, terminals) && (out.opens[each] = true);
  for (int32_t each : closing) is_valid = is_valid && is_in(each, 0, terminals) && (out.closes[each] = true);
  if (!is_valid) throw nb::value_error("the indentation has an unknown terminal or symbol, or a number out of range");
  return out;
}

}  // namespace

std::shared_ptr<CompiledLexer> make_lexer(const std::shared_ptr<CompiledRules>& rules,
                                          const std::vector<std::shared_ptr<CompiledRules>>& terminals,
                                          const std::vector<bool>& ignored, const LexerKeywordList& keywords,
                                          const std::vector<int32_t>& control_tokens, const LexerContextList& contexts,
                                          bool contextual, const LexerContextList& rows,
                                          const std::optional<IndentationValues>& indentation_values,
                                          const std::shared_ptr<TokenVocabulary>& vocabulary, int64_t memory,
                                          int64_t call_work) {
  const size_t count = terminals.size();
  if (ignored.size() != count || control_tokens.size() != count)
    throw nb::value_error("ignored and control need a value for each terminal");
  if (rules->vocabulary->size <= static_cast<int32_t>(count)) throw nb::value_error("the rules have fewer terminals");
  std::vector<LexerTerminal> lexer_terminals;
  for (size_t t = 0; t < count; ++t) lexer_terminals.push_back({TerminalAutomaton(terminals[t]), ignored[t]});
  std::vector<LexerKeyword> lexer_keywords;
  auto check = [&](int32_t terminal) {
    if (terminal < 0 || static_cast<size_t>(terminal) >= count) throw nb::index_error("there is no such terminal");
    return terminal;
  };
  for (const auto& [host, terminal, is_embedded, compiled] : keywords)
    lexer_keywords.push_back({check(host), check(terminal), is_embedded, TerminalAutomaton(compiled)});
  LexerContexts lexer_contexts;
  for (auto [marks, accepted] : contexts) {
    for (int32_t terminal : accepted) check(terminal);
    std::ranges::sort(marks);
    std::ranges::sort(accepted);
    lexer_contexts.by_marks[marks] = accepted;
  }
  lexer_contexts.try_all = !contextual;
  for (const auto& [tried, preceding] : rows) {
    for (int32_t terminal : tried) check(terminal);
    for (int32_t terminal : preceding) check(terminal);
    lexer_contexts.rows.push_back({tried, preceding});
  }
  Indentation indentation;
  if (indentation_values)
    indentation = make_indentation(*indentation_values, static_cast<int32_t>(count), rules->vocabulary->size);
  nb::gil_scoped_release release;
  auto compiled = std::make_shared<CompiledLexer>(LexerParts{.terminals = std::move(lexer_terminals),
                                                             .keywords = std::move(lexer_keywords),
                                                             .rules = rules,
                                                             .control_tokens = control_tokens,
                                                             .contexts = std::move(lexer_contexts),
                                                             .indentation = std::move(indentation),
                                                             .vocabulary = vocabulary},
                                                  call_limits(memory, call_work));
  if (!compiled->can_end()) throw EmptyLanguage("the rules accept no sequence of terminals that the lexer can find");
  return compiled;
}

namespace {

constexpr auto kMakeLexed = R"(Make a grammar with a lexer from its compiled parts.

Args:
    rules: the rules, compiled for a vocabulary in which the number of each terminal is its control token.
    terminals: each terminal's compiled pattern, in the order in which the lexer tries them.
    ignored: by terminal, whether the lexer drops its lexemes. They may occur between any other lexemes.
    keywords: (terminal, keyword, embedded, pattern): a lexeme of the terminal that matches the compiled pattern
        becomes the keyword. An embedded keyword is not tried as a separate terminal.
    control: by terminal, the id of the control token that it stands for in the output, or -1 for a pattern.
    contexts: (marks, terminals): the terminals that are also tried if the rules can accept these marks. Of
        several such sets of marks, only the largest ones count. The numbers of marks follow those of the
        terminals.
    contextual: whether to try only the terminals that the rules can accept, and those of the context. If not,
        all terminals are tried.
    rows: (tried, preceding): after a terminal in `preceding`, the lexer tries the terminals in `tried` and the
        ignored ones. If a terminal precedes several rows, the lexer is in one of them. Empty: unknown.
    indentation: (newline, indent, dedent, opening, closing, tab, most levels, most width), or None; see
        `guided.ir.Indentation`. Terminals are given by number, `indent` and `dedent` as symbols of the rules.
    vocabulary: the vocabulary of the output.
    memory: how many bytes the states may take before they are dropped.
    call_work: units of work that one call on the states may take.)";

}  // namespace

void bind_lexer(nb::module_& m) {
  nb::class_<CompiledLexer, Compiled>(m, "CompiledLexer", "A compiled grammar with a lexer.")
      .def(nb::new_(&make_lexer), "rules"_a, "terminals"_a, "ignored"_a, "keywords"_a, "control"_a, "contexts"_a,
           "contextual"_a, "rows"_a, "indentation"_a.none(), "vocabulary"_a, "memory"_a, "call_work"_a, kMakeLexed)
      .def_prop_ro("sure", &CompiledLexer::is_sure,
                   "Whether every terminal has a text that can be written wherever the parser accepts the terminal.")
      .def_prop_ro("lexemes", &CompiledLexer::lexeme_states, "How many lexer states have been visited so far.")
      .def_prop_ro("tables", &CompiledLexer::tables, "How many token tables there are.");
}

}  // namespace guided
