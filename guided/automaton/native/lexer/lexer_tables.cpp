#include "lexer/lexer_tables.hpp"

#include <algorithm>
#include <set>

namespace guided {

namespace {

constexpr int32_t kLoopFrom = 48;  // loops are used below nodes with at least this many longer tokens
constexpr int64_t kSpotWork = 3;   // units of CallMeter per trie node

}  // namespace

void LexerTables::clear() {
  tables_.clear();
  runs_.clear();
  rest_ids_.clear();
  rests_.resize(1);
  apart_.clear();
  memory_ = 0;
  ++clearings_;
}

const LexerTables::Table& LexerTables::table(int32_t lexeme, Rest rest) {
  const uint64_t key = pair_key(lexeme, rest);
  if (auto at = tables_.find(key); at != tables_.end()) return *at->second;
  std::unique_ptr<Table> out;
  const std::vector<int32_t> groups = lexemes_.groups(lexeme);
  if (groups.size() > 1) {
    out = std::make_unique<Table>();
    for (int32_t group : groups)
      if (const Table& part = table(group, rest); !part.empty()) out->parts.push_back(&part);
  } else {
    out = build(lexeme, rest);
  }
  CallMeter::memory(out->stay.bytes());
  out->lexeme = lexeme;
  out->rest = rest;
  out->number = size();
  return *(tables_[key] = std::move(out));
}

void LexerTables::walk(int32_t lexeme, Rest rest, Found& found) {
  if (rest == kRoot) return below(lexeme, spot(0, 0), found);
  const ByteSet bytes = lexemes_.state(lexeme).bytes;
  bytes.each([&](uint8_t byte) {
    const int32_t after = lexemes_.step(lexeme, byte);
    if (after == kNoLexeme) return;
    const std::vector<Spot>& spots = *rests_[rest];
    auto it = std::ranges::lower_bound(spots, byte, {}, &Spot::byte);
    for (; it != spots.end() && it->byte == byte; ++it) reach(after, *it, found);
  });
}

TokenSet LexerTables::make_set(Found::Stay&& stay) const {
  if (stay.bits.empty()) return make_token_set(std::move(stay.tokens), vocabulary_.words);
  for (int32_t id : stay.tokens) set_bit(stay.bits.data(), id);
  return make_token_set(std::move(stay.bits));
}

std::unique_ptr<LexerTables::Table> LexerTables::build(int32_t lexeme, Rest rest) {
  Found found;
  const int32_t like = lexemes_.likeness(lexeme);
  if (like == kNoLexeme || like == lexeme || !begin_with(like, lexeme, rest, found)) walk(lexeme, rest, found);
  auto table = std::make_unique<Table>();
  table->unsure = found.unsure;
  table->stay = make_set(std::move(found.stay));
  memory_ += 256 + table->stay.bytes();
  for (auto& [label, part] : found.ends) {
    End end{.label = label.first, .ignored = label.second, .tokens = {}};
    for (auto& [competing, tokens] : part.tokens) {
      if (tokens.empty()) continue;
      const Demand demand =
          ends_.demand({.label = end.label, .ignored = end.ignored, .tokens = 0, .competing = competing});
      end.tokens.push_back({{kNoLexeme, competing}, make_token_set(std::move(tokens), vocabulary_.words), demand});
      memory_ += end.tokens.back().tokens.bytes();
    }
    memory_ += part.spots.size() * sizeof(Spot);
    if (!part.spots.empty()) end.rest = intern(std::move(part.spots));
    table->ends.push_back(std::move(end));
  }
  find_profiles(*table, found);
  return table;
}

// Whether no spot lies below another, so that each token belongs to at most one of them.
bool LexerTables::apart(Rest rest) {
  if (rest == kRoot) return true;
  if (rest >= static_cast<Rest>(apart_.size())) apart_.resize(rest + 1, -1);
  if (apart_[rest] < 0) {
    std::vector<std::pair<int32_t, int32_t>> ranges;
    for (const Spot& spot : *rests_[rest]) {
      const TokenTrie::Node& node = vocabulary_.trie.nodes()[spot.node];
      ranges.emplace_back(node.payload_lo, node.subtree_hi);
    }
    std::ranges::sort(ranges);
    apart_[rest] = std::ranges::adjacent_find(
                       ranges, [](const auto& a, const auto& b) { return b.first < a.second; }) == ranges.end();
  }
  return apart_[rest] > 0;
}

// Copies the table of the similar state `like`, and corrects it where the two differ. Returns false if this is
// impossible or does not pay.
bool LexerTables::begin_with(int32_t like, int32_t lexeme, Rest rest, Found& found) {
  if (!apart(rest)) return false;
  const Table& base = table(like, rest);
  if (base.stay.dense.empty()) return false;
  found.stay.bits = base.stay.dense;
  found.profiles = base.profiles;
  found.unsure = base.unsure;
  for (const End& end : base.ends) {
    Found::Part& part = found.ends[{end.label, end.ignored}];
    if (end.rest != kNoRest) part.spots = *rests_[end.rest];
    for (const Group& group : end.tokens)
      group.tokens.each([&](int32_t id) { part.tokens[group.unfinished.competing].push_back(id); });
  }
  const TokenTrie& trie = vocabulary_.trie;
  Found gone, come;
  auto look_at = [&](Spot spot) {
    differ(lexemes_.step(lexeme, spot.byte), lexemes_.step(like, spot.byte), spot, come, gone);
  };
  if (rest == kRoot) {
    const TokenTrie::Node& root = trie.nodes()[0];
    for (int32_t c = root.first_child; c < root.first_child + root.children; ++c) look_at(spot(c, 0));
  } else {
    for (const Spot& spot : *rests_[rest]) look_at(spot);
  }
  found.remove(gone);
  found.add(come);
  return true;
}

// At a spot whose byte has just been read, and below it: adds the results of `lexeme` to `found` and the results of
// `like` to `gone`, until the two states are equal.
void LexerTables::differ(int32_t lexeme, int32_t like, Spot spot, Found& found, Found& gone) {
  CallMeter::work(kSpotWork);
  if (lexeme == like) return;
  if (lexeme == kNoLexeme) return reach(like, spot, gone);
  if (like == kNoLexeme) return reach(lexeme, spot, found);
  note(lexeme, spot, found);
  note(like, spot, gone);
  const TokenTrie& trie = vocabulary_.trie;
  ByteSet bytes = lexemes_.state(lexeme).bytes;
  bytes |= lexemes_.state(like).bytes;
  if (spot.competing != 0)
    for (int w = 0; w < 4; ++w) bytes.w[w] &= competing_.surviving_bytes(spot.competing).w[w];
  trie.children(spot.node, bytes, [&](int32_t child) {
    const Spot after = spot_after(child, spot.competing);
    differ(lexemes_.step(lexeme, after.byte), lexemes_.step(like, after.byte), after, found, gone);
  });
}

void LexerTables::find_profiles(Table& table, const Found& found) {
  std::map<std::pair<std::vector<Label>, bool>, Profile> profiles;
  for (uint64_t key : found.unfinished) {
    const UnfinishedLexeme unfinished{static_cast<int32_t>(key >> 32), static_cast<int32_t>(key)};
    std::map<Label, int64_t> ends;
    for (const LexemeEnds::End& end : ends_.ends(unfinished)) {
      const Demand after = ends_.demand(end);
      const int64_t tokens = end.tokens + after.tokens;
      auto [at, added] = ends.try_emplace({end.label, end.ignored, after.last}, tokens);
      at->second = std::min(at->second, tokens);
    }
    std::erase_if(ends, [](const auto& end) { return end.second >= kNever; });
    const bool has_lines = !ends_.lines(unfinished).empty();
    table.unsure |= ends.empty() && !has_lines;
    std::vector<Label> labels;
    for (const auto& [label, tokens] : ends) labels.push_back(label);
    Profile& profile = profiles[{labels, has_lines}];
    profile.tokens.resize(labels.size());
    size_t i = 0;
    for (const auto& [label, tokens] : ends) profile.tokens[i] = std::max(profile.tokens[i], tokens), ++i;
    if (has_lines) profile.lines.push_back(unfinished);
    profile.labels = std::move(labels);
  }
  for (const Profile& profile : found.profiles) table.profiles.push_back(profile);
  for (auto& [labels, profile] : profiles) {
    memory_ += 64 + profile.labels.size() * 20 + profile.lines.size() * sizeof(UnfinishedLexeme);
    table.profiles.push_back(std::move(profile));
  }
}

int64_t LexerTables::line_tokens(const Profile& profile, int32_t width) {
  auto [at, added] = profile.line_tokens.try_emplace(width, 0);
  if (added)
    for (UnfinishedLexeme unfinished : profile.lines)
      at->second = std::max(at->second, ends_.line_tokens(unfinished, width));
  return at->second;
}

const std::vector<LexerTables::Group>& LexerTables::groups(const Table& table) {
  if (table.groups) return *table.groups;
  Found found;
  found.grouped = true;
  walk(table.lexeme, table.rest, found);
  table.groups = std::make_unique<std::vector<Group>>();
  for (auto& [unfinished, stay] : found.groups) {
    table.groups->push_back({unfinished, make_set(std::move(stay))});
    memory_ += table.groups->back().tokens.bytes();
  }
  return *table.groups;
}

// Collects the results at a spot whose byte has just been read, and below it.
void LexerTables::reach(int32_t lexeme, Spot spot, Found& found) {
  note(lexeme, spot, found);
  if (!lexemes_.state(lexeme).open.empty() && vocabulary_.trie.nodes()[spot.node].children > 0)
    below(lexeme, spot, found);
}

// Collects the tokens that end at the spot, and the spots after it if the lexeme ends there.
void LexerTables::note(int32_t lexeme, Spot spot, Found& found) {
  CallMeter::work(kSpotWork);
  const TokenTrie& trie = vocabulary_.trie;
  const TokenTrie::Node& node = trie.nodes()[spot.node];
  const LexemeState& state = lexemes_.state(lexeme);
  const bool open = !state.open.empty(), has_tokens = node.payload_hi > node.payload_lo;
  std::vector<int32_t>* into = open && has_tokens ? &found.staying({lexeme, spot.competing}).tokens : nullptr;
  if (state.label != kNoTerminal) {
    Found::Part& part = found.part(state.label, state.ignored);
    if (!open && has_tokens) into = &part.tokens[competing_.add(spot.competing, lexeme)];
    if (node.children > 0) leave(lexeme, spot, part);
  }
  if (!into) return;
  for (int32_t at = node.payload_lo; at < node.payload_hi; ++at) into->push_back(trie.payloads()[at]);
}

// The lexeme ends at the spot: collects the spots at which tokens continue.
void LexerTables::leave(int32_t lexeme, Spot spot, Found::Part& part) {
  const TokenTrie& trie = vocabulary_.trie;
  const int32_t competing = competing_.add(spot.competing, lexeme);
  const ByteSet surviving = competing_.surviving_bytes(competing);
  CallMeter::work(kSpotWork);
  trie.children(spot.node, surviving, [&](int32_t child) { part.spots.push_back(spot_after(child, competing)); });
}

// The lexeme continues below the spot.
void LexerTables::below(int32_t lexeme, Spot spot, Found& found) {
  const TokenTrie& trie = vocabulary_.trie;
  const TokenTrie::Node& node = trie.nodes()[spot.node];
  if (spot.competing == 0 && !node.is_inside_character && node.subtree_hi - node.payload_hi >= kLoopFrom) {
    const CharClasses loops = lexemes_.loops(lexeme);
    if (loops & node.classes_below) return below_loop(lexeme, loops, spot.node, found);
  }
  ByteSet bytes = lexemes_.state(lexeme).bytes;
  if (spot.competing != 0) {
    const ByteSet& surviving = competing_.surviving_bytes(spot.competing);
    for (int w = 0; w < 4; ++w) bytes.w[w] &= surviving.w[w];
  }
  trie.children(spot.node, bytes, [&](int32_t child) {
    const int32_t after = lexemes_.step(lexeme, trie.nodes()[child].byte);
    if (after != kNoLexeme) reach(after, spot_after(child, spot.competing), found);
  });
}

// As `below`, if characters of the classes `loops` lead back to the lexer state. At the root, the tokens that consist
// of these classes are one set, which the vocabulary caches, and the walk continues at the edges of this set. At other
// nodes, `run` takes whole subtrees that contain only these classes.
void LexerTables::walk_loop(int32_t lexeme, CharClasses loops, int32_t at, Found& found) {
  const LexemeState& state = lexemes_.state(lexeme);
  Loop loop{.lexeme = lexeme, .loops = loops, .bytes = state.bytes};
  if (state.label != kNoTerminal) {
    loop.ends = &found.ends[{state.label, state.ignored}].spots;
    loop.competing = competing_.add(0, lexeme);
    loop.surviving = competing_.surviving_bytes(loop.competing);
  }
  if (at != 0) return run(loop, at, found);
  const std::shared_ptr<const ClassTokens> tokens = vocabulary_.tokens_of_classes(loops, true);
  Found::Stay& stay = found.staying({lexeme, 0});
  if (!tokens->tokens.empty()) {
    if (stay.bits.empty()) stay.bits.assign(static_cast<size_t>(vocabulary_.words), 0);
    for (size_t w = 0; w < tokens->tokens.size(); ++w) stay.bits[w] |= tokens->tokens[w];
  } else {
    stay.tokens.insert(stay.tokens.end(), tokens->ids.begin(), tokens->ids.end());
  }
  for (int byte = 0; byte < 256; ++byte)
    for (const ClassTokens::Edge& edge : tokens->edges[byte]) cross(loop, edge.node, found, edge.depth > 0);
}

void LexerTables::below_loop(int32_t lexeme, CharClasses loops, int32_t at, Found& found) {
  if (at == 0 || found.grouped) return walk_loop(lexeme, loops, at, found);
  const uint64_t key = pair_key(lexeme, at);
  if (!runs_.contains(key)) {
    auto out = std::make_unique<Found>();
    walk_loop(lexeme, loops, at, *out);
    memory_ += out->memory();
    CallMeter::memory(out->memory());
    runs_[key] = std::move(out);
  }
  found.add(*runs_[key]);
}

// Adds a result without groups, profiles and bits.
void LexerTables::Found::add(const Found& other) {
  stay.tokens.insert(stay.tokens.end(), other.stay.tokens.begin(), other.stay.tokens.end());
  unfinished.insert(other.unfinished.begin(), other.unfinished.end());
  for (const auto& [label, part] : other.ends) {
    Part& into = ends[label];
    into.spots.insert(into.spots.end(), part.spots.begin(), part.spots.end());
    for (const auto& [competing, tokens] : part.tokens) {
      std::vector<int32_t>& all = into.tokens[competing];
      all.insert(all.end(), tokens.begin(), tokens.end());
    }
  }
}

void LexerTables::Found::remove(const Found& other) {
  for (int32_t id : other.stay.tokens) clear_bit(stay.bits.data(), id);
  for (const auto& [label, part] : other.ends) {
    Part& from = ends[label];
    const std::set<Spot> spots(part.spots.begin(), part.spots.end());
    std::erase_if(from.spots, [&](const Spot& spot) { return spots.contains(spot); });
    for (const auto& [competing, tokens] : part.tokens) {
      const std::set<int32_t> ids(tokens.begin(), tokens.end());
      std::erase_if(from.tokens[competing], [&](int32_t id) { return ids.contains(id); });
    }
  }
}

size_t LexerTables::Found::memory() const {
  size_t out = 256 + stay.tokens.size() * 4 + unfinished.size() * 32;
  for (const auto& [label, part] : ends) {
    out += 128 + part.spots.size() * sizeof(Spot);
    for (const auto& [competing, tokens] : part.tokens) out += 64 + tokens.size() * 4;
  }
  return out;
}

// A node whose byte leaves the loop, after a string of the loop's classes. `has_begun`: the string is not empty.
void LexerTables::cross(const Loop& loop, int32_t node, Found& found, bool has_begun) {
  CallMeter::work(kSpotWork);
  const Spot at = spot(node, 0);
  if (has_begun && loop.ends && loop.surviving.has(at.byte)) loop.ends->push_back(spot_after(node, loop.competing));
  if (!loop.bytes.has(at.byte)) return;
  const int32_t after = lexemes_.step(loop.lexeme, at.byte);
  if (after != kNoLexeme) reach(after, at, found);
}

void LexerTables::run(const Loop& loop, int32_t at, Found& found) {
  const TokenTrie& trie = vocabulary_.trie;
  const TokenTrie::Node& node = trie.nodes()[at];
  CallMeter::work(kSpotWork + node.children);
  for (int32_t c = node.first_child; c < node.first_child + node.children; ++c) {
    const TokenTrie::Node& child = trie.nodes()[c];
    if (child.byte >= 0x80 || !(char_class_of_ascii(child.byte) & loop.loops)) {
      cross(loop, c, found, true);
      continue;
    }
    const bool all = (child.classes_below & ~loop.loops) == 0;
    std::vector<int32_t>& tokens = found.staying({loop.lexeme, 0}).tokens;
    tokens.insert(tokens.end(), trie.payloads().begin() + child.payload_lo,
                  trie.payloads().begin() + (all ? child.subtree_hi : child.payload_hi));
    if (!all) run(loop, c, found);
  }
}

LexerTables::Rest LexerTables::below_root(int32_t competing) {
  if (competing == 0) return kRoot;
  std::vector<Spot> spots;
  const ByteSet surviving = competing_.surviving_bytes(competing);
  const TokenTrie& trie = vocabulary_.trie;
  trie.children(0, surviving, [&](int32_t child) { spots.push_back(spot_after(child, competing)); });
  return intern(std::move(spots));
}

LexerTables::Rest LexerTables::intern(std::vector<Spot>&& spots) {
  sort_unique(spots);
  auto [at, added] = rest_ids_.try_emplace(spots, static_cast<Rest>(rests_.size()));
  if (added) rests_.push_back(std::make_unique<std::vector<Spot>>(std::move(spots)));
  return at->second;
}

}  // namespace guided
