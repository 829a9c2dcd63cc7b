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
  NamedRules(const nb::dict& given, const nb::str& start) : given_(given) {
    rule_names_.push_back(nb::str(""));
    for (const auto& [name, _] : given) {
      if (!nb::isinstance<nb::str>(name)) throw nb::type_error("rules have names");
      rule_numbers_.emplace(view(name.ptr()), static_cast<int32_t>(rule_names_.size()));
      rule_names_.push_back(nb::borrow<nb::str>(name));
    }
    rules.first.push_back(0);
    add_symbol(start, false);
    end_alternative();
    for (const auto& [_, alternatives] : given) {
      rules.first.push_back(static_cast<int32_t>(rules.rule.size()));
      for (const nb::handle symbols : nb::borrow<nb::sequence>(alternatives)) {
        for (const nb::handle symbol : nb::borrow<nb::sequence>(symbols)) {
          if (!PyTuple_CheckExact(symbol.ptr()) || PyTuple_GET_SIZE(symbol.ptr()) != 2)
            throw nb::type_error("a symbol is a name, and whether it is a terminal's");
          add_symbol(PyTuple_GET_ITEM(symbol.ptr(), 0), PyTuple_GET_ITEM(symbol.ptr(), 1) == Py_True);
        }
        end_alternative();
      }
    }
    rules.first.push_back(static_cast<int32_t>(rules.rule.size()));
    rules.begin.push_back(static_cast<int32_t>(rules.symbols.size()));
    rules.terminals = static_cast<int32_t>(terminal_names_.size());
    for (int32_t& symbol : rules.symbols)  // rules come after the terminals, whose number is known only now
      if (symbol <= kRule) symbol = rules.terminals + (kRule - symbol);
  }

  // By place: (rule, alternative of the rule, number of symbols that were read).
  nb::list places(std::span<const int32_t> kernel) const {
    nb::list out;
    for (const int32_t place : kernel) {
      const auto alternative = static_cast<int32_t>(std::upper_bound(rules.begin.begin(), rules.begin.end(), place) -
                                                    rules.begin.begin() - 1);
      const int32_t rule = rules.rule[alternative];
      out.append(nb::make_tuple(rule_names_[rule], alternative - rules.first[rule], place - rules.begin[alternative]));
    }
    return out;
  }

  // The same rules, in which the alternatives that are not listed are dead.
  Rules living(const nb::dict& alternatives) const {
    Rules out = rules;
    out.dead.assign(rules.rule.size(), true);
    out.dead[0] = false;
    for (const auto& [name, listed] : alternatives) {
      const int32_t rule = rule_numbers_.at(view(name.ptr()));
      const int32_t first = rules.first[rule], count = rules.first[rule + 1] - first;
      for (const nb::handle each : nb::borrow<nb::sequence>(listed)) {
        const auto alternative = nb::cast<int32_t>(each);
        if (alternative < 0 || alternative >= count) throw nb::index_error("a rule has no such alternative");
        out.dead[first + alternative] = false;
      }
    }
    return out;
  }

  nb::object names(const Terminals& terminals) {
    const auto found = sets_.find(terminals);
    if (found != sets_.end()) return found->second;
    const nb::object out = nb::steal(PyFrozenSet_New(nullptr));
    for (int32_t at = 0; at < rules.terminals; ++at)
      if ((terminals[at / 64] >> (at % 64) & 1) != 0 && PySet_Add(out.ptr(), terminal_names_[at].ptr()) != 0)
        throw nb::python_error();
    return sets_.emplace(terminals, out).first->second;
  }

  Rules rules;

 private:
  static constexpr int32_t kRule = -2;  // stands for rule 0; kRule - r for rule r

  void add_symbol(nb::handle name, bool is_terminal) {
    if (!PyUnicode_CheckExact(name.ptr())) throw nb::type_error("a symbol has a name");
    if (is_terminal) {
      const auto [it, is_new] =
          terminal_numbers_.emplace(view(name.ptr()), static_cast<int32_t>(terminal_names_.size()));
      if (is_new) terminal_names_.push_back(nb::borrow<nb::str>(name));
      rules.symbols.push_back(it->second);
      return;
    }
    const auto found = rule_numbers_.find(view(name.ptr()));
    if (found == rule_numbers_.end()) throw nb::key_error("a rule is not defined");
    rules.symbols.push_back(kRule - found->second);
  }

  void end_alternative() {
    rules.rule.push_back(static_cast<int32_t>(rules.first.size()) - 1);
    rules.begin.push_back(next_);
    rules.symbols.push_back(-1);
    next_ = static_cast<int32_t>(rules.symbols.size());
  }

  nb::dict given_;    // keeps the names alive
  int32_t next_ = 0;  // the first place of the next alternative
  std::vector<nb::str> rule_names_, terminal_names_;
  std::unordered_map<std::string_view, int32_t> rule_numbers_, terminal_numbers_;
  std::map<Terminals, nb::object> sets_;
};

