// JSON texts while they are being written, each byte read once.
//
// In: a text, as a number, and the next byte. Out: the longer text, as a number; texts are shared by all that write the
// same bytes. A text knows what it is in the midst of: containers that are open with the values that they have so far,
// and the string or the bare word (a number, a literal) that is under way. White space of JSON outside of strings is
// no part of a text. What is read may be a part of another text: it is told by where it begins.
//
// Cost: a byte is O(1); the end of a string, number or container reads it once.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/pair_map.hpp"
#include "values/json_value.hpp"

namespace guided {

class JsonTexts {
 public:
  // No text; the empty text; a text that is not known; the empty text within one that is not known.
  static constexpr int32_t kNone = 0, kStart = 1, kBlank = 2, kFrom = 3;
  // What a byte adds to the string that is under way: nothing, a byte of it (below 256), or 256 + a code point.
  static constexpr int32_t kNothing = -1;

  explicit JsonTexts(ValueStore& values);
  int32_t read(int32_t text, uint8_t byte);
  bool in_string(int32_t text) const {
    return texts_[text].kind == Kind::String || (texts_[text].kind == Kind::Broken && texts_[text].unit > 0);
  }
  int32_t before(int32_t text) const { return texts_[text].before; }
  uint8_t byte(int32_t text) const { return texts_[text].byte; }
  int32_t adds(int32_t text) const { return texts_[text].adds; }
  // Of a string: the escape that is under way, and nothing of what was read before.
  StringProgress escape(int32_t text) const { return {{}, texts_[text].escape, texts_[text].unit, texts_[text].high}; }

  // What the part of a text since `start` is; Unknown: not the beginning of a single JSON value.
  enum class Part : uint8_t { Unknown, Empty, String, Bare, Whole, Open };
  Part part(int32_t start, int32_t text) const;
  int32_t value(int32_t start, int32_t text);  // what is no JSON text is a value of its own spelling
  std::string raw(int32_t start, int32_t text) const;
  // Of a string or a bare word that is under way.
  StringProgress string(int32_t text) const;
  std::string bare(int32_t text) const { return raw(texts_[text].since, text); }
  // Of an open container: whether the part may still become this value; true where that is not known.
  bool fits(int32_t start, int32_t text, int32_t value) const;
  // Of an open container: its kind, a or o, and its complete values, or names and values in turn.
  std::pair<char, std::vector<int32_t>> outermost(int32_t start, int32_t text) const;
  // The same for parts that no text to come tells apart, however they were spelled.
  void describe(int32_t start, int32_t text, std::vector<int32_t>& out);
  size_t bytes() const { return bytes_; }

 private:
  enum class Kind : uint8_t { Between, String, Bare, Broken };
  struct Text {
    int32_t before = -1;
    int32_t frame = 0;  // the innermost container that is open
    int32_t since = 0;  // of a scalar: the text before its first byte
    int32_t adds = kNothing;
    uint32_t high = 0;  // as in StringProgress
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
  int32_t bare_value(int32_t text);
  int32_t frame_at(int32_t frame, int32_t depth) const;
  std::vector<int32_t> parts(int32_t frame) const;
  bool fits_scalar(int32_t text, int32_t value) const;

  ValueStore& values_;
  std::deque<Text> texts_;  // grows without a copy
  std::vector<Frame> frames_;
  std::vector<PartOf> parts_;
  PairMap next_;  // (text, byte) -> text
  size_t bytes_ = 0;
};

}  // namespace guided
