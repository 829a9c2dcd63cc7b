#include "run/token_table.hpp"

namespace guided {

size_t TokenTable::bytes() const {
  size_t n = sizeof(TokenTable) + staying.bytes() + remainders.bytes() + entries.size() * sizeof(Remainder) +
             staying_entries.size() * sizeof(Remainder) + (unsure.size() + staying_or_leaving.size()) * 4;
  for (const auto& [label, ids] : labels) n += 64 + label.leave.size() * 4 + ids.bytes();
  return n;
}

void TokenTable::build_remainders(const std::vector<std::string>& tokens) {
  std::vector<TrieEntry> remainder_texts;
  remainder_texts.reserve(entries.size());
  for (const Remainder& r : entries) {
    const std::string& text = tokens[static_cast<size_t>(r.token)];
    remainder_texts.push_back({reinterpret_cast<const uint8_t*>(text.data()) + r.depth,
                               static_cast<int32_t>(text.size()) - r.depth,
                               static_cast<int32_t>(remainder_texts.size())});
  }
  if (!remainder_texts.empty()) remainders.build(std::move(remainder_texts));
}

size_t TokenTable::count_staying_beyond(int64_t counts_left) const {
  size_t count = 0;
  for (const auto& [stay, end] : stay_counts)
    if (stay > counts_left) count = end;
  return count;
}

const TokenTable& TokenTable::remainders_of_staying(size_t count, const std::vector<std::string>& tokens) const {
  std::lock_guard<std::mutex> lock(staying_mutex_);
  std::unique_ptr<TokenTable>& table = staying_tables_[count];
  if (!table) {
    table = std::make_unique<TokenTable>();
    table->is_relative = is_relative;
    table->max_count = max_count;
    table->entries.assign(staying_entries.begin(), staying_entries.begin() + static_cast<ptrdiff_t>(count));
    table->build_remainders(tokens);
  }
  return *table;
}

TokenSet TokenTable::allowed_tokens(int64_t counts_left, int64_t counts_missing, int32_t words) const {
  std::vector<uint32_t> bits(static_cast<size_t>(words), 0);
  for (const auto& [label, tokens] : labels) {
    bool is_allowed = label.stay >= 0 && label.stay <= counts_left;
    for (int32_t leave : label.leave) is_allowed |= leave >= counts_missing && leave <= counts_left;
    if (is_allowed) tokens.add_to(bits.data());
  }
  return make_token_set(std::move(bits));
}

}  // namespace guided
