#include "lexer/lexemes.hpp"

#include <algorithm>

namespace guided {

Lexemes::Lexemes(std::vector<LexerTerminal> terminals, std::vector<LexerKeyword> keywords)
    : terminals_(std::move(terminals)), keywords_(std::move(keywords)) {
  find_groups();
}

// Terminals that may begin with the same byte stay together.
void Lexemes::find_groups() {
  const int32_t count = static_cast<int32_t>(terminals_.size());
  group_.resize(count);
  for (int32_t t = 0; t < count; ++t) group_[t] = t;
  auto root = [&](int32_t t) {
    while (group_[t] != t) t = group_[t];
    return t;
  };
  std::array<int32_t, 256> first;
  first.fill(kNoTerminal);
  for (int32_t t = 0; t < count; ++t) {
    TerminalAutomaton& automaton = terminals_[t].automaton;
    automaton.bytes(automaton.start()).each([&](uint8_t byte) {
      if (first[byte] == kNoTerminal)
        first[byte] = t;
      else
        group_[root(t)] = root(first[byte]);
    });
  }
  for (int32_t t = 0; t < count; ++t) group_[t] = root(t);
}

const std::vector<int32_t>& Lexemes::groups(int32_t id) {
  if (!states_[id]->groups.empty()) return states_[id]->groups;
  std::map<int32_t, LexemeState> parts;
  const LexemeState& whole = *states_[id];
  for (const Match& match : whole.open) parts[group_[match.of]].open.push_back(match);
  for (const Match& match : whole.keywords)
    for (const Match& open : whole.open)
      if (open.of == keywords_[match.of].of) parts[group_[open.of]].keywords.push_back(match);
  std::vector<int32_t> out;
  if (whole.label != kNoTerminal || parts.size() < 2)
    out.push_back(id);
  else
    for (auto& [group, part] : parts) out.push_back(intern(std::move(part)));
  return states_[id]->groups = std::move(out);
}

CharClasses Lexemes::loops(int32_t id) {
  if (states_[id]->looked_for_loops) return states_[id]->loops;
  CharClasses loops = 0, others = 0;
  for (int byte = 0; byte < 128; ++byte)
    (step(id, static_cast<uint8_t>(byte)) == id ? loops : others) |= char_class_of_ascii(static_cast<uint8_t>(byte));
  loops &= ~others;
  if (whole_characters_loop(id)) loops |= kWholeCharacters;
  states_[id]->looked_for_loops = true;
  return states_[id]->loops = loops;
}

// Whether each character past ASCII, well-formed in UTF-8, leads back.
bool Lexemes::whole_characters_loop(int32_t id) {
  struct Begun {
    int32_t state;
    int lo, hi, more;  // the next byte, and how many after it
    auto operator<=>(const Begun&) const = default;
  };
  std::vector<Begun> todo;
  for (int lead = 0xC2; lead <= 0xF4; ++lead) {
    const int32_t state = step(id, static_cast<uint8_t>(lead));
    if (state == kNoLexeme) return false;
    const int lo = lead == 0xE0   ? 0xA0
                   : lead == 0xF0 ? 0x90
                                  : 0x80,
              hi = lead == 0xED   ? 0x9F
                   : lead == 0xF4 ? 0x8F
                                  : 0xBF;
    todo.push_back({.state = state, .lo = lo, .hi = hi, .more = lead < 0xE0 ? 0 : lead < 0xF0 ? 1 : 2});
  }
  std::map<Begun, bool> seen;
  while (!todo.empty()) {
    const Begun at = todo.back();
    todo.pop_back();
    if (!seen.emplace(at, true).second) continue;
    for (int byte = at.lo; byte <= at.hi; ++byte) {
      const int32_t state = step(at.state, static_cast<uint8_t>(byte));
      if (at.more == 0 ? state != id : state == kNoLexeme) return false;
      if (at.more > 0) todo.push_back({.state = state, .lo = 0x80, .hi = 0xBF, .more = at.more - 1});
    }
  }
  return true;
}

int32_t Lexemes::start(const std::vector<int32_t>& terminals) {
  auto [at, added] = starts_.try_emplace(terminals, kNoLexeme);
  if (!added) return at->second;
  std::vector<uint8_t> taken(terminals_.size());
  for (size_t t = 0; t < terminals_.size(); ++t) taken[t] = terminals_[t].ignored;
  for (int32_t terminal : terminals) taken[terminal] = true;
  std::vector<uint8_t> tried(taken);
  LexemeState state;
  for (int32_t k = 0; k < static_cast<int32_t>(keywords_.size()); ++k) {
    LexerKeyword& keyword = keywords_[k];
    if (!taken[keyword.of]) continue;
    if (keyword.embedded) tried[keyword.terminal] = false;
    if (taken[keyword.terminal]) state.keywords.push_back({.of = k, .state = keyword.automaton.start()});
  }
  for (int32_t t = 0; t < static_cast<int32_t>(terminals_.size()); ++t)
    if (tried[t]) state.open.push_back({.of = t, .state = terminals_[t].automaton.start()});
  return starts_[terminals] = intern(std::move(state));
}

int32_t Lexemes::step(int32_t from, uint8_t byte) {
  LexemeState& before = *states_[from];
  if (!before.bytes.has(byte)) return kNoLexeme;
  if (!before.row) {
    before.row = std::make_unique<std::array<int32_t, 256>>();
    before.row->fill(kUnknown);
  }
  int32_t& known = (*before.row)[byte];
  if (known != kUnknown) return known;
  LexemeState after;
  int32_t winner = kNoTerminal;
  for (const Match& match : before.open) {
    TerminalAutomaton& automaton = terminals_[match.of].automaton;
    const int32_t state = automaton.step(match.state, byte);
    if (state == kDead) continue;
    if (automaton.bytes(state).count()) after.open.push_back({.of = match.of, .state = state});
    if (automaton.matches(state)) {
      winner = match.of;
      break;
    }
  }
  after.label = winner;
  after.ignored = winner != kNoTerminal && terminals_[winner].ignored;
  for (const Match& match : before.keywords) {
    LexerKeyword& keyword = keywords_[match.of];
    const int32_t state = keyword.automaton.step(match.state, byte);
    if (state == kDead) continue;
    if (keyword.of == winner && !after.ignored && after.label == winner && keyword.automaton.matches(state))
      after.label = keyword.terminal;
    const bool goes_on =
        std::any_of(after.open.begin(), after.open.end(), [&](const Match& open) { return open.of == keyword.of; });
    if (goes_on && keyword.automaton.bytes(state).count()) after.keywords.push_back({.of = match.of, .state = state});
  }
  const int32_t id = after.label == kNoTerminal && after.open.empty() ? kNoLexeme : intern(std::move(after));
  return (*states_[from]->row)[byte] = id;
}

int32_t Lexemes::intern(LexemeState&& state) {
  std::vector<int32_t> key{state.label, state.ignored};
  for (const Match& match : state.open) key.insert(key.end(), {match.of, match.state});
  key.push_back(-1);
  for (const Match& match : state.keywords) key.insert(key.end(), {match.of, match.state});
  auto [at, added] = ids_.try_emplace(std::move(key), size());
  if (!added) return at->second;
  const int32_t id = at->second;
  for (const Match& match : state.open) state.bytes |= terminals_[match.of].automaton.bytes(match.state);
  states_.push_back(std::make_unique<LexemeState>(std::move(state)));
  LexemeState& kept = *states_[id];
  if (kept.label == kNoTerminal && kept.keywords.empty()) {
    kept.rival = id;
  } else if (!kept.open.empty()) {
    LexemeState rival;
    rival.open = kept.open;
    const int32_t number = intern(std::move(rival));
    states_[id]->rival = number;
  }
  return id;
}

}  // namespace guided
