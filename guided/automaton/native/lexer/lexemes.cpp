#include "lexer/lexemes.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace guided {

namespace {
constexpr int kMinNameBytes = 32;   // a state is like a name only if at least this many bytes continue it
constexpr int kMaxNameLength = 16;  // a name is at most this long before its state leads back to itself

bool contains(const std::vector<LexemeState::Match>& matches, int32_t number) {
  return std::ranges::binary_search(matches, number, {}, &LexemeState::Match::number);
}
}  // namespace

Lexemes::Lexemes(std::vector<LexerTerminal> terminals, std::vector<LexerKeyword> keywords,
                 const Indentation& indentation)
    : terminals_(std::move(terminals)),
      keywords_(std::move(keywords)),
      indentation_(indentation),
      may_be_newline_(terminals_.size()) {
  if (indentation_.newline != kNoTerminal) {
    may_be_newline_[indentation_.newline] = true;
    for (const LexerKeyword& keyword : keywords_)
      if (keyword.terminal == indentation_.newline) may_be_newline_[keyword.host] = true;
  }
  find_groups();
}

// Terminals that may begin with the same byte are in one group (union-find).
void Lexemes::find_groups() {
  const int32_t count = static_cast<int32_t>(terminals_.size());
  group_ids_.resize(count);
  for (int32_t t = 0; t < count; ++t) group_ids_[t] = t;
  auto root = [&](int32_t t) {
    while (group_ids_[t] != t) t = group_ids_[t];
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
        group_ids_[root(t)] = root(first[byte]);
    });
  }
  for (int32_t t = 0; t < count; ++t) group_ids_[t] = root(t);
}

const std::vector<int32_t>& Lexemes::groups(int32_t id) {
  if (!states_[id]->groups.empty()) return states_[id]->groups;
  std::map<int32_t, LexemeState> state_of_group;
  const LexemeState& state = *states_[id];
  for (const Match& match : state.open_matches) state_of_group[group_ids_[match.number]].open_matches.push_back(match);
  for (const Match& match : state.keywords)
    if (const int32_t host = keywords_[match.number].host; contains(state.open_matches, host))
      state_of_group[group_ids_[host]].keywords.push_back(match);
  std::vector<int32_t> out;
  const int32_t width = state.width;
  if (state.label != kNoTerminal || state_of_group.size() < 2) {
    out.push_back(id);
  } else {
    for (auto& [group, group_state] : state_of_group) {
      group_state.width = relevant_width(width, group_state.open_matches);
      if (const int32_t number = make_state(std::move(group_state)); number != kNoLexeme) out.push_back(number);
    }
  }
  return states_[id]->groups = std::move(out);
}

int32_t Lexemes::find_similar(int32_t id) {
  if (states_[id]->width != kUnmeasured || states_[id]->open_matches.empty()) return kNoLexeme;
  int32_t out = kNoLexeme, max_bytes = kMinNameBytes - 1;
  for (uint8_t byte : {'a', ' '}) {
    int32_t state = id, next = step(id, byte);
    for (int count = 1; next != state && next != kNoLexeme && count < kMaxNameLength; ++count)
      state = next, next = step(state, byte);
    if (next != state || !states_[state]->keywords.empty() || states_[state]->open_matches.empty()) continue;
    if (const int32_t bytes = states_[state]->bytes.count(); bytes > max_bytes) out = state, max_bytes = bytes;
  }
  return out;
}

CharClasses Lexemes::loops(int32_t id) {
  if (states_[id]->are_loops_known) return states_[id]->loops;
  CharClasses loops = 0, leaving = 0;
  for (int byte = 0; byte < 128; ++byte)
    (step(id, static_cast<uint8_t>(byte)) == id ? loops : leaving) |= char_class_of_ascii(static_cast<uint8_t>(byte));
  loops &= ~leaving;
  if (is_loop_over_whole_characters(id)) loops |= kNonAscii;
  states_[id]->are_loops_known = true;
  return states_[id]->loops = loops;
}

