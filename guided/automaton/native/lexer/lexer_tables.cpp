#include "lexer/lexer_tables.hpp"

#include <algorithm>
#include <array>

namespace guided {

namespace {

constexpr int32_t kMinLoopTokens = 48;  // loops are used below nodes with at least this many longer tokens
constexpr int64_t kSpotWork = 3;        // units of CallMeter per trie node

}  // namespace

void LexerTables::clear() {
  tables_.clear();
  loop_results_.clear();
  rest_ids_.clear();
  rests_.resize(1);
  rest_bytes_.resize(1);
  has_disjoint_spots_.clear();
  memory_ = 0;
  ++clear_count_;
}

const LexerTables::Table& LexerTables::table(int32_t lexeme, Rest rest) {
  const uint64_t key = pair_key(lexeme, rest);
  if (auto it = tables_.find(key); it != tables_.end()) return *it->second;
  std::unique_ptr<Table> out;
  const std::vector<int32_t> groups = lexemes_.groups(lexeme);
  if (groups.size() > 1) {
    out = std::make_unique<Table>();
    for (int32_t group : groups)
      if (!readable_bytes(group, rest).empty())
        if (const Table& group_table = table(group, rest); !group_table.empty())
          out->group_tables.push_back(&group_table);
  } else {
    out = build(lexeme, rest);
  }
  CallMeter::memory(out->stay.bytes());
  out->lexeme = lexeme;
  out->rest = rest;
  out->number = size();
  return *(tables_[key] = std::move(out));
}

// The bytes with which the lexeme continues at some spot of the rest.
ByteSet LexerTables::readable_bytes(int32_t lexeme, Rest rest) const {
  ByteSet out = lexemes_.state(lexeme).bytes;
  if (rest != kRoot) out &= rest_bytes_[rest];
  return out;
}

void LexerTables::walk(int32_t lexeme, Rest rest, WalkResult& result) {
  if (rest == kRoot) return collect_below(lexeme, spot(0, 0), result);
  readable_bytes(lexeme, rest).each([&](uint8_t byte) {
    const int32_t next = lexemes_.step(lexeme, byte);
    if (next == kNoLexeme) return;
    const std::vector<Spot>& spots = *rests_[rest];
    auto it = std::ranges::lower_bound(spots, byte, {}, &Spot::byte);
    for (; it != spots.end() && it->byte == byte; ++it) collect_from(next, *it, result);
  });
}

TokenSet LexerTables::make_set(WalkResult::Stay&& stay) const {
  if (stay.bits.empty()) return make_token_set(std::move(stay.tokens), vocabulary_.words);
  for (int32_t id : stay.tokens) set_bit(stay.bits.data(), id);
  return make_token_set(std::move(stay.bits));
}

std::unique_ptr<LexerTables::Table> LexerTables::build(int32_t lexeme, Rest rest) {
  WalkResult result;
  const int32_t similar = lexemes_.find_similar(lexeme);
  if (similar == kNoLexeme || similar == lexeme || !start_from_similar(similar, lexeme, rest, result))
    walk(lexeme, rest, result);
  auto table = std::make_unique<Table>();
  table->stay = make_set(std::move(result.stay));
  memory_ += 256 + table->stay.bytes();
  for (auto& [label, end_result] : result.ends) {
    End end{.label = label.first, .is_ignored = label.second, .tokens = {}};
    for (auto& [competitors, tokens] : end_result.tokens) {
      if (tokens.empty()) continue;
      const Demand demand =
          ends_.demand({.label = end.label, .is_ignored = end.is_ignored, .tokens = 0, .competitors = competitors});
      end.tokens.push_back({{kNoLexeme, competitors}, make_token_set(std::move(tokens), vocabulary_.words), demand});
      memory_ += end.tokens.back().tokens.bytes();
    }
    memory_ += end_result.spots.size() * sizeof(Spot);
    if (!end_result.spots.empty()) end.rest = intern(std::move(end_result.spots));
    table->ends.push_back(std::move(end));
  }
  find_profiles(*table, result);
  return table;
}

// Whether no spot lies below another, so each token belongs to at most one of them.
bool LexerTables::has_disjoint_spots(Rest rest) {
  if (rest == kRoot) return true;
  if (rest >= static_cast<Rest>(has_disjoint_spots_.size())) has_disjoint_spots_.resize(rest + 1, -1);
  if (has_disjoint_spots_[rest] < 0) {
    std::vector<std::pair<int32_t, int32_t>> ranges;
    for (const Spot& spot : *rests_[rest]) {
      const TokenTrie::Node& node = vocabulary_.trie.nodes()[spot.node];
      ranges.emplace_back(node.payload_lo, node.subtree_hi);
    }
    std::ranges::sort(ranges);
    has_disjoint_spots_[rest] = std::ranges::adjacent_find(ranges, [](const auto& a, const auto& b) {
                                  return b.first < a.second;
                                }) == ranges.end();
  }
  return has_disjoint_spots_[rest] > 0;
}

// Copies the table of the state `similar`, and corrects it where the two states differ. Returns false if this is
// impossible or not worthwhile.
bool LexerTables::start_from_similar(int32_t similar, int32_t lexeme, Rest rest, WalkResult& result) {
  if (!has_disjoint_spots(rest)) return false;
  const Table& base = table(similar, rest);
  if (base.stay.dense.empty()) return false;
  result.stay.bits = base.stay.dense;
  result.profiles = base.profiles;
  result.unproven = base.unproven;
  for (const End& end : base.ends) {
    WalkResult::EndResult& end_result = result.ends[{end.label, end.is_ignored}];
    if (end.rest != kNoRest) end_result.spots = *rests_[end.rest];
    for (const Group& group : end.tokens)
      group.tokens.each([&](int32_t id) { end_result.tokens[group.unfinished.competitors].push_back(id); });
  }
  const TokenTrie& trie = vocabulary_.trie;
  WalkResult to_add, to_remove;
  auto compare_at = [&](Spot spot) {
    add_differences(lexemes_.step(lexeme, spot.byte), lexemes_.step(similar, spot.byte), spot, to_add, to_remove);
  };
  if (rest == kRoot) {
    const TokenTrie::Node& root = trie.nodes()[0];
    for (int32_t c = root.first_child; c < root.first_child + root.children; ++c) compare_at(spot(c, 0));
  } else {
    for (const Spot& spot : *rests_[rest]) compare_at(spot);
  }
  result.remove(to_remove);
  for (auto& [label, end_result] :
       to_add.ends) {  // merged, because sorting the many spots of the base again takes longer
    std::vector<Spot>& to = result.ends[label].spots;
    const auto middle = static_cast<std::ptrdiff_t>(to.size());
    sort_unique(end_result.spots);
    to.insert(to.end(), end_result.spots.begin(), end_result.spots.end());
    std::inplace_merge(to.begin(), to.begin() + middle, to.end());
    end_result.spots.clear();
  }
  result.add(to_add);
  return true;
}

// At a spot whose byte has just been read, and below it: adds the results of `lexeme` to `to_add` and the results of
// `similar` to `to_remove`, until the two states are equal.
void LexerTables::add_differences(int32_t lexeme, int32_t similar, Spot spot, WalkResult& to_add,
                                  WalkResult& to_remove) {
  CallMeter::work(kSpotWork);
  if (lexeme == similar) return;
  if (lexeme == kNoLexeme) return collect_from(similar, spot, to_remove);
  if (similar == kNoLexeme) return collect_from(lexeme, spot, to_add);
  collect_at(lexeme, spot, to_add);
  collect_at(similar, spot, to_remove);
  const TokenTrie& trie = vocabulary_.trie;
  ByteSet bytes = lexemes_.state(lexeme).bytes;
  bytes |= lexemes_.state(similar).bytes;
  if (spot.competitors != 0) bytes &= competitors_.surviving_bytes(spot.competitors);
  trie.children(spot.node, bytes, [&](int32_t child) {
    const Spot next = child_spot(child, spot.competitors);
    add_differences(lexemes_.step(lexeme, next.byte), lexemes_.step(similar, next.byte), next, to_add, to_remove);
  });
}

void LexerTables::find_profiles(Table& table, const WalkResult& result) {
  std::map<std::pair<std::vector<Label>, bool>, Profile> profiles;
  table.unproven = result.unproven;
  for (uint64_t key : result.unfinished) {
    const UnfinishedLexeme unfinished{static_cast<int32_t>(key >> 32), static_cast<int32_t>(key)};
    if (ends_.sure_texts().all())
      if (const LexemeEnds::FreeEnd& end = ends_.free_end(unfinished); end.is_found()) {
        const std::vector<Label> labels{{end.label, end.is_ignored, end.demand.last}};
        Profile& profile = profiles[{labels, false}];
        profile.labels = labels;
        profile.tokens.resize(1);
        profile.tokens[0] = std::max(profile.tokens[0], end.tokens);
        continue;
      }
    std::map<Label, int64_t> ends;
    for (const LexemeEnds::End& end : ends_.ends(unfinished)) {
      const Demand demand = ends_.demand(end);
      const int64_t tokens = end.tokens + demand.tokens;
      auto [it, added] = ends.try_emplace({end.label, end.is_ignored, demand.last}, tokens);
      it->second = std::min(it->second, tokens);
    }
    std::erase_if(ends, [](const auto& end) { return end.second >= kNever; });
    const bool has_lines = !ends_.lines(unfinished).empty();
    if (ends.empty() && !has_lines) {
      table.unproven.push_back(unfinished);
      continue;
    }
    std::vector<Label> labels;
    for (const auto& [label, tokens] : ends) labels.push_back(label);
    Profile& profile = profiles[{labels, has_lines}];
    profile.tokens.resize(labels.size());
    size_t i = 0;
    for (const auto& [label, tokens] : ends) profile.tokens[i] = std::max(profile.tokens[i], tokens), ++i;
    if (has_lines) profile.lines.push_back(unfinished);
    profile.labels = std::move(labels);
  }
  sort_unique(table.unproven);
  memory_ += table.unproven.size() * sizeof(UnfinishedLexeme);
  for (const Profile& profile : result.profiles) table.profiles.push_back(profile);
  for (auto& [labels, profile] : profiles) {
    memory_ += 64 + profile.labels.size() * 20 + profile.lines.size() * sizeof(UnfinishedLexeme);
    table.profiles.push_back(std::move(profile));
  }
}

int64_t LexerTables::line_tokens(const Profile& profile, int32_t width) {
  auto [it, added] = profile.line_tokens.try_emplace(width, 0);
  if (added)
    for (UnfinishedLexeme unfinished : profile.lines)
      it->second = std::max(it->second, ends_.line_tokens(unfinished, width));
  return it->second;
}

const std::vector<LexerTables::Group>& LexerTables::groups(const Table& table) {
  if (table.groups) return *table.groups;
  WalkResult result;
  result.is_grouped = true;
  walk(table.lexeme, table.rest, result);
  table.groups = std::make_unique<std::vector<Group>>();
  for (auto& [unfinished, stay] : result.groups) {
    table.groups->push_back({unfinished, make_set(std::move(stay))});
    memory_ += table.groups->back().tokens.bytes();
  }
  return *table.groups;
}

const TokenSet& LexerTables::staying_without(const Table& table, const std::vector<UnfinishedLexeme>& lexemes) {
  auto [it, added] = table.staying_without.try_emplace(lexemes);
  if (added) {
    std::vector<uint32_t> row(static_cast<size_t>(vocabulary_.words));
    for (const Group& group : groups(table))
      if (!std::ranges::binary_search(lexemes, group.unfinished)) group.tokens.add_to(row.data());
    it->second = make_token_set(std::move(row));
    memory_ += 128 + lexemes.size() * sizeof(UnfinishedLexeme) + it->second.bytes();
    CallMeter::memory(it->second.bytes());
  }
  return it->second;
}

// Collects the results at a spot whose byte has just been read, and below it.
void LexerTables::collect_from(int32_t lexeme, Spot spot, WalkResult& result) {
  collect_at(lexeme, spot, result);
  if (!lexemes_.state(lexeme).open_matches.empty() && vocabulary_.trie.nodes()[spot.node].children > 0)
    collect_below(lexeme, spot, result);
}

// Collects the tokens that end at the spot, and the spots of the next bytes if the lexeme ends there.
void LexerTables::collect_at(int32_t lexeme, Spot spot, WalkResult& result) {
  CallMeter::work(kSpotWork);
  const TokenTrie& trie = vocabulary_.trie;
  const TokenTrie::Node& node = trie.nodes()[spot.node];
  const LexemeState& state = lexemes_.state(lexeme);
  const bool is_open = !state.open_matches.empty(), has_tokens = node.payload_hi > node.payload_lo;
  std::vector<int32_t>* tokens = is_open && has_tokens ? &result.stay_for({lexeme, spot.competitors}).tokens : nullptr;
  if (state.label != kNoTerminal) {
    WalkResult::EndResult& end_result = result.end_result(state.label, state.is_ignored);
    if (!is_open && has_tokens) tokens = &end_result.tokens[competitors_.add(spot.competitors, lexeme)];
    if (node.children > 0) collect_continuations(lexeme, spot, end_result);
  }
  if (!tokens) return;
  for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) tokens->push_back(trie.payloads()[i]);
}

