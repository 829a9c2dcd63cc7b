// Makes uniqueness states that are only partly known. Masks (masks.hpp) and budgets (budgets.hpp) look ahead with them.
//
// In: a uniqueness state (uniqueness.hpp). Out: a state in which the text of the current entries, or the seen sets, are
// unknown; it notes the values that entries have written, if asked to. Also the reverse: the state with values added to
// its seen sets, and the values that were added to a set that was unknown at first.
// Problem: after many different names, each token of the next name leads to a different state. With the name unknown,
// all of them lead to one state, whose distances are computed once. The callers then check whether the values that were
// written have been seen. Cost: linear in the open scopes and in the values.
#include "base/call_meter.hpp"
#include "values/uniqueness.hpp"

namespace guided {

int32_t Uniqueness::with_unread_entries(int32_t state) {
  const State m = states_[state];
  if (m.text == 0 || m.text == kUnknownText) return state;
  std::vector<Scope> open_scopes;
  int32_t scope = m.scope;
  for (; scope >= 0; scope = scopes_[scope].outer) open_scopes.push_back(scopes_[scope]);
  while (!open_scopes.empty()) {
    Scope s = open_scopes.back();
    open_scopes.pop_back();
    s.outer = scope;
    if (s.start >= 0) s.start = kUnknownText;
    scope = intern_scope(s);
  }
  return intern(scope, kUnknownText, m.touched_entries, m.notes);
}

// ---- notes
int32_t Uniqueness::add_note(int32_t notes, WrittenValue value) {
  const uint64_t hash = combine(pair_key(notes, value.first), static_cast<uint32_t>(value.second));
  const std::pair note{notes, value};
  if (int32_t id = note_ids_.find(hash, [&](int32_t n) { return notes_[n] == note; }); id >= 0) return id;
  const auto id = static_cast<int32_t>(notes_.size());
  note_ids_.add(hash, id);
  notes_.push_back(note);
  return id;
}

std::vector<Uniqueness::WrittenValue> Uniqueness::noted_values(int32_t notes) const {
  std::vector<WrittenValue> out;
  for (; notes > kNoNotes; notes = notes_[notes].first)
    if (notes_[notes].second.first != kLaterScope) out.push_back(notes_[notes].second);
  return out;
}

int32_t Uniqueness::with_noting(int32_t state) {
  std::vector<Scope> open_scopes;
  int32_t scope = states_[state].scope;
  for (; scope >= 0; scope = scopes_[scope].outer) open_scopes.push_back(scopes_[scope]);
  for (size_t i = open_scopes.size(); i-- > 0;) {
    Scope s = open_scopes[i];
    s.outer = scope;
    s.seen = seen_[s.seen].known_names;  // only the known names
    if (s.start >= 0) s.start = kUnknownText;
    s.opened_later = false;
    scope = intern_scope(s);
  }
  return intern(scope, states_[state].text == 0 ? 0 : kUnknownText, 0, kNoNotes);
}

int32_t Uniqueness::count_entries(int32_t state) const {
  int32_t count = sums(states_[state].scope).entries;
  for (int32_t notes = states_[state].notes; notes > kNoNotes; notes = notes_[notes].first) ++count;
  return count;
}

bool Uniqueness::has_seen(int32_t state, WrittenValue value) {
  int32_t scope = states_[state].scope;
  for (int32_t depth = depth_of(scope); depth > value.first; --depth) scope = scopes_[scope].outer;
  return scope >= 0 && has_value(scopes_[scope].seen, value.second);
}

int32_t Uniqueness::without_next_entry(int32_t state) {
  state = with_unread_entries(state);
  const State m = states_[state];
  if (m.scope < 0 || scopes_[m.scope].start != -1) return state;
  Scope s = scopes_[m.scope];
  s.start = kUnread;
  return intern(intern_scope(s), m.text, m.touched_entries, m.notes);
}

int32_t Uniqueness::with_next_entry(int32_t state) {
  const State m = states_[state];
  std::vector<Scope> open_scopes;
  bool has_unread_entry = false;
  for (int32_t scope = m.scope; scope >= 0; scope = scopes_[scope].outer) {
    open_scopes.push_back(scopes_[scope]);
    has_unread_entry |= scopes_[scope].start == kUnread;
  }
  if (!has_unread_entry) return state;
  int32_t scope = open_scopes.back().outer;
  for (size_t i = open_scopes.size(); i-- > 0;) {
    Scope s = open_scopes[i];
    s.outer = scope;
    if (s.start == kUnread) s.start = -1;
    scope = intern_scope(s);
  }
  return intern(scope, m.text, m.touched_entries, m.notes);
}

void Uniqueness::append_values_after_unknown(int32_t state, std::unordered_set<int32_t>& visited,
                                             std::vector<WrittenValue>& out) const {
  int32_t scope = states_[state].scope;
  for (; scope >= 0 && visited.insert(scope).second; scope = scopes_[scope].outer) {
    CallMeter::work(1);
    for (int32_t seen = scopes_[scope].seen; seen_[seen].unknown_count > 0 && seen_[seen].value != kAnyValue;
         seen = seen_[seen].previous) {
      CallMeter::work(1);
      out.push_back({depth_of(scope), seen_[seen].value});
    }
  }
}

void Uniqueness::append_written_value(int32_t state, std::string_view text, std::vector<WrittenValue>& out) {
  int32_t depth = -1, outermost = -1;
  for (int32_t scope = states_[state].scope; scope >= 0 && scopes_[scope].start != kUnknownText;) {
    if (scopes_[scope].start >= 0) outermost = scope;
    scope = scopes_[scope].is_nested ? scopes_[scope].outer : -1;
  }
  if (outermost < 0 || seen_[scopes_[outermost].seen].unknown_count == 0) return;
  for (int32_t scope = outermost; scope >= 0; scope = scopes_[scope].outer) ++depth;
  for (char byte : text) state = read(state, static_cast<uint8_t>(byte));
  out.push_back({depth, syntax_.value(scopes_[outermost].start, states_[state].text)});
}

int32_t Uniqueness::with_seen_values(int32_t state, const std::vector<WrittenValue>& values) {
  const State m = states_[state];
  std::vector<Scope> open_scopes;
  int32_t scope = m.scope;
  for (; scope >= 0; scope = scopes_[scope].outer) open_scopes.push_back(scopes_[scope]);
  auto value = values.begin();
  for (int32_t depth = 0; !open_scopes.empty(); ++depth, open_scopes.pop_back()) {
    CallMeter::work(1);
    Scope s = open_scopes.back();
    s.outer = scope;
    for (; value != values.end() && value->first <= depth; ++value)
      if (value->first == depth) s.seen = intern_seen(s.seen, value->second);
    scope = intern_scope(s);
  }
  return intern(scope, m.text, m.touched_entries, m.notes);
}

}  // namespace guided
