// What the core knows of values that must differ: the interface of a syntax, and which syntax it is.
//
// A value can be spelled in many ways. To find out whether an entry repeats a value, and whether what has been read of
// it may still become one that was there, the core needs of a syntax no more than the functions below. JSON (json/) is
// the only syntax, and nothing outside of that folder knows a byte of it. The choice is made when the core is compiled:
// these calls are made for each byte of each thread, so they are not virtual.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "base/persistent_trie.hpp"
#include "json/json_scan.hpp"
#include "json/json_values.hpp"

namespace guided {

// Strings: a quote opens and closes them; in between a byte is plain, or begins an escape.
template <class S>
concept StringSyntax = requires(S string, const S& done, uint8_t byte, uint32_t code_point) {
  { string.read(byte) } -> std::same_as<bool>;  // false: the string has ended
  { string.put(code_point) };
  { done.between_characters() } -> std::same_as<bool>;
  { done.text } -> std::convertible_to<std::string>;  // the characters, in UTF-8
  { S::is_plain(byte) } -> std::same_as<bool>;
  { S::digit(byte) } -> std::same_as<int>;
  requires S::kQuote != S::kEscape&& S::kShort.size() == S::kMeaning.size();
};

// Texts are numbers: `read` adds a byte to one. A *part* is what was read since `start`. Values are numbers, too.
template <class S>
concept SyntaxOfValues = StringSyntax<typename S::String> &&
                         requires(S syntax, const S& done, int32_t text, int32_t start, int32_t value, uint8_t byte,
                                  typename S::Part part, PersistentTrie& set, std::vector<int32_t>& description) {
                           { syntax.read(text, byte) } -> std::same_as<int32_t>;
                           { done.in_string(text) } -> std::same_as<bool>;
                           {
                             done.part(start, text)
                           } -> std::same_as<typename S::Part>;  // whether it is a value, or the beginning of one
                           { syntax.value(start, text) } -> std::same_as<int32_t>;  // equal values have equal numbers
                           { done.with(set, value, value) } -> std::same_as<int32_t>;  // a set of values and one more
                           {
                             syntax.find(set, value, start, text, part)
                           } -> std::same_as<int32_t>;  // what the part may still become
                           {
                             syntax.describe(start, text, description)
                           };  // equal for parts that no text to come tells apart
                         };

using ValueSyntax = JsonValues;
static_assert(SyntaxOfValues<ValueSyntax>);

using StringProgress = ValueSyntax::String;
using ValueScan = JsonScan;

}  // namespace guided
