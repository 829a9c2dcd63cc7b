#include "vocabulary/vocabulary.hpp"

#include <algorithm>

namespace guided {

std::shared_ptr<TokenTable> TableCache::find(const Digest& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  Index& index = index_of(key);
  auto it = index.find(key);
  if (it == index.end()) return nullptr;
  items_.splice(items_.begin(), items_, it->second);
  return it->second->table;
}

void TableCache::insert(const Digest& key, std::shared_ptr<TokenTable> table, size_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (index_of(key).contains(key)) return;
  items_.push_front({key, std::move(table), size});
  index_of(key)[key] = items_.begin();
  bytes_ += size;
  while (bytes_ > byte_limit_ && items_.size() > 1) {
    bytes_ -= items_.back().bytes;
    index_of(items_.back().key).erase(items_.back().key);
    items_.pop_back();
  }
}

size_t TableCache::bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}
size_t TableCache::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return items_.size();
}
void TableCache::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  items_.clear();
  for (Index& index : index_) index.clear();
  bytes_ = 0;
}

TokenVocabulary::TokenVocabulary(std::vector<std::string> token_list, std::vector<uint8_t> has_text,
                                 std::vector<int32_t> end_ids, int32_t id_count, size_t cache_bytes)
    : tokens(std::move(token_list)),
      end_tokens(std::move(end_ids)),
      size(id_count),
      words((id_count + 31) / 32),
      cache(cache_bytes) {
  std::sort(end_tokens.begin(), end_tokens.end());
  std::vector<TrieEntry> entries;
  entries.reserve(tokens.size());
  int32_t text_count = 0;
  std::array<int32_t, 256> counts{};  // by byte: how often it occurs in the current token
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!has_text[i] || is_end(static_cast<int32_t>(i))) tokens[i].clear();
    const std::string& token = tokens[i];
    if (token.empty()) continue;
    ++text_count;
    max_token_bytes = std::max(max_token_bytes, static_cast<int32_t>(token.size()));
    for (char ch : token) live.add(static_cast<uint8_t>(ch));
    if (token.size() == 1) single_byte_tokens.add(static_cast<uint8_t>(token[0]));
    for (char ch : token) {
      const auto byte = static_cast<uint8_t>(ch);
      max_count_in_token[byte] = std::max(max_count_in_token[byte], ++counts[byte]);
    }
    for (char ch : token) counts[static_cast<uint8_t>(ch)] = 0;
    const auto* bytes = reinterpret_cast<const uint8_t*>(token.data());
    entries.push_back({bytes, static_cast<int32_t>(token.size()), static_cast<int32_t>(i)});
  }
  byte_complete = live == single_byte_tokens;
  all_text = text_count + static_cast<int32_t>(end_tokens.size()) == size;
  trie.build(std::move(entries));
  trie.add_lines();
}

bool TokenVocabulary::is_end(int32_t id) const { return std::binary_search(end_tokens.begin(), end_tokens.end(), id); }

}  // namespace guided