// The states to which the living alternatives lead, with only their places. Terminals that only dead alternatives can
// take are doubtful as well.
nb::list states_of_living(NamedRules& named, const Lr0& automaton, const std::vector<LalrRow>& rows,
                          const Rules& living, int64_t most) {
  Steps steps(most);
  const Lr0 part(living, steps);
  std::vector<const LalrRow*> of_state(automaton.states()), of_part(part.states());
  for (const LalrRow& row : rows) of_state[row.state] = &row;
  const auto part_rows = lalr_rows(living, part, steps);
  if (part_rows)
    for (const LalrRow& row : *part_rows) of_part[row.state] = &row;
  nb::list out;
  for (const auto& [own, other] : automaton.paired_states(part, steps)) {
    if (of_state[own] == nullptr) continue;
    Terminals doubtful = of_state[own]->terminals;
    if (const LalrRow* row = of_part[other])
      for (size_t word = 0; word < doubtful.size(); ++word)
        doubtful[word] &= ~(row->terminals[word] & ~row->doubtful[word]);
    out.append(
        nb::make_tuple(named.places(part.kernel(other)), named.names(of_state[own]->terminals), named.names(doubtful)));
  }
  return out;
}

nb::object lalr_states(const nb::dict& given, const nb::str& start, int64_t most,
                       const std::optional<nb::dict>& living) {
  NamedRules named(given, start);
  try {
    Steps steps(most);
    const Lr0 automaton(named.rules, steps);
    const auto rows = lalr_rows(named.rules, automaton, steps);
    if (!rows) return nb::none();
    if (living) return states_of_living(named, automaton, *rows, named.living(*living), most);
    nb::list out;
    for (const LalrRow& row : *rows)
      out.append(nb::make_tuple(named.places(automaton.kernel(row.state)), named.names(row.terminals),
                                named.names(row.doubtful)));
    return out;
  } catch (const TooLarge&) {
    return nb::none();
  }
}

nb::object lr0_kernels(const nb::dict& given, const nb::str& start, int64_t most) {
  const NamedRules named(given, start);
  try {
    Steps steps(most);
    const Lr0 automaton(named.rules, steps);
    nb::list out;
    for (int32_t state = 0; state < automaton.states(); ++state) out.append(named.places(automaton.kernel(state)));
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
                "None = None) -> list[tuple[list[tuple[str, int, "
                "int]], frozenset[str], frozenset[str]]] | None"),
        R"(Kernel, terminals and doubtful terminals of states of the LALR(1) table.

The states are those that a terminal leads to, and the first one. None: there is no table, or it takes more steps.

With `living` alternatives, by rule: the states that these lead to, with their places there alone. What only the
other alternatives could take is doubtful, too.)");
  m.def("lr0_kernels", &lr0_kernels, nb::arg("rules"), nb::arg("start"), nb::arg("most"),
        nb::sig(
            "def lr0_kernels(rules: dict[str, typing.Any], start: str, most: int) -> list[list[tuple[str, int, int]]] "
            "| None"),
        "The kernels of the LR(0) automaton; None: it takes more than so many steps.");
}
