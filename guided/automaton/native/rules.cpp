#include "rules.hpp"

#include <algorithm>

#include "graph.hpp"

namespace guided {

namespace {

bool calls_itself(const std::vector<LoweredRule>& rules) {
  std::vector<std::vector<int32_t>> calls(rules.size());
  std::vector<int32_t> members(rules.size(), 0);
  for (size_t r = 0; r < rules.size(); ++r)
    for (int32_t s = 0; s < rules[r].dfa.size(); ++s)
      for (const Edge& e : rules[r].dfa.edges[s])
        if (is_call(e.lo)) {
          calls[r].push_back(static_cast<int32_t>(e.lo - kCall));
          if (calls[r].back() == static_cast<int32_t>(r)) return true;
        }
  for (int32_t c : components(calls))
    if (++members[c] > 1) return true;
  return false;
}

}  // namespace

LoweredGrammar lower(const IrGrammar& ir, const LowerOptions& options, Meter& meter) {
  const LiveAlphabet alphabet(ir.encodings, ir.encoding_digests, options.live, options.caches);
  LoweredGrammar out = lower_nodes(ir, options, alphabet, meter);
  prune_rules(out.rules, meter);
  out.recursive = calls_itself(out.rules);
  if (out.recursive) remove_left_recursion(out.rules, out.start, meter);
  for (LoweredRule& rule : out.rules) {
    if (rule.dfa.empty() || rule.encoded) continue;
    ByteAutomaton bytes =
        encode(rule.dfa, {ir.encodings, ir.encoding_digests, options.live, alphabet, options.caches}, meter);
    if (rule.keep) options.caches->rules.insert(rule.key, std::make_shared<const ByteAutomaton>(bytes));
    rule.dfa = std::move(bytes.dfa);
    rule.spellings = std::move(bytes.spellings);
  }
  return out;
}

}  // namespace guided
