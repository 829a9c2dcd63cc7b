#include "run/value_counts.hpp"

#include <algorithm>
#include <utility>

#include "base/call_meter.hpp"
#include "base/graph.hpp"

namespace guided {

namespace {
constexpr int64_t kExamineWork = 64;           // for each node
constexpr int kMaxSteps = 6;                   // the most steps to a position at which characters are counted
constexpr size_t kMaxVisitedPositions = 64;    // the most positions that the search for it visits
constexpr int64_t kMaxCountedCharacters = 64;  // more remaining characters than this make no difference

int32_t saturating_sum(int64_t a, int64_t b) {
  return static_cast<int32_t>(std::min<int64_t>(ValueCounts::kMany, a + b));
}
}  // namespace

// ---- the mode of each position
int32_t ValueCounts::node(int32_t position, Mode mode) {
  int32_t& number = node_ids_[static_cast<size_t>(position) * kModes + mode];
  if (number < 0) {
    number = static_cast<int32_t>(nodes_.size());
    nodes_.push_back({.position = position, .mode = mode, .bytes = {}, .others = {}, .calls = {}});
  }
  return number;
}

void ValueCounts::note_begin(int32_t rule, Mode mode) {
  begin_modes_[rule] |= mode == String ? 2 : 1;
  is_regular_ &= begin_modes_[rule] != 3 && (mode == Between || mode == String);
}

void ValueCounts::note_end(int32_t rule, Mode mode) {
  const Mode end_mode = mode == String ? String : Between;
  is_regular_ &= mode <= String && (end_modes_[rule] == kModes || end_modes_[rule] == end_mode);
  end_modes_[rule] = end_mode;
  continue_after_calls(rule);
}

// If a rule begins in a string and ends outside of it, or the reverse, it may end the entry. So nothing is assumed
// about what comes after a call of such a rule.
void ValueCounts::continue_after_calls(int32_t rule) {
  if (end_modes_[rule] == kModes) return;
  for (const auto& [caller, position] : std::exchange(waiting_calls_[rule], {})) {
    const int32_t next_node = node(position, end_modes_[rule]);
    if ((begin_modes_[rule] == 2) == (end_modes_[rule] == String)) nodes_[caller].others.push_back(next_node);
  }
}

// The edges of a position in a mode: one for each node to which bytes lead.
std::vector<ValueCounts::Edge> ValueCounts::byte_edges(int32_t position, Mode mode) {
  const ValueScan& scan = ValueScan::table();
  std::vector<Edge> edges;
  int32_t target = -1;
  Mode target_mode = kModes;
  size_t last_edge = 0;  // the edge of the previous byte, since most bytes lead to the same node as the byte before
  grammar_.positions[position].bytes.each([&](uint8_t byte) {
    const Mode next_mode = scan.next(mode, byte);
    if (const int32_t to = grammar_.step(position, byte); to != target || next_mode != target_mode) {
      target = to;
      target_mode = next_mode;
      const int32_t node_id = node(to, next_mode);
      last_edge = static_cast<size_t>(std::ranges::find(edges, node_id, &Edge::to) - edges.begin());
      if (last_edge == edges.size())
        edges.push_back(
            {.to = node_id, .byte_count = 0, .has_nonzero_digit = false, .is_structural = false, .ends = false});
    }
    Edge& edge = edges[last_edge];
    ++edge.byte_count;
    edge.has_nonzero_digit |= byte >= '1' && byte <= '9';
    edge.is_structural |= mode != String && scan.is_structural(byte);
    edge.ends |= mode == String ? byte == StringProgress::kQuote : scan.ends_word(byte);
  });
  return edges;
}

void ValueCounts::examine(int32_t node_id) {
  const int32_t position = nodes_[node_id].position;
  const Mode mode = nodes_[node_id].mode;
  const Position& p = grammar_.positions[position];
  const Rule& rule = grammar_.rules[p.rule];
  CallMeter::work(kExamineWork);
  if (p.accept) note_end(p.rule, mode);
  std::vector<Edge> edges = byte_edges(position, mode);
  bool ends = p.accept || std::ranges::any_of(edges, &Edge::ends);
  std::vector<int32_t> other_nodes, call_nodes, callees;
  for (const EffectEdge& e : grammar_.effects_of(p)) {
    has_nested_scopes_ |= e.effect.op == Effect::Open;
    ends |= e.effect.op == Effect::Keep;
    if (e.effect.op == Effect::Keep && !is_past_entries_) continue;
    const int32_t to = node(e.to, mode);
    const bool is_guarded_count = e.effect.op == Effect::Inc && (rule.max >= 0 || e.effect.b >= 0);
    if (!is_guarded_count && e.effect.op != Effect::Put && e.effect.op != Effect::More && e.effect.op != Effect::Keep)
      other_nodes.push_back(to);
  }
  for (const TokenEdge& edge : grammar_.tokens_of(p)) node(edge.to, mode);
  for (const CallEdge& call : grammar_.calls_of(p)) {
    note_begin(call.rule, mode);
    call_nodes.push_back(node(grammar_.rules[call.rule].start, mode));
    waiting_calls_[call.rule].push_back({node_id, call.after});
    callees.push_back(call.rule);
  }
  Node& node_data = nodes_[node_id];
  node_data.ends = ends;
  node_data.bytes = std::move(edges);
  node_data.others = std::move(other_nodes);
  node_data.calls = std::move(call_nodes);
  for (int32_t callee : callees) continue_after_calls(callee);
}

// Examines the nodes from the starts of entries to their ends. With `is_past_entries`, it also examines the nodes after
// the ends, since entries may nest.
void ValueCounts::examine_entries(bool is_past_entries) {
  is_past_entries_ = is_past_entries;
  nodes_.clear();
  node_ids_.assign(grammar_.positions.size() * kModes, -1);
  begin_modes_.assign(grammar_.rules.size(), 0);
  end_modes_.assign(grammar_.rules.size(), kModes);
  waiting_calls_.assign(grammar_.rules.size(), {});
  for (const EffectEdge& e : grammar_.effects)
    if (e.effect.op == Effect::Begin) node(e.to, Between);
  for (size_t i = 0; i < nodes_.size() && is_regular_; ++i) examine(static_cast<int32_t>(i));
}

void ValueCounts::prepare() {
  if (is_prepared_) return;
  is_prepared_ = true;
  facts_.assign(grammar_.positions.size(), {});
  examine_entries(false);
  if (has_nested_scopes_) {
    is_regular_ = true;
    examine_entries(true);
  }
  if (is_regular_) {
    count_paths();
    find_largest_counts();
    find_passing();
    for (const Node& n : nodes_) {
      Facts& facts = facts_[n.position];
      facts.count = facts.is_known ? std::min(facts.count, n.count) : n.count;
      facts.passes = n.passes && (facts.passes || !facts.is_known);
      facts.repeats = is_repeated(n, static_cast<int32_t>(&n - nodes_.data())) && (facts.repeats || !facts.is_known);
      facts.repeats_digits = n.mode == Whole && facts.repeats;
      facts.is_in_string = n.mode >= String && (facts.is_in_string || !facts.is_known);
      facts.is_known = true;
    }
  }
  nodes_ = {};
  node_ids_ = {};
  waiting_calls_ = {};
}

// ---- counting
// Counts the paths to the end of a string or of the digits of a number.
void ValueCounts::count_paths() {
  auto is_counted = [&](const Node& from, const Edge& edge) {
    const Mode to = nodes_[edge.to].mode;
    return (from.mode == to && (to == String || to == Whole || to == Fraction)) ||
           (from.mode == Whole && to == Fraction);
  };
  std::vector<std::vector<int32_t>> next(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (const Edge& edge : nodes_[i].bytes)
      if (is_counted(nodes_[i], edge)) next[i].push_back(edge.to);
  const std::vector<int32_t> component = components(next);
  std::vector<std::vector<int32_t>> members(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) members[component[i]].push_back(static_cast<int32_t>(i));
  for (const auto& group : members) {  // successors come first
    bool has_cycle = false;
    int32_t fraction_count = 0;
    int64_t end_count = 0;
    for (int32_t i : group) {
      const Node& node = nodes_[i];
      end_count += node.ends;
      for (const Edge& edge : node.bytes) {
        if (!is_counted(node, edge)) continue;
        if (component[edge.to] == component[i])
          has_cycle |= node.mode != Fraction || edge.has_nonzero_digit;
        else if (nodes_[edge.to].mode == Fraction)
          fraction_count = std::max(fraction_count, nodes_[edge.to].own_count);
        else
          end_count = saturating_sum(end_count, int64_t{edge.byte_count} * nodes_[edge.to].own_count);
      }
    }
    for (int32_t i : group) {
      Node& node = nodes_[i];
      if (node.mode != String && node.mode != Whole && node.mode != Fraction) continue;
      node.own_count = has_cycle               ? kMany
                       : node.mode == Fraction ? fraction_count
                                               : std::max(fraction_count, saturating_sum(end_count, 0));
      if (node.mode == String && strings_.is_unbounded(node.position)) node.own_count = kMany;
    }
  }
  for (Node& node : nodes_) {
    if (node.mode == Escape && strings_.is_unbounded(node.position)) node.own_count = kMany;
    if (node.mode != Between) continue;
    int64_t number_count = -grammar_.positions[node.position].bytes.has(ValueScan::kMinus);  // 0 and -0 are one value
    for (const Edge& edge : node.bytes) {
      const Node& to = nodes_[edge.to];
      if (to.mode == String) node.own_count = std::max(node.own_count, to.own_count);
      if (to.mode == Whole) number_count = saturating_sum(number_count, int64_t{edge.byte_count} * to.own_count);
    }
    node.own_count = std::max(node.own_count, saturating_sum(number_count, 0));
  }
}

// Finds the largest count before the entry ends. Beyond brackets, commas and colons, only counts of kMany are
// considered.
void ValueCounts::find_largest_counts() {
  std::vector<std::vector<int32_t>> next(nodes_.size()), predecessors(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto from = static_cast<int32_t>(i);
    for (const Edge& edge : nodes_[i].bytes) {
      predecessors[edge.to].push_back(from);
      if (!edge.is_structural) next[i].push_back(edge.to);
    }
    next[i].insert(next[i].end(), nodes_[i].others.begin(), nodes_[i].others.end());
    next[i].insert(next[i].end(), nodes_[i].calls.begin(), nodes_[i].calls.end());
    for (int32_t to : nodes_[i].others) predecessors[to].push_back(from);
    for (int32_t to : nodes_[i].calls) predecessors[to].push_back(from);
  }
  const std::vector<int32_t> component = components(next);
  std::vector<int32_t> largest(nodes_.size(), 0), order(nodes_.size()), queue;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return component[a] < component[b]; });
  for (int32_t i : order) {
    int32_t& component_max = largest[component[i]];
    component_max = std::max(component_max, nodes_[i].own_count);
    for (int32_t to : next[i]) component_max = std::max(component_max, largest[component[to]]);
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].count = largest[component[i]];
    if (nodes_[i].count == kMany) queue.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t from : predecessors[queue[i]])
      if (std::exchange(nodes_[from].count, kMany) != kMany) queue.push_back(from);
}

