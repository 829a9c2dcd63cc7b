#include "lexer/sequence_costs.hpp"

#include <algorithm>

namespace guided {

namespace {
constexpr int32_t kMaxNesting = 8;
constexpr int32_t kImpossible = -1;
}  // namespace

SequenceCosts::SequenceCosts(const Grammar& rules, const Indentation& indentation, const BlockLevels& levels,
                             const std::vector<int64_t>& weights, const SureLines& lines)
    : rules_(rules),
      indentation_(indentation),
      levels_(levels),
      weights_(weights),
      lines_(lines),
      kinds_(lines.are_sure ? kSpace + 1 : 1) {
  if (lines.are_sure) find_max_nesting();
}

// Returns the new value of `last` after a symbol; kImpossible if the symbol cannot follow.
int32_t SequenceCosts::last_after(int32_t last, int32_t symbol) const {
  if (kinds_ == 1) return 0;
  if (symbol == indentation_.indent) return last == kNewline ? kLine : kImpossible;
  if (symbol == indentation_.dedent) return last == kNewline || last == kDedent ? kDedent : kEnd;
  if (last == kEnd || (last == kSpace && symbol == indentation_.newline)) return kImpossible;
  if (last != kWord && last != kSpace && !lines_.ends_newline[symbol]) return kImpossible;
  return symbol == indentation_.newline ? kNewline : kWord;
}

// Repeats passes until nothing changes. Costs only decrease, and each pass settles at least one more position. A pass
// updates only positions from which an edge or a call leads to a position that has changed since the last update.
const SequenceCosts::Costs& SequenceCosts::costs_for(const Prices& prices) {
  std::unique_ptr<Costs>& cached = costs_by_prices_[prices];
  if (cached) return *cached;
  const Costs* inner = prices.size() > 1 ? &costs_for({prices.begin() + 1, prices.end()}) : nullptr;
  auto costs = std::make_unique<Costs>();
  costs->cells.assign(rules_.positions.size() * kinds_ * kinds_, kNone);
  struct Times {
    int32_t updated = -1, changed = 0;
  };
  std::vector<Times> times(rules_.positions.size());
  int32_t now = 0;
  auto needs_update = [&](const Position& p, const Times& own) {
    bool is_due = own.updated < 0;
    for (int32_t i = p.token_lo; i < p.token_hi && !is_due; ++i)
      is_due = times[rules_.tokens[i].to].changed > own.updated;
    for (int32_t i = p.call_lo; i < p.call_hi && !is_due; ++i) {
      const CallEdge& call = rules_.calls[i];
      is_due = times[rules_.rules[call.rule].start].changed > own.updated ||
               (!call.tail && times[call.after].changed > own.updated);
    }
    return is_due;
  };
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t p = rules_.positions.size(); p-- > 0;) {
      if (!needs_update(rules_.positions[p], times[p])) continue;
      times[p].updated = now;
      if (!improve(*costs, static_cast<int32_t>(p), inner, prices)) continue;
      times[p].changed = ++now;
      has_changed = true;
    }
  }
  return *(costs_by_prices_[prices] = std::move(costs));
}

bool SequenceCosts::improve(Costs& costs, int32_t position, const Costs* inner, const Prices& prices) const {
  const Position& p = rules_.positions[position];
  const size_t size = static_cast<size_t>(kinds_) * kinds_;
  int32_t* const own = costs.cells.data() + position * size;
  bool has_changed = false;
  auto lower = [&](int32_t last_before, int32_t last, int32_t cost) {
    int32_t& cell = own[last_before * kinds_ + last];
    if (cost >= cell) return;
    cell = cost;
    has_changed = true;
  };
  for (int32_t last_before = 0; last_before < kinds_; ++last_before) {
    if (p.accept) lower(last_before, last_before, 0);
    auto add_continuation = [&](const Costs& table, int32_t to, int32_t last, int32_t cost) {
      const int32_t* rest = table.cells.data() + to * size + last * kinds_;
      for (int32_t end = 0; end < kinds_; ++end)
        if (rest[end] < kNone) lower(last_before, end, cost + rest[end]);
    };
    for (const TokenEdge& edge : rules_.tokens_of(p)) {
      const int32_t last = last_after(last_before, edge.token);
      const bool is_line = kinds_ > 1 && edge.token == indentation_.newline;
      if (last == kImpossible) continue;
      if (kinds_ > 1 && edge.token == indentation_.indent) {
        if (inner) add_continuation(*inner, edge.to, last, static_cast<int32_t>(prices[1] - prices[0]));
      } else if (const int64_t weight = is_line ? prices[0] : weights_[edge.token]; weight < kNever) {
        add_continuation(costs, edge.to, last, static_cast<int32_t>(weight));
      }
    }
    for (const CallEdge& call : rules_.calls_of(p)) {
      const int32_t* first = costs.cells.data() + rules_.rules[call.rule].start * size + last_before * kinds_;
      for (int32_t last = 0; last < kinds_; ++last) {
        if (first[last] >= kNone) continue;
        if (call.tail)
          lower(last_before, last, first[last]);
        else
          add_continuation(costs, call.after, last, first[last]);
      }
    }
  }
  return has_changed;
}

// Increases the nesting until deeper nesting makes no more ends reachable.
void SequenceCosts::find_max_nesting() {
  auto costs_of = [&](int32_t nesting) -> const Costs& {
    return costs_for(Prices(static_cast<size_t>(nesting) + 1, 1));
  };
  auto have_equal_ends = [&](const Costs& a, const Costs& b) {
    return std::ranges::equal(a.cells, b.cells, [](int32_t x, int32_t y) { return (x == kNone) == (y == kNone); });
  };
  while (max_nesting_ < kMaxNesting && !have_equal_ends(costs_of(max_nesting_), costs_of(max_nesting_ + 1)))
    ++max_nesting_;
  const ReadBefore read_before = find_read_before();
  for (int32_t nesting = 0; nesting <= max_nesting_; ++nesting)
    always_ends_.push_back(can_always_end(costs_of(nesting), read_before));
}

