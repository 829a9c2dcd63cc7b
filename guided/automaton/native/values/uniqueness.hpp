// Values that must differ: the uniqueness scopes of a parser thread (the IR nodes `Distinct` and `Entry`).
//
// Problem: an array with `uniqueItems` must not repeat an item, however it is spelled, and the items are known only at
// run time. One rule for each set of items would mean exponentially many rules. A comparison at the end of an item
// comes too late: with `{"enum": ["a", "b"]}`, after `["a", `, the token `"a` must be refused at once, because it can
// only become a seen value.
//
// A *scope* is opened where values must differ. Each of its *entries* is read as a value (syntax.hpp). At the end of an
// entry, its value must not be in the scope's *seen set*, which begins with the scope's known names. Scopes and entries
// nest. All entries that are being read share one text; each entry is the part of this text since the entry's start.
// Everything is interned, so the *uniqueness state* of a thread is a number (`Thread::mem`). The thread carries it from
// byte to byte and across frames. Example, `[1, 1.0]`:
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
//   kUnknownSet + k  the seen set is unknown, because the scope was opened before the walk began (token tables).
//                    Nothing is refused. k: 2 for each entry that has ended, but at most 4, plus 1 if one has begun.
//
// A seen set is a trie of keys (persistent_trie.hpp). All spellings of a value have the same key. Sets that differ by
// one value share the rest. Comparing each entry with a list of values would take, for each token of a mask, time
// proportional to the number of values.
//
// Cost: one look-up per byte inside an entry; nothing outside of entries. At its end, an entry is read once more, and
// new trie nodes are added.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/persistent_trie.hpp"
#include "values/syntax.hpp"

namespace guided {

// Strings that are in a scope's seen set from the start.
struct KnownNames {
  std::vector<std::string> sorted;  // UTF-8
  Digest digest;
};

// States with fixed numbers: see the head of this file.
enum UniquenessMark : int32_t { kOutside, kUnknownSet, kLastUnknownSet = kUnknownSet + 5 };

class Uniqueness {
 public:
  explicit Uniqueness(const std::vector<KnownNames>& known_names);

  int32_t open(int32_t state, int32_t known_names);
  int32_t close(int32_t state);
  int32_t begin(int32_t state);
  int32_t keep(int32_t state);  // the state after the entry; -1: the entry's value has been seen
  int32_t read(int32_t state, uint8_t byte) { return states_[state].text ? extend(state, byte) : state; }

  bool is_in_scope(int32_t state) const { return states_[state].scope >= 0; }
  bool is_reading(int32_t state) const { return states_[state].text != 0; }
  // A number that identifies the innermost scope and its seen set; -1 while one of its entries is being read.
  int32_t scope_between_entries(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 && scopes_[scope].start < 0 ? scope : -1;
  }
  // The number of entries that have begun or ended in a scope whose seen set is unknown or contains an unknown
  // value: 0, 1, or 2 for several. If it is 2, the entries' values may have to differ from each other.
  int32_t touched_entries(int32_t state) const { return states_[state].touched_entries; }
  // The number of entries that have ended in a scope whose seen set is unknown, at most 2.
  int32_t ended_entries(int32_t state) const {
    return state > kLastUnknownSet ? 0 : std::max(0, state - kUnknownSet) / 2;
  }
  // The number of values in all scopes: known names, seen values (including unknown ones), and entries that are being
  // read.
  int64_t count_values(int32_t state) const { return sums(states_[state].scope).values; }
  // As count_values(), without the known names and the entries that are being read.
  int64_t count_read_entries(int32_t state) const { return sums(states_[state].scope).read_entries; }
  // Whether is_in_scalar() holds, and the trie can decide which seen values the entry may still become.
  bool can_tell_apart(int32_t state);
  // Whether exactly one entry is being read, it is in the innermost scope, and it is still empty, a string, or a word.
  bool is_in_scalar(int32_t state) const;
  // How the innermost entry may become a seen string. Unknown values are ignored. nullopt if the innermost scope has no
  // entry, if the entry's text is unknown, or if it is neither empty so far nor a string.
  struct StringAhead {
    bool is_opened = false;   // the opening quotation mark has been read
    bool is_nested = false;   // the entry is inside another one
    int32_t scope_depth = 0;  // the number of scopes around its scope
    StringProgress escape;    // the current escape
    int32_t node = -1;        // the trie node of the string so far; negative: no seen string begins with it
  };
  std::optional<StringAhead> string_ahead(int32_t state);
  const PersistentTrie& trie() const { return trie_; }
  // Whether the innermost scope has seen this string; nullopt if that is unknown.
  std::optional<bool> has_seen_string(int32_t state, std::string_view text);
  // The largest number of seen values in any open scope.
  int32_t max_seen_values(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 ? scopes_[scope].max_seen : 0;
  }
  // Whether `scope` is one of the open scopes, unchanged.
  bool has_scope(int32_t state, int32_t scope) const {
    int32_t current = states_[state].scope;
    while (current >= 0 && current != scope) current = scopes_[current].outer;
    return current >= 0;
  }
  // Whether an entry is being read.
  bool is_in_entry(int32_t state) const {
    const int32_t scope = states_[state].scope;
    return scope >= 0 && (scopes_[scope].start >= 0 || scopes_[scope].is_nested);
  }
  // Whether the text ends inside a string.
  bool is_in_string(int32_t state) const { return syntax_.is_in_string(states_[state].text); }
  // The number of entries that are being read and whose text is known; whether one of them is in the innermost scope.
  std::pair<int, bool> count_open_entries(int32_t state) const;
  // A number for the outermost entry after the first `outer_count` whose text is known and that is being read; -1: none.
  // It does not change until the entry ends.
  int32_t open_entry(int32_t state, int outer_count) const;
  // Whether an entry that is being read may still become a seen value. Also true if this is hard to decide.
  bool may_become_seen(int32_t state);
  // Like may_become_seen(), for the entry of the scope that has `scope_depth` scopes around it.
  bool may_become_seen_at(int32_t state, int32_t scope_depth);
  // An upper bound on the number of seen values that the current entries may still become.
  int64_t max_seen_ahead(int32_t state);
  // As may_become_seen(), but ignores the outermost `outermost` entries whose text is known.
  bool may_become_seen_inside(int32_t state, int outermost);
  // One state that represents all states that no continuation distinguishes. It depends on values, not on their
  // spellings.
  int32_t representative(int32_t state);

