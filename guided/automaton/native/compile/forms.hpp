// Encodings define how characters are spelled in bytes.
//
// An encoding is a set of forms, each of which spells some code points. A form writes a code point as a sum of
// positional digits, one byte each. UTF-8 has a form for each length. JSON strings also have \uXXXX, whose six bytes
// are all digits (the first two have the value 0), and surrogate pairs. Example, two bytes of UTF-8:
//     digits   {0xC2..0xDF, value 0x80, step 64}  {0x80..0xBF, value 0, step 1}
//     U+0429   0xD0 adds 0x80 + 14 * 64 = 0x400,  0xA9 adds 0x29
// A code point may have several spellings, in one form or in several.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/common.hpp"

namespace guided {

// Bytes with evenly spaced values: byte b of low..high (inclusive) adds value + (b - low) * step.
struct DigitSpan {
  int low, high;
  int64_t value, step;
};
struct Form {
  std::vector<Range> ranges;                   // the code points that this form may spell
  std::vector<std::vector<DigitSpan>> digits;  // by byte of a spelling: the possible digits
  std::vector<int64_t> rest;                   // rest[i]: the largest sum of the digits after digit i
};
struct Encoding {
  std::vector<Form> forms;
};
using Encodings = std::vector<std::shared_ptr<const Encoding>>;

}  // namespace guided
