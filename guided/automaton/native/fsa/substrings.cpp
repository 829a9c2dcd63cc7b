#include "fsa/substrings.hpp"

#include <algorithm>

#include "base/pair_map.hpp"

namespace guided {

namespace {

bool is_mark(Symbol symbol) { return symbol == kBeginMark || symbol == kEndMark; }

class SuffixAutomaton {
 public:
  explicit SuffixAutomaton(const std::vector<std::vector<Symbol>>& texts) {
    size_t size = 0;
    for (const auto& text : texts) size += text.size();
    states_.reserve(size + size / 2 + 2);
    edges_.reserve(size);
    begins_.reserve(size + 1);
    characters_.reserve(size);
    add_state(0, 0);
    for (const auto& text : texts) {
      int32_t last = 0;
      for (const Symbol symbol : text) last = extend(last, symbol);
    }
  }

  int32_t size() const { return static_cast<int32_t>(states_.size()); }
  // The target of an edge, or -1.
  int32_t next(int32_t state, Symbol symbol) {
    const int32_t* to = find_target(state, symbol);
    return to ? *to : -1;
  }
  // Calls visit(symbol, target) for each edge of a state, in any order.
  template <class Visit>
  void each_edge(int32_t state, Visit&& visit) const {
    const State& s = states_[state];
    if (s.degree > 0) visit(s.symbol, s.to);
    for (int32_t e = s.next_edge; e >= 0; e = edges_[e].next) visit(edges_[e].symbol, edges_[e].to);
  }
  // All states, sorted by the first offset at which their substrings end. The source of an edge comes before its
  // target.
  std::vector<int32_t> sorted_by_end() const {
    std::vector<int32_t> next(begins_.size() + 1, 0), out(states_.size());
    for (const State& s : states_) ++next[s.end + 1];
    for (size_t end = 1; end < next.size(); ++end) next[end] += next[end - 1];
    for (int32_t s = 0; s < size(); ++s) out[next[states_[s].end]++] = s;
    return out;
  }
  // Whether some substring of a state begins with kBeginMark. Its substrings end with `last_symbol(state)`.
  bool has_begin(int32_t state) const {
    const State& s = states_[state];
    return state != 0 && begins_[s.end - states_[s.link].length] > begins_[s.end - s.length];
  }
  Symbol last_symbol(int32_t state) const { return characters_[states_[state].end - 1]; }

 private:
  static constexpr int32_t kMaxListed = 8;  // a state with more edges also has them in a hash table
  struct State {
    Symbol symbol = 0;  // of its first edge, if it has edges
    int32_t to = 0;
    int32_t next_edge = -1;  // the list of its other edges
    int32_t degree = 0;      // the number of edges
    int32_t link = -1;       // the suffix link: the state of its longest suffix that ends at more offsets
    int32_t length;          // of its longest substring
    int32_t end;             // the first offset at which its substrings end, counted through all texts
  };
  struct OutEdge {
    Symbol symbol;
    int32_t to, next;
  };

  int32_t add_state(int32_t length, int32_t end) {
    states_.push_back({.length = length, .end = end});
    return static_cast<int32_t>(states_.size()) - 1;
  }

  // A pointer to the target of an edge; null if there is no such edge.
  int32_t* find_target(int32_t state, Symbol symbol) {
    State& s = states_[state];
    if (s.degree == 0) return nullptr;
    if (s.symbol == symbol) return &s.to;
    if (s.degree > kMaxListed) {
      const int32_t* edge = edge_index_.find(pair_key(state, static_cast<int32_t>(symbol)));
      return edge ? &edges_[*edge].to : nullptr;
    }
    for (int32_t e = s.next_edge; e >= 0; e = edges_[e].next)
      if (edges_[e].symbol == symbol) return &edges_[e].to;
    return nullptr;
  }

