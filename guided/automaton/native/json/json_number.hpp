// JSON numbers by their numeric value, while they are being written.
//
// No number is computed: its digits, however many, and the exponent of the last one are stored. So 1, 1.0 and 10e-1
// have the same digits `1` and exponent 0.
//
// In: the text of a number, or its first characters. Out: the content under which its value is stored
// (json_values.hpp), which is equal for equal numbers; whether more characters may make a given value of it; and a key
// of its future, which differs where the values differ that it may become.
//
// Cost: linear in the text. Exponents of more than 15 digits are not evaluated: such a number equals only its own
// spelling.
#pragma once

#include <string>
#include <string_view>

namespace guided {

// Whether it is a number as JSON spells it.
bool is_number(std::string_view text);

// "n0", or "n", the sign, the digits without zeros at either end, "e" and their scale; "r" and the text where the
// exponent cannot be read.
std::string number_content(std::string_view text);

// What the contents of all numbers that `text` may become begin with.
std::string number_stem(std::string_view text);

// Whether more characters may make a number with this content of `text`.
bool number_fits(std::string_view text, std::string_view content);

// Equal for numbers that the same characters to come make equal; some zeros are as many.
std::string number_essence(std::string_view text);

}  // namespace guided
