#include "run/value_counts.hpp"

#include <algorithm>
#include <utility>

#include "base/call_meter.hpp"
#include "base/graph.hpp"

namespace guided {

namespace {
constexpr int64_t kLookWork = 64;            // per node
constexpr int kMaxSteps = 6;                 // to a position at which characters are counted
constexpr size_t kMaxVisitedPositions = 64;  // positions on the way there
constexpr int64_t kMuch = 64;                // more remaining characters than this make no difference

int32_t sum(int64_t a, int64_t b) { return static_cast<int32_t>(std::min<int64_t>(ValueCounts::kMany, a + b)); }
}  // namespace

// ---- the mode of each position
int32_t ValueCounts::node(int32_t position, Mode mode) {
  int32_t& number = number_[static_cast<size_t>(position) * kModes + mode];
  if (number < 0) {
    number = static_cast<int32_t>(nodes_.size());
    nodes_.push_back({.position = position, .mode = mode, .bytes = {}, .others = {}, .calls = {}});
  }
  return number;
}

void ValueCounts::begin(int32_t rule, Mode mode) {
  begun_[rule] |= mode == String ? 2 : 1;
  regular_ &= begun_[rule] != 3 && (mode == Between || mode == String);
}

void ValueCounts::end(int32_t rule, Mode mode) {
  const Mode ended = mode == String ? String : Between;
  regular_ &= mode <= String && (ended_[rule] == kModes || ended_[rule] == ended);
  ended_[rule] = ended;
  go_on_after(rule);
}

// A rule that ends the string in which it begins may end the entry. So nothing is assumed about what comes after a call
// of such a rule.
void ValueCounts::go_on_after(int32_t rule) {
  if (ended_[rule] == kModes) return;
  for (const auto& [caller, position] : std::exchange(waiting_[rule], {})) {
    const int32_t after = node(position, ended_[rule]);
    if ((begun_[rule] == 2) == (ended_[rule] == String)) nodes_[caller].others.push_back(after);
  }
}

// One edge for each node to which a byte leads.
std::vector<ValueCounts::Edge> ValueCounts::byte_edges(int32_t position, Mode mode) {
  const ValueScan& scan = ValueScan::table();
  std::vector<Edge> edges;
  int32_t target = -1;
  Mode reached = kModes;
  size_t last = 0;  // the edge of the previous byte: most bytes lead to the same node
  grammar_.positions[position].bytes.each([&](uint8_t byte) {
    const Mode next = scan.after(mode, byte);
    if (const int32_t to = grammar_.step(position, byte); to != target || next != reached) {
      target = to;
      reached = next;
      const int32_t number = node(to, next);
      last = static_cast<size_t>(std::ranges::find(edges, number, &Edge::to) - edges.begin());
      if (last == edges.size())
        edges.push_back({.to = number, .times = 0, .more = false, .structural = false, .ends = false});
    }
    Edge& edge = edges[last];
    ++edge.times;
    edge.more |= byte >= '1' && byte <= '9';
    edge.structural |= mode != String && scan.structural(byte);
    edge.ends |= mode == String ? byte == StringProgress::kQuote : scan.separates(byte);
  });
  return edges;
}

void ValueCounts::look(int32_t at) {
  const int32_t position = nodes_[at].position;
  const Mode mode = nodes_[at].mode;
  const Position& p = grammar_.positions[position];
  const Rule& rule = grammar_.rules[p.rule];
  CallMeter::work(kLookWork);
  if (p.accept) end(p.rule, mode);
  std::vector<Edge> edges = byte_edges(position, mode);
  bool ends = p.accept || std::ranges::any_of(edges, &Edge::ends);
  std::vector<int32_t> others, calls, called;
  for (const EffectEdge& e : grammar_.effects_of(p)) {
    nested_ |= e.effect.op == Effect::Open;
    ends |= e.effect.op == Effect::Keep;
    if (e.effect.op == Effect::Keep && !beyond_) continue;
    const int32_t to = node(e.to, mode);
    const bool counts = e.effect.op == Effect::Inc && (rule.max >= 0 || e.effect.b >= 0);
    if (!counts && e.effect.op != Effect::Put && e.effect.op != Effect::More && e.effect.op != Effect::Keep)
      others.push_back(to);
  }
  for (const TokenEdge& edge : grammar_.tokens_of(p)) node(edge.to, mode);
  for (const CallEdge& call : grammar_.calls_of(p)) {
    begin(call.rule, mode);
    calls.push_back(node(grammar_.rules[call.rule].start, mode));
    waiting_[call.rule].push_back({at, call.after});
    called.push_back(call.rule);
  }
  Node& n = nodes_[at];
  n.ends = ends;
  n.bytes = std::move(edges);
  n.others = std::move(others);
  n.calls = std::move(calls);
  for (int32_t callee : called) go_on_after(callee);
}

// Examines the nodes from the starts of entries to their ends; with `beyond`, also after them, as entries may nest.
void ValueCounts::look_at_entries(bool beyond) {
  beyond_ = beyond;
  nodes_.clear();
  number_.assign(grammar_.positions.size() * kModes, -1);
  begun_.assign(grammar_.rules.size(), 0);
  ended_.assign(grammar_.rules.size(), kModes);
  waiting_.assign(grammar_.rules.size(), {});
  for (const EffectEdge& e : grammar_.effects)
    if (e.effect.op == Effect::Begin) node(e.to, Between);
  for (size_t i = 0; i < nodes_.size() && regular_; ++i) look(static_cast<int32_t>(i));
}

void ValueCounts::prepare() {
  if (prepared_) return;
  prepared_ = true;
  facts_.assign(grammar_.positions.size(), {});
  look_at_entries(false);
  if (nested_) {
    regular_ = true;
    look_at_entries(true);
  }
  if (regular_) {
    count_paths();
    count_ahead();
    find_passing();
    for (const Node& n : nodes_) {
      Facts& facts = facts_[n.position];
      facts.count = facts.is_known ? std::min(facts.count, n.count) : n.count;
      facts.passes = n.passes && (facts.passes || !facts.is_known);
      facts.repeats = is_repeated(n, static_cast<int32_t>(&n - nodes_.data())) && (facts.repeats || !facts.is_known);
      facts.digits = n.mode == Whole && facts.repeats;
      facts.string = n.mode >= String && (facts.string || !facts.is_known);
      facts.is_known = true;
    }
  }
  nodes_ = {};
  number_ = {};
  waiting_ = {};
}

// ---- counting
// In a string, or in the digits of a number: counts the paths to the ends.
void ValueCounts::count_paths() {
  auto counts = [&](const Node& from, const Edge& edge) {
    const Mode to = nodes_[edge.to].mode;
    return (from.mode == to && (to == String || to == Whole || to == Fraction)) ||
           (from.mode == Whole && to == Fraction);
  };
  std::vector<std::vector<int32_t>> next(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (const Edge& edge : nodes_[i].bytes)
      if (counts(nodes_[i], edge)) next[i].push_back(edge.to);
  const std::vector<int32_t> component = components(next);
  std::vector<std::vector<int32_t>> members(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) members[component[i]].push_back(static_cast<int32_t>(i));
  for (const auto& group : members) {  // successors come first
    bool cycle = false;
    int32_t fraction = 0;
    int64_t ends = 0;
    for (int32_t i : group) {
      const Node& n = nodes_[i];
      ends += n.ends;
      for (const Edge& edge : n.bytes) {
        if (!counts(n, edge)) continue;
        if (component[edge.to] == component[i])
          cycle |= n.mode != Fraction || edge.more;
        else if (nodes_[edge.to].mode == Fraction)
          fraction = std::max(fraction, nodes_[edge.to].own);
        else
          ends = sum(ends, int64_t{edge.times} * nodes_[edge.to].own);
      }
    }
    for (int32_t i : group) {
      Node& n = nodes_[i];
      if (n.mode != String && n.mode != Whole && n.mode != Fraction) continue;
      n.own = cycle ? kMany : n.mode == Fraction ? fraction : std::max(fraction, sum(ends, 0));
      if (n.mode == String && strings_.goes_on(n.position)) n.own = kMany;
    }
  }
  for (Node& n : nodes_) {
    if (n.mode == Escape && strings_.goes_on(n.position)) n.own = kMany;
    if (n.mode != Between) continue;
    int64_t numbers = -grammar_.positions[n.position].bytes.has(ValueScan::kMinus);  // 0 and -0 are one value
    for (const Edge& edge : n.bytes) {
      const Node& to = nodes_[edge.to];
      if (to.mode == String) n.own = std::max(n.own, to.own);
      if (to.mode == Whole) numbers = sum(numbers, int64_t{edge.times} * to.own);
    }
    n.own = std::max(n.own, sum(numbers, 0));
  }
}

// The largest count before the entry ends. Past brackets, commas and colons, only kMany counts.
void ValueCounts::count_ahead() {
  std::vector<std::vector<int32_t>> next(nodes_.size()), before(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto from = static_cast<int32_t>(i);
    for (const Edge& edge : nodes_[i].bytes) {
      before[edge.to].push_back(from);
      if (!edge.structural) next[i].push_back(edge.to);
    }
    next[i].insert(next[i].end(), nodes_[i].others.begin(), nodes_[i].others.end());
    next[i].insert(next[i].end(), nodes_[i].calls.begin(), nodes_[i].calls.end());
    for (int32_t to : nodes_[i].others) before[to].push_back(from);
    for (int32_t to : nodes_[i].calls) before[to].push_back(from);
  }
  const std::vector<int32_t> component = components(next);
  std::vector<int32_t> most(nodes_.size(), 0), order(nodes_.size()), open;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return component[a] < component[b]; });
  for (int32_t i : order) {
    int32_t& here = most[component[i]];
    here = std::max(here, nodes_[i].own);
    for (int32_t to : next[i]) here = std::max(here, most[component[to]]);
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].count = most[component[i]];
    if (nodes_[i].count == kMany) open.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < open.size(); ++i)
    for (int32_t from : before[open[i]])
      if (std::exchange(nodes_[from].count, kMany) != kMany) open.push_back(from);
}