// Repeats passes over the positions until nothing changes.
SequenceCosts::ReadBefore SequenceCosts::find_read_before() const {
  ReadBefore out{std::vector<uint8_t>(rules_.positions.size()), std::vector<uint8_t>(rules_.rules.size())};
  bool has_changed = true;
  auto add = [&](uint8_t& values, uint8_t more) {
    has_changed |= (values | more) != values;
    values |= more;
  };
  add(out.positions[rules_.rules[rules_.start].start], 1 << kWord | 1 << kNewline | 1 << kLine | 1 << kDedent);
  while (std::exchange(has_changed, false))
    for (size_t i = 0; i < rules_.positions.size(); ++i) {
      const Position& p = rules_.positions[i];
      const uint8_t before = out.positions[i];
      if (p.accept) add(out.ends[p.rule], before);
      for (const TokenEdge& edge : rules_.tokens_of(p))
        for (int32_t last = 0; last < kinds_; ++last)
          if (const int32_t next = before >> last & 1 ? last_after(last, edge.token) : kImpossible; next != kImpossible)
            add(out.positions[edge.to], static_cast<uint8_t>(1 << next));
      for (const CallEdge& call : rules_.calls_of(p)) {
        add(out.positions[rules_.rules[call.rule].start], before);
        if (before != 0) add(call.tail ? out.ends[p.rule] : out.positions[call.after], out.ends[call.rule]);
      }
    }
  return out;
}

bool SequenceCosts::can_always_end(const Costs& costs, const ReadBefore& read_before) const {
  auto leads_to_end = [&](int32_t position, int32_t last_before) {
    for (int32_t last = 0; last < kinds_; ++last)
      if (at(costs, position, last_before, last) < kNever) return true;
    return false;
  };
  bool always_ends = true;
  for (size_t i = 0; i < rules_.positions.size(); ++i) {
    if (read_before.positions[i] == 0) continue;
    for (const TokenEdge& edge : rules_.tokens_of(rules_.positions[i]))
      if (edge.token < indentation_.terminals && edge.token != indentation_.newline)
        always_ends &= leads_to_end(edge.to, kWord);
    for (const CallEdge& call : rules_.calls_of(rules_.positions[i]))
      for (int32_t last = 0; last < kinds_ && !call.tail; ++last)
        if (read_before.ends[call.rule] >> last & 1) always_ends &= leads_to_end(call.after, last);
  }
  return always_ends;
}

int32_t TerminalRests::nesting(int32_t lines) const {
  const Indentation& indentation = positions_.indentation();
  return std::min({costs_.max_nesting(), indentation.most_levels - positions_.levels(lines),
                   indentation.most_width - positions_.width(lines)});
}

const SequenceCosts::Costs& TerminalRests::costs_at(int32_t lines) {
  if (lines >= static_cast<int32_t>(by_lines_.size())) by_lines_.resize(lines + 1);
  if (!by_lines_[lines])
    by_lines_[lines] = &costs_.costs_for(costs_.kinds() > 1 ? costs_.prices(positions_.width(lines), nesting(lines))
                                                            : SequenceCosts::Prices());
  return *by_lines_[lines];
}

int64_t TerminalRests::weight(int32_t position, LastRead last) {
  return rest_of_state(positions_.parser(position), lines(position))[costs_.kinds() > 1 ? last : 0];
}

// Not recursive, because return configurations nest as deep as the parser's stack.
const TerminalRests::Rest& TerminalRests::rest_of_state(int32_t state, int32_t lines) {
  if (const auto it = rests_.find(pair_key(state, lines)); it != rests_.end()) return it->second;
  const Arena& arena = parser_.arena();
  const int32_t kinds = costs_.kinds();
  std::vector<std::pair<int32_t, int32_t>> todo{{state, lines}};
  while (!todo.empty()) {
    const auto [config, config_lines] = todo.back();
    if (rests_.contains(pair_key(config, config_lines))) {
      todo.pop_back();
      continue;
    }
    const SequenceCosts::Costs& costs = costs_at(config_lines);
    Rest best;
    best.fill(kNever);
    bool must_wait = false;
    for (const Thread& t : arena.config(config)) {
      if (t.pos == kExit) {
        best.fill(0);
        continue;
      }
      int32_t return_lines = config_lines;
      for (int32_t level = costs_.levels().level_at(t.pos); kinds > 1 && level > 0; --level)
        // A top may have fewer lines (LexerPositions::top).
        if (const int32_t outer = positions_.outer(return_lines); outer >= 0) return_lines = outer;
      const auto rest = rests_.find(pair_key(t.ret, return_lines));
      if (rest == rests_.end()) {
        todo.emplace_back(t.ret, return_lines);
        must_wait = true;
        continue;
      }
      for (int32_t last_before = 0; last_before < kinds; ++last_before)
        for (int32_t last = 0; last < kinds; ++last)
          best[last_before] =
              std::min(best[last_before], costs_.at(costs, t.pos, last_before, last) + rest->second[last]);
    }
    if (must_wait) continue;
    for (int64_t& each : best) each = std::min(each, kNever);
    rests_[pair_key(config, config_lines)] = best;
    todo.pop_back();
  }
  return rests_[pair_key(state, lines)];
}

}  // namespace guided
