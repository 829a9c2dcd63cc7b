#include "lr0.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

namespace guided::lark {

std::vector<bool> Rules::nullable() const {
  const auto alternatives = rule.size();
  std::vector<bool> out(count());
  std::vector<int32_t> missing(alternatives), todo;
  std::vector<std::vector<int32_t>> waiting(count());
  for (size_t at = 0; at < alternatives; ++at) {
    if (!dead.empty() && dead[at]) continue;
    const std::span all(symbols.data() + begin[at], symbols.data() + begin[at + 1] - 1);
    if (std::any_of(all.begin(), all.end(), [&](int32_t symbol) { return !is_rule(symbol); })) continue;
    missing[at] = static_cast<int32_t>(all.size());
    for (const int32_t symbol : all) waiting[symbol - terminals].push_back(static_cast<int32_t>(at));
    if (all.empty()) todo.push_back(rule[at]);
  }
  while (!todo.empty()) {
    const int32_t found = todo.back();
    todo.pop_back();
    if (out[found]) continue;
    out[found] = true;
    for (const int32_t at : waiting[found])
      if (--missing[at] == 0) todo.push_back(rule[at]);
  }
  return out;
}

namespace {

// Numbers kernels. One list has the places of all kernels.
class Numbers {
 public:
  explicit Numbers(std::vector<int32_t>& places, std::vector<int32_t>& begin) : places_(places), begin_(begin) {}

  int32_t of(const std::vector<int32_t>& kernel) {
    const auto hash =
        std::hash<std::string_view>{}({reinterpret_cast<const char*>(kernel.data()), kernel.size() * sizeof(int32_t)});
    const auto [from, to] = known_.equal_range(hash);
    for (auto it = from; it != to; ++it)
      if (std::equal(kernel.begin(), kernel.end(), places_.begin() + begin_[it->second],
                     places_.begin() + begin_[it->second + 1]))
        return it->second;
    const auto number = static_cast<int32_t>(begin_.size()) - 1;
    places_.insert(places_.end(), kernel.begin(), kernel.end());
    begin_.push_back(static_cast<int32_t>(places_.size()));
    known_.emplace(hash, number);
    return number;
  }

 private:
  std::vector<int32_t>&places_, &begin_;
  std::unordered_multimap<size_t, int32_t> known_;
};

// Adds the rules that may be called at some places, without reading a terminal. `seen`: the rules that were added
// before.
void add_called(const Rules& rules, std::span<const int32_t> kernel, std::vector<bool>& seen,
                std::vector<int32_t>& out) {
  const auto add = [&](int32_t symbol) {
    if (!rules.is_rule(symbol) || seen[symbol - rules.terminals]) return;
    seen[symbol - rules.terminals] = true;
    out.push_back(symbol - rules.terminals);
  };
  for (const int32_t place : kernel) add(rules.symbols[place]);
  for (size_t at = 0; at < out.size(); ++at)
    rules.each_alternative(out[at], [&](int32_t each) { add(rules.symbols[rules.begin[each]]); });
}

}  // namespace

Lr0::Lr0(const Rules& rules, Steps& steps) : kernel_begin_{0}, row_begin_{0} {
  Numbers numbers(kernels_, kernel_begin_);
  numbers.of({0});
  std::vector<std::vector<int32_t>> after(rules.terminals + rules.count());
  std::vector<int32_t> touched, called;
  std::vector<bool> seen(rules.count());
  const auto read = [&](int32_t place) {
    const int32_t symbol = rules.symbols[place];
    if (symbol < 0) return;
    if (after[symbol].empty()) touched.push_back(symbol);
    after[symbol].push_back(place + 1);
  };
  for (int32_t state = 0; state < states(); ++state) {  // grows during the loop
    called.clear();
    touched.clear();
    add_called(rules, kernel(state), seen, called);
    size_t items = kernel(state).size();
    for (const int32_t place : kernel(state)) read(place);
    for (const int32_t rule : called) {
      seen[rule] = false;
      items += rules.first[rule + 1] - rules.first[rule];
      rules.each_alternative(rule, [&](int32_t each) { read(rules.begin[each]); });
    }
    steps.spend(10 * items);
    std::sort(touched.begin(), touched.end());
    for (const int32_t symbol : touched) {
      auto& places = after[symbol];
      std::sort(places.begin(), places.end());
      places.erase(std::unique(places.begin(), places.end()), places.end());
      symbols_.push_back(symbol);
      targets_.push_back(numbers.of(places));
      places.clear();
    }
    row_begin_.push_back(static_cast<int32_t>(symbols_.size()));
  }
}

int32_t Lr0::transition(int32_t state, int32_t symbol) const {
  const auto all = reads(state);
  const auto found = std::lower_bound(all.begin(), all.end(), symbol);
  return row_begin_[state] + static_cast<int32_t>(found - all.begin());
}

std::vector<std::pair<int32_t, int32_t>> Lr0::paired_states(const Lr0& part, Steps& steps) const {
  std::vector<std::pair<int32_t, int32_t>> out{{0, 0}};
  std::set<std::pair<int32_t, int32_t>> visited(out.begin(), out.end());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto [own, other] = out[i];
    steps.spend(10 * part.reads(other).size());
    for (size_t k = 0; k < part.reads(other).size(); ++k) {
      const std::pair after(targets_[transition(own, part.reads(other)[k])], part.targets(other)[k]);
      if (visited.insert(after).second) out.push_back(after);
    }
  }
  return out;
}

}  // namespace guided::lark
