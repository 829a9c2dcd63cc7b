// Values that must differ: what a parser thread knows of the scopes that it is in (`Distinct` and `Entry` of the IR).
//
// Problem: an array with `uniqueItems` must not repeat an item, however it is spelled, and which items were written is
// known only at run time. A rule for each set of items would be exponentially many, and a comparison when an item is
// complete comes too late: with `{"enum": ["a", "b"]}` and `["a", ` written, the token `"a` must be refused at once, as
// no other end is left for it.
//
// A *scope* is opened where values must differ. Each *entry* in it is read as a value (syntax.hpp) and, at its end,
// must not be in the scope's *seen set*, nor be one of its known names. Scopes nest, and so do entries: what is being
// read is one text, and an entry is the part of it since its start. All of it is interned, so the *uniqueness state* of
// a thread is a number (`Thread::mem`), which goes with the thread from byte to byte and across frames. Example, `[1,
// 1.0`:
//
//   [     open    scope 0, seen set {}
//   1     begin   entry from here, text `1`
//   ,     keep    seen set {1}; no entry
//   1.0   begin   entry from here, text `1.0`; a bare number may go on, so nothing is refused yet
//   ]     keep    its value, 1, is in the seen set: the thread ends, and `]` is not allowed
//
// Two states have a meaning of their own:
//
//   kOutside         no scope: entries are not examined
//   kUnknownSet + k  the seen set is unknown, as the scope was opened before the thread was followed (token tables);
//                    nothing is refused. k: 2 for each entry that ended, up to 4, and 1 if one began.
//
// A seen set is a trie of keys (persistent_trie.hpp), which are the same however a value is spelled; sets that differ
// by a value share the rest. The obvious alternative, a list that is compared at each entry, costs the number of values
// for each token of a mask.
//
// Cost: a byte is one look-up while an entry is being read, else nothing; the end of an entry reads it once and adds
// nodes for what is new in its value.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/persistent_trie.hpp"
#include "values/syntax.hpp"

namespace guided {

// Strings that are in the seen set of a scope from its start.
struct KnownNames {
  std::vector<std::string> sorted;  // UTF-8
  Digest digest;
};

// Numbers with a meaning of their own: see the head.
enum UniquenessMark : int32_t { kOutside, kUnknownSet, kLastUnknownSet = kUnknownSet + 5 };

class Uniqueness {
 public:
  explicit Uniqueness(const std::vector<KnownNames>& known);

  int32_t open(int32_t state, int32_t known);
  int32_t close(int32_t state);
  int32_t begin(int32_t state);
  int32_t keep(int32_t state);  // the state after the entry; -1: its value was there
  int32_t read(int32_t state, uint8_t byte) { return states_[state].text ? read_on(state, byte) : state; }

