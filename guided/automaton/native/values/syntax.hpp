// The interface between the core and the syntax of values that must differ, and the choice of this syntax.
//
// A value can be spelled in many ways. The core needs only the functions below to decide whether an entry repeats a
// seen value or may still become one. JSON (json/) is the only syntax, and no code outside of that folder depends on
// its bytes. The syntax is chosen when the core is built. The functions are not virtual, because they are called for
// each byte of each thread.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "base/persistent_trie.hpp"
#include "json/json_scan.hpp"
#include "json/json_values.hpp"

namespace guided {

// Strings: a quotation mark opens and closes them. In between, a byte is plain or belongs to an escape.
template <class S>
concept StringSyntax = requires(S string, const S& const_string, uint8_t byte, uint32_t code_point) {
  { string.read(byte) } -> std::same_as<bool>;  // false: the string has ended
  { string.append(code_point) };
  { const_string.between_characters() } -> std::same_as<bool>;
  { const_string.text } -> std::convertible_to<std::string>;  // the characters, in UTF-8
  { S::is_plain(byte) } -> std::same_as<bool>;
  { S::digit(byte) } -> std::same_as<int>;
  requires S::kQuote != S::kEscape&& S::kShort.size() == S::kMeaning.size();
};

// Texts and values are numbers. `read` appends a byte to a text. A *part* is the text since `start`.
template <class S>
concept SyntaxOfValues =
    StringSyntax<typename S::String> &&
    requires(S syntax, const S& const_syntax, int32_t text, int32_t start, int32_t value, uint8_t byte,
             typename S::PartKind part_kind, PersistentTrie& set, std::vector<int32_t>& description) {
      { syntax.read(text, byte) } -> std::same_as<int32_t>;
      { const_syntax.is_in_string(text) } -> std::same_as<bool>;
      {
        const_syntax.kind_since(start, text)
      } -> std::same_as<typename S::PartKind>;                 // whether it is a value, or the beginning of one
      { syntax.value(start, text) } -> std::same_as<int32_t>;  // equal values have equal numbers
      // The set with one more value.
      { const_syntax.insert(set, value, value) } -> std::same_as<int32_t>;
      { syntax.find(set, value, start, text, part_kind) } -> std::same_as<int32_t>;  // what the part may still become
      { syntax.describe(start, text, description) };  // equal for parts that no continuation distinguishes
    };

using ValueSyntax = JsonValues;
static_assert(SyntaxOfValues<ValueSyntax>);

using StringProgress = ValueSyntax::String;
using ValueScan = JsonScan;

}  // namespace guided
