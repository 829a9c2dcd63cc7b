#include "values/uniqueness.hpp"

#include <algorithm>

namespace guided {

namespace {
constexpr int32_t kNoValue = -1;
// Values of Scope::outer other than scopes: there is no outer scope, or it is unknown.
constexpr int32_t kNowhere = -1, kSomewhere = -2;
constexpr size_t kRecordBytes = 88;  // approximate bytes of an interned record

}  // namespace

Uniqueness::Uniqueness(const std::vector<KnownNames>& known_names) : known_names_(known_names) {
  for (size_t k = 0; k < known_names.size(); ++k) {
    Seen names{static_cast<int32_t>(k), kNoValue, 0, PersistentTrie::kEmpty, 0, static_cast<int32_t>(k), {}};
    for (const std::string& name : known_names[k].sorted) {
      names.set = trie_.insert(names.set, ValueSyntax::string_key(name));
      ++names.count;
    }
    seen_.push_back(names);
  }
  states_.push_back({-1, 0, 0, 0, -1});
  for (int32_t k = 0; k <= kLastUnknownSet - kUnknownSet; ++k)
    states_.push_back({-1, 0, std::min(2, k / 2 + k % 2), 0, -1});
}

// ---- interning
int32_t Uniqueness::intern_seen(int32_t previous, int32_t value) {
  if (const int32_t* existing = seen_ids_.find(pair_key(previous, value))) return *existing;
  const auto id = static_cast<int32_t>(seen_.size());
  seen_ids_.set(pair_key(previous, value), id);
  Seen longer = seen_[previous];
  longer.previous = previous;
  longer.value = value;
  longer.set = kPending;
  if (value == kAnyValue) {
    ++longer.unknown_count;
  } else {
    ++longer.count;
    longer.order_free_hash.a += mix(static_cast<uint64_t>(value) + 1);
    longer.order_free_hash.b += combine(0x9216D5D98979FB1Bull, static_cast<uint64_t>(value));
  }
  seen_.push_back(longer);
  bytes_ += kRecordBytes;
  return id;
}

int32_t Uniqueness::intern_scope(const Scope& s) {
  const uint64_t hash = combine(pair_key(s.outer, s.seen), pair_key(s.start, 2 * s.opened_later + s.is_nested));
  const int32_t existing = scope_ids_.find(hash, [&](int32_t id) {
    const Scope& m = scopes_[id];
    return m.outer == s.outer && m.seen == s.seen && m.start == s.start && m.is_nested == s.is_nested &&
           m.opened_later == s.opened_later;
  });
  if (existing >= 0) return existing;
  const auto id = static_cast<int32_t>(scopes_.size());
  scope_ids_.add(hash, id);
  scopes_.push_back(s);
  scopes_.back().max_seen = std::max(s.seen < 0 ? 0 : seen_[s.seen].count, s.outer < 0 ? 0 : scopes_[s.outer].max_seen);
  scopes_.back().sums = sums_with(s);
  bytes_ += kRecordBytes;
  return id;
}

Uniqueness::Sums Uniqueness::sums_with(const Scope& s) const {
  Sums out = sums(s.outer);
  ++out.scopes;
  out.entries += s.start >= 0;
  out.new_entries += s.start >= 0 && s.start != kUnknownText;
  if (s.seen < 0) return out;
  const Seen& seen = seen_[s.seen];
  out.values += seen.count + seen.unknown_count + (s.start != -1);
  out.read_entries += seen.count + seen.unknown_count - seen_[seen.known_names].count;
  return out;
}

int32_t Uniqueness::intern(int32_t scope, int32_t text, int32_t touched_entries, int32_t notes, int32_t previous) {
  const uint64_t hash = combine(pair_key(scope, text), pair_key(touched_entries, notes));
  const int32_t existing = state_ids_.find(hash, [&](int32_t id) {
    const State& m = states_[id];
    return m.scope == scope && m.text == text && m.touched_entries == touched_entries && m.notes == notes;
  });
  if (existing >= 0) return existing;
  const auto id = static_cast<int32_t>(states_.size());
  state_ids_.add(hash, id);
  states_.push_back({scope, text, touched_entries, notes, previous});
  bytes_ += kRecordBytes;
  return id;
}

int32_t Uniqueness::extend(int32_t state, uint8_t byte) {
  const State m = states_[state];
  if (m.text == kUnknownText) return state;
  int32_t text = syntax_.read(m.text, byte);
  return text == m.text ? state : intern(m.scope, text, m.touched_entries, m.notes, state);
}

// ---- scopes
int32_t Uniqueness::open(int32_t state, int32_t known_names) {
  const State m = states_[state];
  const bool is_outermost = state == kOutside || m.notes > 0;
  const int32_t outer = m.scope >= 0 ? m.scope : is_outermost ? kNowhere : kSomewhere;
  return intern(intern_scope({outer, known_names, -1, m.text != 0, m.notes > 0}), m.text, m.touched_entries, m.notes);
}

int32_t Uniqueness::close(int32_t state) {
  const State m = states_[state];
  if (m.scope < 0) return state;
  int32_t outer = scopes_[m.scope].outer;
  if (outer >= 0 || m.notes > 0) return intern(outer, m.text, m.touched_entries, m.notes);
  return outer == kNowhere && m.touched_entries == 0 ? kOutside
                                                     : unknown_set_state(m.touched_entries / 2, m.touched_entries > 0);
}

int32_t Uniqueness::begin(int32_t state) {
  const State m = states_[state];
  if (state == kOutside || (m.scope < 0 && m.notes > 0)) return state;
  if (m.scope < 0) return unknown_set_state(ended_entries(state), true);
  Scope s = scopes_[m.scope];
  if (s.start >= 0) return state;  // entries of the same scope do not nest
  const int32_t text = s.start == kUnread       ? kUnknownText
                       : m.text == 0            ? kEmptyText
                       : m.text == kUnknownText ? kAfterUnknownText
                                                : m.text;
  s.start = text;
  return intern(intern_scope(s), text, seen_[s.seen].unknown_count > 0 ? 2 : m.touched_entries, m.notes);
}

// The text at the start of the nearest entry around a scope; -1: there is none.
int32_t Uniqueness::enclosing_entry_start(const Scope& scope) const {
  int32_t outer = scope.is_nested ? scope.outer : -1;
  while (outer >= 0 && scopes_[outer].start < 0) outer = scopes_[outer].is_nested ? scopes_[outer].outer : -1;
  return outer >= 0 ? scopes_[outer].start : -1;
}

int32_t Uniqueness::keep(int32_t state) {
  const State m = states_[state];
  if (state == kOutside || (m.scope < 0 && m.notes > 0)) return state;
  if (m.scope < 0) return unknown_set_state(ended_entries(state) + 1, (state - kUnknownSet) % 2 == 1);
  Scope s = scopes_[m.scope];
  if (s.start < 0) return state;
  int32_t value = kAnyValue, touched_entries = may_run_out ? 2 : m.touched_entries;
  if (s.start != kUnknownText) {
    touched_entries = m.touched_entries;
    value = syntax_.value(s.start, m.text);
    if (has_value(s.seen, value)) return -1;
  }
  const bool is_unknown =
      m.text == kUnknownText || (s.start == kAfterUnknownText && enclosing_entry_start(s) == kUnknownText);
  const int32_t outer_text = is_unknown ? kUnknownText : m.text;
  s.seen = intern_seen(s.seen, value);
  s.start = -1;
  const int32_t notes = m.notes > 0 ? add_note(m.notes, {s.opened_later ? kLaterScope : depth_of(m.scope), value}) : 0;
  return intern(intern_scope(s), s.is_nested ? outer_text : 0, touched_entries, notes);
}

// ---- values
// The root of a set in the trie. It is computed when it is first needed: a number may end after each of its digits, and
// most of these sets are never used.
int32_t Uniqueness::set_root(int32_t seen) {
  std::vector<int32_t> path;
  for (; seen_[seen].set == kPending; seen = seen_[seen].previous) path.push_back(seen);
  int32_t root = seen_[seen].set;
  for (size_t i = path.size(); i-- > 0;) {
    Seen& longer = seen_[path[i]];
    if (longer.value != kAnyValue) root = syntax_.insert(trie_, root, longer.value);
    longer.set = root;
  }
  return root;
}

bool Uniqueness::has_value(int32_t seen, int32_t value) { return trie_.has(set_root(seen), syntax_.key(value)); }

int32_t Uniqueness::node_after(int32_t node, int32_t added_character) const {
  if (node < 0 || added_character == ValueSyntax::kNothing) return node;
  if (added_character < 256) return trie_.child(node, static_cast<uint8_t>(added_character));
  StringProgress character;
  character.append(static_cast<uint32_t>(added_character - 256));
  return trie_.descend(node, character.text);
}

// The trie node of the string that is being read, computed byte by byte and cached; kNowhere: no string of the set
// begins like it.
int32_t Uniqueness::string_node(int32_t set, int32_t state) {
  std::vector<int32_t> path;
  int32_t ancestor = state, node = kNotYet;
  for (; ancestor >= 0 && node == kNotYet && syntax_.is_in_string(states_[ancestor].text);
       ancestor = states_[ancestor].previous) {
    node = states_[ancestor].node;
    if (node == kNotYet) path.push_back(ancestor);
  }
  if (node == kNotYet) {
    const bool has_start = ancestor >= 0 && !syntax_.is_in_string(states_[ancestor].text);
    node = trie_.descend(set, ValueSyntax::string_key({}));
    if (!has_start && node >= 0) node = trie_.descend(node, syntax_.current_string(states_[state].text).text);
    if (!has_start) path.assign(1, state);
    states_[path.back()].node = node;  // the opening quote adds no character
    path.pop_back();
  }
  for (size_t i = path.size(); i-- > 0;) {
    State& m = states_[path[i]];
    m.node = node = node_after(node, syntax_.added_character(m.text));
  }
  return node;
}

// The trie node to which the text of an entry leads; kNowhere: no value of the set begins with it; kUndecided: the trie
// alone cannot decide.
int32_t Uniqueness::entry_node(int32_t scope, int32_t state) {
  const Scope& s = scopes_[scope];
  const State& m = states_[state];
  const int32_t set = set_root(s.seen);
  if (ValueSyntax::is_undecided(trie_, set)) return ValueSyntax::kUndecided;
  const ValueSyntax::PartKind part_kind = syntax_.kind_since(s.start, m.text);
  if (part_kind == ValueSyntax::PartKind::String && scope == m.scope) return string_node(set, state);
  return syntax_.find(trie_, set, s.start, m.text, part_kind);
}

bool Uniqueness::scope_may_become_seen(int32_t scope, int32_t state) {
  return seen_[scopes_[scope].seen].count > 0 && entry_node(scope, state) != kNowhere;
}

bool Uniqueness::can_tell_apart(int32_t state) {
  return is_in_scalar(state) && !ValueSyntax::is_undecided(trie_, set_root(scopes_[states_[state].scope].seen));
}

bool Uniqueness::is_in_scalar(int32_t state) const {
  const auto [entry_count, is_innermost] = count_open_entries(state);
  if (entry_count != 1 || !is_innermost) return false;
  const ValueSyntax::PartKind part_kind = syntax_.kind_since(scopes_[states_[state].scope].start, states_[state].text);
  return part_kind == ValueSyntax::PartKind::Empty || part_kind == ValueSyntax::PartKind::String ||
         part_kind == ValueSyntax::PartKind::Word;
}

bool Uniqueness::may_become_seen_at(int32_t state, int32_t scope_depth) {
  int32_t scope = states_[state].scope;
  for (int32_t depth = depth_of(scope); depth > scope_depth; --depth) scope = scopes_[scope].outer;
  return scopes_[scope].start >= 0 && scopes_[scope].start != kUnknownText && scope_may_become_seen(scope, state);
}

int64_t Uniqueness::max_seen_ahead(int32_t state) {
  int64_t count = 0;
  for (int32_t scope = states_[state].scope; scope >= 0; scope = scopes_[scope].is_nested ? scopes_[scope].outer : -1) {
    const Scope& s = scopes_[scope];
    if (s.start < 0 || s.start == kUnknownText || seen_[s.seen].count == 0) continue;
    const int32_t node = entry_node(scope, state);
    if (node != kNowhere) count += node == ValueSyntax::kUndecided ? seen_[s.seen].count : trie_.count(node);
  }
  return count;
}

std::optional<Uniqueness::StringAhead> Uniqueness::string_ahead(int32_t state) {
  const State m = states_[state];
  if (m.scope < 0) return std::nullopt;
  const Scope& s = scopes_[m.scope];
  if (s.start < 0 || s.start == kUnknownText) return std::nullopt;
  const int32_t set = set_root(s.seen);
  std::optional<StringAhead> out(std::in_place);
  out->is_opened = m.text != s.start;
  out->is_nested = s.is_nested;
  out->scope_depth = depth_of(m.scope);
  if (!out->is_opened) {
    out->node = trie_.descend(set, ValueSyntax::string_key({}));
    return out;
  }
  if (syntax_.kind_since(s.start, m.text) != ValueSyntax::PartKind::String) return std::nullopt;
  out->escape = syntax_.escape(m.text);
  out->node = string_node(set, state);
  return out;
}

std::optional<bool> Uniqueness::has_seen_string(int32_t state, std::string_view text) {
  const int32_t scope = states_[state].scope;
  if (scope < 0 || seen_[scopes_[scope].seen].unknown_count > 0) return std::nullopt;
  return trie_.has(set_root(scopes_[scope].seen), ValueSyntax::string_key(text));
}

std::pair<int, bool> Uniqueness::count_open_entries(int32_t state) const {
  int count = 0;
  bool is_innermost = false;
  each_open_entry(state, [&](int32_t scope) {
    is_innermost |= scope == states_[state].scope;
    return ++count > 0;
  });
  return {count, is_innermost};
}

int32_t Uniqueness::open_entry(int32_t state, int outer_count) const {
  int inner_count = count_open_entries(state).first - outer_count;
  int32_t out = -1;
  each_open_entry(state, [&](int32_t scope) {
    if (--inner_count == 0) out = scope;  // an entry does not change the number of its scope
    return inner_count > 0;
  });
  return out;
}

bool Uniqueness::may_become_seen(int32_t state) {
  const State m = states_[state];
  if (m.text == 0 || m.text == kUnknownText) return false;
  if (m.may_become_seen >= 0) return m.may_become_seen;
  bool result = false;
  if (m.previous < 0 || states_[m.previous].may_become_seen != 0)
    each_open_entry(state, [&](int32_t scope) {
      result = scope_may_become_seen(scope, state);
      return !result;
    });
  states_[state].may_become_seen = result;
  return result;
}

bool Uniqueness::may_become_seen_inside(int32_t state, int outermost) {
  if (outermost == 0) return may_become_seen(state);
  int entries_left = count_open_entries(state).first - outermost;
  bool result = false;
  each_open_entry(state, [&](int32_t scope) {
    result = entries_left-- > 0 && scope_may_become_seen(scope, state);
    return !result && entries_left > 0;
  });
  return result;
}

int32_t Uniqueness::representative(int32_t state) {
  const State m = states_[state];
  if (m.text == 0 || m.text == kUnknownText) return state;
  std::vector<int32_t> key{m.touched_entries};
  auto add = [&](uint64_t number) {
    key.insert(key.end(), {static_cast<int32_t>(number), static_cast<int32_t>(number >> 32)});
  };
  for (int32_t scope = m.scope; scope >= 0; scope = scopes_[scope].outer) {
    const Scope& s = scopes_[scope];
    if (!s.is_nested && s.start < 0) {
      key.push_back(scope);
      break;
    }
    const Seen& seen = seen_[s.seen];
    key.insert(key.end(),
               {s.start <= kUnknownText ? s.start : 0, s.is_nested, seen.unknown_count, seen.count, seen.known_names});
    add(seen.order_free_hash.a);
    add(seen.order_free_hash.b);
    if (s.start >= 0 && s.start != kUnknownText) syntax_.describe(s.start, m.text, key);
    if (!s.is_nested) {
      key.push_back(s.outer);
      break;
    }
  }
  return representatives_.try_emplace(std::move(key), state).first->second;
}

// ---- importing a state from another store
int32_t Uniqueness::import(const Uniqueness& other, int32_t state, Carried& carried) {
  if (state <= kLastUnknownSet) return state;
  if (auto it = carried.states.find(state); it != carried.states.end()) return it->second;
  const State m = other.states_[state];
  auto import_text = [&](int32_t other_id) {
    std::vector<int32_t> path;
    for (; other_id > kAfterUnknownText && !carried.texts.contains(other_id);
         other_id = other.syntax_.previous(other_id))
      path.push_back(other_id);
    // Texts up to kAfterUnknownText have fixed numbers.
    int32_t own_id = other_id <= kAfterUnknownText ? other_id : carried.texts.at(other_id);
    for (size_t i = path.size(); i-- > 0;)
      own_id = carried.texts[path[i]] = syntax_.read(own_id, other.syntax_.byte(path[i]));
    return own_id;
  };
  auto import_seen = [&](int32_t other_id) {
    std::vector<int32_t> path;
    for (; other.seen_[other_id].value != kNoValue && !carried.seen.contains(other_id);
         other_id = other.seen_[other_id].previous)
      path.push_back(other_id);
    int32_t own_id = other.seen_[other_id].value == kNoValue ? other_id : carried.seen.at(other_id);
    for (size_t i = path.size(); i-- > 0;) {
      const int32_t value = other.seen_[path[i]].value;
      own_id = intern_seen(own_id, value == kAnyValue ? kAnyValue : syntax_.import(other.syntax_, value));
      carried.seen[path[i]] = own_id;
    }
    return own_id;
  };
  std::vector<int32_t> path;
  int32_t other_id = m.scope;
  for (; other_id >= 0 && !carried.scopes.contains(other_id); other_id = other.scopes_[other_id].outer)
    path.push_back(other_id);
  int32_t own_id = other_id < 0 ? other_id : carried.scopes.at(other_id);
  for (size_t i = path.size(); i-- > 0;) {
    Scope s = other.scopes_[path[i]];
    s = {own_id, import_seen(s.seen), import_text(s.start), s.is_nested};
    own_id = carried.scopes[path[i]] = intern_scope(s);
  }
  return carried.states[state] = intern(own_id, import_text(m.text), m.touched_entries, 0);
}

}  // namespace guided
