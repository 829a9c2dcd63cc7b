// JSON texts while they are being written, each byte read once.
//
// In: a text, as a number, and the next byte. Out: the longer text, as a number; equal texts share one. A text knows
// what it is in the middle of: the open containers with the values that they have so far, and the string or the bare
// word (a number, a literal) under way. White space outside of strings is no part of a text. A value may be the end of
// a longer text; it is then identified by where it begins.
//
// A set of values is a trie of their keys. All spellings of a value have the same key, and the key of what has been
// read of a value leads to the keys of all values that it may still become (json_keys.cpp).
//
// Cost: a byte is O(1); the end of a string, number or container reads it once.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/pair_map.hpp"
#include "base/persistent_trie.hpp"
#include "json/json_store.hpp"
#include "json/json_string.hpp"

namespace guided {

class JsonValues {
 public:
  // No text; the empty text; a text that is not known; the empty text within one that is not known.
  static constexpr int32_t kNone = 0, kStart = 1, kBlank = 2, kFrom = 3;
  // What a byte adds to the string that is under way: nothing, a byte of it (below 256), or 256 + a code point.
  static constexpr int32_t kNothing = -1;

  using String = JsonString;
  // What may stand between two values besides brackets.
  static constexpr std::string_view kSeparators = " \t\r\n,";

  JsonValues();
  int32_t read(int32_t text, uint8_t byte);
  bool in_string(int32_t text) const {
    return texts_[text].kind == Kind::String || (texts_[text].kind == Kind::Broken && texts_[text].unit > 0);
  }
  int32_t before(int32_t text) const { return texts_[text].before; }
  uint8_t byte(int32_t text) const { return texts_[text].byte; }
  int32_t adds(int32_t text) const { return texts_[text].adds; }
  // Of a string: the escape that is under way, and nothing of what was read before.
  JsonString escape(int32_t text) const { return {{}, texts_[text].escape, texts_[text].unit, texts_[text].high}; }

  // What the part of a text since `start` is; Unknown: not the beginning of a single JSON value.
  enum class Part : uint8_t { Unknown, Empty, String, Bare, Whole, Open };
  Part part(int32_t start, int32_t text) const;
  int32_t value(int32_t start, int32_t text);  // what is no JSON text is a value of its own spelling
  std::string raw(int32_t start, int32_t text) const;
  // Of a string or a bare word that is under way.
  JsonString string(int32_t text) const;
  std::string bare(int32_t text) const { return raw(texts_[text].since, text); }
  // Of an open container: whether the part may still become this value; true where that is not known.
  bool fits(int32_t start, int32_t text, int32_t value) const;
  // Of an open container: its kind, a or o, and its complete values, or names and values in turn.
  std::pair<char, std::vector<int32_t>> outermost(int32_t start, int32_t text) const;
  // The same for parts that no text to come tells apart, however they were spelled.
  void describe(int32_t start, int32_t text, std::vector<int32_t>& out);
  // The number of a value of another store.
  int32_t import(const JsonValues& other, int32_t value) { return values_.import(other.values_, value); }
  size_t bytes() const { return bytes_ + values_.bytes(); }

  // ---- sets of values (json_keys.cpp)
  // Equal for equal values, and for no others.
  std::string key(int32_t value) const;
  static std::string string_key(std::string_view text) { return std::string(1, 's').append(text); }
  // The set of keys and those of one more value.
  int32_t with(PersistentTrie& set, int32_t root, int32_t value) const;
  // Where the part that is not a string leads to in a set: its keys are below. PersistentTrie::kNowhere: it becomes
  // none of the values; kUndecided: the trie alone does not say.
  static constexpr int32_t kUndecided = -2;
  int32_t find(const PersistentTrie& set, int32_t root, int32_t start, int32_t text, Part part);
  // The same of any part where the set has a value that is no JSON: kUndecided, whatever has been read.
  static bool is_undecided(const PersistentTrie& set, int32_t root) { return set.child(root, 'r') >= 0; }

 private:
  enum class Kind : uint8_t { Between, String, Bare, Broken };
  struct Text {
    int32_t before = -1;
    int32_t frame = 0;  // the innermost container that is open
    int32_t since = 0;  // of a scalar: the text before its first byte
    int32_t adds = kNothing;
    uint32_t high = 0;  // as in JsonString
    uint16_t unit = 0;  // the same; Broken: 1 in a string, 2 after a backslash in it
    int8_t escape = -1;
    uint8_t byte = 0;
    Kind kind = Kind::Between;
  };
  // Begin: nothing was read in it; Item: one must come (of an object: a name); Colon, Member: of an object's member
  enum class Phase : uint8_t { Begin, Item, Colon, Member, Ended };
  struct Frame {
    int32_t outer, parts, count, depth;
    char kind;  // t: the text itself, a, o
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
  int32_t bare_value(int32_t text);  // -1: it is no value of JSON
  int32_t frame_at(int32_t frame, int32_t depth) const;
  std::vector<int32_t> parts(int32_t frame) const;
  bool fits_scalar(int32_t text, int32_t value) const;

  bool object_may_be_there(const PersistentTrie& set, int32_t root, int32_t start, int32_t text,
                           const std::vector<int32_t>& members) const;

  ValueStore values_;
  std::deque<Text> texts_;  // grows without a copy
  std::vector<Frame> frames_;
  std::vector<PartOf> parts_;
  PairMap next_;  // (text, byte) -> text
  size_t bytes_ = 0;
};

}  // namespace guided
