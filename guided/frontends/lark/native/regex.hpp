// Reads the common part of Python's regular expressions. In: a pattern. Out: its tree, which keeps the order of
// preference, and the width (least and greatest length) of its texts as Python's `re` computes it.
//
//     (a|bc)*?\d{2}
//
// How: one pass by recursive descent. It reads a subset of the syntax in guided/frontends/regex/python_syntax.py, and
// \d, \s and \w contain the same characters as there. Cost: linear in the pattern.
// Not done, but left to the Python code (`NotHandled`): lookarounds, anchors, back-references, named groups,
// atomic groups, possessive quantifiers, flags other than i, m, s and u, counts of 1,000 and more, case-insensitive
// sets beyond ASCII, and all errors.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "not_handled.hpp"
#include "ranges.hpp"

namespace guided::lark {

struct Regex {
  // kNothing matches no text.
  enum class Kind : uint8_t { kChars, kSequence, kChoice, kRepeat, kNothing };
  Kind kind = Kind::kSequence;
  bool is_lazy = false;
  int32_t low = 0, high = 0;  // of a repetition; `high` is kUnbounded for no limit
  Ranges chars = {};
  std::vector<Regex> parts = {};
};

constexpr int32_t kUnbounded = -1;

struct Width {
  int64_t low = 0, high = 0;  // `high` is kUnbounded for no limit
};

struct Pattern {
  Regex tree;
  Width width;
};

struct RegexLimits {
  int32_t depth = 0;
  int64_t nodes = 0;
};

Pattern read_regex(std::u32string_view pattern, Alphabet& alphabet, const RegexLimits& limits);

}  // namespace guided::lark
