#include "lalr.hpp"

#include <algorithm>
#include <tuple>

namespace guided::lark {
namespace {

// Sets of terminals, by number.
class Sets {
 public:
  Sets(size_t count, size_t bits, Steps& steps) : words_((bits + 63) / 64) {
    steps.spend(3 * count * words_);  // the read, follow and certain sets
    all_.assign(count * words_, 0);
  }

  size_t words() const { return words_; }
  uint64_t* operator[](size_t index) { return all_.data() + index * words_; }
  const uint64_t* operator[](size_t index) const { return all_.data() + index * words_; }
  void add(size_t index, size_t bit) { (*this)[index][bit / 64] |= uint64_t{1} << (bit % 64); }
  void unite(uint64_t* to, size_t from) const {
    for (size_t word = 0; word < words_; ++word) to[word] |= (*this)[from][word];
  }

 private:
  size_t words_;
  std::vector<uint64_t> all_;
};

// The edges of a graph over numbers, grouped by source.
struct Edges {
  std::vector<int32_t> begin, to;

  Edges(size_t count, const std::vector<std::pair<int32_t, int32_t>>& edges) : begin(count + 1), to(edges.size()) {
    for (const auto& [from, _] : edges) ++begin[from + 1];
    for (size_t i = 0; i < count; ++i) begin[i + 1] += begin[i];
    auto next_free = begin;
    for (const auto& [from, target] : edges) to[next_free[from]++] = target;
  }
};

// Unites each set with all sets that its node leads to, by Tarjan's strongly connected components (SIAM J. Comput.
// 1(2), 1972). Returns the nodes in the order in which they were finished: a node comes after all nodes that it leads
// to, except within its component.
std::vector<int32_t> unite_reachable_sets(const Edges& edges, Sets& sets, Steps& steps) {
  const auto count = static_cast<int32_t>(edges.begin.size()) - 1;
  std::vector<int32_t> lowlink(count), next(edges.begin), stack, path, order;
  const int32_t finished = count + 1;
  order.reserve(count);
  for (int32_t root = 0; root < count; ++root) {
    if (lowlink[root] != 0) continue;
    path.push_back(root);
    while (!path.empty()) {
      const int32_t node = path.back();
      if (lowlink[node] == 0) {
        stack.push_back(node);
        lowlink[node] = static_cast<int32_t>(stack.size());
      }
      if (next[node] < edges.begin[node + 1]) {
        const int32_t to = edges.to[next[node]];
        if (lowlink[to] == 0) {
          path.push_back(to);
          continue;
        }
        ++next[node];
        lowlink[node] = std::min(lowlink[node], lowlink[to]);
        sets.unite(sets[node], to);
        steps.spend(1 + sets.words());
        continue;
      }
      path.pop_back();
      if (stack[lowlink[node] - 1] != node) continue;
      while (true) {
        const int32_t member = stack.back();
        stack.pop_back();
        lowlink[member] = finished;
        if (member != node) std::copy_n(sets[node], sets.words(), sets[member]);
        order.push_back(member);
        if (member == node) break;
      }
    }
  }
  return order;
}

// Sorts by a number below `count`; a stable sort. Cost: linear.
template <class Item>
void sort_by(std::vector<Item>& items, size_t count, int32_t Item::* number) {
  std::vector<int32_t> begin(count + 1);
  for (const Item& each : items) ++begin[each.*number + 1];
  for (size_t i = 0; i < count; ++i) begin[i + 1] += begin[i];
  std::vector<Item> out(items.size());
  for (const Item& each : items) out[begin[each.*number]++] = each;
  items = std::move(out);
}

class Lookaheads {
 public:
  Lookaheads(const Rules& rules, const Lr0& automaton, Steps& steps)
      : rules_(rules), automaton_(automaton), steps_(steps), nullable_(rules.nullable_rules()) {
    for (int32_t state = 0; state < automaton.state_count(); ++state)
      for (const int32_t symbol : automaton.read_symbols(state)) {
        call_number_.push_back(rules.is_rule(symbol) ? static_cast<int32_t>(calls_.size()) : -1);
        if (rules.is_rule(symbol)) calls_.push_back({state, symbol});
      }
    root_ = static_cast<int32_t>(calls_.size());
    follow_alternatives(root_, 0, 0);
    for (int32_t call = 0; call < root_; ++call)
      follow_alternatives(call, calls_[call].state, calls_[call].symbol - rules.terminals);
    sort_by(lookback_, rules.rule_of.size(), &Lookback::alternative);
    sort_by(lookback_, automaton.state_count(), &Lookback::state);
  }

