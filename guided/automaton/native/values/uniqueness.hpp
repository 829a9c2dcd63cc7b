// Values that must differ: the uniqueness scopes that a parser thread is in (`Distinct` and `Entry` of the IR).
//
// Problem: an array with `uniqueItems` must not repeat an item, however it is spelled, and the items are known only at
// run time. A rule for each set of items would need exponentially many rules. A comparison at the end of an item comes
// too late: with `{"enum": ["a", "b"]}`, after `["a", `, the token `"a` must be refused at once, because it can only
// become a seen value.
//
// A *scope* is opened where values must differ. Each of its *entries* is read as a value (syntax.hpp). At the end of an
// entry, its value must not be in the scope's *seen set*, which begins with the scope's known names. Scopes and entries
// nest: what is being read is one text, and an entry is the part of the text since its start. Everything is interned,
// so the *uniqueness state* of a thread is a number (`Thread::mem`), which the thread carries from byte to byte and
// across frames. Example, `[1, 1.0`:
//
//   [     open    scope 0, seen set {}
//   1     begin   an entry starts here, text `1`
//   ,     keep    seen set {1}; no entry
//   1.0   begin   an entry starts here, text `1.0`; more digits may follow, so nothing is refused yet
//   ]     keep    its value, 1, is in the seen set: the thread ends, and `]` is not allowed
//
// Some states have fixed numbers:
//
//   kOutside         no scope: entries are not examined
//   kUnknownSet + k  the seen set is unknown, as the scope was opened before the walk began (token tables); nothing
//                    is refused. k: 2 for each entry that has ended, at most 4, and 1 more if one has begun.
//
// A seen set is a trie of keys (persistent_trie.hpp). All spellings of a value have the same key. Sets that differ by
// one value share the rest. The obvious alternative, a list that is compared with each entry, would cost time
// proportional to the number of values for each token of a mask.
//
// Cost: one look-up per byte inside an entry, nothing outside; the end of an entry reads it once and adds new trie
// nodes.
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

// States with fixed numbers: see the head of this file.
enum UniquenessMark : int32_t { kOutside, kUnknownSet, kLastUnknownSet = kUnknownSet + 5 };

class Uniqueness {
 public:
  explicit Uniqueness(const std::vector<KnownNames>& known);

  int32_t open(int32_t state, int32_t known);
  int32_t close(int32_t state);
  int32_t begin(int32_t state);
  int32_t keep(int32_t state);  // the state after the entry; -1: its value has been seen
  int32_t read(int32_t state, uint8_t byte) { return states_[state].text ? read_on(state, byte) : state; }

  bool in_scope(int32_t state) const { return states_[state].scope >= 0; }
  bool reading(int32_t state) const { return states_[state].text != 0; }
  // Identifies the innermost scope and its seen set; -1 while one of its entries is being read.
  int32_t between(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 && scopes_[scope].start < 0 ? scope : -1;
  }
  // The number of entries that have begun or ended in a scope whose seen set is unknown or contains an unknown value:
  // 0, 1, or 2 for several. With 2, whether the values differ may depend on several of them.
  int32_t touched(int32_t state) const { return states_[state].touched; }
  // The number of entries that have ended in a scope whose seen set is unknown, at most 2.
  int32_t kept(int32_t state) const { return state > kLastUnknownSet ? 0 : std::max(0, state - kUnknownSet) / 2; }
  // The number of values in all scopes: known names, seen values (also unknown ones), and entries that are being read.
  int64_t written(int32_t state) const;
  // The same without the known names and the entries that are being read.
  int64_t read_entries(int32_t state) const;
  // Whether in_scalar(), and the trie tells which seen values the entry may still become.
  bool tells_apart(int32_t state);
  // Whether exactly one entry is being read, in the innermost scope, and it is still empty, a string, or a bare word.
  bool in_scalar(int32_t state) const;
  // How the innermost entry may become a seen string, except for unknown values. The entry must be empty so far or a
  // string; otherwise nullopt.
  struct StringAhead {
    bool opened = false;    // the opening quote was read
    bool inside = false;    // the entry is inside another one
    int32_t around = 0;     // the number of scopes around its scope
    StringProgress escape;  // the current escape
    int32_t node = -1;      // the trie node of what has been read; negative: no seen string begins so
  };
  std::optional<StringAhead> string_ahead(int32_t state);
  const PersistentTrie& trie() const { return trie_; }
  // Whether the innermost scope has seen this string; nullopt if that is unknown.
  std::optional<bool> string_was_there(int32_t state, std::string_view text);
  // The largest number of seen values in the innermost scope or in one around it.
  int32_t most_written(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 ? scopes_[scope].most : 0;
  }
  // Whether an entry is being read.
  bool in_entry(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 && (scopes_[scope].start >= 0 || scopes_[scope].inside);
  }
  // Whether the text ends inside a string.
  bool in_string(int32_t state) const { return syntax_.in_string(states_[state].text); }
  // The number of entries that are being read and whose text is known; whether the innermost scope has one of them.
  std::pair<int, bool> under_way(int32_t state) const;
  // Whether an entry that is being read may still become a seen value. Also true if this is hard to decide.
  bool alive(int32_t state);
  // The same for the entry of the scope that has `around` scopes around it.
  bool may_end(int32_t state, int32_t around);
  // An upper bound on the number of seen values that the current entries may still become.
  int64_t ahead(int32_t state);
  // As alive(), but ignores the outermost `outermost` entries whose text is known.
  bool alive_inside(int32_t state, int outermost);
  // A representative of all states that no continuation distinguishes: it depends on values, not on their spellings.
  int32_t essence(int32_t state);

