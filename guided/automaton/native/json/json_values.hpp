// Reads JSON texts byte by byte while they are being written.
//
// In: the number of a text, and the next byte. Out: the number of the longer text; equal texts have equal numbers. A
// text stores its open containers with their values so far, and its current string or word (a number or a literal).
// Whitespace outside of strings is ignored. A value may be the last part of a longer text. It is then identified by
// the text before it and the text up to its end.
//
// A set of values is a trie of their keys. All spellings of a value have the same key. An unfinished value leads to a
// node of the trie, and the keys of all values that it may still become are below this node (json_keys.cpp).
//
// Cost: O(1) per byte. At its end, a string, number or container is read once more.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/pair_map.hpp"
#include "base/persistent_trie.hpp"
#include "json/json_store.hpp"
#include "json/json_string.hpp"

namespace guided {

class JsonValues {
 public:
  // In this order: no text; the empty text; an unknown text; the empty text after an unknown one.
  static constexpr int32_t kNoText = 0, kEmptyText = 1, kUnknownText = 2, kAfterUnknownText = 3;
  // What a text's last byte adds to the current string: kNothing, one byte (below 256), or a code point (256 + code
  // point).
  static constexpr int32_t kNothing = -1;

  using String = JsonString;
  // The bytes that may occur between two values, except brackets.
  static constexpr std::string_view kSeparators = " \t\r\n,";

  JsonValues();
  int32_t read(int32_t text, uint8_t byte);
  bool is_in_string(int32_t text) const {
    return texts_[text].kind == Kind::String ||
           (texts_[text].kind == Kind::Broken && texts_[text].broken_state != BrokenState::Outside);
  }
  int32_t previous(int32_t text) const { return texts_[text].previous; }
  uint8_t byte(int32_t text) const { return texts_[text].byte; }
  int32_t added_character(int32_t text) const { return texts_[text].added_character; }
  // The current escape of a string, without the characters before it.
  JsonString escape(int32_t text) const { return {{}, texts_[text].escape, texts_[text].unit, texts_[text].high}; }

  // What has been read since `start`. Unknown: not the beginning of a single JSON value.
  enum class PartKind : uint8_t { Unknown, Empty, String, Word, Whole, Open };
  PartKind kind_since(int32_t start, int32_t text) const;
  // Text that is not JSON becomes a value that equals only text with the same bytes.
  int32_t value(int32_t start, int32_t text);
  std::string raw_text(int32_t start, int32_t text) const;
  // The current string or word.
  JsonString current_string(int32_t text) const;
  std::string current_word(int32_t text) const { return raw_text(texts_[text].word_start, text); }
  // Whether the outermost of the open containers `frames` (innermost first) may still become `value`. Also true if the
  // value is text that is not JSON.
  bool may_become(std::span<const int32_t> frames, int32_t text, int32_t value) const;
  // Appends a description of the part since `start` to `out`. Parts that no continuation distinguishes have equal
  // descriptions, however they are spelled.
  void describe(int32_t start, int32_t text, std::vector<int32_t>& out);
  // Copies a value of another object into this one, and returns its number here.
  int32_t import(const JsonValues& other, int32_t value) { return values_.import(other.values_, value); }
  size_t bytes() const { return bytes_ + comparison_bytes_ + values_.bytes(); }

  // ---- sets of values (json_keys.cpp)
  // Two values have equal keys if and only if they are equal.
  std::string key(int32_t value) const;
  static std::string string_key(std::string_view text) { return std::string(1, 's').append(text); }
  // Adds the keys of a value to a set; returns the new set.
  int32_t insert(PersistentTrie& set, int32_t root, int32_t value) const;
  // The node of a set to which the part since `start` leads. The values that the part may become are below this node.
  // PersistentTrie::kNoNode: it can become none of them. kUndecided: the trie alone cannot decide.
  static constexpr int32_t kUndecided = -2;
  int32_t find(const PersistentTrie& set, int32_t root, int32_t start, int32_t text, PartKind part_kind);
  // Whether the trie alone can decide nothing, because the set contains text that is not JSON.
  static bool is_undecided(const PersistentTrie& set, int32_t root) { return set.child(root, 'r') >= 0; }

 private:
  enum class Kind : uint8_t { Between, String, Word, Broken };
  enum class BrokenState : uint8_t { Outside, InString, AfterEscape };  // in text that is not JSON
  struct Text {
    int32_t previous = -1;
    int32_t frame = 0;       // the innermost open container
    int32_t word_start = 0;  // of a string or word: the text before its first byte
    int32_t added_character = kNothing;
    uint32_t high = 0;  // as in JsonString
    uint16_t unit = 0;  // as in JsonString
    int8_t escape = -1;
    uint8_t byte = 0;
    Kind kind = Kind::Between;
    BrokenState broken_state = BrokenState::Outside;  // if Broken
  };
  // Begin: just opened; Item: an item or a name must follow; Colon: a colon must follow; Member: a member's value must
  // follow; Ended: an item or member has ended.
  enum class Phase : uint8_t { Begin, Item, Colon, Member, Ended };
  struct Frame {
    int32_t outer, last_part, part_count, depth;
    char kind;  // t: the text itself; a: array; o: object
    Phase phase;
  };
  struct PartLink {
    int32_t previous, value;
  };

  Text extend(int32_t text, uint8_t byte);
  void read_string(Text& out, uint8_t byte);
  void read_structure(Text& out, uint8_t byte);
  bool expects_value(int32_t frame, bool is_string) const;
  void add_part(Text& out, int32_t value);
  void close_container(Text& out, char kind);
  int32_t with_phase(int32_t frame, Phase phase);
  int32_t word_value(int32_t text);  // -1: not a JSON value
  int32_t ancestor_at(int32_t frame, int32_t depth) const;
  std::vector<int32_t> open_frames(int32_t start, int32_t text) const;
  std::vector<int32_t> parts(int32_t frame) const;
  bool scalar_may_become(int32_t text, int32_t value) const;
  struct Comparison {  // of the parts of an unfinished object (names and values) with a complete object
    int32_t last_part = -1, value = -1;
    bool is_subset = false;   // all members read so far are members of the complete object
    int32_t next_value = -1;  // the complete object's value for the name read last; -1: it has no such member
    std::unordered_map<int32_t, int32_t> members_left;  // the members whose names have not been read
    size_t bytes = 0;
  };
  const Comparison& compare_parts(size_t level, int32_t frame, int32_t value) const;
  mutable std::vector<Comparison> comparisons_;  // the last one at each nesting level
  mutable size_t comparison_bytes_ = 0;          // the memory of `comparisons_`

  static constexpr char kItemEnd = '\xff';
  void append_key(int32_t value, std::string& out) const;
  std::string scalar_key(int32_t text) const;
  int32_t node_after_items(const PersistentTrie& set, int32_t node, int32_t last);
  std::string name_key(char kind, int32_t name) const;
  std::string member_key(int32_t name, int32_t value) const;
  std::optional<std::vector<int32_t>> find_few_objects(const PersistentTrie& set, int32_t root, int32_t numbers_node,
                                                       const std::vector<int32_t>& members) const;

  ValueStore values_;
  std::deque<Text> texts_;  // growing does not copy the elements
  std::vector<Frame> frames_;
  std::vector<PartLink> parts_;
  PairMap next_;        // (text, byte) -> text
  PairMap item_nodes_;  // (node, part) -> node
  size_t bytes_ = 0;
};

}  // namespace guided
