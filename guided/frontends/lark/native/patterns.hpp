// Turns the tree of a terminal into one string or one regular expression, as Lark's loader does.
//
//     NUMBER: /[0-9]/+ ("." DIGITS)?        (?:[0-9])+(?:\.(?:[0-9])+)?
//
// Source: lark/load_grammar.py, `_literal_to_pattern` and `TerminalTreeToPattern`. Cost: linear in the result.
// Not done: this file leaves all errors, and literals with several flags, to the Python code (`NotHandled`).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "notation.hpp"
#include "regex.hpp"

namespace guided::lark {

struct TerminalPattern {
  bool is_text = false;  // a string rather than a regular expression
  std::u32string value = {};
  char flag = 0;            // 0 if there is none
  std::u32string raw = {};  // the literal as written, or "" if it is not one literal
  std::u32string regexp() const;
};

class Patterns {
 public:
  // `width_of`: the width of an expression that `read_regex` does not support.
  Patterns(Alphabet& alphabet, const RegexLimits& limits, std::function<Width(const std::u32string&)> width_of)
      : alphabet_(alphabet), limits_(limits), width_of_(std::move(width_of)) {}

  using TerminalLookup = std::function<TerminalPattern(const std::string&)>;
  // The pattern of a tree. `look_up_terminal`: returns the pattern of a terminal that the tree refers to.
  TerminalPattern pattern_of(const SyntaxTree& tree, const TerminalLookup& look_up_terminal) const;
  TerminalPattern literal_pattern(const SyntaxTree& literal) const;
  // The width of a pattern; nullopt if only Python's `re` can determine it.
  std::optional<Width> width_if_known(const TerminalPattern& pattern) const;

 private:
  TerminalPattern choice_pattern(const SyntaxTree& tree, const TerminalLookup& look_up_terminal) const;
  TerminalPattern sequence_pattern(const SyntaxTree& tree, const TerminalLookup& look_up_terminal) const;
  Width width(const TerminalPattern& pattern) const;

  Alphabet& alphabet_;
  RegexLimits limits_;
  std::function<Width(const std::u32string&)> width_of_;
};

}  // namespace guided::lark
