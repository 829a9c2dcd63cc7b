#include "compile/rules.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace guided {

namespace {

// The digest of an automaton and its actions. It includes the numbers of calls within the rule, and the digest of a
// scope's known strings.
Digest digest_shape(const ByteAutomaton& automaton, const std::vector<Effect>& effects) {
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

// Renumbers the calls of an automaton by their first occurrence. Returns the called rules by their new numbers.
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

size_t CachedRule::size() const {
  size_t out = 0;
  std::vector<const CachedRule*> pending{this};
  std::unordered_set<const CachedRule*> visited{this};
  while (!pending.empty()) {
    const CachedRule* const current = pending.back();
    pending.pop_back();
    out += current->rule->size();
    for (const auto& counter : current->counters)
      if (visited.insert(counter.get()).second) pending.push_back(counter.get());
  }
  return out;
}

void LoweredRule::replace_automaton(Dfa automaton) {
  if (prepared) {
    for (int32_t s = 0; s < automaton.size(); ++s)
      for (Edge& e : automaton.edges[s])
        if (is_call(e.lo)) e.lo = e.hi = kCall + static_cast<Symbol>(callee(e));
    spellings = prepared->automaton.spellings;
    over_bytes = true;
    prepared.reset();
    callees.clear();
  }
  dfa = std::move(automaton);
  was_replaced = true;
}

void LoweredRule::prepare(ByteAutomaton automaton) {
  auto out = std::make_shared<PreparedRule>();
  out->automaton = std::move(automaton);
  callees = number_calls(out->automaton.dfa);
  out->calls = static_cast<int32_t>(callees.size());
  out->shape = substrings ? key.digest : digest_shape(out->automaton, effects);
  const bool needs_rests =
      is_relative() && std::ranges::any_of(effects, [](const Effect& e) { return e.op == Effect::Inc && e.a > 0; });
  out->block = lay_out(out->automaton, kind, effects, needs_rests);
  prepared = std::move(out);
}

bool LoweredRule::is_relative() const {
  auto ignores_upper_rest = [](const Effect& e) { return e.changes_scopes() || e.b < 0; };
  return kind == RuleKind::Counter && std::ranges::all_of(effects, ignores_upper_rest);
}

}  // namespace guided
