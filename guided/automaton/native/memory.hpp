// What a thread remembers: the values that were written in the scopes it is in (`Distinct` and `Entry` of the IR).
//
// A *scope* is opened where values must differ; each *entry* in it is read as a JSON value (json_value.hpp) and, at its
// end, must be none that was written in the scope before, nor one of the scope's known names. Scopes nest, and so do
// entries: what is being read is one text, and an entry is the part of it since its begin. All of it is interned, so a
// memory is a number that a thread carries from byte to byte, across frames:
//
//   kOutside       no scope: entries are not looked at
//   kUntold + k    a scope that opened before the thread was followed (token tables). What was written in it is not
//                  known and nothing is refused. k: how many times an entry began or ended, 2 for more: whether the
//                  values differ may hang on several of them then.
//
// Cost: a byte is one look-up while an entry is being read, else nothing; the end of an entry reads it once.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "json_value.hpp"

namespace guided {

// Strings that are taken from the beginning of a scope.
struct KnownNames {
  std::vector<std::string> sorted;  // UTF-8
  Digest digest;
  bool has(std::string_view name) const;
  bool fits(const StringProgress& progress) const;  // whether the string may still become one of them
  // Those of which the string has the first bytes.
  std::pair<std::vector<std::string>::const_iterator, std::vector<std::string>::const_iterator> ahead(
      const StringProgress& progress) const;
};

constexpr int32_t kOutside = 0, kUntold = 1;

class Memories {
 public:
  explicit Memories(const std::vector<KnownNames>& known);

  int32_t open(int32_t memory, int32_t known);
  int32_t close(int32_t memory);
  int32_t begin(int32_t memory);
  int32_t keep(int32_t memory);  // the memory after the entry; -1: its value was there
  int32_t read(int32_t memory, uint8_t byte) { return memories_[memory].text ? read_on(memory, byte) : memory; }

  bool in_scope(int32_t memory) const { return memories_[memory].scope >= 0; }
  bool reading(int32_t memory) const { return memories_[memory].text != 0; }
  // Of the innermost scope: what it is and what was written in it; -1 while an entry of it is under way.
  int32_t between(int32_t memory) const {
    const int32_t scope = memories_[memory].scope;
    return scope >= 0 && scopes_[scope].start < 0 ? scope : -1;
  }
  int32_t touched(int32_t memory) const { return memories_[memory].touched; }
  // Of an entry that is a string so far, or of which nothing was read, and that lies in no other entry: what has been
  // read, and the strings, sorted, that were there and that it may still become. Nothing where it is none, or not
  // known.
  struct StringAhead {
    bool opened;  // its first quotation mark was read
    StringProgress read;
    std::vector<std::string> taken;
  };
  std::optional<StringAhead> string_ahead(int32_t memory);
  // Whether a string was written in the innermost scope; nothing where that is not known.
  std::optional<bool> string_was_there(int32_t memory, std::string_view text);
  // Whether it is inside of a string.
  bool in_string(int32_t memory) const { return texts_[memories_[memory].text].mode != 0; }
  // How many entries are under way of which it is known what has been read, and whether one of the innermost scope is.
  std::pair<int, bool> under_way(int32_t memory) const;
  // Whether an entry that is being read may still become a value that was there.
  bool alive(int32_t memory);
  // The same without the outermost ones, so many, of those of which it is known what has been read.
  bool alive_inside(int32_t memory, int outermost);
  // Equal for memories that no text to come tells apart: of what is being read the values count, not the spelling.
  int32_t essence(int32_t memory);
  // As `memory`, but nothing is known of the entries that are being read: they end well, and once another one begins in
  // such a scope, touched() is 2.
  int32_t unread(int32_t memory);
  // As above; of the innermost scope's next entry nothing will be known if none is under way.
  int32_t blind(int32_t memory);
  // Undoes it for scopes in which no entry has begun since.
  int32_t seeing(int32_t memory);
  // Whether a value that is not known was written in the innermost scope, and no entry is under way in it.
  bool blurred(int32_t memory) const {
    const int32_t scope = between(memory);
    return scope >= 0 && seen_[scopes_[scope].seen].blurred;
  }
  // The values that were written after one that is not known, with the number of scopes around theirs.
  using Written = std::pair<int32_t, int32_t>;
  void written_since(int32_t memory, std::vector<Written>& out) const;
  // The same of the outermost entry that is being read once `text` has ended it.
  void write(int32_t memory, std::string_view text, std::vector<Written>& out);
  // As `memory`, but these values were written, too.
  int32_t with(int32_t memory, const std::vector<Written>& values);
  // Whether there are entries that may run out of values: then what is left hangs on each that was written.
  bool run_out = true;
  int32_t import(const Memories& other, int32_t memory);
  size_t bytes() const { return bytes_ + values_.bytes(); }

 private:
  // What is being read: 0 nothing, kStart the empty text, kBlank an unknown one, kFrom the empty text within an unknown
  // one
  struct Text {
    int32_t before;
    uint8_t byte, mode;  // mode: 0 outside of strings, 1 in one, 2 after a backslash
  };
  static constexpr int32_t kStart = 1, kBlank = 2, kFrom = 3;
  struct Seen {  // the values of a scope, the latest first; value kAnyValue: not known; -1: the known names
    int32_t before, value;
    bool blurred;  // kAnyValue is among them
  };
  static constexpr int32_t kAnyValue = -2, kBlind = -2;
  struct Scope {
    // start: the text at the begin of the entry; -1: none is under way; kBlind: nor read then
    int32_t outer, seen, start;
    bool inside;                 // an entry of an outer scope is under way
  };
  struct Memory {
    int32_t scope, text, touched;
    int32_t before;       // the memory a byte ago, or -1
    int8_t alive = -1;    // not known yet
  };

  int32_t read_on(int32_t memory, uint8_t byte);
  int32_t intern(int32_t scope, int32_t text, int32_t touched, int32_t before = -1);
  int32_t intern_scope(const Scope& scope);
  int32_t intern_seen(int32_t before, int32_t value);
  int32_t intern_text(int32_t before, uint8_t byte);
  int32_t enclosing(const Scope& scope) const;
  bool was_there(int32_t seen, int32_t value) const;
  bool may_be_there(int32_t scope, int32_t text);
  JsonReader reader(int32_t start, int32_t text);

  const std::vector<KnownNames>& known_;
  ValueStore values_;
  std::vector<Text> texts_;
  std::vector<Seen> seen_;
  std::vector<Scope> scopes_;
  std::vector<Memory> memories_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> ids_;
  std::unordered_map<uint64_t, int32_t> next_;  // (text, byte) -> text
  size_t bytes_ = 0;
};

}  // namespace guided