  // The number of scopes around the scope of a value, and the value.
  using Written = std::pair<int32_t, int32_t>;

  // ---- partly unknown uniqueness (partial_uniqueness.cpp)
  // As `state`, but the text of the current entries is unknown. No value is refused at their end. Once another entry
  // begins in such a scope, touched() is 2.
  int32_t unread(int32_t state);
  // As `state`, but neither the seen values nor the text of the current entries is known. Entries that end from here on
  // are noted, in these scopes.
  int32_t noting(int32_t state);
  // Whether no entry has begun since noting().
  bool none_begun(int32_t state) const;
  // The number of entries that are being read or were noted.
  int32_t entries(int32_t state) const;
  // The noted values, without those in scopes that were opened later: these values have been compared with each other.
  // kUnknown: the value of an entry that had begun before noting().
  static constexpr int32_t kUnknown = -2;
  int32_t notes(int32_t state) const { return states_[state].notes; }
  std::vector<Written> noted(int32_t notes) const;
  // Whether the scope that has `value.first` scopes around it has seen the value.
  bool was_written(int32_t state, Written value) const;
  // As unread(). If no entry of the innermost scope is being read, the text of its next one will be unknown, too.
  int32_t without_next_entry(int32_t state);
  // Undoes without_next_entry() for scopes in which no entry has begun since.
  int32_t with_next_entry(int32_t state);
  // Whether the innermost scope has seen an unknown value, and none of its entries is being read.
  bool has_unknown(int32_t state) const {
    const int32_t scope = between(state);
    return scope >= 0 && seen_[scopes_[scope].seen].unknown > 0;
  }
  // Appends the values that each scope has seen after its last unknown value.
  void written_since(int32_t state, std::vector<Written>& out) const;
  // Appends the value of the outermost current entry, which ends after `text`, if its scope has seen an unknown value.
  void write(int32_t state, std::string_view text, std::vector<Written>& out);
  // As `state`, but these values have been seen, too.
  int32_t with(int32_t state, const std::vector<Written>& values);

  // Whether some entries may run out of unseen values. If so, all that may follow depends on each seen value.
  bool run_out = true;
  // Numbers in another store -> numbers in this one.
  struct Carried {
    std::unordered_map<int32_t, int32_t> states, texts, seen, scopes, values;
  };
  int32_t import(const Uniqueness& other, int32_t state, Carried& carried);
  size_t bytes() const { return bytes_ + trie_.bytes() + syntax_.bytes(); }

 private:
  static constexpr int32_t kStart = ValueSyntax::kStart, kBlank = ValueSyntax::kBlank, kFrom = ValueSyntax::kFrom;
  struct Seen {  // a set of values, as a list, latest first; value: kAnyValue is unknown, -1 ends the list
    int32_t before, value;
    int32_t unknown;  // how often the list contains kAnyValue
    int32_t set;      // the root in the trie
    int32_t count;    // known values, including the known names
    int32_t known;    // the set that contains only the known names
    Digest sum;       // a hash that does not depend on the order of the values
  };
  static constexpr int32_t kAnyValue = kUnknown, kUnread = -2;
  struct Scope {
    // start: the text at the start of the current entry; -1: no entry; kUnread: no entry, and the next one is not read
    int32_t outer, seen, start;
    bool inside;         // the scope was opened inside an entry of an outer scope
    bool later = false;  // it was opened after noting()
    int32_t most = 0;    // see most_written()
  };
  struct State {
    int32_t scope, text, touched;
    int32_t notes;           // 0: entries are not noted; kNoNotes: none has been noted yet
    int32_t before;          // the state one byte earlier, or -1
    int32_t node = kNotYet;  // the trie node, if the innermost entry is a string
    int8_t alive = -1;       // -1: not known yet
  };
  static constexpr int32_t kNotYet = -2;
  static constexpr int32_t kNoNotes = 1;
  static constexpr int32_t kLaterScope = -1;  // in notes, instead of the number of scopes around
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
      return static_cast<size_t>(combine(pair_key(s.outer, s.seen), pair_key(s.start, 2 * s.later + s.inside)));
    }
  };
  struct ScopeEqual {
    bool operator()(const Scope& a, const Scope& b) const {
      return a.outer == b.outer && a.seen == b.seen && a.start == b.start && a.inside == b.inside && a.later == b.later;
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
  int32_t depth(int32_t scope) const;  // the number of scopes around it
  int32_t note(int32_t notes, Written value);
  int32_t node_of(int32_t scope, int32_t state);
  int32_t string_node(int32_t set, int32_t state);
  int32_t node_after(int32_t node, int32_t adds) const;

  const std::vector<KnownNames>& known_;
  ValueSyntax syntax_;
  PersistentTrie trie_;
  std::vector<Seen> seen_;
  std::vector<Scope> scopes_;
  std::deque<State> states_;                                          // growing does not copy the elements
  std::vector<std::pair<int32_t, Written>> notes_{{0, {}}, {0, {}}};  // (earlier notes, noted value)
  PairMap seen_ids_;                                                  // (before, value)
  NumberTable state_ids_;
  std::unordered_map<std::array<int32_t, 3>, int32_t, IdHash> note_ids_;
  std::unordered_map<Scope, int32_t, ScopeHash, ScopeEqual> scope_ids_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> essences_;
  size_t bytes_ = 0;
};

}  // namespace guided
