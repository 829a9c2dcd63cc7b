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
bool calls_itself(const std::vector<LoweredRule>& rules) {
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

int32_t index_of(const std::vector<int32_t>& list, int64_t item) {
  const auto it = std::ranges::find(list, item);
  return it == list.end() ? -1 : static_cast<int32_t>(it - list.begin());
}

// Stores the portable rules of a grammar in the vocabulary's cache, for later grammars.
class RuleStore {
 public:
  RuleStore(const std::vector<LoweredRule>& rules, ByteCaches& caches) : rules_(rules), caches_(caches) {}

  void run() {
    for (const LoweredRule& rule : rules_) {
      if (!rule.key.portable || !rule.prepared) continue;
      if (auto known = known_as(rule, rule.key, 0)) caches_.rules.insert(rule.key.digest, std::move(known));
    }
  }

 private:
  static constexpr int kDeepest = 50;  // the limit on nested counters

  // The rule with its counters; references become indices into the key. Null if it calls a rule that the key lacks.
  std::shared_ptr<const KnownRule> known_as(const LoweredRule& rule, const RuleKey& key, int depth) {
    auto known = std::make_shared<KnownRule>();
    known->rule = rule.prepared;
    known->min = rule.min;
    known->max = rule.max;
    for (int32_t callee : rule.callees) {
      known->refs.push_back(index_of(key.refs, callee));
      known->closed &= known->refs.back() < 0;
      if (known->refs.back() >= 0) continue;
      if (rules_[callee].kind != RuleKind::Counter || !rules_[callee].prepared || depth == kDeepest) return nullptr;
      auto counter = counter_as(callee, key, depth + 1);
      if (!counter) return nullptr;
      known->closed &= counter->closed;
      known->counters.push_back(std::move(counter));
      known->refs.back() = -static_cast<int32_t>(known->counters.size());
    }
    known->effects = rule.effects;
    for (Effect& e : known->effects)
      if (e.op == Effect::Open) {
        e.a = index_of(key.scopes, e.a);
        known->closed = false;
      }
    return known;
  }

  // The same for a counter. A closed counter becomes one object, which all rules that contain it share.
  std::shared_ptr<const KnownRule> counter_as(int32_t rule, const RuleKey& key, int depth) {
    if (const auto it = closed_.find(rule); it != closed_.end()) return it->second;
    auto known = known_as(rules_[rule], key, depth);
    if (known && known->closed) closed_[rule] = known;
    return known;
  }

  const std::vector<LoweredRule>& rules_;
  ByteCaches& caches_;
  std::unordered_map<int32_t, std::shared_ptr<const KnownRule>> closed_;
};

// Encodes a rule's automaton in bytes and lays it out.
void prepare(LoweredRule& rule, const EncodeOptions& options, Meter& meter) {
  ByteAutomaton automaton = rule.encoded ? ByteAutomaton{std::move(rule.dfa), std::move(rule.spellings)}
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
  out.recursive = calls_itself(out.rules);
  if (out.recursive && has_left_recursion(out.rules)) {
    out = Lowerer(ir, options, alphabet, true, meter).run();
    meter.rule = -1;
    prune_rules(out.rules, meter);
    out.recursive = calls_itself(out.rules);
    remove_left_recursion(out.rules, meter);
  }
  const EncodeOptions encoding{ir.encodings, ir.encoding_digests, options.live, alphabet,
                               options.caches ? &options.caches->spellings : nullptr};
  int64_t positions = 0;
  for (LoweredRule& rule : out.rules) {
    meter.rule = rule.origin;
    if (!rule.dfa.empty()) prepare(rule, encoding, meter);
    if (rule.prepared) positions += static_cast<int64_t>(rule.prepared->block.positions.size());
    meter.states(positions);
  }
  meter.rule = -1;
  if (options.caches) RuleStore(out.rules, *options.caches).run();
  inline_character_rules(out, ir, meter);
  return out;
}

}  // namespace guided
