#include "vocabulary/seen_strings.hpp"

namespace guided {

QuotingTokens::QuotingTokens(const std::vector<std::string>& tokens) {
  std::vector<TrieEntry> closing, quoting, strings;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    if (token.find(StringProgress::kQuote) == token.npos) continue;
    all.push_back(static_cast<int32_t>(i));
    auto add = [&](std::vector<TrieEntry>& to, size_t from, size_t end) {
      to.push_back({reinterpret_cast<const uint8_t*>(token.data()) + from, static_cast<int32_t>(end - from),
                    static_cast<int32_t>(i)});
    };
    // The index after the first mark that is not escaped; larger than the size if there is none.
    auto end_of_string = [&](size_t at) {
      for (; at < token.size() && token[at] != StringProgress::kQuote; ++at)
        if (token[at] == StringProgress::kEscape) ++at;
      return at + 1;
    };
    add(quoting, 0, token.size());
    if (const size_t end = end_of_string(0); end <= token.size()) add(closing, 0, end);
    if (token[0] != StringProgress::kQuote) continue;
    if (const size_t end = end_of_string(1); end <= token.size()) add(strings, 1, end);
  }
  if (!closing.empty()) inside.build(std::move(closing));
  if (!quoting.empty()) escape.build(std::move(quoting));
  if (!strings.empty()) whole.build(std::move(strings));
}

}  // namespace guided