// Finds the nodes from which the frame can end while the entry continues.
void ValueCounts::find_passing() {
  std::vector<std::vector<int32_t>> before(nodes_.size());
  std::vector<int32_t> open;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& n = nodes_[i];
    n.passes = grammar_.positions[n.position].accept;
    if (n.passes) open.push_back(static_cast<int32_t>(i));
    for (const Edge& edge : n.bytes) before[edge.to].push_back(static_cast<int32_t>(i));
    for (int32_t to : n.others) before[to].push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < open.size(); ++i)
    for (int32_t from : before[open[i]])
      if (!std::exchange(nodes_[from].passes, true)) open.push_back(from);
}

// Zeros at the end of a fraction do not change the value, so digits need one more way back.
bool ValueCounts::is_repeated(const Node& node, int32_t number) {
  const int32_t least = node.mode == String ? 2 : node.mode == Whole || node.mode == Fraction ? 3 : INT32_MAX;
  return std::any_of(node.bytes.begin(), node.bytes.end(),
                     [&](const Edge& edge) { return edge.to == number && edge.times >= least; });
}

// ---- counters
int32_t ValueCounts::at(int32_t position, int32_t reg) {
  const int32_t known = at(position);
  const Rule& rule = grammar_.rule_at(position);
  if (known >= kMany || rule.kind != RuleKind::Counter || !facts_[position].is_known ||
      begun_[grammar_.positions[position].rule] != 2)
    return known;
  return std::max(known, counted(position, rule.max < 0 ? kMuch : rule.max - rule.reach - reg));
}

