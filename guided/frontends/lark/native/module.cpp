// Python bindings: rules are passed as dictionaries, and tables are returned with the names of rules and terminals.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bind_ebnf.hpp"
#include "bind_grammar.hpp"
#include "bind_regex.hpp"
#include "lalr.hpp"
#include "lr0.hpp"

namespace guided::lark {
namespace {

std::string_view view(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

// Rules as numbers, and their names. Rule 0 leads to the start rule.
class NamedRules {
 public:
  NamedRules(const nb::dict& rule_dict, const nb::str& start) : rule_dict_(rule_dict) {
    rule_names_.push_back(nb::str(""));
    for (const auto& [name, _] : rule_dict) {
      if (!nb::isinstance<nb::str>(name)) throw nb::type_error("the name of a rule must be a string");
      rule_numbers_.emplace(view(name.ptr()), static_cast<int32_t>(rule_names_.size()));
      rule_names_.push_back(nb::borrow<nb::str>(name));
    }
    rules.first_alternatives.push_back(0);
    add_symbol(start, false);
    end_alternative();
    for (const auto& [_, alternatives] : rule_dict) {
      rules.first_alternatives.push_back(static_cast<int32_t>(rules.rule_of.size()));
      for (const nb::handle symbols : nb::borrow<nb::sequence>(alternatives)) {
        for (const nb::handle symbol : nb::borrow<nb::sequence>(symbols)) {
          if (!PyTuple_CheckExact(symbol.ptr()) || PyTuple_GET_SIZE(symbol.ptr()) != 2)
            throw nb::type_error("a symbol must be a tuple (name, whether it is a terminal)");
          add_symbol(PyTuple_GET_ITEM(symbol.ptr(), 0), PyTuple_GET_ITEM(symbol.ptr(), 1) == Py_True);
        }
        end_alternative();
      }
    }
    rules.first_alternatives.push_back(static_cast<int32_t>(rules.rule_of.size()));
    rules.first_items.push_back(static_cast<int32_t>(rules.symbols.size()));
    rules.terminals = static_cast<int32_t>(terminal_names_.size());
    for (int32_t& symbol : rules.symbols)  // rules are numbered after the terminals, whose count is known only now
      if (symbol <= kRuleBase) symbol = rules.terminals + (kRuleBase - symbol);
  }

  // For each item of a kernel: (rule, alternative of the rule, number of symbols that were read).
  nb::list items(std::span<const int32_t> kernel) const {
    nb::list out;
    for (const int32_t item : kernel) {
      const auto alternative = static_cast<int32_t>(
          std::upper_bound(rules.first_items.begin(), rules.first_items.end(), item) - rules.first_items.begin() - 1);
      const int32_t rule = rules.rule_of[alternative];
      out.append(nb::make_tuple(rule_names_[rule], alternative - rules.first_alternatives[rule],
                                item - rules.first_items[alternative]));
    }
    return out;
  }

  // These rules, in which all alternatives that are not listed are dead.
  Rules with_living(const nb::dict& alternatives) const {
    Rules out = rules;
    out.is_dead.assign(rules.rule_of.size(), true);
    out.is_dead[0] = false;
    for (const auto& [name, numbers] : alternatives) {
      const int32_t rule = rule_numbers_.at(view(name.ptr()));
      const int32_t first = rules.first_alternatives[rule], count = rules.first_alternatives[rule + 1] - first;
      for (const nb::handle each : nb::borrow<nb::sequence>(numbers)) {
        const auto alternative = nb::cast<int32_t>(each);
        if (alternative < 0 || alternative >= count) throw nb::index_error("a rule has no such alternative");
        out.is_dead[first + alternative] = false;
      }
    }
    return out;
  }

  nb::object terminal_set(const Terminals& terminals) {
    const auto it = sets_.find(terminals);
    if (it != sets_.end()) return it->second;
    const nb::object out = nb::steal(PyFrozenSet_New(nullptr));
    for (int32_t terminal = 0; terminal < rules.terminals; ++terminal)
      if ((terminals[terminal / 64] >> (terminal % 64) & 1) != 0 &&
          PySet_Add(out.ptr(), terminal_names_[terminal].ptr()) != 0)
        throw nb::python_error();
    return sets_.emplace(terminals, out).first->second;
  }

  Rules rules;

 private:
  static constexpr int32_t kRuleBase = -2;  // stands for rule 0; kRuleBase - r for rule r

  void add_symbol(nb::handle name, bool is_terminal) {
    if (!PyUnicode_CheckExact(name.ptr())) throw nb::type_error("the name of a symbol must be a string");
    if (is_terminal) {
      const auto [it, is_new] =
          terminal_numbers_.emplace(view(name.ptr()), static_cast<int32_t>(terminal_names_.size()));
      if (is_new) terminal_names_.push_back(nb::borrow<nb::str>(name));
      rules.symbols.push_back(it->second);
      return;
    }
    const auto it = rule_numbers_.find(view(name.ptr()));
    if (it == rule_numbers_.end()) throw nb::key_error("a rule is not defined");
    rules.symbols.push_back(kRuleBase - it->second);
  }

  void end_alternative() {
    rules.rule_of.push_back(static_cast<int32_t>(rules.first_alternatives.size()) - 1);
    rules.first_items.push_back(next_);
    rules.symbols.push_back(-1);
    next_ = static_cast<int32_t>(rules.symbols.size());
  }

  nb::dict rule_dict_;  // keeps the names alive
  int32_t next_ = 0;    // the first item of the next alternative
  std::vector<nb::str> rule_names_, terminal_names_;
  std::unordered_map<std::string_view, int32_t> rule_numbers_, terminal_numbers_;
  std::map<Terminals, nb::object> sets_;
};

// The states that the living alternatives lead to, with only the items of living alternatives. Terminals that only dead
// alternatives can take are doubtful, too. Also returns whether the living alternatives have no conflict.
std::pair<nb::list, bool> states_of_living(NamedRules& named, const Lr0& automaton, const std::vector<LalrRow>& rows,
                                           const Rules& living, int64_t most) {
  Steps steps(most);
  const Lr0 living_automaton(living, steps);
  std::vector<const LalrRow*> rows_by_state(automaton.state_count()),
      living_rows_by_state(living_automaton.state_count());
  for (const LalrRow& row : rows) rows_by_state[row.state] = &row;
  const auto living_table = lalr_table(living, living_automaton, steps);
  if (living_table)
    for (const LalrRow& row : living_table->rows) living_rows_by_state[row.state] = &row;
  nb::list out;
  for (const auto& [own, other] : automaton.paired_states(living_automaton, steps)) {
    if (rows_by_state[own] == nullptr) continue;
    Terminals doubtful = rows_by_state[own]->terminals;
    if (const LalrRow* row = living_rows_by_state[other])
      for (size_t word = 0; word < doubtful.size(); ++word)
        doubtful[word] &= ~(row->terminals[word] & ~row->doubtful[word]);
    out.append(nb::make_tuple(named.items(living_automaton.kernel(other)),
                              named.terminal_set(rows_by_state[own]->terminals), named.terminal_set(doubtful)));
  }
  return {out, living_table && !living_table->has_shift_conflict};
}

nb::object lalr_states(const nb::dict& rule_dict, const nb::str& start, int64_t most,
                       const std::optional<nb::dict>& living) {
  NamedRules named(rule_dict, start);
  try {
    Steps steps(most);
    const Lr0 automaton(named.rules, steps);
    const auto table = lalr_table(named.rules, automaton, steps);
    if (!table) return nb::none();
    if (living) {
      const auto [states, is_deterministic] =
          states_of_living(named, automaton, table->rows, named.with_living(*living), most);
      return nb::make_tuple(states, is_deterministic);
    }
    nb::list out;
    for (const LalrRow& row : table->rows)
      out.append(nb::make_tuple(named.items(automaton.kernel(row.state)), named.terminal_set(row.terminals),
                                named.terminal_set(row.doubtful)));
    return nb::make_tuple(out, !table->has_shift_conflict);
  } catch (const TooLarge&) {
    return nb::none();
  }
}

nb::object lr0_kernels(const nb::dict& rule_dict, const nb::str& start, int64_t most) {
  const NamedRules named(rule_dict, start);
  try {
    Steps steps(most);
    const Lr0 automaton(named.rules, steps);
    nb::list out;
    for (int32_t state = 0; state < automaton.state_count(); ++state) out.append(named.items(automaton.kernel(state)));
    return out;
  } catch (const TooLarge&) {
    return nb::none();
  }
}

}  // namespace
}  // namespace guided::lark

NB_MODULE(_lark, m) {
  using namespace guided::lark;
  m.doc() = "Rules of Lark's grammars, and their LR automata.";
  bind_ebnf(m);
  bind_regex(m);
  bind_grammar(m);
  m.def("lalr_states", &lalr_states, nb::arg("rules"), nb::arg("start"), nb::arg("most"),
        nb::arg("living") = nb::none(),
        nb::sig("def lalr_states(rules: dict[str, typing.Any], start: str, most: int, living: dict[str, list[int]] | "
                "None = None) -> tuple[list[tuple[list[tuple[str, int, "
                "int]], frozenset[str], frozenset[str]]], bool] | None"),
        R"((states, whether there is no conflict). A state: its kernel, terminals and doubtful terminals.

The states are the first one, and those that a terminal leads to. None: there is no table, or it takes more than
`most` steps.

`living`: rule -> its living alternatives. The states are then those that these lead to, with only their items.
Terminals that only other alternatives can take are doubtful, too.)");
  m.def("lr0_kernels", &lr0_kernels, nb::arg("rules"), nb::arg("start"), nb::arg("most"),
        nb::sig(
            "def lr0_kernels(rules: dict[str, typing.Any], start: str, most: int) -> list[list[tuple[str, int, int]]] "
            "| None"),
        "The kernels of the LR(0) automaton; None: computing them takes more than `most` steps.");
}