  // The number of scopes around the scope of a value, and the value.
  using WrittenValue = std::pair<int32_t, int32_t>;

  // ---- partly unknown uniqueness (partial_uniqueness.cpp)
  // As `state`, but the text of the current entries is unknown, so they may end with any value. Once another entry
  // begins in the scope of one of them, touched_entries() is 2.
  int32_t with_unread_entries(int32_t state);
  // As `state`, but neither the seen values nor the text of the current entries is known. From here on, the state notes
  // the values of entries that end in these scopes.
  int32_t with_noting(int32_t state);
  // Whether no entry has begun since with_noting().
  bool has_no_new_entry(int32_t state) const { return sums(states_[state].scope).new_entries == 0; }
  // The number of entries that are being read or have been noted.
  int32_t count_entries(int32_t state) const;
  // The noted values, except values in scopes that were opened after with_noting(), which have already been compared
  // with each other. kUnknown: the value of an entry that had begun before with_noting().
  static constexpr int32_t kUnknown = -2;
  int32_t notes(int32_t state) const { return states_[state].notes; }
  std::vector<WrittenValue> noted_values(int32_t notes) const;
  // Whether the scope that has `value.first` scopes around it has seen the value.
  bool has_seen(int32_t state, WrittenValue value);
  // As with_unread_entries(). If no entry of the innermost scope is being read, the text of its next entry will be
  // unknown, too.
  int32_t without_next_entry(int32_t state);
  // Undoes without_next_entry() for scopes in which no entry has begun since then.
  int32_t with_next_entry(int32_t state);
  // Whether the innermost scope has seen an unknown value, and none of the scope's entries is being read.
  bool has_seen_unknown(int32_t state) const {
    const int32_t scope = scope_between_entries(state);
    return scope >= 0 && seen_[scopes_[scope].seen].unknown_count > 0;
  }
  // Appends the values that each scope has seen after its last unknown value, unless it is in `visited` already.
  void append_values_after_unknown(int32_t state, std::unordered_set<int32_t>& visited,
                                   std::vector<WrittenValue>& out) const;
  // Appends the value that the outermost current entry has after `text`, which ends it, if its scope has seen an
  // unknown value.
  void append_written_value(int32_t state, std::string_view text, std::vector<WrittenValue>& out);
  // As `state`, but with these values, which are sorted, added to the seen sets.
  int32_t with_seen_values(int32_t state, const std::vector<WrittenValue>& values);

  // Whether some entries may run out of unseen values. If so, each seen value may affect everything that follows.
  bool may_run_out = true;
  // Maps numbers of the other object to numbers of this one.
  struct Carried {
    std::unordered_map<int32_t, int32_t> states, texts, seen, scopes, values;
  };
  int32_t import(const Uniqueness& other, int32_t state, Carried& carried);
  size_t bytes() const { return bytes_ + trie_.bytes() + syntax_.bytes(); }

