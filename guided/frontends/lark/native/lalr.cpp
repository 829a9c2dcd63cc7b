#include "lalr.hpp"

#include <algorithm>
#include <tuple>

namespace guided::lark {
namespace {

// Sets of terminals, by number.
class Sets {
 public:
  Sets(size_t count, size_t bits, Steps& steps) : words_((bits + 63) / 64) {
    steps.spend(3 * count * words_);  // the sets that are read, that follow, and that are certain
    all_.assign(count * words_, 0);
  }

  size_t words() const { return words_; }
  uint64_t* operator[](size_t at) { return all_.data() + at * words_; }
  const uint64_t* operator[](size_t at) const { return all_.data() + at * words_; }
  void add(size_t at, size_t bit) { (*this)[at][bit / 64] |= uint64_t{1} << (bit % 64); }
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
    for (size_t at = 0; at < count; ++at) begin[at + 1] += begin[at];
    auto free = begin;
    for (const auto& [from, target] : edges) to[free[from]++] = target;
  }
};

// Adds to each set the sets to which it leads, by Tarjan's strongly connected components (SIAM J. Comput. 1(2), 1972).
// Returns the numbers in the order in which they were finished: each comes after those to which it leads, except within
// its own component.
std::vector<int32_t> close(const Edges& edges, Sets& sets, Steps& steps) {
  const auto count = static_cast<int32_t>(edges.begin.size()) - 1;
  std::vector<int32_t> low(count), next(edges.begin), stack, path, order;
  const int32_t done = count + 1;
  order.reserve(count);
  for (int32_t root = 0; root < count; ++root) {
    if (low[root] != 0) continue;
    path.push_back(root);
    while (!path.empty()) {
      const int32_t at = path.back();
      if (low[at] == 0) {
        stack.push_back(at);
        low[at] = static_cast<int32_t>(stack.size());
      }
      if (next[at] < edges.begin[at + 1]) {
        const int32_t to = edges.to[next[at]];
        if (low[to] == 0) {
          path.push_back(to);
          continue;
        }
        ++next[at];
        low[at] = std::min(low[at], low[to]);
        sets.unite(sets[at], to);
        steps.spend(1 + sets.words());
        continue;
      }
      path.pop_back();
      if (stack[low[at] - 1] != at) continue;
      while (true) {
        const int32_t member = stack.back();
        stack.pop_back();
        low[member] = done;
        if (member != at) std::copy_n(sets[at], sets.words(), sets[member]);
        order.push_back(member);
        if (member == at) break;
      }
    }
  }
  return order;
}

// Sorts by a number below `count`, and keeps the order of equal ones. Cost: linear.
template <class Item>
void sort_by(std::vector<Item>& items, size_t count, int32_t Item::* number) {
  std::vector<int32_t> begin(count + 1);
  for (const Item& each : items) ++begin[each.*number + 1];
  for (size_t at = 0; at < count; ++at) begin[at + 1] += begin[at];
  std::vector<Item> out(items.size());
  for (const Item& each : items) out[begin[each.*number]++] = each;
  items = std::move(out);
}

class Lookaheads {
 public:
  Lookaheads(const Rules& rules, const Lr0& automaton, Steps& steps)
      : rules_(rules), automaton_(automaton), steps_(steps), nullable_(rules.nullable()) {
    for (int32_t state = 0; state < automaton.states(); ++state)
      for (const int32_t symbol : automaton.reads(state)) {
        number_.push_back(rules.is_rule(symbol) ? static_cast<int32_t>(calls_.size()) : -1);
        if (rules.is_rule(symbol)) calls_.push_back({state, symbol});
      }
    root_ = static_cast<int32_t>(calls_.size());
    follow_alternatives(root_, 0, 0);
    for (int32_t call = 0; call < root_; ++call)
      follow_alternatives(call, calls_[call].state, calls_[call].symbol - rules.terminals);
    sort_by(lookback_, rules.rule.size(), &Lookback::alternative);
    sort_by(lookback_, automaton.states(), &Lookback::state);
  }