// Finds the nodes from which the frame can end while the entry continues.
void ValueCounts::find_passing() {
  std::vector<std::vector<int32_t>> predecessors(nodes_.size());
  std::vector<int32_t> queue;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    node.passes = grammar_.positions[node.position].accept;
    if (node.passes) queue.push_back(static_cast<int32_t>(i));
    for (const Edge& edge : node.bytes) predecessors[edge.to].push_back(static_cast<int32_t>(i));
    for (int32_t to : node.others) predecessors[to].push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t from : predecessors[queue[i]])
      if (!std::exchange(nodes_[from].passes, true)) queue.push_back(from);
}

// Zeros at the end of a fraction do not change its value. So three digits must lead back, while two characters suffice
// in a string.
bool ValueCounts::is_repeated(const Node& node, int32_t number) {
  const int32_t min_bytes = node.mode == String ? 2 : node.mode == Whole || node.mode == Fraction ? 3 : INT32_MAX;
  return std::any_of(node.bytes.begin(), node.bytes.end(),
                     [&](const Edge& edge) { return edge.to == number && edge.byte_count >= min_bytes; });
}

// ---- counters
int32_t ValueCounts::at(int32_t position, int32_t reg) {
  const int32_t count = at(position);
  const Rule& rule = grammar_.rule_at(position);
  if (count >= kMany || rule.kind != RuleKind::Counter || !facts_[position].is_known ||
      begin_modes_[grammar_.positions[position].rule] != 2)
    return count;
  return std::max(count,
                  count_counter_values(position, rule.max < 0 ? kMaxCountedCharacters : rule.max - rule.reach - reg));
}

