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

// The control tokens and the end tokens.
void LexedMasks::add_marks(int32_t state, int64_t most, uint32_t* row) {
  for (int32_t token : readings_.controls(state))
    if (const int32_t after = readings_.step_control(state, token); after != kDead && rests_.distance(after) <= most)
      set_bit(row, token);
  if (readings_.accepting(state))
    for (int32_t end : vocabulary_.end_tokens) set_bit(row, end);
}

// The tokens of a table after which at most `most` are left.
void LexedMasks::add_within(int32_t place, const Table& table, int64_t most, uint32_t* row) {
  CallMeter::work(kLookup * static_cast<int64_t>(1 + table.ends.size()));
  for (const Table* part : table.parts) add_within(place, *part, most, row);
  if (!table.parts.empty()) return;
  for (const LexerTables::Group& group : tables_.groups(table)) {
    if (rests_.distance(place, group.begun) <= most) group.tokens.add_to(row);
  }
  for (const LexerTables::End& end : table.ends) {
    const int32_t after = readings_.after_lexeme(place, end.label, end.ignored);
    if (after == kDead) continue;
    for (const LexerTables::Group& group : end.tokens)
      if (rests_.distance(readings_.boundary(after, group.begun.competing)) <= most) group.tokens.add_to(row);
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
      if (const int64_t left = rests_.distance(place, group.begun); left < kNever) most = std::max(most, left);
  for (const LexerTables::End& end : table.ends) {
    const int32_t after = readings_.after_lexeme(place, end.label, end.ignored);
    if (after == kDead) continue;
    for (const LexerTables::Group& group : end.tokens)
      if (const int64_t left = rests_.distance(readings_.boundary(after, group.begun.competing)); left < kNever)
        most = std::max(most, left);
    if (end.rest != LexerTables::kNoRest)
      most = std::max(most, most_after(after, tables_.after(end, places_.start(after))));
  }
  return most;
}

// The most that is left after a token that stays within a lexeme of the table; kNever where some such lexeme may be none
// that the parser can take. `lines`: of lexemes that can become nothing but lines, or spaces before one.
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

}  // namespace guided
