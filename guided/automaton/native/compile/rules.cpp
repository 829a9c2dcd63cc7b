#include "compile/rules.hpp"

#include <algorithm>

namespace guided {

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

bool LoweredRule::relative() const {
  auto looks_at_no_more = [](const Effect& e) { return e.of_memory() || e.b < 0; };
  return kind == RuleKind::Counter && std::ranges::all_of(effects, looks_at_no_more);
}

}  // namespace guided