  std::optional<LalrTable> table() {
    Sets follow = read_sets();
    std::vector<std::pair<int32_t, int32_t>> includes;
    for (const auto& each : includes_) includes.emplace_back(each.call, each.caller);
    const Sets read = follow;
    const auto order = unite_reachable_sets(Edges(root_ + 1, includes), follow, steps_);
    if (has_reduce_conflict(follow)) return std::nullopt;
    const Sets certain = certain_sets(read, follow, order);
    LalrTable out{{}, has_shift_conflict_};
    for (int32_t state = 0; state < automaton_.state_count(); ++state)
      if (state == 0 || is_entered_by_terminal(state)) out.rows.push_back(make_row(state, follow, certain));
    return out;
  }

 private:
  struct Call {
    int32_t state, symbol;
  };
  struct Inclusion {  // what follows the caller also follows this call: only nullable rules follow in its alternative
    int32_t call, item, caller;
  };
  struct Lookback {
    int32_t state, alternative, caller;
  };

  // Follows the alternatives of a rule from the state that calls it.
  void follow_alternatives(int32_t caller, int32_t state, int32_t rule) {
    rules_.for_each_alternative(rule, [&](int32_t each) {
      const int32_t begin = rules_.first_items[each], end = rules_.first_items[each + 1] - 1;
      steps_.spend(end - begin + 1);
      int32_t nullable_from = end;  // from this item on, all symbols may be empty
      while (nullable_from > begin && rules_.is_rule(rules_.symbols[nullable_from - 1]) &&
             nullable_[rules_.symbols[nullable_from - 1] - rules_.terminals])
        --nullable_from;
      int32_t current = state;
      for (int32_t item = begin; item < end; ++item) {
        const int32_t transition = automaton_.find_transition(current, rules_.symbols[item]);
        if (call_number_[transition] >= 0 && item >= nullable_from - 1)
          includes_.push_back({call_number_[transition], item, caller});
        current = automaton_.target(transition);
      }
      lookback_.push_back({current, each, caller});
    });
  }

  // The terminals that can be shifted after a call, possibly after empty rules.
  Sets read_sets() {
    Sets out(root_ + 1, rules_.terminals + 1, steps_);
    std::vector<std::pair<int32_t, int32_t>> reads;
    for (int32_t call = 0; call < root_; ++call) {
      const int32_t next_state = automaton_.target(automaton_.find_transition(calls_[call].state, calls_[call].symbol));
      const auto symbols = automaton_.read_symbols(next_state);
      steps_.spend(symbols.size());
      for (size_t i = 0; i < symbols.size(); ++i)
        if (!rules_.is_rule(symbols[i]))
          out.add(call, symbols[i]);
        else if (nullable_[symbols[i] - rules_.terminals])
          reads.emplace_back(call, call_number_[automaton_.row_begin(next_state) + i]);
    }
    out.add(call_number_[automaton_.find_transition(0, rules_.symbols[0])], rules_.terminals);
    unite_reachable_sets(Edges(root_ + 1, reads), out, steps_);
    return out;
  }

  // Whether a state can reduce two alternatives on one terminal. Also sets `has_shift_conflict_`.
  bool has_reduce_conflict(const Sets& follow) {
    std::vector<uint64_t> reduced(follow.words()), lookahead(follow.words());
    for (size_t i = 0; i < lookback_.size();) {
      const int32_t state = lookback_[i].state;
      std::fill(reduced.begin(), reduced.end(), 0);
      while (i < lookback_.size() && lookback_[i].state == state) {
        const int32_t alternative = lookback_[i].alternative;
        std::fill(lookahead.begin(), lookahead.end(), 0);
        for (; i < lookback_.size() && lookback_[i].state == state && lookback_[i].alternative == alternative; ++i) {
          steps_.spend(follow.words());
          follow.unite(lookahead.data(), lookback_[i].caller);
        }
        for (size_t word = 0; word < reduced.size(); ++word) {
          if ((reduced[word] & lookahead[word]) != 0) return true;
          reduced[word] |= lookahead[word];
        }
      }
      for (const int32_t symbol : automaton_.read_symbols(state))
        if (!rules_.is_rule(symbol)) has_shift_conflict_ |= (reduced[symbol / 64] >> (symbol % 64) & 1) != 0;
    }
    return false;
  }

