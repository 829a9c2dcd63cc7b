#include "lexer/lexed_rests.hpp"

#include <algorithm>
#include <deque>
#include <queue>

namespace guided {

namespace {
constexpr size_t kMostBegun = 2048;        // states of lexemes that one search for ends visits
constexpr size_t kMostReadings = 1 << 15;  // readings that one search for a completion visits
}  // namespace

// ---- the ends of lexemes
void LexemeEnds::add(Ends& ends, const End& end) {
  for (End& known : ends.list)
    if (known.label == end.label && known.ignored == end.ignored && known.rivals == end.rivals) {
      known.tokens = std::min(known.tokens, end.tokens);
      return;
    }
  ends.list.push_back(end);
}

const std::vector<LexemeEnds::End>& LexemeEnds::ends(Begun from) {
  const uint64_t key = pair_key(from.lexeme, from.rivals);
  if (const Ends& known = ends_[key]; known.searched) return known.list;
  struct Node {
    Begun begun;
    int32_t before;
    uint8_t byte;
  };
  std::vector<Node> nodes{{from, -1, 0}};
  std::map<Begun, bool> met{{from, true}};
  const LexemeState& begun = lexemes_.state(from.lexeme);
  auto is_wanted = [](const LexemeState::Match& match) { return match.wanted; };
  const size_t wanted =
      static_cast<size_t>(std::ranges::count_if(begun.open, is_wanted) +
                          std::ranges::count_if(begun.keywords, is_wanted) + (begun.label != kNoTerminal));
  std::vector<std::pair<int32_t, bool>> any, found;  // labels; those after which any text can follow
  auto has = [](const auto& labels, const auto& label) { return std::ranges::find(labels, label) != labels.end(); };
  size_t i = 0;
  for (; i < nodes.size() && found.size() < wanted && nodes.size() < kMostBegun; ++i) {
    const Begun at = nodes[i].begun;
    const LexemeState& state = lexemes_.state(at.lexeme);
    const std::pair<int32_t, bool> label{state.label, state.ignored};
    const int32_t pending = state.label == kNoTerminal ? 0 : rivals_.add(at.rivals, at.lexeme);
    const bool free = sure_.charge(pending) < kNever;
    if (state.label != kNoTerminal && !has(found, label) && (free || !has(any, label))) {
      std::string text;
      std::vector<Begun> path{at};
      for (int32_t n = static_cast<int32_t>(i); nodes[n].before >= 0; n = nodes[n].before) {
        text.push_back(static_cast<char>(nodes[n].byte));
        path.push_back(nodes[nodes[n].before].begun);
      }
      std::reverse(text.begin(), text.end());
      std::reverse(path.begin(), path.end());
      const std::vector<int64_t> tokens = SureTexts::tokens_of(text, vocabulary_);
      if (tokens[0] < kNever) {
        any.push_back(label);
        if (free) found.push_back(label);
        for (size_t k = 0; k < path.size(); ++k)
          add(ends_[pair_key(path[k].lexeme, path[k].rivals)],
              {.label = label.first, .ignored = label.second, .tokens = tokens[k], .rivals = pending});
      }
    }
    ByteSet bytes = lexemes_.state(at.lexeme).bytes;
    bytes.each([&](uint8_t byte) {
      const int32_t rivals = rivals_.advance(at.rivals, byte);
      const int32_t lexeme = rivals == kDropped ? static_cast<int32_t>(kNoLexeme) : lexemes_.step(at.lexeme, byte);
      if (lexeme == kNoLexeme) return;
      const Begun after{lexeme, rivals};
      if (met.emplace(after, true).second) nodes.push_back({after, static_cast<int32_t>(i), byte});
    });
  }
  Ends& out = ends_[key];
  out.searched = true;
  out.complete = i == nodes.size() || found.size() >= wanted;
  return out.list;
}

int64_t LexemeEnds::least(Begun begun) {
  int64_t out = kNever;
  for (const End& end : ends(begun)) out = std::min(out, end.tokens + sure_.charge(end.rivals));
  return out;
}

// ---- readings
int64_t LexedRests::surely(const Reading& reading) {
  if (reading.boundary) return std::min(kNever, charge(reading.parser, reading.rivals) + rest(reading.parser));
  int64_t best = kNever;
  for (const LexemeEnds::End& end : ends_.ends({reading.lexeme, reading.rivals})) {
    const int32_t parser = readings_.after_lexeme(reading.parser, end.label, end.ignored);
    if (parser != kDead) best = std::min(best, end.tokens + charge(parser, end.rivals) + rest(parser));
  }
  return best;
}

int64_t LexedRests::charge(int32_t parser, int32_t rivals) {
  if (rivals == 0) return 0;
  auto [at, added] = charges_.try_emplace(pair_key(parser, rivals), 0);
  if (added) at->second = ends_.sure().charge(rivals, parser_.taken(parser));
  return at->second;
}

int64_t LexedRests::distance(const Reading& reading) {
  if (reading.boundary && parser_.accepting(reading.parser)) return 0;
  const int64_t sure = surely(reading);
  const auto known = known_.find(reading);
  if (sure < kNever) return known == known_.end() ? sure : std::min(sure, known->second);
  if (known != known_.end()) return known->second;
  return surely_dead(reading) ? kNever : search(reading);
}

// Whether the parser can take nothing that the lexeme may become.
bool LexedRests::surely_dead(const Reading& reading) {
  const Begun begun{reading.lexeme, reading.rivals};
  return !reading.boundary && vocabulary_.byte_complete && ends_.complete(begun) &&
         std::ranges::all_of(ends_.ends(begun), [&](const LexemeEnds::End& end) {
           return readings_.after_lexeme(reading.parser, end.label, end.ignored) == kDead;
         });
}

int64_t LexedRests::distance(int32_t state) {
  int64_t best = kNever;
  const std::vector<Reading> readings = readings_.readings(state);
  for (const Reading& reading : readings) best = std::min(best, distance(reading));
  return best;
}

int64_t LexedRests::distance(int32_t parser, Begun begun) {
  const int64_t goes_on = distance(Reading{parser, begun.lexeme, begun.rivals, false});
  const int32_t ended = readings_.after_lexeme(parser, begun.lexeme);
  if (ended == kDead) return goes_on;
  return std::min(goes_on, distance(readings_.boundary(ended, readings_.rivals_after(begun.rivals, begun.lexeme))));
}

bool LexedRests::viable(int32_t state) {
  if (state == kDead) return false;
  if (state >= static_cast<int32_t>(viable_.size())) viable_.resize(state + 1);
  if (viable_[state] == 0) {
    const std::vector<Reading> readings = readings_.readings(state);
    const bool found = std::any_of(readings.begin(), readings.end(), [&](const Reading& r) {
      if (all_sure() && (r.boundary ? ends_.sure().charge(r.rivals) : ends_.least({r.lexeme, r.rivals})) < kNever)
        return true;
      return distance(r) < kNever;
    });
    if (state >= static_cast<int32_t>(viable_.size())) viable_.resize(state + 1);
    viable_[state] = found ? 1 : -1;
  }
  return viable_[state] > 0;
}

namespace {

// A reading that a search has come to.
struct Visited {
  Reading reading;
  int32_t before, symbol;  // how: a byte, or 256 + token
  int64_t length;
};

}  // namespace

// Best first. Where every byte is a token the steps are bytes, else tokens.
int64_t LexedRests::search(const Reading& from) {
  std::vector<Visited> visited{{from, -1, 0, 0}};
  std::map<Reading, bool> met{{from, true}};
  using Item = std::pair<int64_t, int32_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> todo;
  todo.emplace(0, 0);
  const bool by_bytes = vocabulary_.byte_complete;
  auto reach = [&](const Reading& reading, int32_t before, int32_t symbol) {
    const auto known = known_.find(reading);
    if ((known != known_.end() && known->second >= kNever) || !met.emplace(reading, true).second) return;
    const int64_t length = visited[before].length + 1;
    visited.push_back({reading, before, symbol, length});
    todo.emplace(length + guessed_.of(reading.parser), static_cast<int32_t>(visited.size()) - 1);
  };
  while (!todo.empty()) {
    const int32_t at = todo.top().second;
    todo.pop();
    const Reading reading = visited[at].reading;
    const auto known = known_.find(reading);
    if ((reading.boundary && parser_.accepting(reading.parser)) || known != known_.end()) {
      const int64_t left = known == known_.end() ? 0 : known->second;
      std::vector<Reading> path{reading};
      std::vector<int32_t> symbols;
      for (int32_t n = at; visited[n].before >= 0; n = visited[n].before) {
        symbols.push_back(visited[n].symbol);
        path.push_back(visited[visited[n].before].reading);
      }
      std::reverse(path.begin(), path.end());
      std::reverse(symbols.begin(), symbols.end());
      keep(path, symbols, left);
      return known_[from];
    }
    if (visited.size() > kMostReadings)
      throw LimitFailure("states", static_cast<double>(visited.size()), kMostReadings, true);
    if (reading.boundary)
      for (int32_t terminal : std::vector<int32_t>(parser_.taken(reading.parser)))
        if (const int32_t token = readings_.control_of(terminal); token != kNoTerminal)
          if (const int32_t parser = parser_.after(reading.parser, terminal); parser != kDead)
            reach(readings_.boundary(parser, 0), at, 256 + token);
    if (by_bytes) {
      for (int byte = 0; byte < 256; ++byte)
        readings_.each_after(reading, static_cast<uint8_t>(byte),
                             [&](const Reading& after) { reach(after, at, byte); });
      continue;
    }
    for (int32_t id = 0; id < static_cast<int32_t>(vocabulary_.tokens.size()); ++id) {
      if (!vocabulary_.textual(id)) continue;
      std::vector<Reading> now{reading}, next;
      for (char c : vocabulary_.tokens[id]) {
        next.clear();
        for (const Reading& r : now)
          readings_.each_after(r, static_cast<uint8_t>(c), [&](const Reading& after) { next.push_back(after); });
        std::swap(now, next);
      }
      for (const Reading& after : now) reach(after, at, 256 + id);
    }
  }
  for (const Visited& dead : visited) known_[dead.reading] = kNever;
  return kNever;
}

// Readings along a completion, with what is left after each of them.
void LexedRests::keep(const std::vector<Reading>& path, const std::vector<int32_t>& symbols, int64_t left) {
  int64_t tokens = left;
  size_t end = symbols.size();
  auto lower = [&](const Reading& reading, int64_t to) {
    auto [at, added] = known_.try_emplace(reading, to);
    at->second = std::min(at->second, to);
  };
  lower(path[end], tokens);
  while (end > 0) {  // runs of bytes are spelled by themselves
    size_t begin = end;
    std::string text;
    while (begin > 0 && symbols[begin - 1] < 256) --begin;
    for (size_t i = begin; i < end; ++i) text.push_back(static_cast<char>(symbols[i]));
    const std::vector<int64_t> spelled = SureTexts::tokens_of(text, vocabulary_);
    for (size_t i = begin; i < end; ++i) lower(path[i], tokens + spelled[i - begin]);
    tokens += spelled[0];
    if (begin > 0) lower(path[begin - 1], ++tokens);
    end = begin > 0 ? begin - 1 : 0;
  }
}

}  // namespace guided