// The lexeme ends at the spot: collects the spots at which tokens continue.
void LexerTables::collect_continuations(int32_t lexeme, Spot spot, WalkResult::EndResult& end_result) {
  const TokenTrie& trie = vocabulary_.trie;
  const int32_t competitors = competitors_.add(spot.competitors, lexeme);
  const ByteSet surviving = competitors_.surviving_bytes(competitors);
  CallMeter::work(kSpotWork);
  trie.children(spot.node, surviving,
                [&](int32_t child) { end_result.spots.push_back(child_spot(child, competitors)); });
}

// Collects the results below the spot, where the lexeme continues.
void LexerTables::collect_below(int32_t lexeme, Spot spot, WalkResult& result) {
  const TokenTrie& trie = vocabulary_.trie;
  const TokenTrie::Node& node = trie.nodes()[spot.node];
  if (spot.competitors == 0 && !node.is_inside_character && node.subtree_hi - node.payload_hi >= kMinLoopTokens) {
    const CharClasses loops = lexemes_.loops(lexeme);
    if (loops & node.classes_below) return collect_loop(lexeme, loops, spot.node, result);
  }
  ByteSet bytes = lexemes_.state(lexeme).bytes;
  if (spot.competitors != 0) bytes &= competitors_.surviving_bytes(spot.competitors);
  trie.children(spot.node, bytes, [&](int32_t child) {
    const int32_t next = lexemes_.step(lexeme, trie.nodes()[child].byte);
    if (next != kNoLexeme) collect_from(next, child_spot(child, spot.competitors), result);
  });
}

