// The grammar IR as the core receives it: the nodes of guided/grammar/ir.py in one array, children by index.
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
constexpr int kShallow = 48;     // as deep as any thread's own stack may go
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackPerLevel = 32 << 10;
#else
constexpr size_t kStackPerLevel = 8 << 10;  // a level takes up to 1.5 KB, and several times that under sanitizers
#endif
constexpr size_t kStackKept = 128 << 10;  // for what is not lowering
constexpr const char* kDepth = "depth";

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
  Automaton
};

struct IrNode {
  Kind kind;
  std::vector<Range> ranges = {};   // Chars
  std::vector<uint32_t> text = {};  // Text: code points
  std::vector<int32_t> items = {};  // children; of Permutation: the members
  int64_t min = 0, max = -1;        // Repeat, Length, Permutation; -1: unbounded
  int32_t ref = -1;                 // Ref: rule; Encoded: encoding; Special: token id; Permutation: separator node;
                                    // Distinct: known names
  std::vector<uint8_t> required = {}, repeatable = {};   // Permutation
  std::shared_ptr<const Dfa> automaton = nullptr;        // Automaton
  Digest digest = {};                                    // of the whole subtree
  bool closed = true;                                    // no rule, token or permutation anywhere in it
  std::shared_ptr<const Condition> condition = nullptr;  // Permutation; null: none
};

struct IrGrammar {
  std::vector<IrNode> nodes;
  std::vector<int32_t> rules;  // rule -> node
  std::vector<std::string> names;
  int32_t start = 0;
  Encodings encodings;  // 0 is UTF-8
  std::vector<Digest> encoding_digests;
  std::vector<KnownNames> known;  // of each Distinct
};

}  // namespace guided
