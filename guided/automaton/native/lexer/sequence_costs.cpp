#include "lexer/sequence_costs.hpp"

#include <algorithm>

namespace guided {

namespace {
constexpr int32_t kMaxNesting = 8;
constexpr int32_t kNowhere = -1;
}  // namespace

SequenceCosts::SequenceCosts(const Grammar& rules, const Indentation& indentation, const BlockLevels& levels,
                             const std::vector<int64_t>& weights, const SureLines& lines)
    : rules_(rules),
      indentation_(indentation),
      levels_(levels),
      weights_(weights),
      lines_(lines),
      kinds_(lines.sure ? kSpace + 1 : 1) {
  if (lines.sure) find_nesting();
}

// The new value of `last` after a symbol; kNowhere if the symbol cannot follow.
int32_t SequenceCosts::next(int32_t last, int32_t symbol) const {
  if (kinds_ == 1) return 0;
  if (symbol == indentation_.indent) return last == kNewline ? kLine : kNowhere;
  if (symbol == indentation_.dedent) return last == kNewline || last == kDedent ? kDedent : kEnd;
  if (last == kEnd || (last == kSpace && symbol == indentation_.newline)) return kNowhere;
  if (last != kWord && last != kSpace && !lines_.follow[symbol]) return kNowhere;
  return symbol == indentation_.newline ? kNewline : kWord;
}

// Repeats passes until nothing changes. Costs only decrease, and each pass settles at least one more position. A pass
// looks only at positions from which an edge or a call leads to one that has changed since.
const SequenceCosts::Costs& SequenceCosts::of(const Prices& prices) {
  std::unique_ptr<Costs>& known = known_[prices];
  if (known) return *known;
  const Costs* inner = prices.size() > 1 ? &of({prices.begin() + 1, prices.end()}) : nullptr;
  auto costs = std::make_unique<Costs>();
  costs->cells.assign(rules_.positions.size() * kinds_ * kinds_, kNone);
  struct Times {
    int32_t looked_at = -1, changed = 0;
  };
  std::vector<Times> times(rules_.positions.size());
  int32_t now = 0;
  auto is_due = [&](const Position& p, const Times& own) {
    bool due = own.looked_at < 0;
    for (int32_t i = p.token_lo; i < p.token_hi && !due; ++i) due = times[rules_.tokens[i].to].changed > own.looked_at;
    for (int32_t i = p.call_lo; i < p.call_hi && !due; ++i) {
      const CallEdge& call = rules_.calls[i];
      due = times[rules_.rules[call.rule].start].changed > own.looked_at ||
            (!call.tail && times[call.after].changed > own.looked_at);
    }
    return due;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t p = rules_.positions.size(); p-- > 0;) {
      if (!is_due(rules_.positions[p], times[p])) continue;
      times[p].looked_at = now;
      if (!improve(*costs, static_cast<int32_t>(p), inner, prices)) continue;
      times[p].changed = ++now;
      changed = true;
    }
  }
  return *(known_[prices] = std::move(costs));
}

bool SequenceCosts::improve(Costs& costs, int32_t position, const Costs* inner, const Prices& prices) const {
  const Position& p = rules_.positions[position];
  const size_t size = static_cast<size_t>(kinds_) * kinds_;
  int32_t* const own = costs.cells.data() + position * size;
  bool changed = false;
  auto lower = [&](int32_t before, int32_t last, int32_t cost) {
    int32_t& known = own[before * kinds_ + last];
    if (cost >= known) return;
    known = cost;
    changed = true;
  };
  for (int32_t before = 0; before < kinds_; ++before) {
    if (p.accept) lower(before, before, 0);
    auto then = [&](const Costs& table, int32_t to, int32_t last, int32_t cost) {
      const int32_t* rest = table.cells.data() + to * size + last * kinds_;
      for (int32_t end = 0; end < kinds_; ++end)
        if (rest[end] < kNone) lower(before, end, cost + rest[end]);
    };
    for (const TokenEdge& edge : rules_.tokens_of(p)) {
      const int32_t last = next(before, edge.token);
      const bool is_line = kinds_ > 1 && edge.token == indentation_.newline;
      if (last == kNowhere) continue;
      if (kinds_ > 1 && edge.token == indentation_.indent) {
        if (inner) then(*inner, edge.to, last, static_cast<int32_t>(prices[1] - prices[0]));
      } else if (const int64_t weight = is_line ? prices[0] : weights_[edge.token]; weight < kNever) {
        then(costs, edge.to, last, static_cast<int32_t>(weight));
      }
    }
    for (const CallEdge& call : rules_.calls_of(p)) {
      const int32_t* first = costs.cells.data() + rules_.rules[call.rule].start * size + before * kinds_;
      for (int32_t last = 0; last < kinds_; ++last) {
        if (first[last] >= kNone) continue;
        if (call.tail)
          lower(before, last, first[last]);
        else
          then(costs, call.after, last, first[last]);
      }
    }
  }
  return changed;
}

