#include "lexer/lexed_masks.hpp"

#include <algorithm>

namespace guided {

const std::vector<uint32_t>& LexedMasks::mask(int32_t state) {
  if (const std::vector<uint32_t>* cached = known(state)) return *cached;
  if (memory_ > max_memory_) {
    masks_.clear();
    memory_ = 0;
  }
  if (tables_.memory() > max_memory_) tables_.clear();
  if (memory_ == 0 || table_clear_count_ != tables_.clear_count()) {
    share_numbers_ = {};
    shares_.clear();
    table_clear_count_ = tables_.clear_count();
  }
  std::vector<uint32_t> row(static_cast<size_t>(vocabulary_.words), 0);
  const std::vector<Reading> readings = readings_.of(state);
  for (const Reading& reading : readings) add(reading.position, table_of(reading), row.data());
  add_special_tokens(state, kNever - 1, row.data());
  memory_ += row.size() * 4 + 64;
  return masks_[state] = std::move(row);
}

// Adds the control tokens after which at most `max_rest` tokens are needed, and the end tokens.
void LexedMasks::add_special_tokens(int32_t state, int64_t max_rest, uint32_t* row) {
  for (int32_t token : readings_.controls(state))
    if (const int32_t next = readings_.step_control(state, token); next != kDead && rests_.distance(next) <= max_rest)
      set_bit(row, token);
  if (readings_.accepting(state))
    for (int32_t end : vocabulary_.end_tokens) set_bit(row, end);
}

// Adds the tokens of a table after which at most `max_rest` tokens are needed.
void LexedMasks::add_within_budget(int32_t position, const Table& table, int64_t max_rest, uint32_t* row) {
  CallMeter::work(kLookup * static_cast<int64_t>(1 + table.ends.size()));
  for (const Table* group_table : table.group_tables) add_within_budget(position, *group_table, max_rest, row);
  if (!table.group_tables.empty()) return;
  for (const LexerTables::Group& group : tables_.groups(table)) {
    if (rests_.distance(position, group.unfinished) <= max_rest) group.tokens.add_to(row);
  }
  for (const LexerTables::End& end : table.ends) {
    const int32_t next_position = readings_.after_lexeme(position, end.label, end.is_ignored);
    if (next_position == kDead) continue;
    for (const LexerTables::Group& group : end.tokens)
      if (rests_.distance(readings_.reading_at_boundary(next_position, group.unfinished.competitors)) <= max_rest)
        group.tokens.add_to(row);
    if (end.rest != LexerTables::kNoRest)
      add_within_budget(next_position, tables_.table_after(end, positions_.start(next_position)), max_rest, row);
  }
}

int64_t LexedMasks::max_rest_after(int32_t state) {
  if (const auto it = max_rests_.find(state); it != max_rests_.end()) return it->second;
  int64_t max_rest = 0;
  const std::vector<Reading> readings = readings_.of(state);
  for (const Reading& reading : readings)
    max_rest = std::max(max_rest, max_rest_after(reading.position, table_of(reading)));
  for (int32_t token : readings_.controls(state))
    if (const int32_t next = readings_.step_control(state, token); next != kDead && rests_.viable(next))
      max_rest = std::max(max_rest, rests_.distance(next));
  return max_rests_[state] = max_rest;
}

int64_t LexedMasks::max_rest_after(int32_t position, const Table& table) {
  CallMeter::work(kLookup * static_cast<int64_t>(1 + table.ends.size()));
  int64_t max_rest = 0;
  for (const Table* group_table : table.group_tables)
    max_rest = std::max(max_rest, max_rest_after(position, *group_table));
  if (const int64_t bound = max_rest_staying(position, table); bound < kNever) {
    max_rest = std::max(max_rest, bound);
    for (const UnfinishedLexeme& unfinished : table.unproven)
      if (const int64_t rest = rests_.distance(position, unfinished); rest < kNever)
        max_rest = std::max(max_rest, rest);
  } else if (table.group_tables.empty()) {
    for (const LexerTables::Group& group : tables_.groups(table))
      if (const int64_t rest = rests_.distance(position, group.unfinished); rest < kNever)
        max_rest = std::max(max_rest, rest);
  }
  for (const LexerTables::End& end : table.ends) {
    const int32_t next_position = readings_.after_lexeme(position, end.label, end.is_ignored);
    if (next_position == kDead) continue;
    for (const LexerTables::Group& group : end.tokens)
      if (const int64_t rest =
              rests_.distance(readings_.reading_at_boundary(next_position, group.unfinished.competitors));
          rest < kNever)
        max_rest = std::max(max_rest, rest);
    if (end.rest != LexerTables::kNoRest)
      max_rest =
          std::max(max_rest, max_rest_after(next_position, tables_.table_after(end, positions_.start(next_position))));
  }
  return max_rest;
}

// Returns an upper bound on the number of tokens that are needed after a token that ends within a lexeme of the table;
// kNever if none is known for some such lexeme. `only_lines`: consider only lexemes that can become nothing but lines,
// or spaces before a line.
int64_t LexedMasks::max_rest_staying(int32_t position, const Table& table, bool only_lines) {
  int64_t max_rest = 0;
  for (const LexerTables::Profile& profile : table.profiles) {
    if (only_lines && std::ranges::any_of(profile.labels, [](const auto& label) { return label.last != kSpace; }))
      continue;
    int64_t min_rest = kNever;
    for (size_t i = 0; i < profile.labels.size(); ++i) {
      const LexerTables::Label& label = profile.labels[i];
      const int32_t next_position = readings_.after_lexeme(position, label.terminal, label.is_ignored);
      if (next_position != kDead)
        min_rest = std::min(min_rest, profile.tokens[i] + rests_.rest(next_position, label.last));
    }
    if (!profile.lines.empty())
      positions_.each_width(position, 0, [&](int32_t width) {
        const int32_t next_position = positions_.advance(position, positions_.indentation().line(width));
        if (next_position != kDead)
          min_rest = std::min(min_rest, tables_.line_tokens(profile, width) + rests_.rest(next_position, kLine));
      });
    max_rest = std::max(max_rest, min_rest);
  }
  return std::min(max_rest, kNever);
}

// The tokens of a proven table that end within its lexeme, without those that have no completion at this lexer
// position.
const TokenSet& LexedMasks::find_staying(int32_t position, const Table& table) {
  std::vector<UnfinishedLexeme> dead;
  for (const UnfinishedLexeme& unfinished : table.unproven)
    if (rests_.distance(position, unfinished) >= kNever) dead.push_back(unfinished);
  return dead.empty() ? table.stay : tables_.staying_without(table, dead);
}

void LexedMasks::fill(int32_t state, int64_t max_rest, uint32_t* row) {
  const std::vector<Reading> readings = readings_.of(state);
  for (const Reading& reading : readings) add_within_budget(reading.position, table_of(reading), max_rest, row);
  add_special_tokens(state, max_rest, row);
}

// The tokens of a table that a lexer position allows, cached by the top of the parser's stack.
//
// Problem. A mask reads one table and takes one parser step for each sequence of terminals in its tokens. Nested
// brackets and blocks produce new stacks all the time, and each of their masks would be computed from scratch.
//
// How: the effect of a token's lexemes depends only on the top of the stack, as long as they do not leave it
// (run/top_of_stack.cpp). So a *share* of the mask is cached for each top and table: the tokens that are allowed for
// any stack below the top, and the sequences of lexemes that leave the top. The sequences are followed from the
// position itself, whose parser state includes the stack below. Example, in C:
//
//     f(a, (b      cached for an expression in brackets: `+`, ` * 2`, `[i]` and 10,000 more; and the sequence `)`
//
// A share is built from the shares of the positions after the table's ends. Completions are also checked only for the
// top: if all terminals have sure texts, every stack below the top can be completed (sequence_costs.hpp,
// `always_ends`).
//
// Cost: a parser step for each sequence, and a look-up for its continuation. A share contains only pointers.

void LexedMasks::add(int32_t position, const Table& table, uint32_t* row) {
  CallMeter::work(kLookup);
  for (const Table* group_table : table.group_tables) add(position, *group_table, row);
  if (!table.group_tables.empty()) return;
  const Share& cached = share(top(position), table);
  if (!cached.is_usable) return add_from_position(position, table, row);
  find_staying(position, table).add_to(row);
  for (const TokenSet* tokens : cached.tokens) tokens->add_to(row);
  std::vector<int32_t> next_positions;  // by sequence
  next_positions.reserve(cached.sequences.size());
  CallMeter::work(kLookup * static_cast<int64_t>(cached.sequences.size() + 8 * cached.tokens.size()));
  for (const Sequence& each : cached.sequences) {
    const int32_t from = each.prefix < 0 ? position : next_positions[each.prefix];
    next_positions.push_back(from == kDead ? from
                                           : readings_.after_lexeme(from, each.end->label, each.end->is_ignored));
    if (each.leaves_top && next_positions.back() != kDead) add_after(next_positions.back(), *each.end, row);
  }
}

void LexedMasks::add_from_position(int32_t position, const Table& table, uint32_t* row) {
  if (!is_proven(position, table)) return add_within_budget(position, table, kNever - 1, row);
  find_staying(position, table).add_to(row);
  for (const LexerTables::End& end : table.ends)
    if (const int32_t next_position = readings_.after_lexeme(position, end.label, end.is_ignored);
        next_position != kDead)
      add_after(next_position, end, row);
}

void LexedMasks::add_after(int32_t next_position, const LexerTables::End& end, uint32_t* row) {
  for (const LexerTables::Group& group : end.tokens)
    if ((group.demand.tokens < kNever && rests_.rest(next_position, group.demand.last) < kNever) ||
        rests_.distance(readings_.reading_at_boundary(next_position, group.unfinished.competitors)) < kNever)
      group.tokens.add_to(row);
  if (end.rest != LexerTables::kNoRest)
    add(next_position, tables_.table_after(end, positions_.start(next_position)), row);
}

const LexedMasks::Share& LexedMasks::share(int32_t top, const Table& table) {
  const uint64_t key = pair_key(top, table.number);
  if (const int32_t* number = share_numbers_.find(key)) return shares_[static_cast<size_t>(*number)];
  Share built = build_share(top, table);
  memory_ += 128 + built.tokens.size() * sizeof(void*) + built.sequences.size() * sizeof(Sequence);
  share_numbers_.set(key, static_cast<int32_t>(shares_.size()));
  return shares_.emplace_back(std::move(built));
}

LexedMasks::Share LexedMasks::build_share(int32_t top, const Table& table) {
  Share out;
  if (!rests_.all_sure(top) || !is_proven(top, table)) return out;
  out.is_usable = true;
  for (const LexerTables::End& end : table.ends) follow_end(top, end, nullptr, out);
  return out;
}

int32_t LexedMasks::PendingSequence::add_to(std::vector<Sequence>& sequences) {
  if (number >= 0) return number;
  const int32_t prefix_number = prefix ? prefix->add_to(sequences) : -1;
  sequences.push_back({prefix_number, end, false});
  return number = static_cast<int32_t>(sequences.size()) - 1;
}

// Follows one end of a table from the position `from`, which the sequence `prefix` reaches within the top.
void LexedMasks::follow_end(int32_t from, const LexerTables::End& end, PendingSequence* prefix, Share& out) {
  const bool is_line = positions_.indentation().is_line(end.label);
  const int32_t next_position = is_line ? from : readings_.after_lexeme(from, end.label, end.is_ignored);
  if (next_position == kDead) return;
  bool stays_in_top = !is_line && !positions_.leaves_top(next_position);
  for (size_t i = 0; stays_in_top && i < end.tokens.size(); ++i)
    stays_in_top =
        end.tokens[i].demand.tokens < kNever && rests_.rest(next_position, end.tokens[i].demand.last) < kNever;
  PendingSequence sequence{prefix, &end};
  if (stays_in_top) stays_in_top = follow_rest(next_position, end, sequence, out);
  if (!stays_in_top) out.sequences.push_back({prefix ? prefix->add_to(out.sequences) : -1, &end, true});
}

// Adds the tokens that end with a lexeme, and the tokens that continue after it. Returns false if some of them depend
// on the stack below the top.
bool LexedMasks::follow_rest(int32_t next_position, const LexerTables::End& end, PendingSequence& sequence,
                             Share& out) {
  for (const LexerTables::Group& group : end.tokens) out.tokens.push_back(&group.tokens);
  if (end.rest == LexerTables::kNoRest) return true;
  std::vector<const Table*> tables{&tables_.table_after(end, positions_.start(next_position))};
  bool is_usable = true;
  for (size_t i = 0; is_usable && i < tables.size(); ++i) {
    CallMeter::work(kLookup);
    for (const Table* group_table : tables[i]->group_tables)
      tables.push_back(group_table);  // GCC 13 warns about `insert` here
    if (!tables[i]->group_tables.empty()) continue;
    const Share& next_share = share(top(next_position), *tables[i]);
    is_usable = next_share.is_usable && tables[i]->unproven.empty();
    if (is_usable) out.tokens.push_back(&tables[i]->stay);
    out.tokens.insert(out.tokens.end(), next_share.tokens.begin(), next_share.tokens.end());
    // By sequence of `next_share`: the position after it.
    std::vector<std::pair<int32_t, PendingSequence>> sequence_ends;
    sequence_ends.reserve(next_share.sequences.size());
    for (const Sequence& each : next_share.sequences) {
      auto [from, prefix] = each.prefix < 0
                                ? std::pair{next_position, &sequence}
                                : std::pair{sequence_ends[each.prefix].first, &sequence_ends[each.prefix].second};
      if (each.leaves_top && from != kDead) follow_end(from, *each.end, prefix, out);
      const bool is_prefix = !each.leaves_top && from != kDead;
      sequence_ends.emplace_back(
          is_prefix ? readings_.after_lexeme(from, each.end->label, each.end->is_ignored) : kDead,
          PendingSequence{prefix, each.end});
    }
  }
  return is_usable;
}

}  // namespace guided
