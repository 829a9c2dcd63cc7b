#include "json_value.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "json_number.hpp"

namespace guided {

// ---- the store
int32_t ValueStore::intern(std::string content) {
  if (auto it = known_.find(content); it != known_.end()) return it->second;
  auto id = static_cast<int32_t>(contents_.size());
  contents_.push_back(std::move(content));
  known_.emplace(contents_.back(), id);
  bytes_ += contents_.back().size() + 96;
  return id;
}

std::vector<int32_t> ValueStore::parts(int32_t value) const {
  const std::string& c = content(value);
  std::vector<int32_t> out((c.size() - 1) / sizeof(int32_t));
  if (!out.empty()) std::memcpy(out.data(), c.data() + 1, out.size() * sizeof(int32_t));
  return out;
}

namespace {
std::string container(char kind, const std::vector<int32_t>& parts) {
  std::string out(1, kind);
  out.append(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(int32_t));
  return out;
}
}  // namespace

int32_t ValueStore::import(const ValueStore& other, int32_t value) {
  // Parts have smaller numbers than the whole, and values nest as deep as texts do: no recursion.
  std::unordered_map<int32_t, int32_t> moved;
  std::vector<int32_t> need{value}, order;
  while (!need.empty()) {
    int32_t id = need.back();
    need.pop_back();
    if (!moved.emplace(id, -1).second) continue;
    order.push_back(id);
    char kind = other.content(id)[0];
    if (kind == 'a' || kind == 'o')
      for (int32_t part : other.parts(id)) need.push_back(part);
  }
  std::sort(order.begin(), order.end());
  for (int32_t id : order) {
    const std::string& c = other.content(id);
    if (c[0] != 'a' && c[0] != 'o') {
      moved[id] = intern(c);
      continue;
    }
    std::vector<int32_t> parts = other.parts(id);
    for (int32_t& part : parts) part = moved[part];
    if (c[0] == 'o') {  // names keep the order of their numbers, which are others here
      std::vector<std::pair<int32_t, int32_t>> pairs;
      for (size_t i = 0; i + 1 < parts.size(); i += 2) pairs.push_back({parts[i], parts[i + 1]});
      std::sort(pairs.begin(), pairs.end());
      parts.clear();
      for (auto [name, inner] : pairs) parts.insert(parts.end(), {name, inner});
    }
    moved[id] = intern(container(c[0], parts));
  }
  return moved[value];
}

namespace {
bool is_bare(uint8_t b) { return std::isalnum(b) || b == '-' || b == '+' || b == '.'; }
bool is_number_like(char first) { return first == '-' || std::isdigit(static_cast<unsigned char>(first)); }
}  // namespace

// ---- strings
void StringProgress::put(uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 63));
    text += static_cast<char>(0x80 | (c & 63));
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 63));
    text += static_cast<char>(0x80 | (c >> 6 & 63));
    text += static_cast<char>(0x80 | (c & 63));
  }
}

bool StringProgress::read(uint8_t b) {
  if (escape < 0) {
    if (b == '"') return false;
    if (b == '\\')
      escape = 0;
    else
      text += static_cast<char>(b);
    return true;
  }
  if (escape == 0) {
    if (b == 'u') {
      escape = 1;
      unit = 0;
      return true;
    }
    static constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    size_t at = from.find(static_cast<char>(b));
    text += at == std::string_view::npos ? static_cast<char>(b) : to[at];
    escape = -1;
    return true;
  }
  unit = unit * 16 + (b <= '9' ? b - '0' : (b | 0x20) - 'a' + 10);
  if (++escape <= 4) return true;
  escape = -1;
  if (unit >= 0xD800 && unit < 0xDC00)
    high = unit;
  else if (unit >= 0xDC00 && unit < 0xE000 && high)
    put(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00));
  else
    put(unit);
  if (unit < 0xD800 || unit >= 0xDC00) high = 0;
  return true;
}

bool StringProgress::fits(std::string_view target) const {
  if (target.substr(0, text.size()) != text) return false;
  if (escape < 0 && !high) return true;
  // Some of the next character is written in an escape.
  std::string_view rest = target.substr(text.size());
  if (rest.empty()) return false;
  auto at = [&](size_t i) { return i < rest.size() ? static_cast<uint32_t>(static_cast<uint8_t>(rest[i])) & 63 : 0; };
  uint32_t lead = static_cast<uint8_t>(rest[0]), c = lead;
  if (lead >= 0xF0)
    c = (lead & 7) << 18 | at(1) << 12 | at(2) << 6 | at(3);
  else if (lead >= 0xE0)
    c = (lead & 15) << 12 | at(1) << 6 | at(2);
  else if (lead >= 0xC0)
    c = (lead & 31) << 6 | at(1);
  uint32_t first = c < 0x10000 ? c : 0xD800 + ((c - 0x10000) >> 10);
  uint32_t second = c < 0x10000 ? 0 : 0xDC00 + ((c - 0x10000) & 0x3FF);
  if (high && high != first) return false;
  if (escape <= 0) return true;
  uint32_t wanted = high ? second : first;
  return wanted >> (4 * (5 - escape)) == unit;
}

// ---- reading
void JsonReader::add(int32_t value) {
  if (open_.empty()) {
    broken_ |= done_ >= 0;
    done_ = value;
  } else {
    open_.back().parts.push_back(value);
  }
}

