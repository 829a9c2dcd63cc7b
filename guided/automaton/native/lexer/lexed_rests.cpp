#include "lexer/lexed_rests.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <set>

namespace guided {

namespace {
constexpr size_t kMaxLexerStates = 2048;  // the most lexer states that one search visits
}

void LexemeEnds::add(std::vector<End>& ends, const End& end) {
  for (End& known : ends)
    if (known.label == end.label && known.ignored == end.ignored && known.competing == end.competing) {
      known.tokens = std::min(known.tokens, end.tokens);
      return;
    }
  ends.push_back(end);
}

namespace {

// The bytes on the path to a node, and the states before and after each of them.
template <class Node>
std::pair<std::string, std::vector<UnfinishedLexeme>> way_to(const std::vector<Node>& nodes, int32_t node) {
  std::string text;
  std::vector<UnfinishedLexeme> path{nodes[node].unfinished};
  for (int32_t n = node; nodes[n].before >= 0; n = nodes[n].before) {
    text.push_back(static_cast<char>(nodes[n].byte));
    path.push_back(nodes[nodes[n].before].unfinished);
  }
  std::ranges::reverse(text);
  std::ranges::reverse(path);
  return {std::move(text), std::move(path)};
}

}  // namespace

// Records that a lexeme ends at a node. Returns false if no tokens spell its text.
bool LexemeEnds::ends_here(const std::vector<Node>& nodes, int32_t node, int32_t pending) {
  const auto [text, path] = way_to(nodes, node);
  const std::vector<int64_t> tokens = SafeWitnesses::tokens_of(text, vocabulary_);
  if (tokens[0] >= kNever) return false;
  const LexemeState& state = lexemes_.state(nodes[node].unfinished.lexeme);
  for (size_t k = 0; k < path.size(); ++k)
    add(at(path[k]).list, {.label = state.label, .ignored = state.ignored, .tokens = tokens[k], .competing = pending});
  return true;
}

// Records that a line (indentation.hpp) can end at a node. Returns whether it can still get any width, because a line
// feed has just been read.
bool LexemeEnds::begins_line(const std::vector<Node>& nodes, int32_t node, int32_t pending) {
  const auto [text, path] = way_to(nodes, node);
  const int32_t width = lexemes_.indentation().width(lexemes_.state(nodes[node].unfinished.lexeme).label);
  const bool has_line_feed = text.find('\n') != std::string::npos;
  int64_t& least = at(path[0]).least_width;
  least = std::min<int64_t>(least, has_line_feed ? 0 : std::max(0, lexemes_.state(path[0].lexeme).width));
  const bool is_new = !text.empty() && text.back() == '\n';
  if (!sure_.is_line(pending) || !(text.empty() || is_new)) return false;
  for (size_t k = 0; k < path.size(); ++k) {
    Ends& ends = at(path[k]);
    const std::string rest = text.substr(k);
    if (std::ranges::any_of(ends.lines, [&](const Line& line) { return line.text == rest; })) continue;
    ends.lines.push_back({rest, width});
    ends.line_tokens.clear();
  }
  return is_new;
}

const std::vector<LexemeEnds::End>& LexemeEnds::ends(UnfinishedLexeme from) {
  if (const Ends& known = at(from); known.searched) return known.list;
  std::vector<Node> nodes{{from, -1, 0}};
  std::set<std::tuple<int32_t, int32_t, bool>> seen{{lexemes_.state(from.lexeme).shape, from.competing, false}};
  const LexemeState& unfinished = lexemes_.state(from.lexeme);
  auto is_wanted = [](const LexemeState::Match& match) { return match.wanted; };
  const size_t wanted =
      static_cast<size_t>(std::ranges::count_if(unfinished.open, is_wanted) +
                          std::ranges::count_if(unfinished.keywords, is_wanted) + (unfinished.label != kNoTerminal));
  std::vector<std::pair<int32_t, bool>> found;               // labels after which at most one token is needed
  std::map<std::pair<int32_t, bool>, int64_t> least_demand;  // by label: the least demand after its ends so far
  auto has = [](const auto& labels, const auto& label) { return std::ranges::find(labels, label) != labels.end(); };
  std::vector<End> all;
  int32_t i = 0;
  for (; i < static_cast<int32_t>(nodes.size()) && found.size() < wanted && nodes.size() < kMaxLexerStates; ++i) {
    const UnfinishedLexeme at = nodes[i].unfinished;
    const LexemeState& state = lexemes_.state(at.lexeme);
    const bool is_line = lexemes_.indentation().is_line(state.label);
    const std::pair<int32_t, bool> label{is_line ? lexemes_.indentation().newline : state.label, state.ignored};
    const int32_t pending = state.label == kNoTerminal ? 0 : competing_.add(at.competing, at.lexeme);
    if (state.label != kNoTerminal && !is_line) add(all, {state.label, state.ignored, 0, pending});
    const int64_t needed =
        demand({.label = state.label, .ignored = state.ignored, .tokens = 0, .competing = pending}).tokens;
    const auto least = least_demand.find(label);
    if (is_line && !has(found, label)) {
      if (begins_line(nodes, i, pending)) found.push_back(label);
    } else if (state.label != kNoTerminal && !has(found, label) &&
               (least == least_demand.end() || needed < least->second)) {
      // The search continues until a demand is at most 1: to finish a separator that has begun may take fewer tokens
      // than to end here and write another one.
      if (ends_here(nodes, i, pending)) {
        least_demand[label] = needed;
        if (needed <= 1) found.push_back(label);
      }
    }
    competing_.each_step(at.lexeme, at.competing, [&](uint8_t byte, int32_t lexeme, int32_t competing) {
      const LexemeState& after = lexemes_.state(lexeme);
      const bool begins_line = byte == '\n' && lexemes_.indentation().is_line(after.label);
      if (seen.emplace(after.shape, competing, begins_line).second) nodes.push_back({{lexeme, competing}, i, byte});
    });
  }
  Ends& out = at(from);
  out.searched = true;
  out.has_all = i == static_cast<int32_t>(nodes.size());
  if (out.has_all) out.all = std::move(all);
  out.complete = i == static_cast<int32_t>(nodes.size()) || found.size() >= wanted;
  return out.list;
}

Demand LexemeEnds::demand(const End& end) {
  const Indentation& indentation = lexemes_.indentation();
  const bool is_left_out = end.ignored || end.label == indentation.newline || indentation.is_line(end.label);
  return sure_.demand(end.competing, is_left_out ? static_cast<int32_t>(kNoTerminal) : end.label);
}

int64_t LexemeEnds::least(UnfinishedLexeme unfinished) {
  int64_t out = kNever;
  for (const End& end : ends(unfinished))
    if (const Demand after = demand(end); after.last == kWord) out = std::min(out, end.tokens + after.tokens);
  return out;
}

int64_t LexemeEnds::line_tokens(UnfinishedLexeme unfinished, int32_t width) {
  ends(unfinished);
  Ends& found = at(unfinished);
  auto [known, added] = found.line_tokens.try_emplace(width, kNever);
  if (added)
    for (const Line& line : found.lines)
      if (line.width <= width)
        known->second = std::min(known->second, sure_.tokens_of_line(line.text, width - line.width)[0]);
  return known->second;
}

namespace {
constexpr size_t kMaxReadings = 1 << 15;  // the most readings that one search for a completion visits
constexpr int64_t kVisitWork = 300;       // units of CallMeter per reading, for a step with each byte
constexpr auto kAdvice =
    "no completion of the output was found among that many readings; if the grammar ignores white space, none is "
    "searched for";
}  // namespace

// ---- readings
int64_t LexedRests::surely(const Reading& reading) {
  if (reading.boundary) return surely(reading.place, reading.competing);
  const UnfinishedLexeme unfinished{reading.lexeme, reading.competing};
  int64_t best = kNever;
  for (const LexemeEnds::End& end : ends_.ends(unfinished)) {
    const int32_t place = readings_.after_lexeme(reading.place, end.label, end.ignored);
    if (place != kDead) best = std::min(best, end.tokens + surely(place, end.competing));
  }
  if (!ends_.lines(unfinished).empty())
    places_.each_width(reading.place, static_cast<int32_t>(ends_.least_width(unfinished)), [&](int32_t width) {
      const int32_t place = places_.after(reading.place, places_.indentation().line(width));
      if (place != kDead) best = std::min(best, ends_.line_tokens(unfinished, width) + rest(place, kLine));
    });
  return best;
}

// At the beginning of a lexeme: the tokens of a separator after which any text can follow, plus the distance after it.
// If no separator is known: the weight of a terminal whose sure text can follow at once, plus the distance after it.
int64_t LexedRests::surely(int32_t place, int32_t competing) {
  if (competing == 0) return rest(place);
  auto [at, added] = sure_after_.try_emplace(pair_key(place, competing), kNever);
  if (!added) return at->second;
  SafeWitnesses& sure = ends_.sure();
  const std::vector<int32_t> accepted = places_.accepted_terminals(place);
  const Demand demand = sure.demand(competing, accepted, places_.start(place));
  int64_t best = demand.tokens < kNever ? demand.tokens + rest(place, demand.last) : kNever;
  for (int32_t terminal : accepted) {
    if (best < kNever || terminal == places_.indentation().newline || !sure.can_follow(competing, terminal)) continue;
    const int32_t after = places_.after(place, terminal);
    if (after != kDead) best = std::min(best, sure.weights()[terminal] + rest(after));
  }
  return sure_after_[pair_key(place, competing)] = std::min(best, kNever);
}

int64_t LexedRests::distance(const Reading& reading) {
  if (reading.boundary && places_.accepting(reading.place)) return 0;
  const int64_t sure = surely(reading);
  const auto known = known_.find(reading);
  if (sure < kNever) return known == known_.end() ? sure : std::min(sure, known->second.tokens);
  if (known != known_.end()) return known->second.tokens;
  return surely_dead(reading) ? kNever : search(reading);
}

// Whether each terminal that the lexeme may become leads nowhere: the parser does not accept it, or nothing can follow.
bool LexedRests::surely_dead(const Reading& reading) {
  const UnfinishedLexeme unfinished{reading.lexeme, reading.competing};
  if (reading.boundary) return readings_.is_stuck(reading.place, reading.competing);
  if (!vocabulary_.byte_complete || !ends_.complete(unfinished)) return false;
  const std::vector<LexemeEnds::End>* all = ends_.all(unfinished);
  bool dead = std::ranges::all_of(all ? *all : ends_.ends(unfinished), [&](const LexemeEnds::End& end) {
    const int32_t place = readings_.after_lexeme(reading.place, end.label, end.ignored);
    return place == kDead || (all && readings_.is_stuck(place, end.competing));
  });
  if (const int64_t least = ends_.least_width(unfinished); least < kNever)
    places_.each_width(reading.place, static_cast<int32_t>(least), [&](int32_t width) {
      dead &= width < least || places_.after(reading.place, places_.indentation().line(width)) == kDead;
    });
  return dead;
}

int64_t LexedRests::distance(int32_t state) {
  int64_t best = kNever;
  const std::vector<Reading> readings = readings_.readings(state);
  for (const Reading& reading : readings) best = std::min(best, distance(reading));
  return best;
}

int64_t LexedRests::distance(int32_t place, UnfinishedLexeme unfinished) {
  const int64_t goes_on = distance(Reading{place, unfinished.lexeme, unfinished.competing, false});
  const int32_t ended = readings_.after_lexeme(place, unfinished.lexeme);
  if (ended == kDead) return goes_on;
  return std::min(
      goes_on, distance(readings_.boundary(ended, readings_.competing_after(unfinished.competing, unfinished.lexeme))));
}

bool LexedRests::viable(int32_t state) {
  if (state == kDead) return false;
  if (state >= static_cast<int32_t>(viable_.size())) viable_.resize(state + 1);
  if (viable_[state] == 0) {
    const std::vector<Reading> readings = readings_.readings(state);
    const bool found = std::any_of(readings.begin(), readings.end(), [&](const Reading& r) {
      if (all_sure(r.place) && (r.boundary ? r.competing == 0 : ends_.least({r.lexeme, r.competing}) < kNever))
        return true;
      return distance(r) < kNever;
    });
    if (state >= static_cast<int32_t>(viable_.size())) viable_.resize(state + 1);
    viable_[state] = found ? 1 : -1;
  }
  return viable_[state] > 0;
}

namespace {

// A reading that a search has reached.
struct Visited {
  Reading reading;
  int32_t before, symbol;  // `symbol`: the byte, or 256 + the token, that led here
  int64_t length;
};

}  // namespace

// Best-first search for a completion. A step is a byte if every byte is a token, and otherwise a token.
int64_t LexedRests::search(const Reading& from) {
  std::vector<Visited> visited{{from, -1, 0, 0}};
  std::map<Reading, bool> seen{{from, true}};
  using Item = std::pair<int64_t, int32_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> todo;
  todo.emplace(0, 0);
  const bool by_bytes = vocabulary_.byte_complete;
  auto reach = [&](const Reading& reading, int32_t before, int32_t symbol) {
    const auto known = known_.find(reading);
    if ((known != known_.end() && known->second.tokens >= kNever) || !seen.emplace(reading, true).second) return;
    const int64_t length = visited[before].length + 1;
    visited.push_back({reading, before, symbol, length});
    todo.emplace(length + guessed_.of(reading.place), static_cast<int32_t>(visited.size()) - 1);
  };
  while (!todo.empty()) {
    const int32_t at = todo.top().second;
    todo.pop();
    CallMeter::work(kVisitWork);
    const Reading reading = visited[at].reading;
    const auto known = known_.find(reading);
    if ((reading.boundary && places_.accepting(reading.place)) || known != known_.end()) {
      const int64_t left = known == known_.end() ? 0 : known->second.tokens;
      std::vector<Reading> path{reading};
      std::vector<int32_t> symbols;
      for (int32_t n = at; visited[n].before >= 0; n = visited[n].before) {
        symbols.push_back(visited[n].symbol);
        path.push_back(visited[visited[n].before].reading);
      }
      std::reverse(path.begin(), path.end());
      std::reverse(symbols.begin(), symbols.end());
      std::vector<int64_t> tokens = tokens_along(symbols, left);
      keep({std::move(path), std::move(tokens)});
      return known_.at(from).tokens;
    }
    if (visited.size() > kMaxReadings)
      throw LimitFailure("states", static_cast<double>(visited.size()), kMaxReadings, kAdvice);
    if (reading.boundary)
      for (int32_t terminal : std::vector<int32_t>(places_.accepted_terminals(reading.place)))
        if (const int32_t token = readings_.control_of(terminal); token != kNoTerminal)
          if (const int32_t place = places_.after(reading.place, terminal); place != kDead)
            reach(readings_.boundary(place, 0), at, 256 + token);
    if (by_bytes) {
      readings_.each_after(reading, [&](uint8_t byte, const Reading& after) { reach(after, at, byte); });
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
  for (const Visited& dead : visited) known_[dead.reading] = {kNever, -1};
  return kNever;
}

// The tokens that are needed after each prefix of `symbols`, if `left` are needed after all of them.
std::vector<int64_t> LexedRests::tokens_along(const std::vector<int32_t>& symbols, int64_t left) const {
  std::vector<int64_t> out(symbols.size() + 1, left);
  size_t end = symbols.size();
  while (end > 0) {  // each run of bytes between two tokens is split into tokens by itself
    size_t begin = end;
    std::string text;
    while (begin > 0 && symbols[begin - 1] < 256) --begin;
    for (size_t i = begin; i < end; ++i) text.push_back(static_cast<char>(symbols[i]));
    const std::vector<int64_t> spelled = SafeWitnesses::tokens_of(text, vocabulary_);
    for (size_t i = begin; i < end; ++i) out[i] = out[end] + spelled[i - begin];
    if (begin > 0) out[begin - 1] = out[begin] + 1;
    end = begin > 0 ? begin - 1 : 0;
  }
  return out;
}

void LexedRests::keep(Completion&& completion) {
  const int32_t number = static_cast<int32_t>(completions_.size());
  for (size_t i = 0; i < completion.readings.size(); ++i) {
    const int64_t tokens = completion.tokens[i];
    auto [at, added] = known_.try_emplace(completion.readings[i], tokens, number);
    if (!added && tokens < at->second.tokens) at->second = {tokens, number};
  }
  memory_ += 64 + completion.readings.size() * (sizeof(Reading) + sizeof(int64_t));
  completions_.push_back(std::move(completion));
}

}  // namespace guided
