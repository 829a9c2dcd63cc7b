#include "token_table.hpp"

namespace guided {

size_t TokenTable::bytes() const {
  size_t n = sizeof(TokenTable) + all.bytes() + remainders.bytes() + entries.size() * sizeof(Remainder) +
             (unsure.size() + both.size()) * 4;
  for (const auto& [label, ids] : labels) n += 64 + label.leave.size() * 4 + ids.bytes();
  return n;
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
