#include "lexer/lexemes.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace guided {

namespace {
constexpr int kManyBytes = 32;
}

Lexemes::Lexemes(std::vector<LexerTerminal> terminals, std::vector<LexerKeyword> keywords,
                 const Indentation& indentation)
    : terminals_(std::move(terminals)),
      keywords_(std::move(keywords)),
      indentation_(indentation),
      may_be_newline_(terminals_.size()) {
  if (indentation_.newline != kNoTerminal) {
    may_be_newline_[indentation_.newline] = true;
    for (const LexerKeyword& keyword : keywords_)
      if (keyword.terminal == indentation_.newline) may_be_newline_[keyword.of] = true;
  }
  find_groups();
}

// Terminals that may begin with the same byte are in one group (union-find).
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
  const int32_t width = whole.width;
  if (whole.label != kNoTerminal || parts.size() < 2) {
    out.push_back(id);
  } else {
    for (auto& [group, part] : parts) {
      part.width = width_that_counts(width, part.open);
      if (const int32_t number = make_state(std::move(part)); number != kNoLexeme) out.push_back(number);
    }
  }
  return states_[id]->groups = std::move(out);
}

int32_t Lexemes::likeness(int32_t id) {
  const LexemeState& state = *states_[id];
  if (state.width != kUnmeasured || state.open.empty()) return kNoLexeme;
  const auto count = [&](const Match& match) { return terminals_[match.of].automaton.bytes(match.state).count(); };
  const Match most = *std::ranges::max_element(state.open, {}, count);
  if (count(most) < kManyBytes) return kNoLexeme;
  LexemeState alone;
  alone.open.push_back(most);
  const int32_t out = make_state(std::move(alone));
  for (uint8_t byte : {'a', ' '}) {  // a state with a loop is faster to walk
    const int32_t after = out == kNoLexeme ? out : step(out, byte);
    if (after == kNoLexeme || step(after, byte) != after) continue;
    if (states_[after]->keywords.empty() && states_[after]->open == std::vector<Match>{most}) return after;
  }
  return out;
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

// Whether each non-ASCII character in well-formed UTF-8 leads back to the state.
bool Lexemes::whole_characters_loop(int32_t id) {
  struct UnfinishedLexeme {
    int32_t state;
    int lo, hi, more;  // the range of the next byte, and the number of bytes after it
    auto operator<=>(const UnfinishedLexeme&) const = default;
  };
  std::vector<UnfinishedLexeme> todo;
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
  std::map<UnfinishedLexeme, bool> seen;
  while (!todo.empty()) {
    const UnfinishedLexeme at = todo.back();
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

// ---- lines
int32_t Lexemes::width_after(int32_t width, uint8_t byte) const {
  if (width == kUnmeasured) return width;
  if (byte == '\n') return 0;
  const int32_t columns = byte == ' ' ? 1 : byte == '\t' ? indentation_.tab : 0;
  return width == kNoWidth ? width : std::min(width + columns, indentation_.most_width + 1);
}

// The width, if a newline can still end without another line feed; kNoWidth, if it needs one; kUnmeasured, if no
// newline is open.
int32_t Lexemes::width_that_counts(int32_t width, const std::vector<Match>& open) {
  if (width == kUnmeasured) return width;
  int32_t out = kUnmeasured;
  for (const Match& match : open) {
    if (!may_be_newline_[match.of]) continue;
    if (width == kNoWidth || ends_in_line(match.of, match.state)) return width;
    out = kNoWidth;
  }
  return out;
}

// Whether the terminal can match more without a line feed.
bool Lexemes::ends_in_line(int32_t terminal, int32_t state) {
  auto [at, added] = ends_in_line_.try_emplace(Match{terminal, state}, false);
  if (!added) return at->second;
  TerminalAutomaton& automaton = terminals_[terminal].automaton;
  std::vector<int32_t> todo{state};
  std::map<int32_t, bool> visited;
  bool found = false;
  while (!todo.empty() && !found) {
    const int32_t from = todo.back();
    todo.pop_back();
    const ByteSet bytes = automaton.bytes(from);
    bytes.each([&](uint8_t byte) {
      const int32_t after = byte == '\n' ? static_cast<int32_t>(kDead) : automaton.step(from, byte);
      if (after == kDead || !visited.emplace(after, true).second) return;
      found |= automaton.matches(after);
      todo.push_back(after);
    });
  }
  return at->second = found;
}

// ---- states
int32_t Lexemes::start(const std::vector<int32_t>& tried, const std::vector<int32_t>& accepted, bool measured) {
  std::vector<int32_t> key(tried);
  key.push_back(measured ? -2 : -1);
  key.insert(key.end(), accepted.begin(), accepted.end());
  auto [at, added] = starts_.try_emplace(std::move(key), kNoLexeme);
  if (!added) return at->second;
  int32_t& out = at->second;
  std::vector<uint8_t> known(terminals_.size());
  for (size_t t = 0; t < terminals_.size(); ++t) known[t] = terminals_[t].ignored;
  std::vector<uint8_t> wanted(known);
  for (int32_t terminal : tried) known[terminal] = true;
  for (int32_t terminal : accepted) wanted[terminal] = true;
  // A keyword is wanted only if the parser accepts it, even if its terminal is ignored when it is matched by itself.
  auto is_accepted = [&](int32_t terminal) { return std::ranges::binary_search(accepted, terminal); };
  std::vector<uint8_t> by_itself(known);
  LexemeState state;
  for (int32_t k = 0; k < static_cast<int32_t>(keywords_.size()); ++k) {
    LexerKeyword& keyword = keywords_[k];
    if (!known[keyword.of]) continue;
    if (keyword.embedded) by_itself[keyword.terminal] = false;
    if (known[keyword.terminal] && !terminals_[keyword.of].ignored)
      state.keywords.push_back({k, keyword.automaton.start(), is_accepted(keyword.terminal)});
  }
  for (int32_t t = 0; t < static_cast<int32_t>(terminals_.size()); ++t)
    if (by_itself[t]) state.open.push_back({t, terminals_[t].automaton.start(), wanted[t] != 0});
  if (measured) state.width = width_that_counts(kNoWidth, state.open);
  const int32_t id = make_state(std::move(state));
  return out = id == kNoLexeme ? intern({}) : id;
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
  const Match* winner = nullptr;
  bool wanted = false;
  for (const Match& match : before.open) {
    TerminalAutomaton& automaton = terminals_[match.of].automaton;
    const int32_t state = automaton.step(match.state, byte);
    if (state == kDead) continue;
    if (automaton.bytes(state).count()) after.open.push_back({match.of, state, match.wanted});
    if (automaton.matches(state)) {
      winner = &match;
      wanted = match.wanted;
      after.label = match.of;
      after.ignored = terminals_[match.of].ignored;
      break;
    }
  }
  for (const Match& match : before.keywords) {
    LexerKeyword& keyword = keywords_[match.of];
    const int32_t state = keyword.automaton.step(match.state, byte);
    if (state == kDead) continue;
    if (winner && keyword.of == winner->of && !after.ignored && after.label == winner->of &&
        keyword.automaton.matches(state)) {
      after.label = keyword.terminal;
      wanted = match.wanted;
    }
    const bool goes_on =
        std::any_of(after.open.begin(), after.open.end(), [&](const Match& open) { return open.of == keyword.of; });
    if (goes_on && keyword.automaton.bytes(state).count()) after.keywords.push_back({match.of, state, match.wanted});
  }
  const int32_t width = width_after(before.width, byte);
  if (winner && !after.ignored && after.label == indentation_.newline && width != kUnmeasured) {
    after.label = indentation_.line(width);
    wanted &= width != kNoWidth;
  }
  if (!wanted) after.label = kNoTerminal, after.ignored = false;
  after.width = width_that_counts(width, after.open);
  const int32_t id = make_state(std::move(after));
  return (*states_[from]->row)[byte] = id;
}

// Neighbouring bytes mostly lead all automata to the same states. Then the step is looked up only once.
const std::vector<LexemeState::Step>& Lexemes::steps(int32_t from) {
  LexemeState& state = *states_[from];
  if (state.steps) return *state.steps;
  auto out = std::make_unique<std::vector<LexemeState::Step>>();
  std::unordered_set<int32_t> visited;
  std::vector<int32_t> last, now;  // the states of the automata, and the width
  int32_t after = kNoLexeme;
  const ByteSet bytes = state.bytes;
  bytes.each([&](uint8_t byte) {
    now.assign(1, width_after(state.width, byte));
    for (const Match& match : state.open) now.push_back(terminals_[match.of].automaton.step(match.state, byte));
    for (const Match& match : state.keywords) now.push_back(keywords_[match.of].automaton.step(match.state, byte));
    if (now == last)
      (*state.row)[byte] = after;
    else
      after = step(from, byte);
    std::swap(now, last);
    if (after != kNoLexeme && (visited.insert(after).second || byte == '\n')) out->push_back({byte, after});
  });
  state.steps = std::move(out);
  return *state.steps;
}

// Adds the competitor of a state. If no wanted terminal can match more, the open terminals remain only in the
// competitor.
int32_t Lexemes::make_state(LexemeState&& state) {
  auto is_wanted = [](const Match& match) { return match.wanted; };
  const bool goes_on = std::ranges::any_of(state.open, is_wanted) || std::ranges::any_of(state.keywords, is_wanted);
  if (state.label == kNoTerminal && !goes_on) return kNoLexeme;
  const bool competes = state.label == kNoTerminal && state.width == kUnmeasured && state.keywords.empty() &&
                        std::ranges::all_of(state.open, is_wanted);
  if (!state.open.empty() && !competes) {
    LexemeState competitor;
    competitor.open = state.open;
    for (Match& match : competitor.open) match.wanted = true;
    state.competitor = intern(std::move(competitor));
  }
  if (!goes_on) {
    state.open.clear();
    state.keywords.clear();
    state.width = kUnmeasured;
  }
  return intern(std::move(state));
}

int32_t Lexemes::intern(LexemeState&& state) {
  std::vector<int32_t> key{state.label, state.ignored, state.competitor, state.width};
  for (const Match& match : state.open) key.insert(key.end(), {match.of, match.state, match.wanted});
  key.push_back(-1);
  for (const Match& match : state.keywords) key.insert(key.end(), {match.of, match.state, match.wanted});
  auto [at, added] = ids_.try_emplace(key, size());
  if (!added) return at->second;
  const int32_t id = at->second;
  if (indentation_.is_line(state.label)) key[0] = indentation_.line(0);
  key[3] = std::min(state.width, 0);
  state.shape = shapes_.try_emplace(std::move(key), id).first->second;
  for (const Match& match : state.open) state.bytes |= terminals_[match.of].automaton.bytes(match.state);
  states_.push_back(std::make_unique<LexemeState>(std::move(state)));
  if (states_[id]->competitor == kNoLexeme && !states_[id]->open.empty()) states_[id]->competitor = id;
  return id;
}

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
  if (count_ > kMaxStoredStates) begin();
  path_.assign(1, 0);
  for (char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    Node& node = nodes_[path_.back()];
    auto [at, added] = node.after.try_emplace(byte, static_cast<int32_t>(nodes_.size()));
    if (added) {
      Node child;
      for (const auto& [terminal, state] : node.alive) {
        TerminalAutomaton& automaton = lexemes_.terminals()[terminal].automaton;
        const int32_t after = automaton.step(state, byte);
        if (after == kDead) continue;
        child.alive.emplace_back(terminal, after);
        if (automaton.matches(after)) child.matched.push_back(terminal);
      }
      count_ += child.alive.size() + 1;
      nodes_.push_back(std::move(child));
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
