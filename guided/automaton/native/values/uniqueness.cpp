#include "values/uniqueness.hpp"

#include <algorithm>

namespace guided {

namespace {
constexpr int32_t kNoValue = -1;
constexpr int32_t kNowhere = -1, kSomewhere = -2;  // the outer scope of an outermost one: none, or unknown
constexpr size_t kNode = 88;                       // approximate bytes of an interned record

}  // namespace

Uniqueness::Uniqueness(const std::vector<KnownNames>& known) : known_(known) {
  for (size_t k = 0; k < known.size(); ++k) {
    Seen names{static_cast<int32_t>(k), kNoValue, 0, PersistentTrie::kEmpty, 0, static_cast<int32_t>(k), {}};
    for (const std::string& name : known[k].sorted) {
      names.set = trie_.with(names.set, ValueSyntax::string_key(name));
      ++names.count;
    }
    seen_.push_back(names);
  }
  states_.push_back({-1, 0, 0, 0, -1});
  for (int32_t k = 0; k <= kLastUnknownSet - kUnknownSet; ++k)
    states_.push_back({-1, 0, std::min(2, k / 2 + k % 2), 0, -1});
}

// ---- interning
int32_t Uniqueness::intern_seen(int32_t before, int32_t value) {
  if (const int32_t* known = seen_ids_.find(pair_key(before, value))) return *known;
  const auto id = static_cast<int32_t>(seen_.size());
  seen_ids_.set(pair_key(before, value), id);
  Seen longer = seen_[before];
  longer.before = before;
  longer.value = value;
  if (value == kAnyValue)
    ++longer.unknown;
  else
    index(longer, value);
  seen_.push_back(longer);
  bytes_ += kNode;
  return id;
}

int32_t Uniqueness::intern_scope(const Scope& s) {
  auto [it, inserted] = scope_ids_.try_emplace(s, static_cast<int32_t>(scopes_.size()));
  if (inserted) {
    scopes_.push_back(s);
    scopes_.back().most = std::max(s.seen < 0 ? 0 : seen_[s.seen].count, s.outer < 0 ? 0 : scopes_[s.outer].most);
    bytes_ += kNode;
  }
  return it->second;
}

int32_t Uniqueness::intern(int32_t scope, int32_t text, int32_t touched, int32_t notes, int32_t before) {
  const uint64_t hash = combine(pair_key(scope, text), pair_key(touched, notes));
  const int32_t known = state_ids_.find(hash, [&](int32_t id) {
    const State& m = states_[id];
    return m.scope == scope && m.text == text && m.touched == touched && m.notes == notes;
  });
  if (known >= 0) return known;
  const auto id = static_cast<int32_t>(states_.size());
  state_ids_.add(hash, id);
  states_.push_back({scope, text, touched, notes, before});
  bytes_ += kNode;
  return id;
}

int32_t Uniqueness::read_on(int32_t state, uint8_t byte) {
  const State m = states_[state];
  if (m.text == kBlank) return state;
  int32_t text = syntax_.read(m.text, byte);
  return text == m.text ? state : intern(m.scope, text, m.touched, m.notes, state);
}

// ---- scopes
int32_t Uniqueness::open(int32_t state, int32_t known) {
  const State m = states_[state];
  const bool nowhere = state == kOutside || m.notes > 0;
  const int32_t outer = m.scope >= 0 ? m.scope : nowhere ? kNowhere : kSomewhere;
  return intern(intern_scope({outer, known, -1, m.text != 0, m.notes > 0}), m.text, m.touched, m.notes);
}

int32_t Uniqueness::close(int32_t state) {
  const State m = states_[state];
  if (m.scope < 0) return state;
  int32_t outer = scopes_[m.scope].outer;
  if (outer >= 0 || m.notes > 0) return intern(outer, m.text, m.touched, m.notes);
  return outer == kNowhere && m.touched == 0 ? kOutside : unknown_set(m.touched / 2, m.touched > 0);
}

int32_t Uniqueness::begin(int32_t state) {
  const State m = states_[state];
  if (state == kOutside || (m.scope < 0 && m.notes > 0)) return state;
  if (m.scope < 0) return unknown_set(kept(state), true);
  Scope s = scopes_[m.scope];
  if (s.start >= 0) return state;  // entries of one scope do not nest
  const int32_t text = s.start == kUnread ? kBlank : m.text == 0 ? kStart : m.text == kBlank ? kFrom : m.text;
  s.start = text;
  return intern(intern_scope(s), text, seen_[s.seen].unknown > 0 ? 2 : m.touched, m.notes);
}

// The text at the beginning of the nearest entry around a scope; -1: none.
int32_t Uniqueness::enclosing(const Scope& scope) const {
  int32_t at = scope.inside ? scope.outer : -1;
  while (at >= 0 && scopes_[at].start < 0) at = scopes_[at].inside ? scopes_[at].outer : -1;
  return at >= 0 ? scopes_[at].start : -1;
}

int32_t Uniqueness::keep(int32_t state) {
  const State m = states_[state];
  if (state == kOutside || (m.scope < 0 && m.notes > 0)) return state;
  if (m.scope < 0) return unknown_set(kept(state) + 1, (state - kUnknownSet) % 2 == 1);
  Scope s = scopes_[m.scope];
  if (s.start < 0) return state;
  int32_t value = kAnyValue, touched = run_out ? 2 : m.touched;
  if (s.start != kBlank) {
    touched = m.touched;
    value = syntax_.value(s.start, m.text);
    if (was_there(s.seen, value)) return -1;
  }
  const bool unknown = m.text == kBlank || (s.start == kFrom && enclosing(s) == kBlank);
  const int32_t around = unknown ? kBlank : m.text;
  s.seen = intern_seen(s.seen, value);
  s.start = -1;
  const int32_t notes = m.notes > 0 ? note(m.notes, {s.later ? kLaterScope : depth(m.scope), value}) : 0;
  return intern(intern_scope(s), s.inside ? around : 0, touched, notes);
}

// ---- values
// Adds a value.
void Uniqueness::index(Seen& seen, int32_t value) {
  seen.set = syntax_.with(trie_, seen.set, value);
  ++seen.count;
  seen.sum.a += mix(static_cast<uint64_t>(value) + 1);
  seen.sum.b += combine(0x9216D5D98979FB1Bull, static_cast<uint64_t>(value));
}

bool Uniqueness::was_there(int32_t seen, int32_t value) const { return trie_.has(seen_[seen].set, syntax_.key(value)); }

int32_t Uniqueness::node_after(int32_t node, int32_t adds) const {
  if (node < 0 || adds == ValueSyntax::kNothing) return node;
  if (adds < 256) return trie_.child(node, static_cast<uint8_t>(adds));
  StringProgress character;
  character.put(static_cast<uint32_t>(adds - 256));
  return trie_.at(node, character.text);
}

// The trie node of the string being read, computed byte by byte and cached; kNowhere: no string of the set begins so.
int32_t Uniqueness::string_node(int32_t set, int32_t state) {
  std::vector<int32_t> path;
  int32_t at = state, node = kNotYet;
  for (; at >= 0 && node == kNotYet && syntax_.in_string(states_[at].text); at = states_[at].before) {
    node = states_[at].node;
    if (node == kNotYet) path.push_back(at);
  }
  if (node == kNotYet) {
    const bool begun = at >= 0 && !syntax_.in_string(states_[at].text);
    node = trie_.at(set, ValueSyntax::string_key({}));
    if (!begun && node >= 0) node = trie_.at(node, syntax_.string(states_[state].text).text);
    if (!begun) path.assign(1, state);
    states_[path.back()].node = node;  // the opening quote adds no character
    path.pop_back();
  }
  for (size_t i = path.size(); i-- > 0;) {
    State& m = states_[path[i]];
    m.node = node = node_after(node, syntax_.adds(m.text));
  }
  return node;
}

// The trie node to which the text of an entry leads; kNowhere: no value of the set begins with it; kUndecided: the trie
// alone does not tell.
int32_t Uniqueness::node_of(int32_t at, int32_t state) {
  const Scope& s = scopes_[at];
  const State& m = states_[state];
  const int32_t set = seen_[s.seen].set;
  if (ValueSyntax::is_undecided(trie_, set)) return ValueSyntax::kUndecided;
  const ValueSyntax::Part part = syntax_.part(s.start, m.text);
  if (part == ValueSyntax::Part::String && at == m.scope) return string_node(set, state);
  return syntax_.find(trie_, set, s.start, m.text, part);
}

bool Uniqueness::may_be_there(int32_t at, int32_t state) {
  return seen_[scopes_[at].seen].count > 0 && node_of(at, state) != kNowhere;
}

int64_t Uniqueness::written(int32_t state) const {
  int64_t count = 0;
  for (int32_t at = states_[state].scope; at >= 0; at = scopes_[at].outer) {
    const Seen& seen = seen_[scopes_[at].seen];
    count += seen.count + seen.unknown + (scopes_[at].start != -1);
  }
  return count;
}

int64_t Uniqueness::read_entries(int32_t state) const {
  int64_t count = 0;
  for (int32_t at = states_[state].scope; at >= 0; at = scopes_[at].outer) {
    const Seen& seen = seen_[scopes_[at].seen];
    count += seen.count + seen.unknown - seen_[seen.known].count;
  }
  return count;
}

bool Uniqueness::tells_apart(int32_t state) {
  return in_scalar(state) && !ValueSyntax::is_undecided(trie_, seen_[scopes_[states_[state].scope].seen].set);
}

bool Uniqueness::in_scalar(int32_t state) const {
  const auto [entries, innermost] = under_way(state);
  if (entries != 1 || !innermost) return false;
  const ValueSyntax::Part part = syntax_.part(scopes_[states_[state].scope].start, states_[state].text);
  return part == ValueSyntax::Part::Empty || part == ValueSyntax::Part::String || part == ValueSyntax::Part::Bare;
}

bool Uniqueness::may_end(int32_t state, int32_t around) {
  int32_t at = states_[state].scope;
  for (int32_t outer = depth(at); outer > around; --outer) at = scopes_[at].outer;
  return scopes_[at].start >= 0 && scopes_[at].start != kBlank && may_be_there(at, state);
}

int64_t Uniqueness::ahead(int32_t state) {
  int64_t count = 0;
  for (int32_t at = states_[state].scope; at >= 0; at = scopes_[at].inside ? scopes_[at].outer : -1) {
    const Scope& s = scopes_[at];
    if (s.start < 0 || s.start == kBlank || seen_[s.seen].count == 0) continue;
    const int32_t node = node_of(at, state);
    if (node != kNowhere) count += node == ValueSyntax::kUndecided ? seen_[s.seen].count : trie_.count(node);
  }
  return count;
}

std::optional<Uniqueness::StringAhead> Uniqueness::string_ahead(int32_t state) {
  const State m = states_[state];
  if (m.scope < 0) return std::nullopt;
  const Scope& s = scopes_[m.scope];
  if (s.start < 0 || s.start == kBlank) return std::nullopt;
  const int32_t set = seen_[s.seen].set;
  std::optional<StringAhead> out(std::in_place);
  out->opened = m.text != s.start;
  out->inside = s.inside;
  out->around = depth(m.scope);
  if (!out->opened) {
    out->node = trie_.at(set, ValueSyntax::string_key({}));
    return out;
  }
  if (syntax_.part(s.start, m.text) != ValueSyntax::Part::String) return std::nullopt;
  out->escape = syntax_.escape(m.text);
  out->node = string_node(set, state);
  return out;
}

std::optional<bool> Uniqueness::string_was_there(int32_t state, std::string_view text) {
  const int32_t scope = states_[state].scope;
  if (scope < 0 || seen_[scopes_[scope].seen].unknown > 0) return std::nullopt;
  return trie_.has(seen_[scopes_[scope].seen].set, ValueSyntax::string_key(text));
}

std::pair<int, bool> Uniqueness::under_way(int32_t state) const {
  const int32_t scope = states_[state].scope;
  int entries = 0;
  auto known = [&](int32_t at) { return scopes_[at].start >= 0 && scopes_[at].start != kBlank; };
  for (int32_t at = scope; at >= 0; at = scopes_[at].inside ? scopes_[at].outer : -1) entries += known(at);
  return {entries, scope >= 0 && known(scope)};
}

bool Uniqueness::alive(int32_t state) {
  const State m = states_[state];
  if (m.text == 0 || m.text == kBlank) return false;
  if (m.alive >= 0) return m.alive;
  bool alive = m.before < 0 || states_[m.before].alive != 0;
  if (alive) {
    alive = false;
    for (int32_t at = m.scope; at >= 0 && !alive; at = scopes_[at].outer) {
      if (scopes_[at].start >= 0 && scopes_[at].start != kBlank) alive = may_be_there(at, state);
      if (!scopes_[at].inside) break;
    }
  }
  states_[state].alive = alive;
  return alive;
}

bool Uniqueness::alive_inside(int32_t state, int outermost) {
  if (outermost == 0) return alive(state);
  const State m = states_[state];
  int left = under_way(state).first - outermost;
  for (int32_t at = m.scope; at >= 0 && left > 0; at = scopes_[at].inside ? scopes_[at].outer : -1) {
    if (scopes_[at].start < 0 || scopes_[at].start == kBlank) continue;
    if (may_be_there(at, state)) return true;
    --left;
  }
  return false;
}

int32_t Uniqueness::essence(int32_t state) {
  const State m = states_[state];
  if (m.text == 0 || m.text == kBlank) return state;
  std::vector<int32_t> key{m.touched};
  auto add = [&](uint64_t number) {
    key.insert(key.end(), {static_cast<int32_t>(number), static_cast<int32_t>(number >> 32)});
  };
  for (int32_t at = m.scope; at >= 0; at = scopes_[at].outer) {
    const Scope& s = scopes_[at];
    if (!s.inside && s.start < 0) {
      key.push_back(at);
      break;
    }
    const Seen& seen = seen_[s.seen];
    key.insert(key.end(), {s.start <= kBlank ? s.start : 0, s.inside, seen.unknown, seen.count, seen.known});
    add(seen.sum.a);
    add(seen.sum.b);
    if (s.start >= 0 && s.start != kBlank) syntax_.describe(s.start, m.text, key);
    if (!s.inside) {
      key.push_back(s.outer);
      break;
    }
  }
  return essences_.try_emplace(std::move(key), state).first->second;
}

// ---- importing a state from another store
int32_t Uniqueness::import(const Uniqueness& other, int32_t state, Carried& carried) {
  if (state <= kLastUnknownSet) return state;
  if (auto it = carried.states.find(state); it != carried.states.end()) return it->second;
  const State m = other.states_[state];
  auto text = [&](int32_t theirs) {
    std::vector<int32_t> path;
    for (; theirs > kFrom && !carried.texts.contains(theirs); theirs = other.syntax_.before(theirs))
      path.push_back(theirs);
    int32_t own = theirs <= kFrom ? theirs : carried.texts.at(theirs);  // texts up to kFrom have fixed numbers
    for (size_t i = path.size(); i-- > 0;)
      own = carried.texts[path[i]] = syntax_.read(own, other.syntax_.byte(path[i]));
    return own;
  };
  auto seen = [&](int32_t theirs) {
    std::vector<int32_t> path;
    for (; other.seen_[theirs].value != kNoValue && !carried.seen.contains(theirs); theirs = other.seen_[theirs].before)
      path.push_back(theirs);
    int32_t own = other.seen_[theirs].value == kNoValue ? theirs : carried.seen.at(theirs);
    for (size_t i = path.size(); i-- > 0;) {
      const int32_t value = other.seen_[path[i]].value;
      own = intern_seen(own, value == kAnyValue ? kAnyValue : syntax_.import(other.syntax_, value));
      carried.seen[path[i]] = own;
    }
    return own;
  };
  std::vector<int32_t> path;
  int32_t theirs = m.scope;
  for (; theirs >= 0 && !carried.scopes.contains(theirs); theirs = other.scopes_[theirs].outer) path.push_back(theirs);
  int32_t own = theirs < 0 ? theirs : carried.scopes.at(theirs);
  for (size_t i = path.size(); i-- > 0;) {
    Scope s = other.scopes_[path[i]];
    s = {own, seen(s.seen), text(s.start), s.inside};
    own = carried.scopes[path[i]] = intern_scope(s);
  }
  return carried.states[state] = intern(own, text(m.text), m.touched, 0);
}

}  // namespace guided
