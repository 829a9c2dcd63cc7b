#include "compile/rules.hpp"

#include <algorithm>
#include <unordered_map>

namespace guided {

namespace {

// The digest of an automaton and its actions. Calls are represented by their numbers within the rule, and the known
// strings of a scope by their content.
Digest shape_of(const ByteAutomaton& automaton, const std::vector<Effect>& effects) {
  Digest d;
  const Dfa& dfa = automaton.dfa;
  for (int32_t s = 0; s < dfa.size(); ++s) {
    d.add(0x5157A7Eu + dfa.accept[s]);
    for (const Edge& e : dfa.edges[s]) {
      if (is_effect(e.lo)) {
        const Effect& f = effects[e.lo - kEffect];
        d.add(2 + static_cast<uint64_t>(f.op) * 8);
        d.add(f.op == Effect::Open ? 0 : static_cast<uint64_t>(f.a));
        d.add(static_cast<uint64_t>(f.b));
      } else if (is_spelling(e.lo)) {
        d.add(3);
        d.add(automaton.spellings[e.lo - kSpelling]->digest);
      } else {
        d.add(uint64_t{e.lo} << 32 | e.hi);
      }
      d.add(static_cast<uint64_t>(e.to));
    }
  }
  return d;
}

// Renumbers the calls of an automaton by their first occurrence, and returns the called rules by these numbers.
std::vector<int32_t> number_calls(Dfa& dfa) {
  std::vector<int32_t> callees;
  std::unordered_map<Symbol, int32_t> numbers;
  for (int32_t s = 0; s < dfa.size(); ++s)
    for (Edge& e : dfa.edges[s]) {
      if (!is_call(e.lo)) continue;
      const auto [it, inserted] = numbers.try_emplace(e.lo, static_cast<int32_t>(callees.size()));
      if (inserted) callees.push_back(static_cast<int32_t>(e.lo - kCall));
      e.lo = e.hi = kCall + static_cast<Symbol>(it->second);
    }
  return callees;
}

}  // namespace

void LoweredRule::change(Dfa changed) {
  if (prepared) {
    for (int32_t s = 0; s < changed.size(); ++s)
      for (Edge& e : changed.edges[s])
        if (is_call(e.lo)) e.lo = e.hi = kCall + static_cast<Symbol>(callee(e));
    spellings = prepared->automaton.spellings;
    encoded = true;
    prepared.reset();
    callees.clear();
  }
  dfa = std::move(changed);
  key.portable = false;
}

void LoweredRule::prepare(ByteAutomaton automaton) {
  auto out = std::make_shared<PreparedRule>();
  out->automaton = std::move(automaton);
  callees = number_calls(out->automaton.dfa);
  out->calls = static_cast<int32_t>(callees.size());
  out->shape = substrings ? key.digest : shape_of(out->automaton, effects);
  const bool rests =
      relative() && std::ranges::any_of(effects, [](const Effect& e) { return e.op == Effect::Inc && e.a > 0; });
  out->block = lay_out(out->automaton, kind, effects, rests);
  prepared = std::move(out);
}

bool LoweredRule::relative() const {
  auto looks_at_no_more = [](const Effect& e) { return e.of_memory() || e.b < 0; };
  return kind == RuleKind::Counter && std::ranges::all_of(effects, looks_at_no_more);
}

}  // namespace guided
