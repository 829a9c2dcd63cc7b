#include "compile/rule_block.hpp"

#include <algorithm>
#include <deque>
#include <span>

namespace guided {

namespace {

class Layout {
 public:
  Layout(const ByteAutomaton& automaton, RuleKind kind) : from_(automaton), kind_(kind) {}

  RuleBlock run() {
    assign_byte_classes();
    reserve_positions();
    const Dfa& dfa = from_.dfa;
    int32_t next_inner = dfa.size();
    for (int32_t s = 0; s < dfa.size(); ++s) {
      Position& p = begin_position();
      p.accept = dfa.accept[s];
      const std::span<const Edge> edges = dfa.edges[s];
      for (const Edge& e : edges) add_non_byte_edge(e);
      if (!edges.empty() && is_spelling(edges[0].lo)) {
        const Spelling& spelling = *from_.spellings[edges[0].lo - kSpelling];
        spelling_maps_.push_back({&spelling, next_inner, edges[0].to});
        add_bytes(p, spelling.dfa.edges[0], spelling_maps_.back());
        next_inner += spelling.inner_states();
      } else {
        add_bytes(p, edges, {nullptr, 0, 0});
      }
      end_position(p);
    }
    for (const PositionMap& map : spelling_maps_)
      for (int32_t s = 1; s <= map.spelling->inner_states(); ++s) {
        Position& p = begin_position();
        add_bytes(p, map.spelling->dfa.edges[s], map);
        end_position(p);
      }
    return std::move(out_);
  }

 private:
  static constexpr int64_t kMaxSpans = 4;  // a position with more byte edges gets a row instead
  // Maps the states of a spelling to positions: its inner states to first, first + 1, ..., and its end to `end`.
  struct PositionMap {
    const Spelling* spelling;  // null: a state of the rule's automaton, which is its own position
    int32_t first, end;
    int32_t operator()(int32_t state) const {
      if (!spelling) return state;
      return state == spelling->dfa.size() - 1 ? end : first + state - 1;
    }
  };

  // Divides the bytes at the boundaries of all ranges. The classes need not be the coarsest: two of them may behave
  // alike.
  void assign_byte_classes() {
    std::array<uint8_t, 257> is_boundary{};
    auto add_boundaries = [&](const Dfa& dfa) {
      for (int32_t s = 0; s < dfa.size(); ++s)
        for (const Edge& e : dfa.edges[s])
          if (e.lo < 256) is_boundary[e.lo] = is_boundary[e.hi + 1] = 1;
    };
    add_boundaries(from_.dfa);
    for (const auto& spelling : from_.spellings) add_boundaries(spelling->dfa);
    int32_t last = 0;
    for (int b = 0; b < 256; ++b) {
      if (b > 0 && is_boundary[b]) ++last;
      out_.byte_class[b] = static_cast<uint8_t>(last);
    }
    out_.classes = last + 1;
  }

  void reserve_positions() {
    int64_t count = from_.dfa.size();
    for (int32_t s = 0; s < from_.dfa.size(); ++s)
      for (const Edge& e : from_.dfa.edges[s])
        if (is_spelling(e.lo)) count += from_.spellings[e.lo - kSpelling]->inner_states();
    out_.positions.reserve(static_cast<size_t>(count));
  }

  Position& begin_position() {
    Position& p = out_.positions.emplace_back();
    p.byte_lo = static_cast<int32_t>(out_.spans.size());
    p.call_lo = static_cast<int32_t>(out_.calls.size());
    p.effect_lo = static_cast<int32_t>(out_.effects.size());
    p.token_lo = static_cast<int32_t>(out_.tokens.size());
    return p;
  }

  void add_non_byte_edge(const Edge& e) {
    if (is_call(e.lo)) {
      const bool tail = kind_ == RuleKind::Plain && from_.dfa.accept[e.to] && from_.dfa.edges[e.to].empty();
      out_.calls.push_back({static_cast<int32_t>(e.lo - kCall), e.to, tail});
    } else if (is_token(e.lo)) {
      for (uint64_t t = e.lo; t <= e.hi; ++t) out_.tokens.push_back({static_cast<int32_t>(t - kToken), e.to});
    } else if (is_effect(e.lo)) {
      out_.effects.push_back({static_cast<int32_t>(e.lo - kEffect), e.to});
    }
  }