  bool in_scope(int32_t state) const { return states_[state].scope >= 0; }
  bool reading(int32_t state) const { return states_[state].text != 0; }
  // Of the innermost scope: what it is and what was written in it; -1 while an entry of it is under way.
  int32_t between(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 && scopes_[scope].start < 0 ? scope : -1;
  }
  // How many entries began or ended, 2 for more: of an scope whose seen set is unknown, or of one with a value that is
  // not known. Whether the values differ may hang on several of them then.
  int32_t touched(int32_t state) const { return states_[state].touched; }
  // How many entries of an scope whose seen set is unknown have ended, 2 for more.
  int32_t kept(int32_t state) const { return state > kLastUnknownSet ? 0 : std::max(0, state - kUnknownSet) / 2; }
  // How many values were there, in all scopes, with those that are not known and those of the entries that are under way.
  int64_t written(int32_t state) const;
  // The same without the names that were known before.
  int64_t met(int32_t state) const;
  // Whether a single entry is under way, and what has been read of it says which values it may come to.
  bool tells_apart(int32_t state);
  // Whether a single entry is under way, of which nothing but a scalar or nothing was read.
  bool in_scalar(int32_t state) const;
  // Of a string that is an entry so far, or of an entry of which nothing was read: what may come to a string that was
  // there. Nothing where it is none, or not known.
  struct StringAhead {
    bool opened = false;    // what opens the string was read
    bool inside = false;    // an entry around it is under way, too
    int32_t around = 0;     // scopes around its own
    StringProgress escape;  // the escape that is under way
    int32_t node = -1;      // of the trie, at what has been read; below 0: no string that was there begins so
  };
  std::optional<StringAhead> string_ahead(int32_t state);
  const PersistentTrie& trie() const { return trie_; }
  // Whether a string was written in the innermost scope; nothing where that is not known.
  std::optional<bool> string_was_there(int32_t state, std::string_view text);
  // How many values were written in the innermost scope or in one around it, whichever has more.
  int32_t most_written(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 ? scopes_[scope].most : 0;
  }
  // Whether an entry is under way.
  bool in_entry(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 && (scopes_[scope].start >= 0 || scopes_[scope].inside);
  }
  // Whether it is inside of a string.
  bool in_string(int32_t state) const { return syntax_.in_string(states_[state].text); }
  // How many entries are under way of which it is known what has been read, and whether one of the innermost scope is.
  std::pair<int, bool> under_way(int32_t state) const;
  // Whether an entry that is being read may still become a value that was there; true, too, where that is hard to tell.
  bool alive(int32_t state);
  // The same of the entry of the scope with so many around it.
  bool may_end(int32_t state, int32_t around);
  // How many values that were there the entries under way may still come to, at most.
  int64_t ahead(int32_t state);
  // The same without the outermost ones, so many, of those of which it is known what has been read.
  bool alive_inside(int32_t state, int outermost);
  // Equal for uniqueness that no text to come tells apart: of what is being read the values count, not the spelling.
  int32_t essence(int32_t state);

  // A value, behind the number of scopes around the one that it was written in.
  using Written = std::pair<int32_t, int32_t>;

  // ---- uniqueness in part (partial_uniqueness.cpp)
  // As `state`, but nothing is known of the entries that are being read: they end well, and once another one begins in
  // such a scope, touched() is 2.
  int32_t unread(int32_t state);
  // Nothing is known of the entries that are being read, nor of what was written; the entries that end from here on are
  // noted, in this scope and in those around it.
  int32_t noting(int32_t state);
  // Of a state that takes notes: whether no entry has begun since.
  bool none_begun(int32_t state) const;
  // How many entries are under way or were noted.
  int32_t entries(int32_t state) const;
  // What was noted. The value of an entry that was under way: kUnknown
  static constexpr int32_t kUnknown = -2;
  int32_t notes(int32_t state) const { return states_[state].notes; }
  std::vector<Written> noted(int32_t notes) const;
  // Whether a value was written in the scope with so many around it.
  bool was_written(int32_t state, Written value) const;
  // As unread(); if no entry is under way, nothing will be known of the next one of the innermost scope.
  int32_t without_next_entry(int32_t state);
  // Undoes it for scopes in which no entry has begun since.
  int32_t with_next_entry(int32_t state);
  // Whether a value that is not known was written in the innermost scope, and no entry is under way in it.
  bool has_unknown(int32_t state) const {
    const int32_t scope = between(state);
    return scope >= 0 && seen_[scopes_[scope].seen].unknown > 0;
  }
  // The values that were written after one that is not known.
  void written_since(int32_t state, std::vector<Written>& out) const;
  // The same of the outermost entry that is being read once `text` has ended it.
  void write(int32_t state, std::string_view text, std::vector<Written>& out);
  // As `state`, but these values were written, too.
  int32_t with(int32_t state, const std::vector<Written>& values);

