// JSON values, each stored once.
//
// Equal values have equal numbers: strings are compared by their code points, numbers by their numeric value
// (json_number.hpp), objects regardless of the order of their members. Text that is not JSON is a value that equals
// only text with the same bytes.
//
// Cost: each distinct value is stored once.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/common.hpp"
#include "base/slot_table.hpp"

namespace guided {

// The content of a value begins with a letter for its type: s (string), n (number), l (literal), a (array), o (object),
// r (text that is not JSON).
class ValueStore {
 public:
  int32_t intern(std::string content);
  int32_t string(std::string_view text) { return intern(std::string(1, 's').append(text)); }
  int32_t container(char kind, std::vector<int32_t> parts);  // kind: a or o
  const std::string& content(int32_t value) const { return contents_[static_cast<size_t>(value)]; }
  // The items of an array, or the names and values of an object, alternating.
  std::vector<int32_t> parts(int32_t value) const;
  // Copies a value of another store into this one, and returns its number here.
  int32_t import(const ValueStore& other, int32_t value);
  size_t bytes() const { return bytes_; }

 private:
  std::deque<std::string> contents_;
  NumberTable ids_;
  size_t bytes_ = 0;
};

// Sorts alternating names and values by the numbers of the names. If the last name has no value yet, it stays at the
// end.
void sort_members(std::vector<int32_t>& parts);

}  // namespace guided
