#include "lexer/readings.hpp"

#include <algorithm>

namespace guided {

Readings::Readings(Lexemes& lexemes, Competitors& competitors, LexerPositions& positions,
                   const std::vector<int32_t>& control_tokens)
    : lexemes_(lexemes), competitors_(competitors), positions_(positions), control_tokens_(control_tokens) {
  intern({reading_at_boundary(positions_.initial(), 0)});
}

int32_t Readings::step(int32_t state, uint8_t byte) {
  if (auto it = steps_.find(pair_key(state, byte)); it != steps_.end()) return it->second;
  CallMeter::work(kLookup * static_cast<int64_t>(1 + states_[state]->size()));
  std::vector<Reading> next;
  for (const Reading& reading : *states_[state])
    each_successor(reading, byte, [&](const Reading& successor) { next.push_back(successor); });
  const int32_t id = next.empty() ? static_cast<int32_t>(kDead) : intern(std::move(next));
  memory_ += 48;
  return steps_[pair_key(state, byte)] = id;
}

int32_t Readings::step_control(int32_t state, int32_t token) {
  std::vector<Reading> next;
  for (const Reading& reading : *states_[state]) {
    if (!reading.is_at_boundary) continue;
    for (int32_t terminal : positions_.accepted_terminals(reading.position)) {
      if (control_tokens_[terminal] != token) continue;
      const int32_t position = positions_.advance(reading.position, terminal);
      if (position != kDead) next.push_back(reading_at_boundary(position, 0));
    }
  }
  return next.empty() ? static_cast<int32_t>(kDead) : intern(std::move(next));
}

std::vector<int32_t> Readings::controls(int32_t state) const {
  std::vector<int32_t> out;
  for (const Reading& reading : *states_[state])
    if (reading.is_at_boundary)
      for (int32_t terminal : positions_.accepted_terminals(reading.position))
        if (control_tokens_[terminal] != kNoTerminal) out.push_back(control_tokens_[terminal]);
  sort_unique(out);
  return out;
}

CharClasses Readings::loops(int32_t state) const {
  const std::vector<Reading>& readings = *states_[state];
  const bool is_unambiguous = readings.size() == 1 && !readings[0].is_at_boundary && readings[0].competitors == 0;
  return is_unambiguous && lexemes_.state(readings[0].lexeme).label == kNoTerminal ? lexemes_.loops(readings[0].lexeme)
                                                                                   : 0;
}

ByteSet Readings::bytes(int32_t state) const {
  ByteSet out;
  for (const Reading& reading : *states_[state]) out |= lexemes_.state(reading.lexeme).bytes;
  return out;
}

bool Readings::is_dead_end(int32_t position, int32_t competitors) const {
  ByteSet bytes = lexemes_.state(positions_.start(position)).bytes;
  const ByteSet& surviving = competitors_.surviving_bytes(competitors);
  for (int w = 0; w < 4; ++w) bytes.w[w] &= surviving.w[w];
  return bytes.count() == 0 && !positions_.accepting(position) &&
         std::ranges::all_of(positions_.accepted_terminals(position),
                             [&](int32_t t) { return control_tokens_[t] == kNoTerminal; });
}

int32_t Readings::intern(std::vector<Reading>&& readings) {
  sort_unique(readings);
  auto [it, added] = ids_.try_emplace(readings, size());
  if (added) {
    const bool accepts = std::any_of(readings.begin(), readings.end(), [&](const Reading& reading) {
      return reading.is_at_boundary && positions_.accepting(reading.position);
    });
    const size_t bytes = 128 + 2 * readings.size() * sizeof(Reading) + accepts_.set(it->second, accepts);
    memory_ += bytes;
    CallMeter::memory(bytes);
    states_.push_back(std::make_unique<std::vector<Reading>>(std::move(readings)));
  }
  return it->second;
}

}  // namespace guided