void JsonReader::end_bare() {
  if (kind_ != Bare) return;
  kind_ = None;
  add(store_.intern(is_number_like(bare_[0]) ? number_content(bare_) : std::string(1, 'l').append(bare_)));
}

void JsonReader::close(char kind) {
  if (open_.empty() || open_.back().kind != kind) {
    broken_ = true;
    return;
  }
  std::vector<int32_t> parts = std::move(open_.back().parts);
  open_.pop_back();
  if (kind == 'o') {
    std::vector<std::pair<int32_t, int32_t>> members;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) members.push_back({parts[i], parts[i + 1]});
    std::sort(members.begin(), members.end());
    parts.clear();
    for (auto [name, value] : members) parts.insert(parts.end(), {name, value});
  }
  add(store_.intern(container(kind, parts)));
}

void JsonReader::read(uint8_t b) {
  all_ += static_cast<char>(b);
  if (kind_ == String) {
    if (string_.read(b)) return;
    kind_ = None;
    add(store_.string(string_.text));
    return;
  }
  if (is_bare(b)) {
    if (kind_ == None) bare_.clear();
    kind_ = Bare;
    bare_ += static_cast<char>(b);
    return;
  }
  end_bare();
  if (b == '"') {
    kind_ = String;
    string_ = {};
  } else if (b == '[' || b == '{') {
    open_.push_back({b == '[' ? 'a' : 'o', {}});
  } else if (b == ']' || b == '}') {
    close(b == ']' ? 'a' : 'o');
  } else if (b != ',' && b != ':' && b != ' ' && b != '\t' && b != '\n' && b != '\r') {
    broken_ = true;
  }
}

int32_t JsonReader::value() {
  end_bare();
  if (broken_ || done_ < 0 || !open_.empty() || kind_ != None) return store_.intern(std::string(1, 'r').append(all_));
  return done_;
}

bool JsonReader::fits_scalar(int32_t value) const {
  const std::string& c = store_.content(value);
  if (c[0] == 'r') return true;
  if (kind_ == None) return true;
  if (kind_ == String) return c[0] == 's' && string_.fits(std::string_view(c).substr(1));
  if (is_number_like(bare_[0])) return c[0] == 'n' && number_fits(bare_, c);
  return c[0] == 'l' && std::string_view(c).substr(1, bare_.size()) == bare_;
}

void JsonReader::describe(std::vector<int32_t>& out) const {
  if (broken_) {
    out.push_back(store_.intern(std::string(1, 'r').append(all_)));
    return;
  }
  out.insert(out.end(), {done_, kind_});
  if (kind_ == Bare) out.push_back(store_.intern('r' + (is_number_like(bare_[0]) ? number_essence(bare_) : bare_)));
  if (kind_ == String) {
    const uint32_t unit = string_.escape > 0 ? string_.unit : 0;
    out.insert(out.end(), {store_.string(string_.text), string_.escape, static_cast<int32_t>(unit),
                           static_cast<int32_t>(string_.high)});
  }
  for (const Open& open : open_) {
    std::vector<int32_t> parts = open.parts;
    std::vector<std::pair<int32_t, int32_t>> members;
    for (size_t i = 0; open.kind == 'o' && i + 1 < parts.size(); i += 2) members.push_back({parts[i], parts[i + 1]});
    std::sort(members.begin(), members.end());
    for (size_t i = 0; i < members.size(); ++i) {
      parts[2 * i] = members[i].first;
      parts[2 * i + 1] = members[i].second;
    }
    out.insert(out.end(), {open.kind, static_cast<int32_t>(parts.size())});
    out.insert(out.end(), parts.begin(), parts.end());
  }
}

// A member of an object, or of all that is written of one, by its name; -1: there is none.
static int32_t member(const std::vector<int32_t>& parts, int32_t name) {
  for (size_t i = 0; i + 1 < parts.size(); i += 2)
    if (parts[i] == name) return parts[i + 1];
  return -1;
}

bool JsonReader::fits(int32_t value) const {
  if (broken_) return true;
  if (done_ >= 0) return done_ == value;
  for (size_t level = 0; level < open_.size(); ++level) {
    const Open& open = open_[level];
    const std::string& c = store_.content(value);
    if (c[0] == 'r') return true;
    if (c[0] != open.kind) return false;
    const std::vector<int32_t> wanted = store_.parts(value);
    const bool inside = level + 1 < open_.size() || kind_ != None;  // of a part that is being written
    const size_t n = open.parts.size();
    if (open.kind == 'a') {
      if (n > wanted.size() || !std::equal(open.parts.begin(), open.parts.end(), wanted.begin())) return false;
      if (!inside) return true;
      if (n == wanted.size()) return false;
      value = wanted[n];
      continue;
    }
    for (size_t i = 0; i + 1 < n; i += 2)
      if (member(wanted, open.parts[i]) != open.parts[i + 1]) return false;
    if (n % 2 == 0) {  // between members, or in a name
      if (!inside) return true;
      for (size_t i = 0; i + 1 < wanted.size(); i += 2)
        if (member(open.parts, wanted[i]) < 0 && fits_scalar(wanted[i])) return true;
      return false;
    }
    value = member(wanted, open.parts[n - 1]);
    if (value < 0 || !inside) return value >= 0;
  }
  return fits_scalar(value);
}

}  // namespace guided
