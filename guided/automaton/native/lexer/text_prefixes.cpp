#include "lexer/text_prefixes.hpp"

#include <map>

namespace guided {

TextPrefixes::TextPrefixes(Lexemes& lexemes, const std::vector<int32_t>& control) : lexemes_(lexemes) {
  for (int32_t t = 0; t < static_cast<int32_t>(lexemes.terminals().size()); ++t)
    if (control[t] == kNoTerminal) all_.emplace_back(t, lexemes.terminals()[t].automaton.start());
  begin();
}

void TextPrefixes::begin() {
  nodes_.clear();
  nodes_.push_back({.alive = all_, .matched = {}});
  count_ = all_.size();
}

const std::vector<int32_t>& TextPrefixes::path(std::string_view text) {
  if (count_ > kMost) begin();
  path_.assign(1, 0);
  for (char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    Node& node = nodes_[path_.back()];
    auto [at, added] = node.after.try_emplace(byte, static_cast<int32_t>(nodes_.size()));
    if (added) {
      Node made;
      for (const auto& [terminal, state] : node.alive) {
        TerminalAutomaton& automaton = lexemes_.terminals()[terminal].automaton;
        const int32_t after = automaton.step(state, byte);
        if (after == kDead) continue;
        made.alive.emplace_back(terminal, after);
        if (automaton.matches(after)) made.matched.push_back(terminal);
      }
      count_ += made.alive.size() + 1;
      nodes_.push_back(std::move(made));
    }
    path_.push_back(at->second);
  }
  return path_;
}

std::vector<std::pair<int32_t, size_t>> TextPrefixes::longest_matches(std::string_view text) {
  std::map<int32_t, size_t> out;
  const std::vector<int32_t>& nodes = path(text);
  for (size_t read = 1; read < nodes.size(); ++read)
    for (int32_t terminal : nodes_[nodes[read]].matched) out[terminal] = read;
  return {out.begin(), out.end()};
}

}  // namespace guided