// Increases the nesting until a deeper one makes no more ends reachable.
void SequenceCosts::find_nesting() {
  auto costs_of = [&](int32_t nesting) -> const Costs& { return of(Prices(static_cast<size_t>(nesting) + 1, 1)); };
  auto same = [&](const Costs& a, const Costs& b) {
    return std::ranges::equal(a.cells, b.cells, [](int32_t x, int32_t y) { return (x == kNone) == (y == kNone); });
  };
  while (nesting_ < kMaxNesting && !same(costs_of(nesting_), costs_of(nesting_ + 1))) ++nesting_;
  std::vector<uint8_t> ends(rules_.rules.size() * kinds_);  // by rule: what may have been read last at its end
  const Costs& most = costs_of(nesting_);
  for (size_t p = 0; p < rules_.positions.size(); ++p)
    for (int32_t before = 0; before < kSpace; ++before)
      for (int32_t last = 0; last < kSpace; ++last)
        if (at(most, static_cast<int32_t>(p), before, last) < kNever)
          ends[rules_.positions[p].rule * kinds_ + last] = true;
  for (int32_t nesting = 0; nesting <= nesting_; ++nesting)
    always_ends_.push_back(can_always_end(costs_of(nesting), ends));
}

bool SequenceCosts::can_always_end(const Costs& costs, const std::vector<uint8_t>& ends) const {
  auto leads_on = [&](int32_t position, int32_t before) {
    for (int32_t last = 0; last < kinds_; ++last)
      if (at(costs, position, before, last) < kNever) return true;
    return false;
  };
  bool good = true;
  for (const TokenEdge& edge : rules_.tokens)
    if (edge.token < indentation_.terminals && edge.token != indentation_.newline) good &= leads_on(edge.to, kWord);
  for (const CallEdge& call : rules_.calls)
    for (int32_t last = 0; last < kinds_ && !call.tail; ++last)
      if (ends[call.rule * kinds_ + last]) good &= leads_on(call.after, last);
  return good;
}

int32_t TerminalRests::nesting(int32_t lines) const {
  const Indentation& indentation = places_.indentation();
  return std::min({costs_.nesting(), indentation.most_levels - places_.levels(lines),
                   indentation.most_width - places_.width(lines)});
}

const SequenceCosts::Costs& TerminalRests::costs_at(int32_t lines) {
  if (lines >= static_cast<int32_t>(by_lines_.size())) by_lines_.resize(lines + 1);
  if (!by_lines_[lines])
    by_lines_[lines] =
        &costs_.of(costs_.kinds() > 1 ? costs_.prices(places_.width(lines), nesting(lines)) : SequenceCosts::Prices());
  return *by_lines_[lines];
}

int64_t TerminalRests::of(int32_t place, LastRead last) {
  return of_state(places_.parser(place), lines(place))[costs_.kinds() > 1 ? last : 0];
}

// Not recursive, since return configurations nest as deep as the parser's stack.
const TerminalRests::Rest& TerminalRests::of_state(int32_t state, int32_t lines) {
  if (const auto known = rests_.find(pair_key(state, lines)); known != rests_.end()) return known->second;
  const Arena& arena = parser_.arena();
  const int32_t kinds = costs_.kinds();
  std::vector<std::pair<int32_t, int32_t>> todo{{state, lines}};
  while (!todo.empty()) {
    const auto [at, around] = todo.back();
    if (rests_.contains(pair_key(at, around))) {
      todo.pop_back();
      continue;
    }
    const SequenceCosts::Costs& costs = costs_at(around);
    Rest best;
    best.fill(kNever);
    bool waits = false;
    for (const Thread& t : arena.config(at)) {
      if (t.pos == kExit) {
        best.fill(0);
        continue;
      }
      int32_t below = around;
      for (int32_t level = costs_.levels().of(t.pos); kinds > 1 && level > 0; --level) below = places_.around(below);
      const auto rest = rests_.find(pair_key(t.ret, below));
      if (rest == rests_.end()) {
        todo.emplace_back(t.ret, below);
        waits = true;
        continue;
      }
      for (int32_t before = 0; before < kinds; ++before)
        for (int32_t last = 0; last < kinds; ++last)
          best[before] = std::min(best[before], costs_.at(costs, t.pos, before, last) + rest->second[last]);
    }
    if (waits) continue;
    for (int64_t& each : best) each = std::min(each, kNever);
    rests_[pair_key(at, around)] = best;
    todo.pop_back();
  }
  return rests_[pair_key(state, lines)];
}

}  // namespace guided
