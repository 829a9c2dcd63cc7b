#include "lexer/lexed_masks.hpp"

#include <algorithm>

namespace guided {

const std::vector<uint32_t>& LexedMasks::mask(int32_t state) {
  if (const std::vector<uint32_t>* kept = known(state)) return *kept;
  if (memory_ > most_) {
    masks_.clear();
    memory_ = 0;
  }
  if (tables_.memory() > most_) tables_.clear();
  if (memory_ == 0 || clearings_ != tables_.clearings()) {
    share_numbers_ = {};
    shares_.clear();
    clearings_ = tables_.clearings();
  }
  std::vector<uint32_t> row(static_cast<size_t>(vocabulary_.words), 0);
  const std::vector<Reading> readings = readings_.readings(state);
  for (const Reading& reading : readings) add(reading.place, table_of(reading), row.data());
  add_marks(state, kNever - 1, row.data());
  memory_ += row.size() * 4 + 64;
  return masks_[state] = std::move(row);
}

// Adds the control tokens and the end tokens.
void LexedMasks::add_marks(int32_t state, int64_t most, uint32_t* row) {
  for (int32_t token : readings_.controls(state))
    if (const int32_t after = readings_.step_control(state, token); after != kDead && rests_.distance(after) <= most)
      set_bit(row, token);
  if (readings_.accepting(state))
    for (int32_t end : vocabulary_.end_tokens) set_bit(row, end);
}

// Adds the tokens of a table after which at most `most` more are needed.
void LexedMasks::add_within(int32_t place, const Table& table, int64_t most, uint32_t* row) {
  CallMeter::work(kLookup * static_cast<int64_t>(1 + table.ends.size()));
  for (const Table* part : table.parts) add_within(place, *part, most, row);
  if (!table.parts.empty()) return;
  for (const LexerTables::Group& group : tables_.groups(table)) {
    if (rests_.distance(place, group.unfinished) <= most) group.tokens.add_to(row);
  }
  for (const LexerTables::End& end : table.ends) {
    const int32_t after = readings_.after_lexeme(place, end.label, end.ignored);
    if (after == kDead) continue;
    for (const LexerTables::Group& group : end.tokens)
      if (rests_.distance(readings_.boundary(after, group.unfinished.competing)) <= most) group.tokens.add_to(row);
    if (end.rest != LexerTables::kNoRest) add_within(after, tables_.after(end, places_.start(after)), most, row);
  }
}

int64_t LexedMasks::most_after(int32_t state) {
  if (const auto at = most_after_.find(state); at != most_after_.end()) return at->second;
  int64_t most = 0;
  const std::vector<Reading> readings = readings_.readings(state);
  for (const Reading& reading : readings) most = std::max(most, most_after(reading.place, table_of(reading)));
  for (int32_t token : readings_.controls(state))
    if (const int32_t after = readings_.step_control(state, token); after != kDead && rests_.viable(after))
      most = std::max(most, rests_.distance(after));
  return most_after_[state] = most;
}

int64_t LexedMasks::most_after(int32_t place, const Table& table) {
  CallMeter::work(kLookup * static_cast<int64_t>(1 + table.ends.size()));
  int64_t most = 0;
  for (const Table* part : table.parts) most = std::max(most, most_after(place, *part));
  if (const int64_t bound = table.unsure ? kNever : most_staying(place, table); bound < kNever)
    most = std::max(most, bound);
  else if (table.parts.empty())
    for (const LexerTables::Group& group : tables_.groups(table))
      if (const int64_t left = rests_.distance(place, group.unfinished); left < kNever) most = std::max(most, left);
  for (const LexerTables::End& end : table.ends) {
    const int32_t after = readings_.after_lexeme(place, end.label, end.ignored);
    if (after == kDead) continue;
    for (const LexerTables::Group& group : end.tokens)
      if (const int64_t left = rests_.distance(readings_.boundary(after, group.unfinished.competing)); left < kNever)
        most = std::max(most, left);
    if (end.rest != LexerTables::kNoRest)
      most = std::max(most, most_after(after, tables_.after(end, places_.start(after))));
  }
  return most;
}

// The most tokens that are needed after a token that stays within a lexeme of the table; kNever if some such lexeme may
// become no terminal that the parser accepts. `lines`: consider only lexemes that can become nothing but lines, or
// spaces before a line.
int64_t LexedMasks::most_staying(int32_t place, const Table& table, bool lines) {
  int64_t most = 0;
  for (const LexerTables::Profile& profile : table.profiles) {
    if (lines && std::ranges::any_of(profile.labels, [](const auto& label) { return label.last != kSpace; })) continue;
    int64_t least = kNever;
    for (size_t i = 0; i < profile.labels.size(); ++i) {
      const LexerTables::Label& label = profile.labels[i];
      const int32_t after = readings_.after_lexeme(place, label.terminal, label.ignored);
      if (after != kDead) least = std::min(least, profile.tokens[i] + rests_.rest(after, label.last));
    }
    if (!profile.lines.empty())
      places_.each_width(place, 0, [&](int32_t width) {
        const int32_t after = places_.after(place, places_.indentation().line(width));
        if (after != kDead) least = std::min(least, tables_.line_tokens(profile, width) + rests_.rest(after, kLine));
      });
    most = std::max(most, least);
  }
  return std::min(most, kNever);
}

void LexedMasks::fill(int32_t state, int64_t most, uint32_t* row) {
  const std::vector<Reading> readings = readings_.readings(state);
  for (const Reading& reading : readings) add_within(reading.place, table_of(reading), most, row);
  add_marks(state, most, row);
}

// The tokens of a table that a place allows, cached by the top of the parser's stack.
//
// Problem. A mask visits one table and takes one parser step for each sequence of terminals in its tokens. Nested
// brackets and blocks produce new stacks all the time, and each of their masks would be computed from scratch.
//
// How: the effect of a token's lexemes depends only on the top of the stack, as long as they do not leave it
// (run/top_of_stack.cpp). So a *share* is cached for each top and table: the tokens that are allowed whatever lies
// below, and the *ways* that leave the top, each a sequence of lexemes. Ways are followed from the place itself, whose
// parser state includes the stack below. Example, in C:
//
//     f(a, (b      cached for an expression in brackets: `+`, ` * 2`, `[i]` and 10,000 more; and the way `)`
//
// A share is built from the shares of the places after the table's ends. Completions are checked at the top, too: if
// all terminals have sure texts, every stack below can be completed (sequence_costs.hpp, `always_ends`).
//
// Cost: a parser step for each way, and a look-up for what follows it. A share holds only pointers.

void LexedMasks::add(int32_t place, const Table& table, uint32_t* row) {
  CallMeter::work(kLookup);
  for (const Table* part : table.parts) add(place, *part, row);
  if (!table.parts.empty()) return;
  const Share& kept = share(places_.top(place), table);
  if (!kept.known) return add_from_place(place, table, row);
  for (const TokenSet* tokens : kept.tokens) tokens->add_to(row);
  std::vector<int32_t> after;
  after.reserve(kept.ways.size());
  CallMeter::work(kLookup * static_cast<int64_t>(kept.ways.size() + 8 * kept.tokens.size()));
  for (const Way& way : kept.ways) {
    const int32_t from = way.before < 0 ? place : after[way.before];
    after.push_back(from == kDead ? from : readings_.after_lexeme(from, way.end->label, way.end->ignored));
    if (way.leaves && after.back() != kDead) add_after(after.back(), *way.end, row);
  }
}

void LexedMasks::add_from_place(int32_t place, const Table& table, uint32_t* row) {
  if (!is_proven(place, table)) return add_within(place, table, kNever - 1, row);
  table.stay.add_to(row);
  for (const LexerTables::End& end : table.ends)
    if (const int32_t after = readings_.after_lexeme(place, end.label, end.ignored); after != kDead)
      add_after(after, end, row);
}

void LexedMasks::add_after(int32_t after, const LexerTables::End& end, uint32_t* row) {
  for (const LexerTables::Group& group : end.tokens)
    if ((group.after.tokens < kNever && rests_.rest(after, group.after.last) < kNever) ||
        rests_.distance(readings_.boundary(after, group.unfinished.competing)) < kNever)
      group.tokens.add_to(row);
  if (end.rest != LexerTables::kNoRest) add(after, tables_.after(end, places_.start(after)), row);
}

const LexedMasks::Share& LexedMasks::share(int32_t top, const Table& table) {
  const uint64_t key = pair_key(top, table.number);
  if (const int32_t* known = share_numbers_.find(key)) return shares_[static_cast<size_t>(*known)];
  Share found = find_share(top, table);
  memory_ += 128 + found.tokens.size() * sizeof(void*) + found.ways.size() * sizeof(Way);
  share_numbers_.set(key, static_cast<int32_t>(shares_.size()));
  return shares_.emplace_back(std::move(found));
}

LexedMasks::Share LexedMasks::find_share(int32_t top, const Table& table) {
  Share out;
  if (!rests_.all_sure(top) || !is_proven(top, table)) return out;
  out.known = true;
  out.tokens.push_back(&table.stay);
  for (const LexerTables::End& end : table.ends) go(top, end, nullptr, out);
  return out;
}

int32_t LexedMasks::Path::add_to(std::vector<Way>& ways) {
  if (number >= 0) return number;
  const int32_t behind = before ? before->add_to(ways) : -1;
  ways.push_back({behind, end, false});
  return number = static_cast<int32_t>(ways.size()) - 1;
}

// Follows one end from a place in a top, which the path `before` has reached.
void LexedMasks::go(int32_t from, const LexerTables::End& end, Path* before, Share& out) {
  const bool is_line = places_.indentation().is_line(end.label);
  const int32_t after = is_line ? from : readings_.after_lexeme(from, end.label, end.ignored);
  if (after == kDead) return;
  bool known = !is_line && !places_.leaves_top(after);
  for (size_t i = 0; known && i < end.tokens.size(); ++i)
    known = end.tokens[i].after.tokens < kNever && rests_.rest(after, end.tokens[i].after.last) < kNever;
  Path path{before, &end};
  if (known) known = follow(after, end, path, out);
  if (!known) out.ways.push_back({before ? before->add_to(out.ways) : -1, &end, true});
}

// Adds the tokens that end with a lexeme, and those that continue after it. Returns false if some depend on the stack
// below the top.
bool LexedMasks::follow(int32_t after, const LexerTables::End& end, Path& path, Share& out) {
  for (const LexerTables::Group& group : end.tokens) out.tokens.push_back(&group.tokens);
  if (end.rest == LexerTables::kNoRest) return true;
  std::vector<const Table*> next{&tables_.after(end, places_.start(after))};
  bool known = true;
  for (size_t i = 0; known && i < next.size(); ++i) {
    CallMeter::work(kLookup);
    for (const Table* part : next[i]->parts) next.push_back(part);  // GCC 13 warns about `insert` here
    if (!next[i]->parts.empty()) continue;
    const Share& behind = share(places_.top(after), *next[i]);
    known = behind.known;
    out.tokens.insert(out.tokens.end(), behind.tokens.begin(), behind.tokens.end());
    std::vector<std::pair<int32_t, Path>> reached;  // by way
    reached.reserve(behind.ways.size());
    for (const Way& way : behind.ways) {
      auto [from, before] =
          way.before < 0 ? std::pair{after, &path} : std::pair{reached[way.before].first, &reached[way.before].second};
      if (way.leaves && from != kDead) go(from, *way.end, before, out);
      const bool goes_on = !way.leaves && from != kDead;
      reached.emplace_back(goes_on ? readings_.after_lexeme(from, way.end->label, way.end->ignored) : kDead,
                           Path{before, way.end});
    }
  }
  return known;
}

}  // namespace guided
