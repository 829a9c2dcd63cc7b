#include "values/json_value.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace guided {

// ---- the store
int32_t ValueStore::intern(std::string content) {
  const uint64_t hash = std::hash<std::string>{}(content);
  const int32_t known = known_.find(hash, [&](int32_t id) { return contents_[static_cast<size_t>(id)] == content; });
  if (known >= 0) return known;
  const auto id = static_cast<int32_t>(contents_.size());
  contents_.push_back(std::move(content));
  known_.add(hash, id);
  bytes_ += contents_.back().size() + 96;
  return id;
}

std::vector<int32_t> ValueStore::parts(int32_t value) const {
  const std::string& c = content(value);
  std::vector<int32_t> out((c.size() - 1) / sizeof(int32_t));
  if (!out.empty()) std::memcpy(out.data(), c.data() + 1, out.size() * sizeof(int32_t));
  return out;
}

int32_t ValueStore::container(char kind, std::vector<int32_t> parts) {
  if (kind == 'o') {  // a member that is written twice counts once
    sort_members(parts);
    size_t n = 0;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      if (n > 0 && parts[n - 2] == parts[i] && parts[n - 1] == parts[i + 1]) continue;
      parts[n++] = parts[i];
      parts[n++] = parts[i + 1];
    }
    parts.resize(n);
  }
  std::string out(1, kind);
  out.append(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(int32_t));
  return intern(std::move(out));
}

void sort_members(std::vector<int32_t>& parts) {
  std::vector<std::pair<int32_t, int32_t>> members;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) members.push_back({parts[i], parts[i + 1]});
  std::sort(members.begin(), members.end());
  for (size_t i = 0; i < members.size(); ++i) {
    parts[2 * i] = members[i].first;
    parts[2 * i + 1] = members[i].second;
  }
}

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
    moved[id] = container(c[0], std::move(parts));  // names keep the order of their numbers, which are others here
  }
  return moved[value];
}

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
  const uint32_t c = code_point(rest);
  uint32_t first = c < 0x10000 ? c : 0xD800 + ((c - 0x10000) >> 10);
  uint32_t second = c < 0x10000 ? 0 : 0xDC00 + ((c - 0x10000) & 0x3FF);
  if (high && high != first) return false;
  if (escape <= 0) return true;
  uint32_t wanted = high ? second : first;
  return wanted >> (4 * (5 - escape)) == unit;
}

uint32_t code_point(std::string_view text) {
  auto at = [&](size_t i) { return i < text.size() ? static_cast<uint32_t>(static_cast<uint8_t>(text[i])) & 63 : 0; };
  const uint32_t lead = static_cast<uint8_t>(text[0]);
  if (lead >= 0xF0) return (lead & 7) << 18 | at(1) << 12 | at(2) << 6 | at(3);
  if (lead >= 0xE0) return (lead & 15) << 12 | at(1) << 6 | at(2);
  return lead >= 0xC0 ? (lead & 31) << 6 | at(1) : lead;
}

}  // namespace guided