// The number of bytes that lead through another iteration back to this position.
int32_t ValueCounts::count_repeating_bytes(int32_t position) {
  int32_t count = 0;
  for (int b = 0; b < 128; ++b) {
    if (b == StringProgress::kQuote || b == StringProgress::kEscape ||
        !grammar_.positions[position].bytes.has(static_cast<uint8_t>(b)))
      continue;
    const Position& next = grammar_.positions[grammar_.step(position, static_cast<uint8_t>(b))];
    for (const EffectEdge& e : grammar_.effects_of(next)) {
      if (e.effect.op == Effect::Inc && e.effect.b < 0 && e.to == position) {
        ++count;
        break;
      }
    }
  }
  return count;
}

int32_t ValueCounts::count_counter_values(int32_t position, int64_t counts_left) {
  std::vector<std::pair<int32_t, int>> queue{{position, 0}};
  for (size_t i = 0; i < queue.size() && i < kMaxVisitedPositions; ++i) {
    const auto [current, steps] = queue[i];
    if (const int32_t byte_count = count_repeating_bytes(current); byte_count > 1) {
      int64_t count = 1;
      for (int64_t characters_left = std::min(counts_left, kMaxCountedCharacters) - steps;
           characters_left > 0 && count < kMany; --characters_left)
        count *= byte_count;
      return saturating_sum(count, 0);
    }
    if (steps == kMaxSteps) continue;
    const Position& p = grammar_.positions[current];
    auto add = [&, next = steps + 1](int32_t to) {
      if (std::none_of(queue.begin(), queue.end(), [&](const auto& o) { return o.first == to; }))
        queue.push_back({to, next});
    };
    grammar_.each_next(p, add);
    for (const EffectEdge& edge : grammar_.effects_of(p))
      if (edge.effect.op == Effect::Inc && edge.effect.b < 0) add(edge.to);
  }
  return 0;
}

int32_t ValueCounts::min_count() {
  prepare();
  int32_t result = kMany;
  for (const EffectEdge& e : grammar_.effects)
    if (e.effect.op == Effect::Begin && !strings_.begins_unbounded_string(e.to)) result = std::min(result, at(e.to));
  return result;
}

}  // namespace guided