  void add_bytes(Position& p, std::span<const Edge> edges, const PositionMap& position_of) {
    const auto byte_edge_count = std::ranges::count_if(edges, [](const Edge& e) { return e.lo < 256; });
    if (byte_edge_count > kMaxSpans) {
      p.row = static_cast<int32_t>(out_.next.size());
      out_.next.resize(out_.next.size() + static_cast<size_t>(out_.classes), -1);
    }
    for (const Edge& e : edges) {
      if (e.lo >= 256) continue;
      const int32_t to = position_of(e.to);
      for (Symbol b = e.lo; b <= e.hi; ++b) {
        p.bytes.add(static_cast<uint8_t>(b));
        if (p.row >= 0) out_.next[p.row + out_.byte_class[b]] = to;
      }
      if (p.row < 0) out_.spans.push_back({static_cast<uint8_t>(e.lo), static_cast<uint8_t>(e.hi), to});
    }
  }

  void end_position(Position& p) {
    p.byte_hi = static_cast<int32_t>(out_.spans.size());
    p.call_hi = static_cast<int32_t>(out_.calls.size());
    p.effect_hi = static_cast<int32_t>(out_.effects.size());
    p.token_hi = static_cast<int32_t>(out_.tokens.size());
    p.active = p.byte_hi > p.byte_lo || p.row >= 0 || p.token_hi > p.token_lo;
  }

  const ByteAutomaton& from_;
  RuleKind kind_;
  RuleBlock out_;
  std::vector<PositionMap> spelling_maps_;
};

// Calls visit(position, action or null) for each edge of `p`.
template <class Visit>
void each_edge(const RuleBlock& block, const Position& p, const std::vector<Effect>& effects, Visit&& visit) {
  block.each_next(p, [&](int32_t to) { visit(to, nullptr); });
  for (int32_t i = p.call_lo; i < p.call_hi; ++i) visit(block.calls[i].after, nullptr);
  for (int32_t i = p.token_lo; i < p.token_hi; ++i) visit(block.tokens[i].to, nullptr);
  for (int32_t i = p.effect_lo; i < p.effect_hi; ++i) visit(block.effects[i].to, &effects[block.effects[i].effect]);
}

// Computes how many scopes a frame has open at each position. All paths to a position open the same number.
void count_scopes(RuleBlock& block, const std::vector<Effect>& effects) {
  std::vector<uint8_t> visited(block.positions.size(), 0);
  std::vector<int32_t> todo{0};
  visited[0] = 1;
  while (!todo.empty()) {
    const Position p = block.positions[todo.back()];
    todo.pop_back();
    each_edge(block, p, effects, [&](int32_t to, const Effect* effect) {
      if (visited[to]) return;
      visited[to] = 1;
      block.positions[to].scopes =
          p.scopes + (effect && effect->op == Effect::Open) - (effect && effect->op == Effect::Close);
      todo.push_back(to);
    });
  }
}

// Computes the minimum count that a frame still adds from each position to an end of the rule: shortest paths with
// weights 0 and 1, backwards from the ends (0-1 breadth-first search).
void find_rests(RuleBlock& block, const std::vector<Effect>& effects) {
  struct Incoming {
    int32_t from, counts;
  };
  const auto size = static_cast<int32_t>(block.positions.size());
  std::vector<std::vector<Incoming>> incoming(block.positions.size());
  std::vector<int32_t> rest(block.positions.size(), INT32_MAX);
  std::deque<int32_t> queue;  // nearest first
  for (int32_t s = 0; s < size; ++s) {
    const Position& p = block.positions[s];
    each_edge(block, p, effects, [&](int32_t to, const Effect* effect) {
      incoming[to].push_back({s, effect && effect->op == Effect::Inc});
    });
    if (p.accept) {
      rest[s] = 0;
      queue.push_back(s);
    }
  }
  while (!queue.empty()) {
    const int32_t position = queue.front();
    queue.pop_front();
    for (const auto [from, counts] : incoming[position]) {
      if (rest[from] <= rest[position] + counts) continue;
      rest[from] = rest[position] + counts;
      counts == 0 ? queue.push_front(from) : queue.push_back(from);
    }
  }
  for (int32_t s = 0; s < size; ++s) block.positions[s].rest = rest[s];
}

}  // namespace

RuleBlock lay_out(const ByteAutomaton& automaton, RuleKind kind, const std::vector<Effect>& effects, bool needs_rests) {
  RuleBlock out = Layout(automaton, kind).run();
  if (std::ranges::any_of(effects, [](const Effect& e) { return e.op == Effect::Open; })) count_scopes(out, effects);
  if (needs_rests) find_rests(out, effects);
  return out;
}

}  // namespace guided
