#include "compile/lower.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/graph.hpp"
#include "compile/character_rules.hpp"
#include "compile/left_recursion.hpp"
#include "compile/lowerer.hpp"
#include "compile/prune.hpp"

namespace guided {

namespace {

// Whether some rule calls itself, directly or through others.
bool is_recursive(const std::vector<LoweredRule>& rules) {
  std::vector<std::vector<int32_t>> calls(rules.size());
  std::vector<int32_t> members(rules.size(), 0);
  for (size_t r = 0; r < rules.size(); ++r) {
    rules[r].each_callee([&](int32_t callee) { calls[r].push_back(callee); });
    if (std::ranges::find(calls[r], static_cast<int32_t>(r)) != calls[r].end()) return true;
  }
  for (int32_t c : components(calls))
    if (++members[c] > 1) return true;
  return false;
}

// Finds the index of an item in a list without duplicates.
class Indices {
 public:
  explicit Indices(const std::vector<int32_t>& list) {
    for (size_t i = 0; i < list.size(); ++i) sorted_.emplace_back(list[i], static_cast<int32_t>(i));
    std::ranges::sort(sorted_);
  }
  // -1: the list does not contain the item.
  int32_t of(int64_t item) const {
    const auto it = std::ranges::lower_bound(sorted_, item, {}, [](const auto& entry) { return int64_t{entry.first}; });
    return it == sorted_.end() || it->first != item ? -1 : it->second;
  }

 private:
  std::vector<std::pair<int32_t, int32_t>> sorted_;
};

// Stores the portable rules of a grammar in the vocabulary's cache, for later grammars.
class RuleStore {
 public:
  RuleStore(const std::vector<LoweredRule>& rules, ByteCaches& caches) : rules_(rules), caches_(caches) {}

  void store_rules() {
    for (const LoweredRule& rule : rules_) {
      if (!rule.key.portable || rule.was_replaced || !rule.prepared) continue;
      const KeyIndices key{Indices(rule.key.refs), Indices(rule.key.scopes)};
      counters_.clear();
      if (auto cached = make_cached(rule, key, 0)) caches_.rules.insert(rule.key.digest, std::move(cached));
    }
  }

 private:
  static constexpr int kMaxCounterDepth = 50;  // the limit on nested counters
  struct KeyIndices {
    Indices refs, scopes;
  };

  // Returns the rule with its counters; references become indices into the key. Null if the key lacks a called rule
  // that is no counter, if a counter depends on the content of the rules that it calls, or if counters are nested too
  // deeply.
  std::shared_ptr<const CachedRule> make_cached(const LoweredRule& rule, const KeyIndices& key, int depth) {
    auto cached = std::make_shared<CachedRule>();
    cached->rule = rule.prepared;
    cached->min = rule.min;
    cached->max = rule.max;
    for (int32_t callee : rule.callees) {
      cached->refs.push_back(key.refs.of(callee));
      if (cached->refs.back() >= 0) continue;
      const LoweredRule& counter_rule = rules_[callee];
      if (counter_rule.kind != RuleKind::Counter || counter_rule.was_replaced || !counter_rule.prepared ||
          depth == kMaxCounterDepth)
        return nullptr;
      auto counter = make_cached_counter(callee, key, depth + 1);
      if (!counter) return nullptr;
      cached->counters.push_back(std::move(counter));
      cached->refs.back() = -static_cast<int32_t>(cached->counters.size());
    }
    cached->effects = rule.effects;
    for (Effect& e : cached->effects)
      if (e.op == Effect::Open) e.a = key.scopes.of(e.a);
    return cached;
  }

  // Like make_cached, for a counter. It becomes one object for all its callers in a rule, since nested counters may
  // have exponentially many paths to one counter.
  std::shared_ptr<const CachedRule> make_cached_counter(int32_t rule, const KeyIndices& key, int depth) {
    if (const auto it = counters_.find(rule); it != counters_.end()) return it->second;
    return counters_[rule] = make_cached(rules_[rule], key, depth);
  }

  const std::vector<LoweredRule>& rules_;
  ByteCaches& caches_;
  // Of the rule that is being stored, by rule; null: it cannot be cached.
  std::unordered_map<int32_t, std::shared_ptr<const CachedRule>> counters_;
};

// Encodes a rule's automaton in bytes and lays it out.
void prepare(LoweredRule& rule, const EncodeOptions& options, Meter& meter) {
  ByteAutomaton automaton = rule.over_bytes ? ByteAutomaton{std::move(rule.dfa), std::move(rule.spellings)}
                                            : encode(rule.dfa, options, meter, rule.substrings);
  rule.dfa = {};
  rule.prepare(std::move(automaton));
}

}  // namespace

LoweredGrammar lower(const IrGrammar& ir, const LowerOptions& options, Meter& meter) {
  const LiveAlphabet alphabet(ir.encodings, ir.encoding_digests, options.live,
                              options.caches ? &options.caches->characters : nullptr, meter);
  LoweredGrammar out = Lowerer(ir, options, alphabet, false, meter).run();
  meter.rule = -1;
  prune_rules(out.rules, meter);
  out.recursive = is_recursive(out.rules);
  if (out.recursive && has_left_recursion(out.rules)) {
    out = Lowerer(ir, options, alphabet, true, meter).run();
    meter.rule = -1;
    prune_rules(out.rules, meter);
    out.recursive = is_recursive(out.rules);
    remove_left_recursion(out.rules, meter);
  }
  ResidualShapes shapes(ir.encodings, options.live);
  const EncodeOptions encoding{ir.encodings, ir.encoding_digests, shapes, alphabet,
                               options.caches ? &options.caches->spellings : nullptr};
  int64_t positions = 0;
  for (LoweredRule& rule : out.rules) {
    meter.rule = rule.origin;
    if (!rule.dfa.empty()) prepare(rule, encoding, meter);
    if (rule.prepared) positions += static_cast<int64_t>(rule.prepared->block.positions.size());
    meter.states(positions);
  }
  meter.rule = -1;
  if (options.caches) RuleStore(out.rules, *options.caches).store_rules();
  inline_character_rules(out, ir, meter);
  return out;
}

}  // namespace guided