// Like `collect_below`, if characters of the classes `loops` lead back to the lexer state. At the root, the tokens that
// consist of these classes are one set, which the vocabulary caches, and the walk continues at the edges of this set.
// At other nodes, `walk_loop_below` takes whole subtrees that contain only these classes.
void LexerTables::walk_loop(int32_t lexeme, CharClasses loops, int32_t node, WalkResult& result) {
  const LexemeState& state = lexemes_.state(lexeme);
  Loop loop{.lexeme = lexeme, .loops = loops, .bytes = state.bytes};
  if (state.label != kNoTerminal) {
    loop.ends = &result.ends[{state.label, state.is_ignored}].spots;
    loop.competitors = competitors_.add(0, lexeme);
    loop.surviving = competitors_.surviving_bytes(loop.competitors);
  }
  if (node != 0) return walk_loop_below(loop, node, result);
  const std::shared_ptr<const ClassTokens> tokens = vocabulary_.tokens_of_classes(loops, true);
  WalkResult::Stay& stay = result.stay_for({lexeme, 0});
  if (!tokens->tokens.empty()) {
    if (stay.bits.empty()) stay.bits.assign(static_cast<size_t>(vocabulary_.words), 0);
    for (size_t w = 0; w < tokens->tokens.size(); ++w) stay.bits[w] |= tokens->tokens[w];
  } else {
    stay.tokens.insert(stay.tokens.end(), tokens->ids.begin(), tokens->ids.end());
  }
  for (int byte = 0; byte < 256; ++byte)
    for (const ClassTokens::Edge& edge : tokens->edges[byte]) leave_loop(loop, edge.node, result, edge.depth > 0);
}

