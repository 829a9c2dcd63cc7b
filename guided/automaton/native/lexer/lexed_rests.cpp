#include "lexer/lexed_rests.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <set>

namespace guided {

namespace {
constexpr size_t kMaxLexerStates = 2048;   // the limit on the lexer states that one search visits
constexpr size_t kMaxFreeEndStates = 256;  // the same limit for a search for a free end
constexpr int64_t kEndSearchWork = 24;     // units of CallMeter for each state that either search visits
}  // namespace

void LexemeEnds::add(std::vector<End>& ends, const End& end) {
  for (End& each : ends)
    if (each.label == end.label && each.is_ignored == end.is_ignored && each.competitors == end.competitors) {
      each.tokens = std::min(each.tokens, end.tokens);
      return;
    }
  ends.push_back(end);
}

namespace {

// Returns the bytes on the path to a node.
template <class Node>
std::string text_to(const std::vector<Node>& nodes, int32_t node) {
  std::string text;
  for (int32_t n = node; nodes[n].parent >= 0; n = nodes[n].parent) text.push_back(static_cast<char>(nodes[n].byte));
  std::ranges::reverse(text);
  return text;
}

}  // namespace

// Records that a lexeme ends at a node. Returns false if no tokens spell its text.
bool LexemeEnds::record_end(const std::vector<Node>& nodes, int32_t node, int32_t pending) {
  const std::string text = text_to(nodes, node);
  CallMeter::work(kEndSearchWork * static_cast<int64_t>(text.size() + 1));
  const int64_t tokens = SureTexts::tokens_of(text, vocabulary_)[0];
  if (tokens >= kNever) return false;
  const LexemeState& state = lexemes_.state(nodes[node].unfinished.lexeme);
  add(entry(nodes[0].unfinished).list,
      {.label = state.label, .is_ignored = state.is_ignored, .tokens = tokens, .competitors = pending});
  return true;
}

// Records that a line (indentation.hpp) can end at a node. Returns whether it can still get any width, because a line
// feed has just been read.
bool LexemeEnds::record_line(const std::vector<Node>& nodes, int32_t node, int32_t pending) {
  const UnfinishedLexeme from = nodes[0].unfinished;
  const std::string text = text_to(nodes, node);
  const int32_t width = lexemes_.indentation().width(lexemes_.state(nodes[node].unfinished.lexeme).label);
  const bool has_line_feed = text.find('\n') != std::string::npos;
  Ends& out = entry(from);
  out.min_width = std::min<int64_t>(out.min_width, has_line_feed ? 0 : std::max(0, lexemes_.state(from.lexeme).width));
  const bool ends_with_line_feed = !text.empty() && text.back() == '\n';
  if (!sure_texts_.may_follow_line(pending) || !(text.empty() || ends_with_line_feed)) return false;
  if (std::ranges::none_of(out.lines, [&](const Line& line) { return line.text == text; }))
    out.lines.push_back({text, width});
  return ends_with_line_feed;
}

// Records that the lexeme at a node can end there, for all nodes on the path to it: their texts are suffixes.
void LexemeEnds::record_free_end(const std::vector<Node>& nodes, int32_t node, FreeEnd end) {
  const std::vector<int64_t> tokens = SureTexts::tokens_of(text_to(nodes, node), vocabulary_);
  CallMeter::work(kEndSearchWork * static_cast<int64_t>(2 * tokens.size()));
  auto count = tokens.rbegin();
  for (int32_t n = node; n >= 0; n = nodes[n].parent) {
    end.tokens = *count++ + end.demand.tokens;
    free_ends_[pair_key(nodes[n].unfinished.lexeme, nodes[n].unfinished.competitors)] = end;
  }
}

// Records the ends that begun sure texts and separators lead to.
void LexemeEnds::record_known_texts(UnfinishedLexeme from) {
  const LexemeState& state = lexemes_.state(from.lexeme);
  auto record = [&](const SureTexts::Rests* rests) {
    if (rests)
      for (const std::string& rest : *rests) record_text(from, rest);
  };
  for (const LexemeState::Match& match : state.open_matches)
    record(sure_texts_.rests_of_terminal(match.number, match.state));
  for (const LexemeState::Match& match : state.keywords)
    record(sure_texts_.rests_of_keyword(match.number, match.state));
}

// Records the end that a text leads to, if the lexeme may end there.
void LexemeEnds::record_text(UnfinishedLexeme from, const std::string& text) {
  CallMeter::work(kLookup * static_cast<int64_t>(text.size()));
  UnfinishedLexeme last = from;
  for (char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    last = {lexemes_.step(last.lexeme, byte), competitors_.advance(last.competitors, byte)};
    if (last.lexeme == kNoLexeme || last.competitors == kDropped) return;
  }
  const LexemeState& state = lexemes_.state(last.lexeme);
  const int64_t tokens = SureTexts::tokens_of(text, vocabulary_)[0];
  if (state.label == kNoTerminal || lexemes_.indentation().is_line(state.label) || tokens >= kNever) return;
  add(entry(from).list, {.label = state.label,
                         .is_ignored = state.is_ignored,
                         .tokens = tokens,
                         .competitors = competitors_.add(last.competitors, last.lexeme)});
}

void LexemeEnds::add_memory(size_t bytes) {
  memory_ += bytes;
  CallMeter::memory(bytes);
}

const LexemeEnds::FreeEnd& LexemeEnds::free_end(UnfinishedLexeme from) {
  const uint64_t key = pair_key(from.lexeme, from.competitors);
  if (const auto it = free_ends_.find(key); it != free_ends_.end()) return it->second;
  std::vector<Node> nodes{{from, -1, 0}};
  std::unordered_set<uint64_t> seen{pair_key(lexemes_.state(from.lexeme).representative, from.competitors)};
  for (int32_t i = 0; i < static_cast<int32_t>(nodes.size()) && nodes.size() < kMaxFreeEndStates; ++i) {
    const UnfinishedLexeme current = nodes[i].unfinished;
    CallMeter::work(kEndSearchWork);
    const LexemeState& state = lexemes_.state(current.lexeme);
    if (state.label != kNoTerminal && !lexemes_.indentation().is_line(state.label)) {
      FreeEnd end{.label = state.label, .is_ignored = state.is_ignored};
      const int32_t pending = competitors_.add(current.competitors, current.lexeme);
      end.demand = demand({.label = end.label, .is_ignored = end.is_ignored, .tokens = 0, .competitors = pending});
      if (end.demand.tokens < kNever && end.demand.last == kWord) {
        record_free_end(nodes, i, end);
        break;
      }
    }
    competitors_.each_step(current.lexeme, current.competitors, [&](uint8_t byte, int32_t lexeme, int32_t competitors) {
      CallMeter::work(kLookup);
      if (seen.insert(pair_key(lexemes_.state(lexeme).representative, competitors)).second)
        nodes.push_back({{lexeme, competitors}, i, byte});
    });
  }
  add_memory(sizeof(FreeEnd) + 64);
  return free_ends_[key];
}

const std::vector<LexemeEnds::End>& LexemeEnds::ends(UnfinishedLexeme from) {
  if (const Ends& known_ends = entry(from); known_ends.is_searched) return known_ends.list;
  std::vector<Node> nodes{{from, -1, 0}};
  std::set<std::tuple<int32_t, int32_t, bool>> seen{
      {lexemes_.state(from.lexeme).representative, from.competitors, false}};
  const LexemeState& unfinished = lexemes_.state(from.lexeme);
  auto is_wanted = [](const LexemeState::Match& match) { return match.is_wanted; };
  const size_t wanted_count =
      static_cast<size_t>(std::ranges::count_if(unfinished.open_matches, is_wanted) +
                          std::ranges::count_if(unfinished.keywords, is_wanted) + (unfinished.label != kNoTerminal));
  std::vector<std::pair<int32_t, bool>> settled_labels;    // labels with an end that demands at most one token
  std::map<std::pair<int32_t, bool>, int64_t> min_demand;  // by label: the smallest demand of its ends so far
  auto has = [](const auto& labels, const auto& label) { return std::ranges::find(labels, label) != labels.end(); };
  std::vector<End> all;
  int32_t i = 0;
  for (;
       i < static_cast<int32_t>(nodes.size()) && settled_labels.size() < wanted_count && nodes.size() < kMaxLexerStates;
       ++i) {
    const UnfinishedLexeme current = nodes[i].unfinished;
    CallMeter::work(kEndSearchWork);
    const LexemeState& state = lexemes_.state(current.lexeme);
    const bool is_line = lexemes_.indentation().is_line(state.label);
    const std::pair<int32_t, bool> label{is_line ? lexemes_.indentation().newline : state.label, state.is_ignored};
    const int32_t pending = state.label == kNoTerminal ? 0 : competitors_.add(current.competitors, current.lexeme);
    if (state.label != kNoTerminal && !is_line) add(all, {state.label, state.is_ignored, 0, pending});
    const int64_t demanded =
        demand({.label = state.label, .is_ignored = state.is_ignored, .tokens = 0, .competitors = pending}).tokens;
    const auto previous = min_demand.find(label);
    if (is_line && !has(settled_labels, label)) {
      if (record_line(nodes, i, pending)) settled_labels.push_back(label);
    } else if (state.label != kNoTerminal && !has(settled_labels, label) &&
               (previous == min_demand.end() || demanded < previous->second)) {
      // The search continues until a demand is at most 1: finishing a separator that has begun may take fewer tokens
      // than ending here and writing another separator.
      if (record_end(nodes, i, pending)) {
        min_demand[label] = demanded;
        if (demanded <= 1) settled_labels.push_back(label);
      }
    }
    competitors_.each_step(current.lexeme, current.competitors, [&](uint8_t byte, int32_t lexeme, int32_t competitors) {
      CallMeter::work(kLookup);
      const LexemeState& next = lexemes_.state(lexeme);
      const bool begins_line = byte == '\n' && lexemes_.indentation().is_line(next.label);
      if (seen.emplace(next.representative, competitors, begins_line).second)
        nodes.push_back({{lexeme, competitors}, i, byte});
    });
  }
  record_known_texts(from);
  Ends& out = entry(from);
  out.is_searched = true;
  add_memory(sizeof(Ends) + 64 + (out.list.size() + all.size()) * sizeof(End));
  out.has_all = i == static_cast<int32_t>(nodes.size());
  if (out.has_all) out.all = std::move(all);
  out.is_complete = i == static_cast<int32_t>(nodes.size()) || settled_labels.size() >= wanted_count;
  return out.list;
}

Demand LexemeEnds::demand(const End& end) {
  const Indentation& indentation = lexemes_.indentation();
  const bool has_no_terminal = end.is_ignored || end.label == indentation.newline || indentation.is_line(end.label);
  return sure_texts_.demand(end.competitors, has_no_terminal ? static_cast<int32_t>(kNoTerminal) : end.label);
}

int64_t LexemeEnds::line_tokens(UnfinishedLexeme unfinished, int32_t width) {
  ends(unfinished);
  Ends& known_ends = entry(unfinished);
  auto [it, added] = known_ends.line_tokens.try_emplace(width, kNever);
  if (added)
    for (const Line& line : known_ends.lines)
      if (line.width <= width)
        it->second = std::min(it->second, sure_texts_.tokens_of_line(line.text, width - line.width)[0]);
  return it->second;
}

namespace {
constexpr size_t kMaxReadings = 1 << 15;  // the limit on the readings that one search for a completion visits
constexpr int64_t kVisitWork = 300;       // units of CallMeter per visited reading, for a step with each byte
constexpr auto kAdvice =
    "the search for a completion of the output found none among that many readings; a grammar that ignores white "
    "space needs no search";
}  // namespace

// ---- readings
int64_t LexedRests::sure_distance(const Reading& reading) {
  if (reading.is_at_boundary) return sure_distance_at_boundary(reading.position, reading.competitors);
  const UnfinishedLexeme unfinished{reading.lexeme, reading.competitors};
  int64_t best = kNever;
  for (const LexemeEnds::End& end : ends_.ends(unfinished)) {
    const int32_t position = readings_.after_lexeme(reading.position, end.label, end.is_ignored);
    if (position != kDead) best = std::min(best, end.tokens + sure_distance_at_boundary(position, end.competitors));
  }
  if (ends_.sure_texts().all()) {  // tables use this bound, too
    const LexemeEnds::FreeEnd& end = ends_.free_end(unfinished);
    const int32_t position =
        end.is_found() ? readings_.after_lexeme(reading.position, end.label, end.is_ignored) : int32_t{kDead};
    if (position != kDead) best = std::min(best, end.tokens + rest(position, end.demand.last));
  }
  if (!ends_.lines(unfinished).empty())
    positions_.each_width(reading.position, static_cast<int32_t>(ends_.min_width(unfinished)), [&](int32_t width) {
      const int32_t position = positions_.advance(reading.position, positions_.indentation().line(width));
      if (position != kDead) best = std::min(best, ends_.line_tokens(unfinished, width) + rest(position, kLine));
    });
  return best;
}

// Returns the tokens of a separator after which any text can follow, plus the distance after it. If no separator is
// known: the weight of a terminal whose sure text can follow at once, plus the distance after it.
int64_t LexedRests::sure_distance_at_boundary(int32_t position, int32_t competitors) {
  if (competitors == 0) return rest(position);
  auto [it, added] = boundary_distances_.try_emplace(pair_key(position, competitors), kNever);
  if (!added) return it->second;
  SureTexts& sure_texts = ends_.sure_texts();
  const std::vector<int32_t> accepted = positions_.accepted_terminals(position);
  const Demand demand = sure_texts.demand(competitors, accepted, positions_.start(position));
  int64_t best = demand.tokens < kNever ? demand.tokens + rest(position, demand.last) : kNever;
  for (int32_t terminal : accepted) {
    if (best < kNever || terminal == positions_.indentation().newline || !sure_texts.can_follow(competitors, terminal))
      continue;
    const int32_t next = positions_.advance(position, terminal);
    if (next != kDead) best = std::min(best, sure_texts.weights()[terminal] + rest(next));
  }
  return boundary_distances_[pair_key(position, competitors)] = std::min(best, kNever);
}

int64_t LexedRests::distance(const Reading& reading) {
  if (reading.is_at_boundary && positions_.accepting(reading.position)) return 0;
  const int64_t sure = sure_distance(reading);
  const auto it = results_.find(reading);
  if (sure < kNever) return it == results_.end() ? sure : std::min(sure, it->second.tokens);
  if (it != results_.end()) return it->second.tokens;
  return is_surely_dead(reading) ? kNever : search(reading);
}

// Whether every terminal that the lexeme may become is a dead end: the parser does not accept it, or nothing can
// follow.
bool LexedRests::is_surely_dead(const Reading& reading) {
  const UnfinishedLexeme unfinished{reading.lexeme, reading.competitors};
  if (reading.is_at_boundary) return is_dead_end(reading.position, reading.competitors);
  if (!vocabulary_.byte_complete || !ends_.is_complete(unfinished)) return false;
  const std::vector<LexemeEnds::End>* all = ends_.all_ends(unfinished);
  bool is_dead = std::ranges::all_of(all ? *all : ends_.ends(unfinished), [&](const LexemeEnds::End& end) {
    const int32_t position = readings_.after_lexeme(reading.position, end.label, end.is_ignored);
    return position == kDead || (all && is_dead_end(position, end.competitors));
  });
  if (const int64_t min_width = ends_.min_width(unfinished); min_width < kNever)
    positions_.each_width(reading.position, static_cast<int32_t>(min_width), [&](int32_t width) {
      is_dead &=
          width < min_width || positions_.advance(reading.position, positions_.indentation().line(width)) == kDead;
    });
  return is_dead;
}

// Whether nothing can complete the output between two lexemes.
bool LexedRests::is_dead_end(int32_t position, int32_t competitors) {
  if (readings_.is_dead_end(position, competitors)) return true;
  SequenceCosts* costs = blocking_.find_costs(competitors);
  return costs &&
         blocked_rests_.try_emplace(costs, positions_, parser_, *costs).first->second.weight(position) >= kNever;
}

int64_t LexedRests::distance(int32_t state) {
  int64_t best = kNever;
  const std::vector<Reading> readings = readings_.of(state);
  for (const Reading& reading : readings) best = std::min(best, distance(reading));
  return best;
}

int64_t LexedRests::distance(int32_t position, UnfinishedLexeme unfinished) {
  const int64_t continued = distance(Reading{position, unfinished.lexeme, unfinished.competitors, false});
  const int32_t next_position = readings_.after_lexeme(position, unfinished.lexeme);
  if (next_position == kDead) return continued;
  return std::min(continued,
                  distance(readings_.reading_at_boundary(
                      next_position, readings_.competitors_after(unfinished.competitors, unfinished.lexeme))));
}

bool LexedRests::has_free_end(UnfinishedLexeme unfinished) {
  if (ends_.free_end(unfinished).is_found()) return true;
  return std::ranges::any_of(ends_.ends(unfinished), [&](const LexemeEnds::End& end) {
    const Demand demand = ends_.demand(end);
    return demand.tokens < kNever && demand.last == kWord;
  });
}

bool LexedRests::viable(int32_t state) {
  if (state == kDead) return false;
  if (state >= static_cast<int32_t>(viable_.size())) viable_.resize(state + 1);
  if (viable_[state] == 0) {
    const std::vector<Reading> readings = readings_.of(state);
    const bool is_viable = std::any_of(readings.begin(), readings.end(), [&](const Reading& r) {
      if (all_sure(r.position) && (r.is_at_boundary ? r.competitors == 0 : has_free_end({r.lexeme, r.competitors})))
        return true;
      return distance(r) < kNever;
    });
    if (state >= static_cast<int32_t>(viable_.size())) viable_.resize(state + 1);
    viable_[state] = is_viable ? 1 : -1;
  }
  return viable_[state] > 0;
}

namespace {

// A reading that a search has reached.
struct VisitedReading {
  Reading reading;
  int32_t parent, symbol;  // `symbol`: the byte, or 256 + the token, that led here
  int64_t length;
};

}  // namespace

// Best-first search for a completion. A step reads a byte if every byte is a token; otherwise, it reads a token.
int64_t LexedRests::search(const Reading& from) {
  std::vector<VisitedReading> visited{{from, -1, 0, 0}};
  std::map<Reading, bool> seen{{from, true}};
  using Item = std::pair<int64_t, int32_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> todo;
  todo.emplace(0, 0);
  const bool by_bytes = vocabulary_.byte_complete;
  auto reach = [&](const Reading& reading, int32_t parent, int32_t symbol) {
    const auto it = results_.find(reading);
    if ((it != results_.end() && it->second.tokens >= kNever) || !seen.emplace(reading, true).second) return;
    const int64_t length = visited[parent].length + 1;
    visited.push_back({reading, parent, symbol, length});
    todo.emplace(length + guessed_rests_.weight(reading.position), static_cast<int32_t>(visited.size()) - 1);
  };
  while (!todo.empty()) {
    const int32_t index = todo.top().second;
    todo.pop();
    CallMeter::work(kVisitWork);
    const Reading reading = visited[index].reading;
    const auto it = results_.find(reading);
    if ((reading.is_at_boundary && positions_.accepting(reading.position)) || it != results_.end()) {
      const int64_t rest = it == results_.end() ? 0 : it->second.tokens;
      std::vector<Reading> path{reading};
      std::vector<int32_t> symbols;
      for (int32_t n = index; visited[n].parent >= 0; n = visited[n].parent) {
        symbols.push_back(visited[n].symbol);
        path.push_back(visited[visited[n].parent].reading);
      }
      std::reverse(path.begin(), path.end());
      std::reverse(symbols.begin(), symbols.end());
      std::vector<int64_t> tokens = count_tokens_along(symbols, rest);
      store({std::move(path), std::move(tokens)});
      return results_.at(from).tokens;
    }
    if (visited.size() > kMaxReadings)
      throw LimitFailure("states", static_cast<double>(visited.size()), kMaxReadings, kAdvice);
    if (reading.is_at_boundary)
      for (int32_t terminal : std::vector<int32_t>(positions_.accepted_terminals(reading.position)))
        if (const int32_t token = readings_.control_of(terminal); token != kNoTerminal)
          if (const int32_t position = positions_.advance(reading.position, terminal); position != kDead)
            reach(readings_.reading_at_boundary(position, 0), index, 256 + token);
    if (by_bytes) {
      readings_.each_successor(reading, [&](uint8_t byte, const Reading& next) { reach(next, index, byte); });
      continue;
    }
    for (int32_t id = 0; id < static_cast<int32_t>(vocabulary_.tokens.size()); ++id) {
      if (!vocabulary_.textual(id)) continue;
      std::vector<Reading> current{reading}, next;
      for (char c : vocabulary_.tokens[id]) {
        next.clear();
        for (const Reading& r : current)
          readings_.each_successor(r, static_cast<uint8_t>(c),
                                   [&](const Reading& successor) { next.push_back(successor); });
        std::swap(current, next);
      }
      for (const Reading& successor : current) reach(successor, index, 256 + id);
    }
  }
  for (const VisitedReading& dead : visited) results_[dead.reading] = {kNever, -1};
  return kNever;
}

// Returns the number of tokens that are needed after each prefix of `symbols`, if `rest` tokens are needed after all
// symbols.
std::vector<int64_t> LexedRests::count_tokens_along(const std::vector<int32_t>& symbols, int64_t rest) const {
  std::vector<int64_t> out(symbols.size() + 1, rest);
  size_t end = symbols.size();
  while (end > 0) {  // each run of bytes between two tokens is split into tokens separately
    size_t begin = end;
    std::string text;
    while (begin > 0 && symbols[begin - 1] < 256) --begin;
    for (size_t i = begin; i < end; ++i) text.push_back(static_cast<char>(symbols[i]));
    const std::vector<int64_t> text_tokens = SureTexts::tokens_of(text, vocabulary_);
    for (size_t i = begin; i < end; ++i) out[i] = out[end] + text_tokens[i - begin];
    if (begin > 0) out[begin - 1] = out[begin] + 1;
    end = begin > 0 ? begin - 1 : 0;
  }
  return out;
}

void LexedRests::store(Completion&& completion) {
  const int32_t number = static_cast<int32_t>(completions_.size());
  for (size_t i = 0; i < completion.readings.size(); ++i) {
    const int64_t tokens = completion.tokens[i];
    auto [it, added] = results_.try_emplace(completion.readings[i], tokens, number);
    if (!added && tokens < it->second.tokens) it->second = {tokens, number};
  }
  memory_ += 64 + completion.readings.size() * (sizeof(Reading) + sizeof(int64_t));
  completions_.push_back(std::move(completion));
}

}  // namespace guided