  // Whether there are entries that may run out of values: then what is left hangs on each that was written.
  bool run_out = true;
  // What was carried over from another store, by its numbers there.
  struct Carried {
    std::unordered_map<int32_t, int32_t> states, texts, seen, scopes, values;
  };
  int32_t import(const Uniqueness& other, int32_t state, Carried& carried);
  size_t bytes() const { return bytes_ + trie_.bytes() + syntax_.bytes(); }

 private:
  static constexpr int32_t kStart = ValueSyntax::kStart, kBlank = ValueSyntax::kBlank, kFrom = ValueSyntax::kFrom;
  struct Seen {  // the values of a scope, the latest first; value kAnyValue: not known; -1: the known names
    int32_t before, value;
    int32_t unknown;  // how often kAnyValue is among them
    int32_t set;      // in the trie
    int32_t count;    // known names included
    int32_t known;    // names
    Digest sum;       // the same for the same values in any order
  };
  static constexpr int32_t kAnyValue = kUnknown, kUnread = -2;
  struct Scope {
    // start: the text at the begin of the entry; -1: none is under way; kUnread: nor read then
    int32_t outer, seen, start;
    bool inside;       // an entry of an outer scope is under way
    int32_t most = 0;  // values of it, or of one around it
  };
  struct State {
    int32_t scope, text, touched;
    int32_t notes;           // 0: entries are not noted; kNoNotes: none has ended
    int32_t before;          // the state a byte ago, or -1
    int32_t node = kNotYet;  // of the trie, of a string that is the innermost entry
    int8_t alive = -1;       // not known yet
  };
  static constexpr int32_t kNotYet = -2;
  static constexpr int32_t kNoNotes = 1;
  struct IdHash {
    template <size_t n>
    size_t operator()(const std::array<int32_t, n>& id) const {
      uint64_t h = n;
      for (int32_t x : id) h = combine(h, static_cast<uint32_t>(x));
      return static_cast<size_t>(h);
    }
  };
  struct ScopeHash {
    size_t operator()(const Scope& s) const {
      return static_cast<size_t>(combine(pair_key(s.outer, s.seen), pair_key(s.start, s.inside)));
    }
  };
  struct ScopeEqual {
    bool operator()(const Scope& a, const Scope& b) const {
      return a.outer == b.outer && a.seen == b.seen && a.start == b.start && a.inside == b.inside;
    }
  };

  int32_t read_on(int32_t state, uint8_t byte);
  int32_t intern(int32_t scope, int32_t text, int32_t touched, int32_t notes, int32_t before = -1);
  int32_t intern_scope(const Scope& scope);
  int32_t intern_seen(int32_t before, int32_t value);
  int32_t enclosing(const Scope& scope) const;
  static int32_t unknown_set(int32_t kept, bool began) { return kUnknownSet + 2 * std::min(kept, 2) + began; }
  void index(Seen& seen, int32_t value);
  bool was_there(int32_t seen, int32_t value) const;
  bool may_be_there(int32_t scope, int32_t state);
  int32_t depth(int32_t scope) const;  // how many scopes are around it
  int32_t note(int32_t notes, Written value);
  int32_t node_of(int32_t scope, int32_t state);
  int32_t string_node(int32_t set, int32_t state);
  int32_t node_after(int32_t node, int32_t adds) const;

  const std::vector<KnownNames>& known_;
  ValueSyntax syntax_;
  PersistentTrie trie_;
  std::vector<Seen> seen_;
  std::vector<Scope> scopes_;
  std::deque<State> states_;                                          // grows without a copy
  std::vector<std::pair<int32_t, Written>> notes_{{0, {}}, {0, {}}};  // behind those before
  PairMap seen_ids_;                                                  // (before, value)
  NumberTable state_ids_;
  std::unordered_map<std::array<int32_t, 3>, int32_t, IdHash> note_ids_;
  std::unordered_map<Scope, int32_t, ScopeHash, ScopeEqual> scope_ids_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> essences_;
  size_t bytes_ = 0;
};

}  // namespace guided
