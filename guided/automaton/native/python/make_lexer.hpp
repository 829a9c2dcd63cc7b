// Makes a grammar with a lexer (lexer/lexed_states.hpp).
//
// In: its compiled rules and patterns, and lists that come from Python or from a stored table. Out: the compiled
// grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "lexer/lexed_states.hpp"

namespace guided {

// `contexts`: (marks, terminals). `rows`: (terminals that are tried, terminals that precede them).
using LexerContextList = std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>>;
// (terminal, keyword, embedded, pattern)
using LexerKeywordList = std::vector<std::tuple<int32_t, int32_t, bool, std::shared_ptr<CompiledRules>>>;
// (newline, indent, dedent, opening, closing, tab, most levels, most width)
using IndentationValues =
    std::tuple<int32_t, int32_t, int32_t, std::vector<int32_t>, std::vector<int32_t>, int32_t, int32_t, int32_t>;

// Checks its arguments, and throws Python exceptions. Must be called with the GIL, which it releases while it builds
// the states. bind_lexer.cpp documents the arguments.
std::shared_ptr<CompiledLexer> make_lexer(const std::shared_ptr<CompiledRules>& rules,
                                          const std::vector<std::shared_ptr<CompiledRules>>& terminals,
                                          const std::vector<bool>& ignored, const LexerKeywordList& keywords,
                                          const std::vector<int32_t>& control_tokens, const LexerContextList& contexts,
                                          bool contextual, const LexerContextList& rows,
                                          const std::optional<IndentationValues>& indentation,
                                          const std::shared_ptr<TokenVocabulary>& vocabulary, int64_t memory,
                                          int64_t call_work);

}  // namespace guided