 private:
  static constexpr int32_t kEmptyText = ValueSyntax::kEmptyText, kUnknownText = ValueSyntax::kUnknownText,
                           kAfterUnknownText = ValueSyntax::kAfterUnknownText;
  struct Seen {  // a set of values, as a list, latest first. value: kAnyValue: unknown; -1: end of the list
    int32_t previous, value;
    int32_t unknown_count;   // how often the list contains kAnyValue
    int32_t set;             // its root in the trie, or kPending (set_root)
    int32_t count;           // the number of known values, including the known names
    int32_t known_names;     // the set that contains only the known names
    Digest order_free_hash;  // a hash that does not depend on the order of the values
  };
  static constexpr int32_t kAnyValue = kUnknown, kUnread = -2, kPending = -2;
  // Sums over a scope and all scopes around it, so that no function has to visit them.
  struct Sums {
    int32_t scopes = 0;        // their number
    int32_t entries = 0;       // that are being read
    int32_t new_entries = 0;   // that are being read and whose text is known
    int64_t values = 0;        // see count_values()
    int64_t read_entries = 0;  // see count_read_entries()
  };
  struct Scope {
    // start: the text at the start of the current entry; -1: there is no entry; kUnread: there is no entry, and the
    // text of the next entry will be unknown
    int32_t outer, seen, start;
    bool is_nested;             // the scope was opened inside an entry of an outer scope
    bool opened_later = false;  // the scope was opened after with_noting()
    int32_t max_seen = 0;       // see max_seen_values()
    Sums sums{};
  };
  struct State {
    int32_t scope, text, touched_entries;
    int32_t notes;                // 0: values are not noted; kNoNotes: none has been noted yet
    int32_t previous;             // the state one byte earlier, or -1
    int32_t node = kNotYet;       // the trie node, if the innermost entry is a string
    int8_t may_become_seen = -1;  // -1: not known yet
  };
  static constexpr int32_t kNotYet = -2;
  static constexpr int32_t kNoNotes = 1;
  static constexpr int32_t kLaterScope = -1;  // in notes, instead of the number of scopes around the value's scope
  int32_t extend(int32_t state, uint8_t byte);
  int32_t intern(int32_t scope, int32_t text, int32_t touched_entries, int32_t notes, int32_t previous = -1);
  int32_t intern_scope(const Scope& scope);
  Sums sums_with(const Scope& scope) const;  // the sums of a new scope
  int32_t intern_seen(int32_t previous, int32_t value);
  int32_t enclosing_entry_start(const Scope& scope) const;
  // Calls visit(scope) for the scopes of the entries that are being read and whose text is known, from the innermost
  // one, until it returns false.
  template <class Visit>
  void each_open_entry(int32_t state, Visit&& visit) const {
    for (int32_t scope = states_[state].scope; scope >= 0; scope = scopes_[scope].is_nested ? scopes_[scope].outer : -1)
      if (scopes_[scope].start >= 0 && scopes_[scope].start != kUnknownText && !visit(scope)) return;
  }
  static int32_t unknown_set_state(int32_t ended_count, bool has_begun) {
    return kUnknownSet + 2 * std::min(ended_count, 2) + has_begun;
  }
  int32_t set_root(int32_t seen);
  bool has_value(int32_t seen, int32_t value);
  bool scope_may_become_seen(int32_t scope, int32_t state);
  Sums sums(int32_t scope) const { return scope >= 0 ? scopes_[scope].sums : Sums{}; }
  int32_t depth_of(int32_t scope) const { return sums(scope).scopes - 1; }  // the number of scopes around it
  int32_t add_note(int32_t notes, WrittenValue value);
  int32_t entry_node(int32_t scope, int32_t state);
  int32_t string_node(int32_t set, int32_t state);
  int32_t node_after(int32_t node, int32_t added_character) const;

  const std::vector<KnownNames>& known_names_;
  ValueSyntax syntax_;
  PersistentTrie trie_;
  std::vector<Seen> seen_;
  std::vector<Scope> scopes_;
  std::deque<State> states_;                                               // growing does not copy the elements
  std::vector<std::pair<int32_t, WrittenValue>> notes_{{0, {}}, {0, {}}};  // (earlier notes, noted value)
  PairMap seen_ids_;                                                       // (previous set, value) -> set
  NumberTable state_ids_, scope_ids_, note_ids_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> representatives_;
  size_t bytes_ = 0;
};

}  // namespace guided
