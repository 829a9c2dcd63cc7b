#include "vocabulary/seen_strings.hpp"

namespace guided {

QuotingTokens::QuotingTokens(const std::vector<std::string>& tokens) {
  std::vector<TrieEntry> up_to_quote, entire, after_quote;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    if (token.find(StringProgress::kQuote) == token.npos) continue;
    all.push_back(static_cast<int32_t>(i));
    auto add = [&](std::vector<TrieEntry>& entries, size_t begin, size_t end) {
      entries.push_back({reinterpret_cast<const uint8_t*>(token.data()) + begin, static_cast<int32_t>(end - begin),
                         static_cast<int32_t>(i)});
    };
    // The index after the first quotation mark at or after `pos` that is not escaped; larger than the size if there is
    // none.
    auto end_of_string = [&](size_t pos) {
      for (; pos < token.size() && token[pos] != StringProgress::kQuote; ++pos)
        if (token[pos] == StringProgress::kEscape) ++pos;
      return pos + 1;
    };
    add(entire, 0, token.size());
    if (const size_t end = end_of_string(0); end <= token.size()) add(up_to_quote, 0, end);
    if (token[0] != StringProgress::kQuote) continue;
    if (const size_t end = end_of_string(1); end <= token.size()) add(after_quote, 1, end);
  }
  if (!up_to_quote.empty()) inside_string.build(std::move(up_to_quote));
  if (!entire.empty()) inside_escape.build(std::move(entire));
  if (!after_quote.empty()) before_string.build(std::move(after_quote));
}

}  // namespace guided
