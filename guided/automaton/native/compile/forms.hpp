// Encodings: how characters are spelled in bytes.
//
// An encoding is a set of forms. A form spells a code point as a sum of positional digits, one byte each: UTF-8, and
// the \uXXXX and surrogate pairs of JSON are all of this kind.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/common.hpp"

namespace guided {

struct DigitSpan {
  int low, high;  // bytes, inclusive
  int64_t value, step;
};
struct Form {
  std::vector<Range> ranges;
  std::vector<std::vector<DigitSpan>> digits;
  std::vector<int64_t> rest;  // rest[i]: the most that the digits after i can add
};
struct Encoding {
  std::vector<Form> forms;
};
using Encodings = std::vector<std::shared_ptr<const Encoding>>;

}  // namespace guided
