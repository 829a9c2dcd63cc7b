#include "lexer/competing_terminals.hpp"

#include <set>

namespace guided {

int32_t CompetingTerminals::compute_advance(int32_t competing, uint8_t byte) {
  std::vector<int32_t> next;
  CallMeter::work(kLookup * static_cast<int64_t>(1 + sets_[competing].size()));
  for (int32_t competitor : sets_[competing]) {
    const int32_t next_state = lexemes_.step(competitor, byte);
    if (next_state == kNoLexeme) continue;
    if (lexemes_.state(next_state).label != kNoTerminal) return (*rows_[competing])[byte] = kDropped;
    next.push_back(lexemes_.state(next_state).competitor);
  }
  const int32_t next_set = intern(std::move(next));
  return (*rows_[competing])[byte] = next_set;
}

int32_t CompetingTerminals::advance(int32_t competing, std::string_view text) {
  for (size_t i = 0; i < text.size() && competing > 0; ++i)
    competing = advance(competing, static_cast<uint8_t>(text[i]));
  return competing;
}

const ByteSet& CompetingTerminals::surviving_bytes(int32_t competing) {
  if (competing >= static_cast<int32_t>(surviving_bytes_.size())) surviving_bytes_.resize(competing + 1);
  if (!surviving_bytes_[competing]) {
    auto out = std::make_unique<ByteSet>();
    for (int byte = 0; byte < 256; ++byte)
      if (advance(competing, static_cast<uint8_t>(byte)) != kDropped) out->add(static_cast<uint8_t>(byte));
    surviving_bytes_[competing] = std::move(out);
  }
  return *surviving_bytes_[competing];
}

int32_t CompetingTerminals::add(int32_t competing, int32_t lexeme) {
  const int32_t competitor = lexemes_.state(lexeme).competitor;
  if (competitor == kNoLexeme) return competing;
  const uint64_t key = pair_key(competing, competitor);
  if (const auto it = extended_sets_.find(key); it != extended_sets_.end()) return it->second;
  std::vector<int32_t> all = sets_[competing];
  all.push_back(competitor);
  return extended_sets_[key] = intern(std::move(all));
}

int32_t CompetingTerminals::intern(std::vector<int32_t>&& competing) {
  sort_unique(competing);
  auto [it, added] = ids_.try_emplace(competing, size());
  if (added) {
    const size_t bytes = 2 * competing.size() * sizeof(int32_t) + 1200;
    memory_ += bytes;
    CallMeter::memory(bytes);
    sets_.push_back(std::move(competing));
    rows_.push_back(std::make_unique<std::array<int32_t, 256>>());
    rows_.back()->fill(kUnknown);
  }
  return it->second;
}

namespace {
constexpr size_t kMaxVisited = 1024;  // the limit on the states that the search for one competitor visits
}

int32_t EnduringCompetitors::find_hindering(int32_t competing, int32_t last) {
  if (competing == 0) return 0;
  const uint64_t key = pair_key(competing, last);
  if (const auto it = hindering_.find(key); it != hindering_.end()) return it->second;
  int32_t out = 0;
  for (int32_t competitor : std::vector<int32_t>(competing_.members(competing)))
    if (!never_matches(competitor, last)) out = competing_.add(out, competitor);
  return hindering_[key] = out;
}

bool EnduringCompetitors::never_matches(int32_t competitor, int32_t begin) {
  const uint64_t key = pair_key(competitor, begin);
  const auto [it, added] = never_matches_.try_emplace(key, false);
  if (!added) return it->second;
  using Node = std::pair<int32_t, int32_t>;  // the last terminal, or kNoTerminal after a separator; the competitor
  std::set<Node> visited;
  std::vector<Node> todo;
  auto add_if_unmatched = [&](int32_t last, int32_t competing) {
    if (competing == kDropped) return false;
    if (competing != 0 && visited.emplace(last, competing).second) todo.emplace_back(last, competing);
    return visited.size() <= kMaxVisited;
  };
  add_if_unmatched(begin, competing_.add(0, competitor));
  while (!todo.empty()) {
    const auto [last, competing] = todo.back();
    todo.pop_back();
    for (const std::string& separator : separators_)
      if (!add_if_unmatched(kNoTerminal, competing_.advance(competing, separator))) return false;
    if (last == newline_ && newline_ != kNoTerminal &&
        !add_if_unmatched(last, competing_.advance(competing, uint8_t{' '})))
      return false;
    for (const auto& [terminal, text] : texts_)
      if ((last == kNoTerminal || can_follow_(last, terminal)) &&
          !add_if_unmatched(terminal, competing_.advance(competing, text)))
        return false;
  }
  return never_matches_[key] = true;
}

}  // namespace guided