// Whether every non-ASCII character in well-formed UTF-8 leads back to the state.
bool Lexemes::is_loop_over_whole_characters(int32_t id) {
  struct UnfinishedCharacter {
    int32_t state;
    int lo, hi, bytes_left;  // the range of the next byte, and the number of bytes after it
    auto operator<=>(const UnfinishedCharacter&) const = default;
  };
  std::vector<UnfinishedCharacter> todo;
  for (int lead = 0xC2; lead <= 0xF4; ++lead) {
    const int32_t state = step(id, static_cast<uint8_t>(lead));
    if (state == kNoLexeme) return false;
    const int lo = lead == 0xE0   ? 0xA0
                   : lead == 0xF0 ? 0x90
                                  : 0x80,
              hi = lead == 0xED   ? 0x9F
                   : lead == 0xF4 ? 0x8F
                                  : 0xBF;
    todo.push_back({.state = state, .lo = lo, .hi = hi, .bytes_left = lead < 0xE0 ? 0 : lead < 0xF0 ? 1 : 2});
  }
  std::map<UnfinishedCharacter, bool> seen;
  while (!todo.empty()) {
    const UnfinishedCharacter unfinished = todo.back();
    todo.pop_back();
    if (!seen.emplace(unfinished, true).second) continue;
    for (int byte = unfinished.lo; byte <= unfinished.hi; ++byte) {
      const int32_t state = step(unfinished.state, static_cast<uint8_t>(byte));
      if (unfinished.bytes_left == 0 ? state != id : state == kNoLexeme) return false;
      if (unfinished.bytes_left > 0)
        todo.push_back({.state = state, .lo = 0x80, .hi = 0xBF, .bytes_left = unfinished.bytes_left - 1});
    }
  }
  return true;
}

// ---- lines
int32_t Lexemes::width_after(int32_t width, uint8_t byte) const {
  if (width == kUnmeasured) return width;
  if (byte == '\n') return 0;
  const int32_t columns = byte == ' ' ? 1 : byte == '\t' ? indentation_.tab : 0;
  return width == kNoWidth ? width : std::min(width + columns, indentation_.most_width + 1);
}

// Returns the width if a newline can still end without another line feed, kNoWidth if it needs another line feed, and
// kUnmeasured if no newline is open.
int32_t Lexemes::relevant_width(int32_t width, const std::vector<Match>& open_matches) {
  if (width == kUnmeasured) return width;
  int32_t out = kUnmeasured;
  for (const Match& match : open_matches) {
    if (!may_be_newline_[match.number]) continue;
    if (width == kNoWidth || can_end_in_line(match.number, match.state)) return width;
    out = kNoWidth;
  }
  return out;
}

// Whether the terminal can match more text without a line feed.
bool Lexemes::can_end_in_line(int32_t terminal, int32_t state) {
  auto [it, added] = can_end_in_line_.try_emplace(Match{terminal, state}, false);
  if (!added) return it->second;
  TerminalAutomaton& automaton = terminals_[terminal].automaton;
  std::vector<int32_t> todo{state};
  std::map<int32_t, bool> visited;
  bool can_match = false;
  while (!todo.empty() && !can_match) {
    const int32_t from = todo.back();
    todo.pop_back();
    const ByteSet bytes = automaton.bytes(from);
    bytes.each([&](uint8_t byte) {
      const int32_t next = byte == '\n' ? static_cast<int32_t>(kDead) : automaton.step(from, byte);
      if (next == kDead || !visited.emplace(next, true).second) return;
      can_match |= automaton.matches(next);
      todo.push_back(next);
    });
  }
  return it->second = can_match;
}

// ---- states
int32_t Lexemes::start(const std::vector<int32_t>& tried_terminals, const std::vector<int32_t>& accepted_terminals,
                       bool measures_width) {
  std::vector<int32_t> key(tried_terminals);
  key.push_back(measures_width ? -2 : -1);
  key.insert(key.end(), accepted_terminals.begin(), accepted_terminals.end());
  auto [it, added] = starts_.try_emplace(std::move(key), kNoLexeme);
  if (!added) return it->second;
  int32_t& out = it->second;
  std::vector<uint8_t> is_tried(terminals_.size());
  for (size_t t = 0; t < terminals_.size(); ++t) is_tried[t] = terminals_[t].is_ignored;
  std::vector<uint8_t> is_wanted(is_tried);
  for (int32_t terminal : tried_terminals) is_tried[terminal] = true;
  for (int32_t terminal : accepted_terminals) is_wanted[terminal] = true;
  // An ignored terminal is always wanted. But as the keyword of another terminal, it is wanted only if the parser
  // accepts it.
  auto is_accepted = [&](int32_t terminal) { return std::ranges::binary_search(accepted_terminals, terminal); };
  std::vector<uint8_t> is_separate(is_tried);
  LexemeState state;
  for (int32_t k = 0; k < static_cast<int32_t>(keywords_.size()); ++k) {
    LexerKeyword& keyword = keywords_[k];
    if (!is_tried[keyword.host]) continue;
    if (keyword.is_embedded) is_separate[keyword.terminal] = false;
    if (is_tried[keyword.terminal] && !terminals_[keyword.host].is_ignored)
      state.keywords.push_back({k, keyword.automaton.start(), is_accepted(keyword.terminal)});
  }
  for (int32_t t = 0; t < static_cast<int32_t>(terminals_.size()); ++t)
    if (is_separate[t]) state.open_matches.push_back({t, terminals_[t].automaton.start(), is_wanted[t] != 0});
  if (measures_width) state.width = relevant_width(kNoWidth, state.open_matches);
  const int32_t id = make_state(std::move(state));
  return out = id == kNoLexeme ? intern({}) : id;
}

