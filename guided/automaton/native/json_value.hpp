// JSON values, each kept once, and a reader that builds one while its text is being written.
//
// In: bytes of a JSON text. Out: the number of its value; equal values have equal numbers: strings by their code
// points, numbers by what they are worth (json_number.hpp), objects whatever the order of their members. What is no
// JSON text is a value of its own spelling.
//
// Cost: a byte is O(1); a value is kept once per store.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common.hpp"

namespace guided {

// Contents begin with a letter that says what they are: s string, n number, l literal, a array, o object, r no JSON.
class ValueStore {
 public:
  int32_t intern(std::string content);
  int32_t string(std::string_view text) { return intern(std::string(1, 's').append(text)); }
  const std::string& content(int32_t value) const { return contents_[static_cast<size_t>(value)]; }
  // The values inside an array, or names and values in turn of an object.
  std::vector<int32_t> parts(int32_t value) const;
  int32_t import(const ValueStore& other, int32_t value);
  size_t bytes() const { return bytes_; }

 private:
  std::deque<std::string> contents_;
  std::unordered_map<std::string_view, int32_t> known_;
  size_t bytes_ = 0;
};

// Progress in one string: what is decoded, and the escape that is under way.
struct StringProgress {
  std::string text;        // UTF-8
  int32_t escape = -1;     // -1: none; 0: after the backslash; 1..4: after \u, so many digits less one
  uint32_t unit = 0;       // what the digits say so far
  uint32_t high = 0;       // a high surrogate that waits for the low one
  bool read(uint8_t byte);  // false: the string has ended
  bool fits(std::string_view target) const;  // whether the string may still become `target`
  void put(uint32_t code_point);
};

class JsonReader {
 public:
  explicit JsonReader(ValueStore& store) : store_(store) {}
  void read(uint8_t byte);
  int32_t value();                    // of all that was read
  bool fits(int32_t value) const;     // whether the text may still become this value; true where that is not known
  int32_t done() const { return done_; }  // the value of a text that is complete, else -1 (numbers: never)
  void describe(std::vector<int32_t>& out) const;  // what has been read, however it was spelled
  // Of a text that is a string so far: its progress; else null.
  const StringProgress* string() const { return open_.empty() && kind_ == String ? &string_ : nullptr; }

 private:
  enum Scalar : uint8_t { None, String, Bare };  // Bare: a number or a literal
  struct Open {
    char kind;                    // 'a' or 'o'
    std::vector<int32_t> parts;   // values, or names and values in turn
  };
  void add(int32_t value);
  void end_bare();
  void close(char kind);
  bool fits_scalar(int32_t value) const;

  ValueStore& store_;
  std::vector<Open> open_;
  Scalar kind_ = None;
  StringProgress string_;
  std::string bare_, all_;
  int32_t done_ = -1;      // the value, once it is complete
  bool broken_ = false;    // no JSON text
};

}  // namespace guided
