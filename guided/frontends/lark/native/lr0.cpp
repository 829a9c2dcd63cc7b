#include "lr0.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

namespace guided::lark {

std::vector<bool> Rules::nullable_rules() const {
  const auto alternatives = rule_of.size();
  std::vector<bool> out(rule_count());
  std::vector<int32_t> missing_counts(alternatives), todo;
  std::vector<std::vector<int32_t>> waiting_alternatives(rule_count());
  for (size_t alternative = 0; alternative < alternatives; ++alternative) {
    if (!is_dead.empty() && is_dead[alternative]) continue;
    const std::span all(symbols.data() + first_items[alternative], symbols.data() + first_items[alternative + 1] - 1);
    if (std::any_of(all.begin(), all.end(), [&](int32_t symbol) { return !is_rule(symbol); })) continue;
    missing_counts[alternative] = static_cast<int32_t>(all.size());
    for (const int32_t symbol : all)
      waiting_alternatives[symbol - terminals].push_back(static_cast<int32_t>(alternative));
    if (all.empty()) todo.push_back(rule_of[alternative]);
  }
  while (!todo.empty()) {
    const int32_t nullable_rule = todo.back();
    todo.pop_back();
    if (out[nullable_rule]) continue;
    out[nullable_rule] = true;
    for (const int32_t alternative : waiting_alternatives[nullable_rule])
      if (--missing_counts[alternative] == 0) todo.push_back(rule_of[alternative]);
  }
  return out;
}

namespace {

// Assigns numbers to kernels. One list holds the items of all kernels.
class KernelNumbers {
 public:
  explicit KernelNumbers(std::vector<int32_t>& items, std::vector<int32_t>& begin) : items_(items), begin_(begin) {}

  int32_t intern(const std::vector<int32_t>& kernel) {
    const auto hash =
        std::hash<std::string_view>{}({reinterpret_cast<const char*>(kernel.data()), kernel.size() * sizeof(int32_t)});
    const auto [from, to] = known_.equal_range(hash);
    for (auto it = from; it != to; ++it)
      if (std::equal(kernel.begin(), kernel.end(), items_.begin() + begin_[it->second],
                     items_.begin() + begin_[it->second + 1]))
        return it->second;
    const auto number = static_cast<int32_t>(begin_.size()) - 1;
    items_.insert(items_.end(), kernel.begin(), kernel.end());
    begin_.push_back(static_cast<int32_t>(items_.size()));
    known_.emplace(hash, number);
    return number;
  }

 private:
  std::vector<int32_t>&items_, &begin_;
  std::unordered_multimap<size_t, int32_t> known_;
};

// Adds the rules that may be called at the items of a kernel before a terminal is read. `seen`: the rules so far.
void add_called_rules(const Rules& rules, std::span<const int32_t> kernel, std::vector<bool>& seen,
                      std::vector<int32_t>& out) {
  const auto add = [&](int32_t symbol) {
    if (!rules.is_rule(symbol) || seen[symbol - rules.terminals]) return;
    seen[symbol - rules.terminals] = true;
    out.push_back(symbol - rules.terminals);
  };
  for (const int32_t item : kernel) add(rules.symbols[item]);
  for (size_t i = 0; i < out.size(); ++i)
    rules.for_each_alternative(out[i], [&](int32_t each) { add(rules.symbols[rules.first_items[each]]); });
}

}  // namespace

Lr0::Lr0(const Rules& rules, Steps& steps) : kernel_begin_{0}, row_begin_{0} {
  KernelNumbers numbers(kernels_, kernel_begin_);
  numbers.intern({0});
  std::vector<std::vector<int32_t>> next_kernels(rules.terminals + rules.rule_count());
  std::vector<int32_t> symbols, called_rules;
  std::vector<bool> seen(rules.rule_count());
  const auto add_next_item = [&](int32_t item) {
    const int32_t symbol = rules.symbols[item];
    if (symbol < 0) return;
    if (next_kernels[symbol].empty()) symbols.push_back(symbol);
    next_kernels[symbol].push_back(item + 1);
  };
  for (int32_t state = 0; state < state_count(); ++state) {  // grows during the loop
    called_rules.clear();
    symbols.clear();
    add_called_rules(rules, kernel(state), seen, called_rules);
    size_t item_count = kernel(state).size();
    for (const int32_t item : kernel(state)) add_next_item(item);
    for (const int32_t rule : called_rules) {
      seen[rule] = false;
      item_count += rules.first_alternatives[rule + 1] - rules.first_alternatives[rule];
      rules.for_each_alternative(rule, [&](int32_t each) { add_next_item(rules.first_items[each]); });
    }
    steps.spend(10 * item_count);
    std::sort(symbols.begin(), symbols.end());
    for (const int32_t symbol : symbols) {
      auto& items = next_kernels[symbol];
      std::sort(items.begin(), items.end());
      items.erase(std::unique(items.begin(), items.end()), items.end());
      symbols_.push_back(symbol);
      targets_.push_back(numbers.intern(items));
      items.clear();
    }
    row_begin_.push_back(static_cast<int32_t>(symbols_.size()));
  }
}

int32_t Lr0::find_transition(int32_t state, int32_t symbol) const {
  const auto all = read_symbols(state);
  const auto it = std::lower_bound(all.begin(), all.end(), symbol);
  return row_begin_[state] + static_cast<int32_t>(it - all.begin());
}

std::vector<std::pair<int32_t, int32_t>> Lr0::paired_states(const Lr0& living_automaton, Steps& steps) const {
  std::vector<std::pair<int32_t, int32_t>> out{{0, 0}};
  std::set<std::pair<int32_t, int32_t>> visited(out.begin(), out.end());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto [own, other] = out[i];
    steps.spend(10 * living_automaton.read_symbols(other).size());
    for (size_t k = 0; k < living_automaton.read_symbols(other).size(); ++k) {
      const std::pair next_pair(targets_[find_transition(own, living_automaton.read_symbols(other)[k])],
                                living_automaton.targets(other)[k]);
      if (visited.insert(next_pair).second) out.push_back(next_pair);
    }
  }
  return out;
}

}  // namespace guided::lark
