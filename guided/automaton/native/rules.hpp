// From the IR to rules: one deterministic byte automaton per rule, over bytes, calls, tokens and effects.
//
// In: an IrGrammar and the bytes that the vocabulary can write. Out: rules in which
//   - no rule generates the empty string (the start's emptiness is a flag), so a call always consumes something;
//   - no rule is left-recursive: for a strongly connected component of left corners, one automaton over suffixes;
//   - every position can reach the rule's end, with live bytes only (effects aside, whose guards look ahead);
//   - counted repetition that would be large is a rule of its own with a count in its frame's register.
//
// An effect is a guarded operation, taken without reading: `Inc` of a counter (before an iteration, so that a frame at
// its bound never starts one), `Put` and `More` of a permutation's seen-set; around scopes in which values must differ
// `Open` and `Close`, around each value `Begin` and `Keep` (memory.hpp).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "encoding.hpp"
#include "ir.hpp"
#include "live_alphabet.hpp"
#include "memory.hpp"

namespace guided {

enum class RuleKind : uint8_t { Plain, Counter, Set };

struct Effect {
  enum Op : uint8_t { Inc, Put, More, Open, Close, Begin, Keep } op;
  // Inc: the shortest and longest (-1: unbounded) rest, in counts, after this one. Put: a = member. Open: a = names
  int64_t a = 0, b = -1;
  bool operator==(const Effect& e) const { return op == e.op && a == e.a && b == e.b; }
  bool of_memory() const { return op >= Open; }
};

// Byte automata of rules that are regular by themselves, and of characters, by content: every JSON grammar has the same
// number and string.
// One per vocabulary (what its bytes cannot write is left out). Thread-safe; emptied when it grows too large.
template <class Item>
class ContentCache {
 public:
  std::shared_ptr<const Item> find(const Digest& key) const {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = map_.find(key);
    return it == map_.end() ? nullptr : it->second;
  }
  void insert(const Digest& key, std::shared_ptr<const Item> item) {
    constexpr size_t kMost = 200000;  // states and ranges
    std::lock_guard<std::mutex> lock(mutex_);
    if (size_ > kMost) {
      map_.clear();
      size_ = 0;
    }
    size_ += item->size();
    map_[key] = std::move(item);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Digest, std::shared_ptr<const Item>, DigestHash> map_;
  size_t size_ = 0;
};

struct ByteCaches {
  ContentCache<ByteAutomaton> rules;
  ContentCache<Spelling> spellings;
  ContentCache<LiveCharacters> characters;
};

constexpr uint8_t kAbsent = 2;

struct LoweredRule {
  Dfa dfa;
  std::vector<std::shared_ptr<const Spelling>> spellings;  // once the automaton is over bytes
  bool encoded = false;   // it is already
  bool keep = false;      // regular by itself: goes into the cache under `key`
  Digest key;
  RuleKind kind = RuleKind::Plain;
  int64_t min = 0, max = -1;  // Counter: bounds of the count; Set: bounds of the number of members
  std::vector<Effect> effects;  // each once
  std::vector<uint8_t> required, repeatable;  // Set; repeatable: kAbsent for a member that cannot be written
  int32_t origin = -1;                        // the IR rule it comes from
};

struct LoweredGrammar {
  std::vector<LoweredRule> rules;
  int32_t start = 0;
  bool nullable = false;   // the empty string belongs to the language
  bool recursive = false;  // some rule calls itself, directly or not
  std::vector<KnownNames> known;
};

struct LowerOptions {
  ByteSet live;      // bytes that occur in some token
  ByteCaches* caches = nullptr;
  bool flat = false;  // one plain rule, everything inline: for vocabularies in which some byte is no token by itself
};

LoweredGrammar lower(const IrGrammar& ir, const LowerOptions& options, Meter& meter);

// Parts of lower(), in their own files.
// Nodes to automata, calls still symbolic, nothing pruned. lowerer.hpp
LoweredGrammar lower_nodes(const IrGrammar& ir, const LowerOptions& options, const LiveAlphabet& alphabet,
                           Meter& meter);
// Removes left recursion from the rules' automata (calls still symbolic). left_recursion.cpp
void remove_left_recursion(std::vector<LoweredRule>& rules, int32_t start, Meter& meter);
// Drops edges of calls that generate nothing; empties the automata of rules that generate nothing. prune.cpp
void prune_rules(std::vector<LoweredRule>& rules, Meter& meter);

}  // namespace guided