  std::optional<std::vector<LalrRow>> rows() {
    Sets follow = read();
    std::vector<std::pair<int32_t, int32_t>> includes;
    for (const auto& each : includes_) includes.emplace_back(each.call, each.caller);
    const Sets read = follow;
    const auto order = close(Edges(root_ + 1, includes), follow, steps_);
    if (has_conflict(follow)) return std::nullopt;
    const Sets certain = this->certain(read, follow, order);
    std::vector<LalrRow> out;
    for (int32_t state = 0; state < automaton_.states(); ++state)
      if (state == 0 || entered_by_terminal(state)) out.push_back(row(state, follow, certain));
    return out;
  }

 private:
  struct Call {
    int32_t state, symbol;
  };
  struct Inclusion {  // what follows the caller also follows the call at the end of its alternative
    int32_t call, place, caller;
  };
  struct Lookback {
    int32_t state, alternative, caller;
  };

  // Follows the alternatives of a rule from the state that calls it.
  void follow_alternatives(int32_t caller, int32_t state, int32_t rule) {
    rules_.each_alternative(rule, [&](int32_t each) {
      const int32_t begin = rules_.begin[each], end = rules_.begin[each + 1] - 1;
      steps_.spend(end - begin + 1);
      int32_t last = end;  // from here on, all symbols may be empty
      while (last > begin && rules_.is_rule(rules_.symbols[last - 1]) &&
             nullable_[rules_.symbols[last - 1] - rules_.terminals])
        --last;
      int32_t at = state;
      for (int32_t place = begin; place < end; ++place) {
        const int32_t transition = automaton_.transition(at, rules_.symbols[place]);
        if (number_[transition] >= 0 && place >= last - 1) includes_.push_back({number_[transition], place, caller});
        at = automaton_.target(transition);
      }
      lookback_.push_back({at, each, caller});
    });
  }

  // The terminals that can be shifted after a call, possibly after empty rules.
  Sets read() {
    Sets out(root_ + 1, rules_.terminals + 1, steps_);
    std::vector<std::pair<int32_t, int32_t>> reads;
    for (int32_t call = 0; call < root_; ++call) {
      const int32_t after = automaton_.target(automaton_.transition(calls_[call].state, calls_[call].symbol));
      const auto symbols = automaton_.reads(after);
      steps_.spend(symbols.size());
      for (size_t at = 0; at < symbols.size(); ++at)
        if (!rules_.is_rule(symbols[at]))
          out.add(call, symbols[at]);
        else if (nullable_[symbols[at] - rules_.terminals])
          reads.emplace_back(call, number_[automaton_.row_begin(after) + at]);
    }
    out.add(number_[automaton_.transition(0, rules_.symbols[0])], rules_.terminals);
    close(Edges(root_ + 1, reads), out, steps_);
    return out;
  }

  bool has_conflict(const Sets& follow) {
    std::vector<uint64_t> reduced(follow.words()), lookahead(follow.words());
    for (size_t at = 0; at < lookback_.size();) {
      const int32_t state = lookback_[at].state;
      std::fill(reduced.begin(), reduced.end(), 0);
      while (at < lookback_.size() && lookback_[at].state == state) {
        const int32_t alternative = lookback_[at].alternative;
        std::fill(lookahead.begin(), lookahead.end(), 0);
        for (; at < lookback_.size() && lookback_[at].state == state && lookback_[at].alternative == alternative;
             ++at) {
          steps_.spend(follow.words());
          follow.unite(lookahead.data(), lookback_[at].caller);
        }
        for (size_t word = 0; word < reduced.size(); ++word) {
          if ((reduced[word] & lookahead[word]) != 0) return true;
          reduced[word] |= lookahead[word];
        }
      }
    }
    return false;
  }

