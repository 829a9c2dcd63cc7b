#include "run/token_table.hpp"

namespace guided {

size_t TokenTable::bytes() const {
  size_t n = sizeof(TokenTable) + all.bytes() + remainders.bytes() + entries.size() * sizeof(Remainder) +
             staying_entries.size() * sizeof(Remainder) + (unsure.size() + both.size()) * 4;
  for (const auto& [label, ids] : labels) n += 64 + label.leave.size() * 4 + ids.bytes();
  return n;
}

void TokenTable::build_remainders(const std::vector<std::string>& tokens) {
  std::vector<TrieEntry> texts;
  texts.reserve(entries.size());
  for (const Remainder& r : entries) {
    const std::string& text = tokens[static_cast<size_t>(r.token)];
    texts.push_back({reinterpret_cast<const uint8_t*>(text.data()) + r.depth,
                     static_cast<int32_t>(text.size()) - r.depth, static_cast<int32_t>(texts.size())});
  }
  if (!texts.empty()) remainders.build(std::move(texts));
}

size_t TokenTable::staying_beyond(int64_t room) const {
  size_t count = 0;
  for (const auto& [stay, end] : stays)
    if (stay > room) count = end;
  return count;
}

const TokenTable& TokenTable::remainders_of_staying(size_t count, const std::vector<std::string>& tokens) const {
  std::lock_guard<std::mutex> lock(staying_lock_);
  std::unique_ptr<TokenTable>& table = staying_[count];
  if (!table) {
    table = std::make_unique<TokenTable>();
    table->relative = relative;
    table->furthest = furthest;
    table->entries.assign(staying_entries.begin(), staying_entries.begin() + static_cast<ptrdiff_t>(count));
    table->build_remainders(tokens);
  }
  return *table;
}

TokenSet TokenTable::allowed(int64_t room, int64_t missing, int32_t words) const {
  std::vector<uint32_t> bits(static_cast<size_t>(words), 0);
  for (const auto& [label, tokens] : labels) {
    bool ok = label.stay >= 0 && label.stay <= room;
    for (int32_t leave : label.leave) ok |= leave >= missing && leave <= room;
    if (ok) tokens.add_to(bits.data());
  }
  return make_token_set(std::move(bits));
}

}  // namespace guided
