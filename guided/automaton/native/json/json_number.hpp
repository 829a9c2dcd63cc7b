// Numbers of JSON by what they are worth, while they are being written.
//
// In: the text of a number, or its first characters. Out: the content under which its value is kept (json_value.hpp),
// the same for 1, 1.0 and 10e-1; whether more characters may make a certain value of it; what tells its future apart.
// No number is computed: what is kept is its digits, however many, and the exponent of the last one.
//
// Cost: linear in the text. Exponents past 15 digits are not read: such a number is told apart by its spelling.
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