  void add_edge(int32_t state, Symbol symbol, int32_t to) {
    State& from = states_[state];
    if (from.degree++ == 0) {
      from.symbol = symbol;
      from.to = to;
      return;
    }
    edges_.push_back({symbol, to, from.next_edge});
    from.next_edge = static_cast<int32_t>(edges_.size()) - 1;
    if (from.degree <= kMaxListed) return;
    const bool is_new_table = from.degree == kMaxListed + 1;
    for (int32_t e = from.next_edge; e >= 0; e = is_new_table ? edges_[e].next : -1)
      edge_index_.set(pair_key(state, static_cast<int32_t>(edges_[e].symbol)), e);
  }

  // Appends a character to the current text. Returns the state of the longer text. `last`: the state of the text so
  // far.
  int32_t extend(int32_t last, Symbol symbol) {
    characters_.push_back(symbol);
    begins_.push_back(begins_.back() + (symbol == kBeginMark));
    const auto end = static_cast<int32_t>(characters_.size());
    if (const int32_t* to = find_target(last, symbol))  // an earlier text begins with the same characters
      return follow(last, symbol, *to);
    const int32_t state = add_state(states_[last].length + 1, end);
    int32_t suffix = last;
    int32_t* to = nullptr;
    for (; suffix >= 0 && !(to = find_target(suffix, symbol)); suffix = states_[suffix].link)
      add_edge(suffix, symbol, state);
    const int32_t link = suffix < 0 ? 0 : follow(suffix, symbol, *to);
    states_[state].link = link;
    return state;
  }

  // Returns the state of the longest substring of `suffix` followed by `symbol`. The edge for `symbol` leads to `to`.
  int32_t follow(int32_t suffix, Symbol symbol, int32_t to) {
    return states_[to].length == states_[suffix].length + 1 ? to : split(suffix, symbol, to);
  }

  // Splits `to`: its shorter substrings, which an edge from `suffix` completes, now end at more offsets than its
  // longest ones. Moves the shorter ones to a new state, and returns it.
  int32_t split(int32_t suffix, Symbol symbol, int32_t to) {
    const int32_t shorter = add_state(states_[suffix].length + 1, states_[to].end);
    each_edge(to, [&](Symbol next_symbol, int32_t target) { add_edge(shorter, next_symbol, target); });
    states_[shorter].link = states_[to].link;
    states_[to].link = shorter;
    for (; suffix >= 0; suffix = states_[suffix].link) {
      int32_t* edge = find_target(suffix, symbol);
      if (!edge || *edge != to) break;
      *edge = shorter;
    }
    return shorter;
  }

  std::vector<State> states_;
  std::vector<OutEdge> edges_;
  std::vector<Symbol> characters_;  // of all texts
  std::vector<int32_t> begins_{0};  // for each prefix of the characters: the number of kBeginMark in it
  PairMap edge_index_;              // (state, symbol) -> edge
};

}  // namespace

Dfa substring_automaton(const std::vector<std::vector<Symbol>>& texts, bool marked) {
  SuffixAutomaton suffixes(texts);
  const int32_t start = marked ? suffixes.next(0, kBeginMark) : 0;
  Dfa out;
  if (start < 0) return out;
  std::vector<int32_t> number(static_cast<size_t>(suffixes.size()), -1), order{start};
  number[start] = out.add(false);
  for (const int32_t s : suffixes.sorted_by_end()) {
    if (s == start || (marked && (!suffixes.has_begin(s) || is_mark(suffixes.last_symbol(s))))) continue;
    number[s] = out.add(!marked || suffixes.next(s, kEndMark) >= 0);
    order.push_back(s);
  }
  out.edges.reserve(order.size(), order.size() * 2);
  std::vector<Edge> list;
  auto add_edges = [&](auto& self, int32_t from) -> void {
    suffixes.each_edge(from, [&](Symbol symbol, int32_t to) {
      if (is_mark(symbol))
        self(self, to);
      else
        list.push_back({symbol, symbol, number[to]});
    });
  };
  for (int32_t s = 0; s < out.size(); ++s) {
    list.clear();
    add_edges(add_edges, order[s]);
    std::ranges::sort(list, {}, &Edge::lo);
    out.edges.set(s, list);
  }
  return out.edges[0].empty() ? Dfa{} : out;
}

}  // namespace guided
