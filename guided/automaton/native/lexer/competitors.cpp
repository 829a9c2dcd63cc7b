#include "lexer/competitors.hpp"

#include <set>

namespace guided {

int32_t Competitors::compute_advance(int32_t competitors, uint8_t byte) {
  std::vector<int32_t> next;
  CallMeter::work(kLookup * static_cast<int64_t>(1 + sets_[competitors].size()));
  for (int32_t competitor : sets_[competitors]) {
    const int32_t next_state = lexemes_.step(competitor, byte);
    if (next_state == kNoLexeme) continue;
    if (lexemes_.state(next_state).label != kNoTerminal) return (*rows_[competitors])[byte] = kDropped;
    next.push_back(lexemes_.state(next_state).competitor);
  }
  const int32_t next_set = intern(std::move(next));
  return (*rows_[competitors])[byte] = next_set;
}

int32_t Competitors::advance(int32_t competitors, std::string_view text) {
  for (size_t i = 0; i < text.size() && competitors > 0; ++i)
    competitors = advance(competitors, static_cast<uint8_t>(text[i]));
  return competitors;
}

const ByteSet& Competitors::surviving_bytes(int32_t competitors) {
  if (competitors >= static_cast<int32_t>(surviving_bytes_.size())) surviving_bytes_.resize(competitors + 1);
  if (!surviving_bytes_[competitors]) {
    auto out = std::make_unique<ByteSet>();
    for (int byte = 0; byte < 256; ++byte)
      if (advance(competitors, static_cast<uint8_t>(byte)) != kDropped) out->add(static_cast<uint8_t>(byte));
    surviving_bytes_[competitors] = std::move(out);
  }
  return *surviving_bytes_[competitors];
}

int32_t Competitors::add(int32_t competitors, int32_t lexeme) {
  const int32_t competitor = lexemes_.state(lexeme).competitor;
  if (competitor == kNoLexeme) return competitors;
  const uint64_t key = pair_key(competitors, competitor);
  if (const auto it = extended_sets_.find(key); it != extended_sets_.end()) return it->second;
  std::vector<int32_t> all = sets_[competitors];
  all.push_back(competitor);
  return extended_sets_[key] = intern(std::move(all));
}

int32_t Competitors::intern(std::vector<int32_t>&& competitors) {
  sort_unique(competitors);
  auto [it, added] = ids_.try_emplace(competitors, size());
  if (added) {
    const size_t bytes = 2 * competitors.size() * sizeof(int32_t) + 1200;
    memory_ += bytes;
    CallMeter::memory(bytes);
    sets_.push_back(std::move(competitors));
    rows_.push_back(std::make_unique<std::array<int32_t, 256>>());
    rows_.back()->fill(kUnknown);
  }
  return it->second;
}

namespace {
constexpr size_t kMaxVisited = 1024;  // the limit on the states that the search for one competitor visits
}

int32_t HarmlessCompetitors::find_hindering(int32_t competitors, int32_t last) {
  if (competitors == 0) return 0;
  const uint64_t key = pair_key(competitors, last);
  if (const auto it = hindering_.find(key); it != hindering_.end()) return it->second;
  int32_t out = 0;
  for (int32_t competitor : std::vector<int32_t>(competitors_.members(competitors)))
    if (!never_matches(competitor, last)) out = competitors_.add(out, competitor);
  return hindering_[key] = out;
}

bool HarmlessCompetitors::never_matches(int32_t competitor, int32_t begin) {
  const uint64_t key = pair_key(competitor, begin);
  const auto [it, added] = never_matches_.try_emplace(key, false);
  if (!added) return it->second;
  using Node = std::pair<int32_t, int32_t>;  // the last terminal, or kNoTerminal after a separator; the competitor
  std::set<Node> visited;
  std::vector<Node> todo;
  auto add_if_unmatched = [&](int32_t last, int32_t competitors) {
    if (competitors == kDropped) return false;
    if (competitors != 0 && visited.emplace(last, competitors).second) todo.emplace_back(last, competitors);
    return visited.size() <= kMaxVisited;
  };
  add_if_unmatched(begin, competitors_.add(0, competitor));
  while (!todo.empty()) {
    const auto [last, competitors] = todo.back();
    todo.pop_back();
    for (const std::string& separator : separators_)
      if (!add_if_unmatched(kNoTerminal, competitors_.advance(competitors, separator))) return false;
    if (last == newline_ && newline_ != kNoTerminal &&
        !add_if_unmatched(last, competitors_.advance(competitors, uint8_t{' '})))
      return false;
    for (const auto& [terminal, text] : texts_)
      if ((last == kNoTerminal || can_follow_(last, terminal)) &&
          !add_if_unmatched(terminal, competitors_.advance(competitors, text)))
        return false;
  }
  return never_matches_[key] = true;
}

}  // namespace guided
