#include "json/json_store.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace guided {

// ---- the store
int32_t ValueStore::intern(std::string content) {
  const uint64_t hash = std::hash<std::string>{}(content);
  const int32_t existing = ids_.find(hash, [&](int32_t id) { return contents_[static_cast<size_t>(id)] == content; });
  if (existing >= 0) return existing;
  const auto id = static_cast<int32_t>(contents_.size());
  contents_.push_back(std::move(content));
  ids_.add(hash, id);
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
  if (kind == 'o') {  // a member that is repeated with the same value counts once
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
  // There is no recursion, because values may nest as deeply as the text. Parts have smaller numbers than the values
  // that contain them.
  std::unordered_map<int32_t, int32_t> new_ids;
  std::vector<int32_t> pending{value}, order;
  while (!pending.empty()) {
    int32_t id = pending.back();
    pending.pop_back();
    if (!new_ids.emplace(id, -1).second) continue;
    order.push_back(id);
    char kind = other.content(id)[0];
    if (kind == 'a' || kind == 'o')
      for (int32_t part : other.parts(id)) pending.push_back(part);
  }
  std::sort(order.begin(), order.end());
  for (int32_t id : order) {
    const std::string& c = other.content(id);
    if (c[0] != 'a' && c[0] != 'o') {
      new_ids[id] = intern(c);
      continue;
    }
    std::vector<int32_t> parts = other.parts(id);
    for (int32_t& part : parts) part = new_ids[part];
    new_ids[id] = container(c[0], std::move(parts));  // sorts members again, by their numbers in this store
  }
  return new_ids[value];
}

}  // namespace guided