  // The terminals that follow a call in all contexts (see lalr.hpp). The sets shrink until nothing changes.
  Sets certain_sets(const Sets& read, const Sets& follow, const std::vector<int32_t>& order) {
    sort_by(includes_, rules_.symbols.size(), &Inclusion::item);
    sort_by(includes_, root_ + 1, &Inclusion::call);
    std::vector<size_t> begin(root_ + 2);
    std::vector<std::pair<int32_t, int32_t>> dependents;
    for (const auto& each : includes_) {
      ++begin[each.call + 1];
      dependents.emplace_back(each.caller, each.call);
    }
    for (int32_t call = 0; call <= root_; ++call) begin[call + 1] += begin[call];
    const Edges dependent_calls(root_ + 1, dependents);
    Sets out = follow;
    std::vector<bool> is_queued(root_ + 1, true);
    std::vector<int32_t> todo(order), next;
    std::vector<uint64_t> united(out.words()), intersected(out.words());
    for (; !todo.empty(); todo.swap(next), next.clear())
      for (const int32_t call : todo) {
        is_queued[call] = false;
        std::copy_n(read[call], out.words(), united.begin());
        for (size_t i = begin[call]; i < begin[call + 1];) {
          const int32_t item = includes_[i].item;
          std::copy_n(out[includes_[i].caller], out.words(), intersected.begin());
          for (; i < begin[call + 1] && includes_[i].item == item; ++i) {
            steps_.spend(out.words());
            for (size_t word = 0; word < intersected.size(); ++word)
              intersected[word] &= out[includes_[i].caller][word];
          }
          for (size_t word = 0; word < intersected.size(); ++word) united[word] |= intersected[word];
        }
        if (std::equal(united.begin(), united.end(), out[call])) continue;
        std::copy(united.begin(), united.end(), out[call]);
        for (int32_t i = dependent_calls.begin[call]; i < dependent_calls.begin[call + 1]; ++i)
          if (!is_queued[dependent_calls.to[i]]) {
            is_queued[dependent_calls.to[i]] = true;
            next.push_back(dependent_calls.to[i]);
          }
      }
    return out;
  }

  bool is_entered_by_terminal(int32_t state) const {
    const int32_t symbol = rules_.symbols[automaton_.kernel(state)[0] - 1];
    return !rules_.is_rule(symbol);
  }

  LalrRow make_row(int32_t state, const Sets& follow, const Sets& certain) {
    Terminals all_terminals(follow.words()), certain_terminals(follow.words()), intersected(follow.words());
    for (const int32_t symbol : automaton_.read_symbols(state))
      if (!rules_.is_rule(symbol)) all_terminals[symbol / 64] |= uint64_t{1} << (symbol % 64);
    certain_terminals = all_terminals;
    const auto is_before = [](const Lookback& each, int32_t state) { return each.state < state; };
    auto it = std::lower_bound(lookback_.begin(), lookback_.end(), state, is_before);
    while (it != lookback_.end() && it->state == state) {
      const int32_t alternative = it->alternative;
      std::copy_n(certain[it->caller], intersected.size(), intersected.begin());
      for (; it != lookback_.end() && it->state == state && it->alternative == alternative; ++it)
        for (size_t word = 0; word < intersected.size(); ++word) {
          all_terminals[word] |= follow[it->caller][word];
          intersected[word] &= certain[it->caller][word];
        }
      for (size_t word = 0; word < intersected.size(); ++word) certain_terminals[word] |= intersected[word];
    }
    // The row needs the doubtful terminals, which are all the others.
    for (size_t word = 0; word < all_terminals.size(); ++word)
      certain_terminals[word] = all_terminals[word] & ~certain_terminals[word];
    return {state, std::move(all_terminals), std::move(certain_terminals)};
  }

  const Rules& rules_;
  const Lr0& automaton_;
  Steps& steps_;
  std::vector<bool> nullable_;
  std::vector<Call> calls_;
  std::vector<int32_t> call_number_;  // by transition: its number as a call, or -1
  int32_t root_ = 0;                  // the call of rule 0, which has no transition
  std::vector<Inclusion> includes_;
  std::vector<Lookback> lookback_;
  bool has_shift_conflict_ = false;
};

}  // namespace

std::optional<LalrTable> lalr_table(const Rules& rules, const Lr0& automaton, Steps& steps) {
  return Lookaheads(rules, automaton, steps).table();
}

}  // namespace guided::lark