// The number of bytes that lead to another iteration like the one at this position.
int32_t ValueCounts::bytes_that_repeat(int32_t position) {
  int32_t bytes = 0;
  for (int b = 0; b < 128; ++b) {
    if (b == StringProgress::kQuote || b == StringProgress::kEscape ||
        !grammar_.positions[position].bytes.has(static_cast<uint8_t>(b)))
      continue;
    const Position& after = grammar_.positions[grammar_.step(position, static_cast<uint8_t>(b))];
    for (const EffectEdge& e : grammar_.effects_of(after)) {
      if (e.effect.op == Effect::Inc && e.effect.b < 0 && e.to == position) {
        ++bytes;
        break;
      }
    }
  }
  return bytes;
}

int32_t ValueCounts::counted(int32_t position, int64_t room) {
  std::vector<std::pair<int32_t, int>> open{{position, 0}};
  for (size_t i = 0; i < open.size() && i < kMaxVisitedPositions; ++i) {
    const auto [at, steps] = open[i];
    if (const int32_t bytes = bytes_that_repeat(at); bytes > 1) {
      int64_t count = 1;
      for (int64_t left = std::min(room, kMuch) - steps; left > 0 && count < kMany; --left) count *= bytes;
      return sum(count, 0);
    }
    if (steps == kMaxSteps) continue;
    const Position& p = grammar_.positions[at];
    auto meet = [&, next = steps + 1](int32_t to) {
      if (std::none_of(open.begin(), open.end(), [&](const auto& o) { return o.first == to; }))
        open.push_back({to, next});
    };
    grammar_.each_next(p, meet);
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (edge.effect.op == Effect::Inc && edge.effect.b < 0) meet(edge.to);
  }
  return 0;
}

int32_t ValueCounts::least() {
  prepare();
  int32_t least = kMany;
  for (const EffectEdge& e : grammar_.effects)
    if (e.effect.op == Effect::Begin && !strings_.begins_string(e.to)) least = std::min(least, at(e.to));
  return least;
}

}  // namespace guided
