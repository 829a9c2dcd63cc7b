// JSON numbers, compared by their numeric value while they are being written.
//
// Numbers are not evaluated. A number is stored as its digits, however many, and the exponent of the last digit. So 1,
// 1.0 and 10e-1 all have the digit `1` and exponent 0.
//
// In: the text of a number, or a prefix of it. Out: the content under which the value is stored (json_store.hpp), which
// is equal for equal numbers; whether a prefix may become a given value; a key of a prefix, which usually differs if
// two prefixes may become different values.
//
// Cost: linear in the text. Exponents of more than 15 digits are not evaluated: such a number equals only its own
// spelling.
#pragma once

#include <string>
#include <string_view>

namespace guided {

// Whether the text is a JSON number.
bool is_number(std::string_view text);

// "n0" for zero; "r" and the text if the exponent is too long. Otherwise "n", a minus sign if the number is negative,
// the digits without zeros at either end, "e", and the exponent of the last digit.
std::string canonical_number(std::string_view text);

// A common prefix of the contents of all numbers that `text` may become.
std::string number_stem(std::string_view text);

// Whether `text`, possibly followed by more characters, may become a number with this content.
bool may_become_number(std::string_view text, std::string_view content);

// The key of a prefix. Prefixes have the same key if every continuation turns them into equal numbers. Only the first
// four trailing zeros count, so integers that differ in further zeros share a key, too.
std::string number_prefix_key(std::string_view text);

}  // namespace guided
