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

std::shared_ptr<const Dfa> RuleCache::find(const Digest& key) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = map_.find(key);
  return it == map_.end() ? nullptr : it->second;
}

void RuleCache::insert(const Digest& key, std::shared_ptr<const Dfa> dfa) {
  constexpr size_t kMostStates = 200000;
  std::lock_guard<std::mutex> lock(mutex_);
  if (states_ > kMostStates) {
    map_.clear();
    states_ = 0;
  }
  states_ += static_cast<size_t>(dfa->size());
  map_[key] = std::move(dfa);
}

LoweredGrammar lower(const IrGrammar& ir, const LowerOptions& options, Meter& meter) {
  LoweredGrammar out = lower_nodes(ir, options, meter);
  prune_rules(out.rules, meter);
  out.recursive = calls_itself(out.rules);
  if (out.recursive) remove_left_recursion(out.rules, out.start, meter);
  for (LoweredRule& rule : out.rules) {
    if (rule.dfa.empty() || rule.encoded) continue;
    rule.dfa = encode(rule.dfa, {ir.encodings, ir.encoding_digests, options.live, options.cache}, meter);
    if (rule.keep) options.cache->insert(rule.key, std::make_shared<const Dfa>(rule.dfa));
  }
  return out;
}

}  // namespace guided
