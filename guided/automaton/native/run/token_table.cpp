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

const TokenTable& TokenTable::with_all_remainders(const std::vector<std::string>& tokens) const {
  if (staying_entries.empty()) return *this;
  std::lock_guard<std::mutex> lock(all_lock_);
  if (!all_) {
    all_ = std::make_unique<TokenTable>();
    all_->relative = relative;
    all_->furthest = furthest;
    all_->entries = entries;
    all_->entries.insert(all_->entries.end(), staying_entries.begin(), staying_entries.end());
    all_->build_remainders(tokens);
  }
  return *all_;
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
