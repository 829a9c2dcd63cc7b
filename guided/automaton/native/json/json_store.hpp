// JSON values, each stored once.
//
// Equal values have equal numbers: strings are compared by their code points, numbers by their numeric value
// (json_number.hpp), objects regardless of the order of their members. A text that is not JSON is a value that equals
// only its own spelling.
//
// Cost: a value is stored once per store.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/common.hpp"
#include "base/slot_table.hpp"

namespace guided {

// Contents begin with a letter that says what they are: s string, n number, l literal, a array, o object, r no JSON.
class ValueStore {
 public:
  int32_t intern(std::string content);
  int32_t string(std::string_view text) { return intern(std::string(1, 's').append(text)); }
  int32_t container(char kind, std::vector<int32_t> parts);  // kind: a or o
  const std::string& content(int32_t value) const { return contents_[static_cast<size_t>(value)]; }
  // The values inside an array, or names and values in turn of an object.
  std::vector<int32_t> parts(int32_t value) const;
  int32_t import(const ValueStore& other, int32_t value);
  size_t bytes() const { return bytes_; }

 private:
  std::deque<std::string> contents_;
  NumberTable known_;
  size_t bytes_ = 0;
};

// Names and values in turn, in the order of the names' numbers; a name at the end that has no value stays there.
void sort_members(std::vector<int32_t>& parts);

}  // namespace guided