int32_t Lexemes::step(int32_t from, uint8_t byte) {
  LexemeState& from_state = *states_[from];
  if (!from_state.bytes.has(byte)) return kNoLexeme;
  if (!from_state.row) {
    from_state.row = std::make_unique<std::array<int32_t, 256>>();
    from_state.row->fill(kUnknown);
    add_memory(sizeof(*from_state.row));
  }
  const int32_t known_next = (*from_state.row)[byte];
  if (known_next != kUnknown) return known_next;
  CallMeter::work(kLookup * static_cast<int64_t>(2 + from_state.open_matches.size() + from_state.keywords.size()));
  LexemeState next;
  const Match* winner = nullptr;
  bool is_wanted = false;
  for (const Match& match : from_state.open_matches) {
    TerminalAutomaton& automaton = terminals_[match.number].automaton;
    const int32_t state = automaton.step(match.state, byte);
    if (state == kDead) continue;
    if (automaton.bytes(state).count()) next.open_matches.push_back({match.number, state, match.is_wanted});
    if (automaton.matches(state)) {
      winner = &match;
      is_wanted = match.is_wanted;
      next.label = match.number;
      next.is_ignored = terminals_[match.number].is_ignored;
      break;
    }
  }
  for (const Match& match : from_state.keywords) {
    LexerKeyword& keyword = keywords_[match.number];
    const int32_t state = keyword.automaton.step(match.state, byte);
    if (state == kDead) continue;
    if (winner && keyword.host == winner->number && !next.is_ignored && next.label == winner->number &&
        keyword.automaton.matches(state)) {
      next.label = keyword.terminal;
      is_wanted = match.is_wanted;
    }
    if (contains(next.open_matches, keyword.host) && keyword.automaton.bytes(state).count())
      next.keywords.push_back({match.number, state, match.is_wanted});
  }
  const int32_t width = width_after(from_state.width, byte);
  if (winner && !next.is_ignored && next.label == indentation_.newline && width != kUnmeasured) {
    next.label = indentation_.line(width);
    is_wanted &= width != kNoWidth;
  }
  if (!is_wanted) next.label = kNoTerminal, next.is_ignored = false;
  next.width = relevant_width(width, next.open_matches);
  const int32_t id = make_state(std::move(next));
  return (*states_[from]->row)[byte] = id;
}

// Adjacent bytes usually lead all automata to the same states. Then the step is looked up only once.
const std::vector<LexemeState::Step>& Lexemes::steps(int32_t from) {
  LexemeState& state = *states_[from];
  if (state.steps) return *state.steps;
  auto out = std::make_unique<std::vector<LexemeState::Step>>();
  std::unordered_set<int32_t> visited;
  std::vector<int32_t> last_states, next_states;  // the width, and the states of the automata
  int32_t next = kNoLexeme;
  const ByteSet bytes = state.bytes;
  CallMeter::work(bytes.count() * static_cast<int64_t>(1 + state.open_matches.size() + state.keywords.size()));
  bytes.each([&](uint8_t byte) {
    next_states.assign(1, width_after(state.width, byte));
    for (const Match& match : state.open_matches)
      next_states.push_back(terminals_[match.number].automaton.step(match.state, byte));
    for (const Match& match : state.keywords)
      next_states.push_back(keywords_[match.number].automaton.step(match.state, byte));
    if (next_states == last_states)
      (*state.row)[byte] = next;
    else
      next = step(from, byte);
    std::swap(next_states, last_states);
    if (next != kNoLexeme && (visited.insert(next).second || byte == '\n')) out->push_back({byte, next});
  });
  state.steps = std::move(out);
  return *state.steps;
}

