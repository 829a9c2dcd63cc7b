// The grammar IR as the core receives it: the nodes of guided/ir/nodes.py in one array, children before their parents
// and referred to by index. What each kind of node means is documented in ir.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/forms.hpp"
#include "fsa/condition.hpp"
#include "fsa/symbolic_automaton.hpp"
#include "values/uniqueness.hpp"

namespace guided {

constexpr int kMaxDepth = 2000;  // of recursion over nodes
constexpr int kShallow = 48;     // up to this depth nodes are lowered on the caller's stack, beyond on a larger one
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackPerLevel = 32 << 10;
#else
constexpr size_t kStackPerLevel = 8 << 10;  // bytes; a level needs up to 1.5 KB, several times that under sanitizers
#endif
constexpr size_t kStackKept = 128 << 10;  // bytes, for everything but the recursion
constexpr const char* kDepth = "depth";   // the name of the limit

enum class Kind : uint8_t {
  Chars,
  Text,
  Seq,
  Alt,
  Repeat,
  And,
  Not,
  Length,
  Encoded,
  Ref,
  Special,
  Permutation,
  Distinct,
  Entry,
  Automaton,
  Dispatch,
  Tokens
};

struct IrNode {
  Kind kind;
  std::vector<Range> ranges = {};     // Chars
  std::vector<uint32_t> text = {};    // Text: code points; Dispatch: the state before each item but the first
  std::vector<int32_t> items = {};    // children; of Permutation: the members; Dispatch: the automaton is first
  int64_t min = 0, max = kUnbounded;  // Repeat, Length, Permutation; Tokens: max; Special: max is the last id
  int32_t ref = -1;                   // Ref: rule; Encoded: encoding; Special: first id; Permutation: separator node;
                                      // Distinct: known names
  std::vector<uint8_t> required = {}, repeatable = {};   // Permutation
  std::shared_ptr<const Dfa> automaton = nullptr;        // Automaton
  Digest digest = {};                                    // of the whole subtree
  bool closed = true;                                    // no rule, token or permutation in the subtree
  std::shared_ptr<const Condition> condition = nullptr;  // Permutation; null: none
};

// A rule that is compiled when it is first entered: its node stands for it until then (later_rules.hpp).
struct IrLater {
  int32_t rule;
  Digest digest;  // of what will be compiled
  int64_t least;  // bytes: no less than its shortest text has
};

struct IrGrammar {
  std::vector<IrNode> nodes;
  std::vector<int32_t> rules;  // rule -> node
  std::vector<std::string> names;
  int32_t start = 0;
  Encodings encodings;  // 0 is UTF-8
  std::vector<Digest> encoding_digests;
  std::vector<KnownNames> known;  // by Distinct: the strings that count as seen from the start
  std::vector<IrLater> later;
};

}  // namespace guided
