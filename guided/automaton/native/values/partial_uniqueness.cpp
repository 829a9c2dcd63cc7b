// Uniqueness states of which only a part is known. Budgets look ahead with them (budgets.hpp).
#include "base/call_meter.hpp"
#include "values/uniqueness.hpp"

namespace guided {

int32_t Uniqueness::unread(int32_t state) {
  const State m = states_[state];
  if (m.text == 0 || m.text == kBlank) return state;
  std::vector<Scope> open;
  int32_t at = m.scope;
  for (; at >= 0; at = scopes_[at].outer) open.push_back(scopes_[at]);
  while (!open.empty()) {
    Scope s = open.back();
    open.pop_back();
    s.outer = at;
    if (s.start >= 0) s.start = kBlank;
    at = intern_scope(s);
  }
  return intern(at, kBlank, m.touched, m.notes);
}

// ---- notes
int32_t Uniqueness::depth(int32_t scope) const {
  int32_t around = -1;
  for (; scope >= 0; scope = scopes_[scope].outer) ++around;
  return around;
}

int32_t Uniqueness::note(int32_t notes, Written value) {
  const auto next = static_cast<int32_t>(notes_.size());
  auto [it, inserted] = note_ids_.try_emplace({notes, value.first, value.second}, next);
  if (inserted) notes_.push_back({notes, value});
  return it->second;
}

std::vector<Uniqueness::Written> Uniqueness::noted(int32_t notes) const {
  std::vector<Written> out;
  for (; notes > kNoNotes; notes = notes_[notes].first)
    if (notes_[notes].second.first != kLaterScope) out.push_back(notes_[notes].second);
  return out;
}

int32_t Uniqueness::noting(int32_t state) {
  std::vector<Scope> open;
  int32_t at = states_[state].scope;
  for (; at >= 0; at = scopes_[at].outer) open.push_back(scopes_[at]);
  for (size_t i = open.size(); i-- > 0;) {
    Scope s = open[i];
    s.outer = at;
    s.seen = seen_[s.seen].known;  // only the known names
    if (s.start >= 0) s.start = kBlank;
    s.later = false;
    at = intern_scope(s);
  }
  return intern(at, states_[state].text == 0 ? 0 : kBlank, 0, kNoNotes);
}

bool Uniqueness::none_begun(int32_t state) const {
  for (int32_t at = states_[state].scope; at >= 0; at = scopes_[at].outer)
    if (scopes_[at].start >= 0 && scopes_[at].start != kBlank) return false;
  return true;
}

int32_t Uniqueness::entries(int32_t state) const {
  int32_t count = 0;
  for (int32_t at = states_[state].scope; at >= 0; at = scopes_[at].outer) count += scopes_[at].start >= 0;
  for (int32_t notes = states_[state].notes; notes > kNoNotes; notes = notes_[notes].first) ++count;
  return count;
}

bool Uniqueness::was_written(int32_t state, Written value) const {
  int32_t at = states_[state].scope;
  for (int32_t around = depth(at); around > value.first; --around) at = scopes_[at].outer;
  return at >= 0 && was_there(scopes_[at].seen, value.second);
}

int32_t Uniqueness::without_next_entry(int32_t state) {
  state = unread(state);
  const State m = states_[state];
  if (m.scope < 0 || scopes_[m.scope].start != -1) return state;
  Scope s = scopes_[m.scope];
  s.start = kUnread;
  return intern(intern_scope(s), m.text, m.touched, m.notes);
}

int32_t Uniqueness::with_next_entry(int32_t state) {
  const State m = states_[state];
  std::vector<Scope> open;
  bool blind = false;
  for (int32_t at = m.scope; at >= 0; at = scopes_[at].outer) {
    open.push_back(scopes_[at]);
    blind |= scopes_[at].start == kUnread;
  }
  if (!blind) return state;
  int32_t at = open.back().outer;
  for (size_t i = open.size(); i-- > 0;) {
    Scope s = open[i];
    s.outer = at;
    if (s.start == kUnread) s.start = -1;
    at = intern_scope(s);
  }
  return intern(at, m.text, m.touched, m.notes);
}

void Uniqueness::written_since(int32_t state, std::vector<Written>& out) const {
  int32_t around = -1;
  for (int32_t at = states_[state].scope; at >= 0; at = scopes_[at].outer) ++around;
  for (int32_t at = states_[state].scope; at >= 0; at = scopes_[at].outer, --around)
    for (int32_t seen = scopes_[at].seen; seen_[seen].unknown > 0 && seen_[seen].value != kAnyValue;
         seen = seen_[seen].before) {
      CallMeter::work(1);
      out.push_back({around, seen_[seen].value});
    }
}

void Uniqueness::write(int32_t state, std::string_view text, std::vector<Written>& out) {
  int32_t around = -1, outermost = -1;
  for (int32_t at = states_[state].scope; at >= 0 && scopes_[at].start != kBlank;) {
    if (scopes_[at].start >= 0) outermost = at;
    at = scopes_[at].inside ? scopes_[at].outer : -1;
  }
  if (outermost < 0 || seen_[scopes_[outermost].seen].unknown == 0) return;
  for (int32_t at = outermost; at >= 0; at = scopes_[at].outer) ++around;
  for (char byte : text) state = read(state, static_cast<uint8_t>(byte));
  out.push_back({around, syntax_.value(scopes_[outermost].start, states_[state].text)});
}

int32_t Uniqueness::with(int32_t state, const std::vector<Written>& values) {
  const State m = states_[state];
  std::vector<Scope> open;
  int32_t at = m.scope;
  for (; at >= 0; at = scopes_[at].outer) open.push_back(scopes_[at]);
  for (size_t around = 0; around < open.size(); ++around) {
    Scope s = open[open.size() - 1 - around];
    s.outer = at;
    for (auto [where, value] : values)
      if (where == static_cast<int32_t>(around)) s.seen = intern_seen(s.seen, value);
    at = intern_scope(s);
  }
  return intern(at, m.text, m.touched, m.notes);
}

}  // namespace guided
