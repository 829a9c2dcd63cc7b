#include "lexer/rivals.hpp"

#include <algorithm>

namespace guided {

int32_t Rivals::find_advance(int32_t rivals, uint8_t byte) {
  std::vector<int32_t> next;
  for (int32_t rival : sets_[rivals]) {
    const int32_t after = lexemes_.step(rival, byte);
    if (after == kNoLexeme) continue;
    if (lexemes_.state(after).label != kNoTerminal) return (*rows_[rivals])[byte] = kDropped;
    next.push_back(lexemes_.state(after).rival);
  }
  const int32_t after = intern(std::move(next));
  return (*rows_[rivals])[byte] = after;
}

int32_t Rivals::advance(int32_t rivals, std::string_view text) {
  for (size_t i = 0; i < text.size() && rivals > 0; ++i) rivals = advance(rivals, static_cast<uint8_t>(text[i]));
  return rivals;
}

const ByteSet& Rivals::survived(int32_t rivals) {
  if (rivals >= static_cast<int32_t>(survived_.size())) survived_.resize(rivals + 1);
  if (!survived_[rivals]) {
    auto out = std::make_unique<ByteSet>();
    for (int byte = 0; byte < 256; ++byte)
      if (advance(rivals, static_cast<uint8_t>(byte)) != kDropped) out->add(static_cast<uint8_t>(byte));
    survived_[rivals] = std::move(out);
  }
  return *survived_[rivals];
}

int32_t Rivals::add(int32_t rivals, int32_t lexeme) {
  const int32_t rival = lexemes_.state(lexeme).rival;
  if (rival == kNoLexeme) return rivals;
  const uint64_t key = pair_key(rivals, rival);
  if (const auto known = added_.find(key); known != added_.end()) return known->second;
  std::vector<int32_t> all = sets_[rivals];
  all.push_back(rival);
  return added_[key] = intern(std::move(all));
}

int32_t Rivals::intern(std::vector<int32_t>&& rivals) {
  std::sort(rivals.begin(), rivals.end());
  rivals.erase(std::unique(rivals.begin(), rivals.end()), rivals.end());
  auto [at, added] = ids_.try_emplace(rivals, size());
  if (added) {
    sets_.push_back(std::move(rivals));
    rows_.push_back(std::make_unique<std::array<int32_t, 256>>());
    rows_.back()->fill(kUnknown);
  }
  return at->second;
}

}  // namespace guided