// Adds the competitor of a state, and interns the state. If no wanted terminal can match more text, the open terminals
// remain only in the competitor.
int32_t Lexemes::make_state(LexemeState&& state) {
  auto is_wanted = [](const Match& match) { return match.is_wanted; };
  const bool can_continue =
      std::ranges::any_of(state.open_matches, is_wanted) || std::ranges::any_of(state.keywords, is_wanted);
  if (state.label == kNoTerminal && !can_continue) return kNoLexeme;
  const bool is_own_competitor = state.label == kNoTerminal && state.width == kUnmeasured && state.keywords.empty() &&
                                 std::ranges::all_of(state.open_matches, is_wanted);
  if (!state.open_matches.empty() && !is_own_competitor) {
    LexemeState competitor;
    competitor.open_matches = state.open_matches;
    for (Match& match : competitor.open_matches) match.is_wanted = true;
    state.competitor = intern(std::move(competitor));
  }
  if (!can_continue) {
    state.open_matches.clear();
    state.keywords.clear();
    state.width = kUnmeasured;
  }
  return intern(std::move(state));
}

void Lexemes::add_memory(size_t bytes) {
  memory_ += bytes;
  CallMeter::memory(bytes);
}

int32_t Lexemes::intern(LexemeState&& state) {
  std::vector<int32_t> key{state.label, state.is_ignored, state.competitor, state.width};
  for (const Match& match : state.open_matches) key.insert(key.end(), {match.number, match.state, match.is_wanted});
  key.push_back(-1);
  for (const Match& match : state.keywords) key.insert(key.end(), {match.number, match.state, match.is_wanted});
  auto [it, added] = ids_.try_emplace(key, size());
  if (!added) return it->second;
  add_memory(sizeof(LexemeState) + 160 +
             12 * key.size());  // the keys of `ids_` and `representatives_`, and the matches
  const int32_t id = it->second;
  if (indentation_.is_line(state.label)) key[0] = indentation_.line(0);
  key[3] = std::min(state.width, 0);
  state.representative = representatives_.try_emplace(std::move(key), id).first->second;
  for (const Match& match : state.open_matches) state.bytes |= terminals_[match.number].automaton.bytes(match.state);
  states_.push_back(std::make_unique<LexemeState>(std::move(state)));
  if (states_[id]->competitor == kNoLexeme && !states_[id]->open_matches.empty()) states_[id]->competitor = id;
  return id;
}

TextPrefixes::TextPrefixes(Lexemes& lexemes, const std::vector<int32_t>& control_tokens) : lexemes_(lexemes) {
  for (int32_t t = 0; t < static_cast<int32_t>(lexemes.terminals().size()); ++t)
    if (control_tokens[t] == kNoTerminal) initial_.emplace_back(t, lexemes.terminals()[t].automaton.start());
  clear();
}

void TextPrefixes::clear() {
  nodes_.clear();
  nodes_.push_back({.live_terminals = initial_, .matching_terminals = {}});
  stored_states_ = initial_.size();
}

const std::vector<int32_t>& TextPrefixes::find_path(std::string_view text) {
  if (stored_states_ > kMaxStoredStates) clear();
  path_.assign(1, 0);
  for (char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    Node& node = nodes_[path_.back()];
    auto [it, added] = node.children.try_emplace(byte, static_cast<int32_t>(nodes_.size()));
    if (added) {
      Node child;
      for (const auto& [terminal, state] : node.live_terminals) {
        TerminalAutomaton& automaton = lexemes_.terminals()[terminal].automaton;
        const int32_t next = automaton.step(state, byte);
        if (next == kDead) continue;
        child.live_terminals.emplace_back(terminal, next);
        if (automaton.matches(next)) child.matching_terminals.push_back(terminal);
      }
      stored_states_ += child.live_terminals.size() + 1;
      nodes_.push_back(std::move(child));
    }
    path_.push_back(it->second);
  }
  return path_;
}

std::vector<std::pair<int32_t, size_t>> TextPrefixes::longest_matches(std::string_view text) {
  std::map<int32_t, size_t> out;
  const std::vector<int32_t>& nodes = find_path(text);
  for (size_t length = 1; length < nodes.size(); ++length)
    for (int32_t terminal : nodes_[nodes[length]].matching_terminals) out[terminal] = length;
  return {out.begin(), out.end()};
}

}  // namespace guided
