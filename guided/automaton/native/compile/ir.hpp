// The grammar IR as the core receives it: the nodes of guided/ir/nodes.py in one array. Children come before their
// parents, which refer to them by index. nodes.py documents what each kind of node means.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/forms.hpp"
#include "fsa/condition.hpp"
#include "fsa/symbolic_automaton.hpp"
#include "values/uniqueness.hpp"

namespace guided {

constexpr int kMaxDepth = 2000;    // the limit on the recursion over nodes
constexpr int kShallowDepth = 48;  // up to this depth, every OS thread can lower nodes on its own stack
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackPerLevel = 32 << 10;
#else
constexpr size_t kStackPerLevel = 8 << 10;  // bytes; a level needs up to 1.5 KB, several times more under sanitizers
#endif
constexpr size_t kStackReserve = 128 << 10;   // bytes that the recursion leaves free
constexpr const char* kDepthLimit = "depth";  // the name of the limit on depth

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
  Substrings,
  Dispatch,
  Tokens
};

struct IrNode {
  Kind kind;
  std::vector<Range> ranges = {};     // Chars; Substrings: the characters of the texts
  std::vector<uint32_t> text = {};    // Text: code points; Dispatch: the exit state of each item, except the first
  std::vector<int32_t> items = {};    // children; Permutation: the members; Dispatch: first the automaton
  int64_t min = 0, max = kUnbounded;  // Repeat, Length, Permutation; Tokens: only max; Special: max is the last id
  int32_t ref = -1;                   // Ref: rule; Encoded: encoding; Special: first id; Permutation: separator node;
                                      // Distinct: index into IrGrammar::known
  std::vector<uint8_t> required = {}, repeatable = {};  // Permutation
  std::shared_ptr<const Dfa> automaton = nullptr;       // Automaton, Substrings
  Digest digest = {};                                   // of the whole subtree
  bool closed = true;  // no Ref, Special, Permutation, Distinct or Entry in the subtree
  std::shared_ptr<const Condition> condition = nullptr;  // Permutation; null: none
};

// A rule that is compiled when it is first entered. Until then its node is a placeholder (later_rules.hpp).
struct IrLater {
  int32_t rule;
  Digest digest;           // of the specification that will be compiled
  int64_t shortest_bound;  // an upper bound on the bytes of its shortest text
};

struct IrGrammar {
  std::vector<IrNode> nodes;
  std::vector<int32_t> rules;  // rule -> node
  std::vector<std::string> names;
  int32_t start = 0;
  Encodings encodings;  // 0 is UTF-8
  std::vector<Digest> encoding_digests;
  std::vector<KnownNames> known;  // by IrNode::ref of Distinct: the strings that are seen from the start
  std::vector<IrLater> later;
};

}  // namespace guided