  // The terminals that follow a call in all contexts (see lalr.hpp). The sets shrink until nothing changes.
  Sets certain(const Sets& read, const Sets& follow, const std::vector<int32_t>& order) {
    sort_by(includes_, rules_.symbols.size(), &Inclusion::place);
    sort_by(includes_, root_ + 1, &Inclusion::call);
    std::vector<size_t> begin(root_ + 2);
    std::vector<std::pair<int32_t, int32_t>> users;
    for (const auto& each : includes_) {
      ++begin[each.call + 1];
      users.emplace_back(each.caller, each.call);
    }
    for (int32_t call = 0; call <= root_; ++call) begin[call + 1] += begin[call];
    const Edges used(root_ + 1, users);
    Sets out = follow;
    std::vector<bool> waits(root_ + 1, true);
    std::vector<int32_t> todo(order), next;
    std::vector<uint64_t> after(out.words()), way(out.words());
    for (; !todo.empty(); todo.swap(next), next.clear())
      for (const int32_t call : todo) {
        waits[call] = false;
        std::copy_n(read[call], out.words(), after.begin());
        for (size_t at = begin[call]; at < begin[call + 1];) {
          const int32_t place = includes_[at].place;
          std::copy_n(out[includes_[at].caller], out.words(), way.begin());
          for (; at < begin[call + 1] && includes_[at].place == place; ++at) {
            steps_.spend(out.words());
            for (size_t word = 0; word < way.size(); ++word) way[word] &= out[includes_[at].caller][word];
          }
          for (size_t word = 0; word < way.size(); ++word) after[word] |= way[word];
        }
        if (std::equal(after.begin(), after.end(), out[call])) continue;
        std::copy(after.begin(), after.end(), out[call]);
        for (int32_t at = used.begin[call]; at < used.begin[call + 1]; ++at)
          if (!waits[used.to[at]]) {
            waits[used.to[at]] = true;
            next.push_back(used.to[at]);
          }
      }
    return out;
  }

  bool entered_by_terminal(int32_t state) const {
    const int32_t symbol = rules_.symbols[automaton_.kernel(state)[0] - 1];
    return !rules_.is_rule(symbol);
  }

  LalrRow row(int32_t state, const Sets& follow, const Sets& certain) {
    Terminals all(follow.words()), sure(follow.words()), way(follow.words());
    for (const int32_t symbol : automaton_.reads(state))
      if (!rules_.is_rule(symbol)) all[symbol / 64] |= uint64_t{1} << (symbol % 64);
    sure = all;
    const auto is_before = [](const Lookback& each, int32_t state) { return each.state < state; };
    auto at = std::lower_bound(lookback_.begin(), lookback_.end(), state, is_before);
    while (at != lookback_.end() && at->state == state) {
      const int32_t alternative = at->alternative;
      std::copy_n(certain[at->caller], way.size(), way.begin());
      for (; at != lookback_.end() && at->state == state && at->alternative == alternative; ++at)
        for (size_t word = 0; word < way.size(); ++word) {
          all[word] |= follow[at->caller][word];
          way[word] &= certain[at->caller][word];
        }
      for (size_t word = 0; word < way.size(); ++word) sure[word] |= way[word];
    }
    for (size_t word = 0; word < all.size(); ++word) sure[word] = all[word] & ~sure[word];
    return {state, std::move(all), std::move(sure)};
  }

  const Rules& rules_;
  const Lr0& automaton_;
  Steps& steps_;
  std::vector<bool> nullable_;
  std::vector<Call> calls_;
  std::vector<int32_t> number_;  // by transition: its number as a call, or -1
  int32_t root_ = 0;             // the call of rule 0, which has no transition
  std::vector<Inclusion> includes_;
  std::vector<Lookback> lookback_;
};

}  // namespace

std::optional<std::vector<LalrRow>> lalr_rows(const Rules& rules, const Lr0& automaton, Steps& steps) {
  return Lookaheads(rules, automaton, steps).rows();
}

}  // namespace guided::lark