// Like `walk_loop`, but caches the results below nodes other than the root.
void LexerTables::collect_loop(int32_t lexeme, CharClasses loops, int32_t node, WalkResult& result) {
  if (node == 0 || result.is_grouped) return walk_loop(lexeme, loops, node, result);
  const uint64_t key = pair_key(lexeme, node);
  if (!loop_results_.contains(key)) {
    auto out = std::make_unique<WalkResult>();
    walk_loop(lexeme, loops, node, *out);
    memory_ += out->memory();
    CallMeter::memory(out->memory());
    loop_results_[key] = std::move(out);
  }
  result.add(*loop_results_[key]);
}

// Adds a result that has no groups, profiles or bits.
void LexerTables::WalkResult::add(const WalkResult& other) {
  stay.tokens.insert(stay.tokens.end(), other.stay.tokens.begin(), other.stay.tokens.end());
  unfinished.insert(other.unfinished.begin(), other.unfinished.end());
  for (const auto& [label, end_result] : other.ends) {
    EndResult& to = ends[label];
    to.spots.insert(to.spots.end(), end_result.spots.begin(), end_result.spots.end());
    for (const auto& [competitors, tokens] : end_result.tokens) {
      std::vector<int32_t>& ids = to.tokens[competitors];
      ids.insert(ids.end(), tokens.begin(), tokens.end());
    }
  }
}

