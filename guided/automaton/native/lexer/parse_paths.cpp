#include "lexer/parse_paths.hpp"

#include <algorithm>

namespace guided {

ParsePaths::ParsePaths(Lexemes& lexemes, CompetingTerminals& competing, Places& places,
                       const std::vector<int32_t>& control_tokens)
    : lexemes_(lexemes), competing_(competing), places_(places), control_tokens_(control_tokens) {
  intern({reading_at_boundary(places_.initial(), 0)});
}

int32_t ParsePaths::step(int32_t state, uint8_t byte) {
  if (auto it = steps_.find(pair_key(state, byte)); it != steps_.end()) return it->second;
  CallMeter::work(kLookup * static_cast<int64_t>(1 + states_[state]->size()));
  std::vector<Reading> next;
  for (const Reading& reading : *states_[state])
    each_successor(reading, byte, [&](const Reading& successor) { next.push_back(successor); });
  const int32_t id = next.empty() ? static_cast<int32_t>(kDead) : intern(std::move(next));
  memory_ += 48;
  return steps_[pair_key(state, byte)] = id;
}

int32_t ParsePaths::step_control(int32_t state, int32_t token) {
  std::vector<Reading> next;
  for (const Reading& reading : *states_[state]) {
    if (!reading.is_at_boundary) continue;
    for (int32_t terminal : places_.accepted_terminals(reading.place)) {
      if (control_tokens_[terminal] != token) continue;
      const int32_t place = places_.advance(reading.place, terminal);
      if (place != kDead) next.push_back(reading_at_boundary(place, 0));
    }
  }
  return next.empty() ? static_cast<int32_t>(kDead) : intern(std::move(next));
}

std::vector<int32_t> ParsePaths::controls(int32_t state) const {
  std::vector<int32_t> out;
  for (const Reading& reading : *states_[state])
    if (reading.is_at_boundary)
      for (int32_t terminal : places_.accepted_terminals(reading.place))
        if (control_tokens_[terminal] != kNoTerminal) out.push_back(control_tokens_[terminal]);
  sort_unique(out);
  return out;
}

CharClasses ParsePaths::loops(int32_t state) const {
  const std::vector<Reading>& readings = *states_[state];
  const bool is_unambiguous = readings.size() == 1 && !readings[0].is_at_boundary && readings[0].competing == 0;
  return is_unambiguous && lexemes_.state(readings[0].lexeme).label == kNoTerminal ? lexemes_.loops(readings[0].lexeme)
                                                                                   : 0;
}

ByteSet ParsePaths::bytes(int32_t state) const {
  ByteSet out;
  for (const Reading& reading : *states_[state]) out |= lexemes_.state(reading.lexeme).bytes;
  return out;
}

bool ParsePaths::is_dead_end(int32_t place, int32_t competing) const {
  ByteSet bytes = lexemes_.state(places_.start(place)).bytes;
  const ByteSet& surviving = competing_.surviving_bytes(competing);
  for (int w = 0; w < 4; ++w) bytes.w[w] &= surviving.w[w];
  return bytes.count() == 0 && !places_.accepting(place) &&
         std::ranges::all_of(places_.accepted_terminals(place),
                             [&](int32_t t) { return control_tokens_[t] == kNoTerminal; });
}

int32_t ParsePaths::intern(std::vector<Reading>&& readings) {
  sort_unique(readings);
  auto [it, added] = ids_.try_emplace(readings, size());
  if (added) {
    const bool accepts = std::any_of(readings.begin(), readings.end(), [&](const Reading& reading) {
      return reading.is_at_boundary && places_.accepting(reading.place);
    });
    const size_t bytes = 128 + 2 * readings.size() * sizeof(Reading) + accepts_.set(it->second, accepts);
    memory_ += bytes;
    CallMeter::memory(bytes);
    states_.push_back(std::make_unique<std::vector<Reading>>(std::move(readings)));
  }
  return it->second;
}

}  // namespace guided
