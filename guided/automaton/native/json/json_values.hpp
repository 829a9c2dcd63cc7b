// Reads JSON texts byte by byte while they are being written.
//
// In: the number of a text, and the next byte. Out: the number of the longer text; equal texts have equal numbers. A
// text stores its open containers with their values so far, and its current string or bare word (a number or a
// literal). White space outside of strings is ignored. A value may be the end of a longer text; it is then identified
// by the text at which it starts.
//
// A set of values is a trie of their keys. All spellings of a value have the same key. The key of the part of a value
// that has been read leads to the keys of all values that it may still become (json_keys.cpp).
//
// Cost: O(1) per byte; at its end, a string, number or container is read once more.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/pair_map.hpp"
#include "base/persistent_trie.hpp"
#include "json/json_store.hpp"
#include "json/json_string.hpp"

namespace guided {

class JsonValues {
 public:
  // No text; the empty text; an unknown text; the empty text after an unknown one.
  static constexpr int32_t kNone = 0, kStart = 1, kBlank = 2, kFrom = 3;
  // What a byte adds to the current string: nothing, one byte (below 256), or a code point (256 + code point).
  static constexpr int32_t kNothing = -1;

  using String = JsonString;
  // The bytes that may occur between two values, other than brackets.
  static constexpr std::string_view kSeparators = " \t\r\n,";

  JsonValues();
  int32_t read(int32_t text, uint8_t byte);
  bool in_string(int32_t text) const {
    return texts_[text].kind == Kind::String || (texts_[text].kind == Kind::Broken && texts_[text].unit > 0);
  }
  int32_t before(int32_t text) const { return texts_[text].before; }
  uint8_t byte(int32_t text) const { return texts_[text].byte; }
  int32_t adds(int32_t text) const { return texts_[text].adds; }
  // The current escape of a string, without the characters before it.
  JsonString escape(int32_t text) const { return {{}, texts_[text].escape, texts_[text].unit, texts_[text].high}; }

  // What has been read since `start`. Unknown: not the beginning of a single JSON value.
  enum class Part : uint8_t { Unknown, Empty, String, Bare, Whole, Open };
  Part part(int32_t start, int32_t text) const;
  int32_t value(int32_t start, int32_t text);  // text that is not JSON becomes a value that equals only its spelling
  std::string raw(int32_t start, int32_t text) const;
  // The current string or bare word.
  JsonString string(int32_t text) const;
  std::string bare(int32_t text) const { return raw(texts_[text].since, text); }
  // Whether open containers, innermost first, may still become this value. Also true if this is unknown.
  bool fits(std::span<const int32_t> open, int32_t text, int32_t value) const;
  // Appends a description to `out`: equal for parts that no continuation distinguishes, however they are spelled.
  void describe(int32_t start, int32_t text, std::vector<int32_t>& out);
  // The number in this store of a value of another one.
  int32_t import(const JsonValues& other, int32_t value) { return values_.import(other.values_, value); }
  size_t bytes() const { return bytes_ + values_.bytes(); }

  // ---- sets of values (json_keys.cpp)
  // Two values have equal keys if and only if they are equal.
  std::string key(int32_t value) const;
  static std::string string_key(std::string_view text) { return std::string(1, 's').append(text); }
  // Adds the keys of a value to a set; returns the new set.
  int32_t with(PersistentTrie& set, int32_t root, int32_t value) const;
  // The node of a set to which the part since `start` leads: the values that it may become are below.
  // PersistentTrie::kNowhere: it can become none of them. kUndecided: the trie alone does not tell.
  static constexpr int32_t kUndecided = -2;
  int32_t find(const PersistentTrie& set, int32_t root, int32_t start, int32_t text, Part part);
  // Whether every part is kUndecided, because the set contains a text that is not JSON.
  static bool is_undecided(const PersistentTrie& set, int32_t root) { return set.child(root, 'r') >= 0; }

 private:
  enum class Kind : uint8_t { Between, String, Bare, Broken };
  struct Text {
    int32_t before = -1;
    int32_t frame = 0;  // the innermost open container
    int32_t since = 0;  // of a scalar: the text before its first byte
    int32_t adds = kNothing;
    uint32_t high = 0;  // as in JsonString
    uint16_t unit = 0;  // as in JsonString; if Broken: 1 in a string, 2 after a backslash in it
    int8_t escape = -1;
    uint8_t byte = 0;
    Kind kind = Kind::Between;
  };
  // Begin: just opened; Item: an item or name must follow; Colon, Member: a colon, or a member's value, must follow
  enum class Phase : uint8_t { Begin, Item, Colon, Member, Ended };
  struct Frame {
    int32_t outer, parts, count, depth;
    char kind;  // t: the text itself; a: array; o: object
    Phase phase;
  };
  struct PartOf {
    int32_t before, value;
  };

  Text next(int32_t text, uint8_t byte);
  void read_string(Text& out, uint8_t byte);
  void read_structure(Text& out, uint8_t byte);
  bool expects(int32_t frame, bool string) const;
  void add(Text& out, int32_t value);
  void close(Text& out, char kind);
  int32_t in_phase(int32_t frame, Phase phase);
  int32_t bare_value(int32_t text);  // -1: not a JSON value
  int32_t frame_at(int32_t frame, int32_t depth) const;
  std::vector<int32_t> open_frames(int32_t start, int32_t text) const;
  std::vector<int32_t> parts(int32_t frame) const;
  bool fits_scalar(int32_t text, int32_t value) const;

  static constexpr char kItemEnd = '\xff';
  void append_key(int32_t value, std::string& out) const;
  std::string scalar_key(int32_t text) const;
  int32_t after_items(const PersistentTrie& set, int32_t node, int32_t last);
  std::string name_key(char kind, int32_t name) const;
  std::string member_key(int32_t name, int32_t value) const;
  std::optional<std::vector<int32_t>> few_objects(const PersistentTrie& set, int32_t root, int32_t here,
                                                  const std::vector<int32_t>& members) const;

  ValueStore values_;
  std::deque<Text> texts_;  // growing does not copy the elements
  std::vector<Frame> frames_;
  std::vector<PartOf> parts_;
  PairMap next_;         // (text, byte) -> text
  PairMap after_items_;  // (node, part) -> node
  size_t bytes_ = 0;
};

}  // namespace guided
