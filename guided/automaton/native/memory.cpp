#include "memory.hpp"

#include <algorithm>

namespace guided {

namespace {
constexpr int32_t kNoValue = -1;
constexpr int32_t kNowhere = -1, kSomewhere = -2;  // around the first scope: nothing, or what is not known
constexpr size_t kNode = 88;  // about what an interned record takes
bool is_space(uint8_t b) { return b == ' ' || b == '\t' || b == '\n' || b == '\r'; }
}  // namespace

bool KnownNames::has(std::string_view name) const { return std::binary_search(sorted.begin(), sorted.end(), name); }

std::pair<std::vector<std::string>::const_iterator, std::vector<std::string>::const_iterator> KnownNames::ahead(
    const StringProgress& progress) const {
  const auto from = std::lower_bound(sorted.begin(), sorted.end(), progress.text);
  auto begins = [&](const std::string& name) { return name.starts_with(progress.text); };
  return {from, std::partition_point(from, sorted.end(), begins)};
}

bool KnownNames::fits(const StringProgress& progress) const {
  const auto [from, to] = ahead(progress);
  return std::any_of(from, to, [&](const std::string& name) { return progress.fits(name); });
}

Memories::Memories(const std::vector<KnownNames>& known) : known_(known) {
  texts_ = {{-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
  for (size_t k = 0; k < known.size(); ++k) seen_.push_back({static_cast<int32_t>(k), kNoValue, false});
  memories_ = {{-1, 0, 0, -1}, {-1, 0, 0, -1}, {-1, 0, 1, -1}, {-1, 0, 2, -1}};
}

// ---- interning
int32_t Memories::intern_seen(int32_t before, int32_t value) {
  auto [it, fresh] = ids_.try_emplace({0, before, value}, static_cast<int32_t>(seen_.size()));
  if (fresh) {
    seen_.push_back({before, value, value == kAnyValue || (before >= 0 && seen_[before].blurred)});
    bytes_ += kNode;
  }
  return it->second;
}

int32_t Memories::intern_scope(const Scope& s) {
  auto [it, fresh] = ids_.try_emplace({1, s.outer, s.seen, s.start, s.inside}, static_cast<int32_t>(scopes_.size()));
  if (fresh) {
    scopes_.push_back(s);
    bytes_ += kNode;
  }
  return it->second;
}

int32_t Memories::intern(int32_t scope, int32_t text, int32_t touched, int32_t before) {
  auto [it, fresh] = ids_.try_emplace({2, scope, text, touched}, static_cast<int32_t>(memories_.size()));
  if (fresh) {
    memories_.push_back({scope, text, touched, before});
    bytes_ += kNode;
  }
  return it->second;
}

int32_t Memories::intern_text(int32_t before, uint8_t byte) {
  const uint8_t mode = texts_[before].mode;
  if (mode == 0 && is_space(byte)) return before;
  auto [it, fresh] = next_.try_emplace(pair_key(before, byte), static_cast<int32_t>(texts_.size()));
  if (fresh) {
    uint8_t now = mode == 2 ? 1 : mode == 0 ? byte == '"' : byte == '"' ? 0 : byte == '\\' ? 2 : 1;
    texts_.push_back({before, byte, now});
    bytes_ += kNode;
  }
  return it->second;
}

int32_t Memories::read_on(int32_t memory, uint8_t byte) {
  const Memory m = memories_[memory];
  if (m.text == kBlank) return memory;
  int32_t text = intern_text(m.text, byte);
  return text == m.text ? memory : intern(m.scope, text, m.touched, memory);
}

// ---- scopes
int32_t Memories::open(int32_t memory, int32_t known) {
  const Memory m = memories_[memory];
  const int32_t outer = m.scope >= 0 ? m.scope : memory == kOutside ? kNowhere : kSomewhere;
  return intern(intern_scope({outer, known, -1, m.text != 0}), m.text, m.touched);
}

int32_t Memories::close(int32_t memory) {
  const Memory m = memories_[memory];
  if (m.scope < 0) return memory;
  int32_t outer = scopes_[m.scope].outer;
  if (outer >= 0) return intern(outer, m.text, m.touched);
  return outer == kNowhere && m.touched == 0 ? kOutside : kUntold + m.touched;
}

int32_t Memories::begin(int32_t memory) {
  const Memory m = memories_[memory];
  if (memory == kOutside) return memory;
  if (m.scope < 0) return kUntold + std::min(m.touched + 1, 2);
  Scope s = scopes_[m.scope];
  if (s.start >= 0) return memory;  // entries of one scope do not nest
  const int32_t text = s.start == kBlind ? kBlank : m.text == 0 ? kStart : m.text == kBlank ? kFrom : m.text;
  s.start = text;
  return intern(intern_scope(s), text, seen_[s.seen].blurred ? 2 : m.touched);
}

// The text at the begin of the nearest entry around a scope's own; -1: there is none.
int32_t Memories::enclosing(const Scope& scope) const {
  int32_t at = scope.inside ? scope.outer : -1;
  while (at >= 0 && scopes_[at].start < 0) at = scopes_[at].inside ? scopes_[at].outer : -1;
  return at >= 0 ? scopes_[at].start : -1;
}

int32_t Memories::keep(int32_t memory) {
  const Memory m = memories_[memory];
  if (memory == kOutside) return memory;
  if (m.scope < 0) return kUntold + std::min(m.touched + 1, 2);
  Scope s = scopes_[m.scope];
  if (s.start < 0) return memory;
  int32_t value = kAnyValue, touched = run_out ? 2 : m.touched;
  if (s.start != kBlank) {
    touched = m.touched;
    value = reader(s.start, m.text).value();
    if (was_there(s.seen, value)) return -1;
  }
  const bool unknown = m.text == kBlank || (s.start == kFrom && enclosing(s) == kBlank);
  const int32_t around = unknown ? kBlank : m.text;
  s.seen = intern_seen(s.seen, value);
  s.start = -1;
  return intern(intern_scope(s), s.inside ? around : 0, touched);
}

int32_t Memories::unread(int32_t memory) {
  const Memory m = memories_[memory];
  if (m.text == 0 || m.text == kBlank) return memory;
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
  return intern(at, kBlank, m.touched);
}

// ---- values
JsonReader Memories::reader(int32_t start, int32_t text) {
  std::string bytes;
  for (int32_t at = text; at != start; at = texts_[at].before) bytes += static_cast<char>(texts_[at].byte);
  JsonReader out(values_);
  for (size_t i = bytes.size(); i-- > 0;) out.read(static_cast<uint8_t>(bytes[i]));
  return out;
}

bool Memories::was_there(int32_t seen, int32_t value) const {
  for (; seen_[seen].value != kNoValue; seen = seen_[seen].before)
    if (seen_[seen].value == value) return true;
  const std::string& content = values_.content(value);
  return content[0] == 's' && known_[seen_[seen].before].has(std::string_view(content).substr(1));
}

bool Memories::may_be_there(int32_t scope, int32_t text) {
  const Scope& s = scopes_[scope];
  const bool first = seen_[s.seen].value == kNoValue;
  if (first && known_[seen_[s.seen].before].sorted.empty()) return false;
  const JsonReader text_so_far = reader(s.start, text);
  int32_t seen = s.seen;
  for (; seen_[seen].value != kNoValue; seen = seen_[seen].before)
    if (seen_[seen].value != kAnyValue && text_so_far.fits(seen_[seen].value)) return true;
  const KnownNames& names = known_[seen_[seen].before];
  if (names.sorted.empty()) return false;
  if (const StringProgress* progress = text_so_far.string()) return names.fits(*progress);
  const int32_t done = text_so_far.done();
  return text == s.start || (done >= 0 && values_.content(done)[0] == 's' &&
                             names.has(std::string_view(values_.content(done)).substr(1)));
}

int32_t Memories::blind(int32_t memory) {
  const Memory m = memories_[memory];
  if (m.text != 0) return unread(memory);
  if (m.scope < 0) return memory;
  Scope s = scopes_[m.scope];
  s.start = kBlind;
  return intern(intern_scope(s), 0, m.touched);
}

int32_t Memories::seeing(int32_t memory) {
  const Memory m = memories_[memory];
  std::vector<Scope> open;
  bool blind = false;
  for (int32_t at = m.scope; at >= 0; at = scopes_[at].outer) {
    open.push_back(scopes_[at]);
    blind |= scopes_[at].start == kBlind;
  }
  if (!blind) return memory;
  int32_t at = open.back().outer;
  for (size_t i = open.size(); i-- > 0;) {
    Scope s = open[i];
    s.outer = at;
    if (s.start == kBlind) s.start = -1;
    at = intern_scope(s);
  }
  return intern(at, m.text, m.touched);
}

void Memories::written_since(int32_t memory, std::vector<Written>& out) const {
  int32_t around = -1;
  for (int32_t at = memories_[memory].scope; at >= 0; at = scopes_[at].outer) ++around;
  for (int32_t at = memories_[memory].scope; at >= 0; at = scopes_[at].outer, --around)
    for (int32_t seen = scopes_[at].seen; seen_[seen].blurred && seen_[seen].value != kAnyValue;
         seen = seen_[seen].before)
      out.push_back({around, seen_[seen].value});
}

void Memories::write(int32_t memory, std::string_view text, std::vector<Written>& out) {
  int32_t around = -1, outermost = -1;
  for (int32_t at = memories_[memory].scope; at >= 0 && scopes_[at].start != kBlank;) {
    if (scopes_[at].start >= 0) outermost = at;
    at = scopes_[at].inside ? scopes_[at].outer : -1;
  }
  if (outermost < 0 || !seen_[scopes_[outermost].seen].blurred) return;
  for (int32_t at = outermost; at >= 0; at = scopes_[at].outer) ++around;
  for (char byte : text) memory = read(memory, static_cast<uint8_t>(byte));
  out.push_back({around, reader(scopes_[outermost].start, memories_[memory].text).value()});
}

int32_t Memories::with(int32_t memory, const std::vector<Written>& values) {
  const Memory m = memories_[memory];
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
  return intern(at, m.text, m.touched);
}

std::optional<Memories::StringAhead> Memories::string_ahead(int32_t memory) {
  const Memory m = memories_[memory];
  if (m.scope < 0) return std::nullopt;
  const Scope& s = scopes_[m.scope];
  if (s.start < 0 || s.start == kBlank || s.inside || seen_[s.seen].blurred) return std::nullopt;
  StringAhead out{m.text != s.start, {}, {}};
  if (out.opened) {
    const JsonReader text = reader(s.start, m.text);
    if (!in_string(memory) || !text.string()) return std::nullopt;
    out.read = *text.string();
  }
  int32_t seen = s.seen;
  for (; seen_[seen].value != kNoValue; seen = seen_[seen].before) {
    const std::string& content = values_.content(seen_[seen].value);
    if (content[0] == 's' && out.read.fits(std::string_view(content).substr(1))) out.taken.push_back(content.substr(1));
  }
  const auto [from, to] = known_[seen_[seen].before].ahead(out.read);
  for (auto it = from; it != to; ++it)
    if (out.read.fits(*it)) out.taken.push_back(*it);
  std::sort(out.taken.begin(), out.taken.end());
  out.taken.erase(std::unique(out.taken.begin(), out.taken.end()), out.taken.end());
  return out;
}

std::optional<bool> Memories::string_was_there(int32_t memory, std::string_view text) {
  const int32_t scope = memories_[memory].scope;
  if (scope < 0 || seen_[scopes_[scope].seen].blurred) return std::nullopt;
  return was_there(scopes_[scope].seen, values_.string(text));
}

std::pair<int, bool> Memories::under_way(int32_t memory) const {
  const int32_t scope = memories_[memory].scope;
  int entries = 0;
  auto known = [&](int32_t at) { return scopes_[at].start >= 0 && scopes_[at].start != kBlank; };
  for (int32_t at = scope; at >= 0; at = scopes_[at].inside ? scopes_[at].outer : -1) entries += known(at);
  return {entries, scope >= 0 && known(scope)};
}

bool Memories::alive(int32_t memory) {
  const Memory m = memories_[memory];
  if (m.text == 0 || m.text == kBlank) return false;
  if (m.alive >= 0) return m.alive;
  bool alive = m.before < 0 || memories_[m.before].alive != 0;
  if (alive) {
    alive = false;
    for (int32_t at = m.scope; at >= 0 && !alive; at = scopes_[at].outer) {
      if (scopes_[at].start >= 0 && scopes_[at].start != kBlank) alive = may_be_there(at, m.text);
      if (!scopes_[at].inside) break;
    }
  }
  memories_[memory].alive = alive;
  return alive;
}

bool Memories::alive_inside(int32_t memory, int outermost) {
  if (outermost == 0) return alive(memory);
  const Memory m = memories_[memory];
  int left = under_way(memory).first - outermost;
  for (int32_t at = m.scope; at >= 0 && left > 0; at = scopes_[at].inside ? scopes_[at].outer : -1) {
    if (scopes_[at].start < 0 || scopes_[at].start == kBlank) continue;
    if (may_be_there(at, m.text)) return true;
    --left;
  }
  return false;
}

int32_t Memories::essence(int32_t memory) {
  const Memory m = memories_[memory];
  if (m.text == 0 || m.text == kBlank) return memory;
  std::vector<int32_t> key{3, m.touched};
  for (int32_t at = m.scope; at >= 0; at = scopes_[at].outer) {
    const Scope& s = scopes_[at];
    if (!s.inside && s.start < 0) {
      key.push_back(at);
      break;
    }
    std::vector<int32_t> values;
    int32_t seen = s.seen;
    for (; seen_[seen].value != kNoValue; seen = seen_[seen].before) values.push_back(seen_[seen].value);
    std::sort(values.begin(), values.end());
    key.insert(key.end(), {s.start <= kBlank ? s.start : 0, s.inside, seen, static_cast<int32_t>(values.size())});
    key.insert(key.end(), values.begin(), values.end());
    if (s.start >= 0 && s.start != kBlank) reader(s.start, m.text).describe(key);
    if (!s.inside) {
      key.push_back(s.outer);
      break;
    }
  }
  return ids_.try_emplace(std::move(key), memory).first->second;
}

// ---- another store's memory
int32_t Memories::import(const Memories& other, int32_t memory) {
  if (memory < 4) return memory;
  const Memory m = other.memories_[memory];
  std::unordered_map<int32_t, int32_t> text;
  for (int32_t own : {-1, kBlind, 0, kStart, kBlank, kFrom}) text[own] = own;  // the same in all stores
  std::vector<int32_t> path;
  for (int32_t at = m.text; at > kFrom; at = other.texts_[at].before) path.push_back(at);
  for (size_t i = path.size(); i-- > 0;)
    text[path[i]] = intern_text(text[other.texts_[path[i]].before], other.texts_[path[i]].byte);
  std::vector<int32_t> scopes;
  int32_t scope = m.scope;
  for (; scope >= 0; scope = other.scopes_[scope].outer) scopes.push_back(scope);
  for (size_t i = scopes.size(); i-- > 0;) {
    Scope s = other.scopes_[scopes[i]];
    std::vector<int32_t> values;
    int32_t seen = s.seen;
    for (; other.seen_[seen].value != kNoValue; seen = other.seen_[seen].before)
      values.push_back(other.seen_[seen].value);
    for (size_t k = values.size(); k-- > 0;)
      seen = intern_seen(seen, values[k] == kAnyValue ? kAnyValue : values_.import(other.values_, values[k]));
    s.outer = scope;
    s.seen = seen;
    s.start = text.at(s.start);
    scope = intern_scope(s);
  }
  return intern(scope, text.at(m.text), m.touched);
}

}  // namespace guided
