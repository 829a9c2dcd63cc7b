// Sets of characters as sorted, disjoint ranges that are not adjacent and contain no surrogates.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace guided::lark {

using Ranges = std::vector<std::pair<int32_t, int32_t>>;  // first and last character

constexpr int32_t kLastChar = 0x10FFFF;

// The union of ranges, which may overlap and may be in any order.
Ranges normalise(Ranges ranges);
Ranges complement(const Ranges& ranges);

// The character sets that depend on Unicode.
class Alphabet {
 public:
  Alphabet() = default;
  Alphabet(const Alphabet&) = delete;
  Alphabet& operator=(const Alphabet&) = delete;
  virtual ~Alphabet() = default;
  // \d, \s or \w.
  virtual const Ranges& class_chars(char letter) = 0;
  // The characters that a character matches if case is ignored.
  virtual const Ranges& case_variants(int32_t character) = 0;
};

}  // namespace guided::lark