void LexerTables::WalkResult::remove(const WalkResult& other) {
  for (int32_t id : other.stay.tokens) clear_bit(stay.bits.data(), id);
  for (const auto& [label, end_result] : other.ends) {
    EndResult& from = ends[label];
    std::vector<Spot> spots = end_result.spots;
    sort_unique(spots);
    std::erase_if(from.spots, [&](const Spot& spot) { return std::ranges::binary_search(spots, spot); });
    for (const auto& [competitors, tokens] : end_result.tokens) {
      std::vector<int32_t> ids = tokens;
      sort_unique(ids);
      std::erase_if(from.tokens[competitors], [&](int32_t id) { return std::ranges::binary_search(ids, id); });
    }
  }
}

size_t LexerTables::WalkResult::memory() const {
  size_t out = 256 + stay.tokens.size() * 4 + unfinished.size() * 32;
  for (const auto& [label, end_result] : ends) {
    out += 128 + end_result.spots.size() * sizeof(Spot);
    for (const auto& [competitors, tokens] : end_result.tokens) out += 64 + tokens.size() * 4;
  }
  return out;
}

// Collects the results at a node whose byte leaves the loop, after a string of the loop's classes. `has_begun`: the
// string is not empty.
void LexerTables::leave_loop(const Loop& loop, int32_t node, WalkResult& result, bool has_begun) {
  CallMeter::work(kSpotWork);
  const Spot next_spot = spot(node, 0);
  if (has_begun && loop.ends && loop.surviving.has(next_spot.byte))
    loop.ends->push_back(child_spot(node, loop.competitors));
  if (!loop.bytes.has(next_spot.byte)) return;
  const int32_t next = lexemes_.step(loop.lexeme, next_spot.byte);
  if (next != kNoLexeme) collect_from(next, next_spot, result);
}

void LexerTables::walk_loop_below(const Loop& loop, int32_t node, WalkResult& result) {
  const TokenTrie& trie = vocabulary_.trie;
  const TokenTrie::Node& parent = trie.nodes()[node];
  CallMeter::work(kSpotWork + parent.children);
  for (int32_t c = parent.first_child; c < parent.first_child + parent.children; ++c) {
    const TokenTrie::Node& child = trie.nodes()[c];
    if (child.byte >= 0x80 || !(char_class_of_ascii(child.byte) & loop.loops)) {
      leave_loop(loop, c, result, true);
      continue;
    }
    const bool is_whole_subtree = (child.classes_below & ~loop.loops) == 0;
    std::vector<int32_t>& tokens = result.stay_for({loop.lexeme, 0}).tokens;
    tokens.insert(tokens.end(), trie.payloads().begin() + child.payload_lo,
                  trie.payloads().begin() + (is_whole_subtree ? child.subtree_hi : child.payload_hi));
    if (!is_whole_subtree) walk_loop_below(loop, c, result);
  }
}

LexerTables::Rest LexerTables::all_tokens(int32_t competitors) {
  if (competitors == 0) return kRoot;
  std::vector<Spot> spots;
  const ByteSet surviving = competitors_.surviving_bytes(competitors);
  const TokenTrie& trie = vocabulary_.trie;
  trie.children(0, surviving, [&](int32_t child) { spots.push_back(child_spot(child, competitors)); });
  return intern(std::move(spots));
}

// Sorts by byte first, in linear time: nearly always, spots with equal bytes are in order already.
void LexerTables::sort_spots(std::vector<Spot>& spots) {
  if (std::ranges::is_sorted(spots)) return;
  std::array<size_t, 257> first{};  // by byte: the index of the byte's first spot
  for (const Spot& spot : spots) ++first[size_t{spot.byte} + 1];
  for (size_t byte = 0; byte < 256; ++byte) first[byte + 1] += first[byte];
  std::vector<Spot> sorted(spots.size());
  for (const Spot& spot : spots) sorted[first[spot.byte]++] = spot;
  spots = std::move(sorted);
  if (!std::ranges::is_sorted(spots)) std::ranges::sort(spots);
}

LexerTables::Rest LexerTables::intern(std::vector<Spot>&& spots) {
  sort_spots(spots);
  spots.erase(std::ranges::unique(spots).begin(), spots.end());
  auto [it, added] = rest_ids_.try_emplace(spots, static_cast<Rest>(rests_.size()));
  if (!added) return it->second;
  ByteSet bytes;
  for (const Spot& each : spots) bytes.add(each.byte);
  rest_bytes_.push_back(bytes);
  rests_.push_back(std::make_unique<std::vector<Spot>>(std::move(spots)));
  return it->second;
}

}  // namespace guided
