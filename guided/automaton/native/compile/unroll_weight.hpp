// Estimates the size of a node's automaton. The estimate decides whether a counted repetition is unrolled or gets a
// register.
//
// In: a node. Out: the approximate number of states of one copy; any number above kMaxWeight means "too large". Each
// node is weighed once.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "compile/ir.hpp"

namespace guided {

class UnrollWeight {
 public:
  static constexpr int64_t kMaxWeight = 24;  // a repetition is unrolled if all its copies have at most this many states
  explicit UnrollWeight(const IrGrammar& ir) : ir_(ir) {}

  int64_t of(int32_t id, int depth = 0) {
    if (depth > kMaxWeighedDepth) return kMaxWeight + 1;
    if (auto it = weights_.find(id); it != weights_.end()) return it->second;
    int64_t weight = weigh(ir_.nodes[id], depth + 1);
    return weights_[id] = weight;
  }

 private:
  static constexpr int kMaxWeighedDepth = 64;  // deeper nodes count as too large

  int64_t weigh(const IrNode& n, int depth) {
    int64_t sum = 0;
    switch (n.kind) {
      case Kind::Chars:
        return n.ranges.empty() || n.ranges.back().hi < 128 ? 1 : 4 + static_cast<int64_t>(n.ranges.size()) / 8;
      case Kind::Text:
        return static_cast<int64_t>(n.text.size());
      case Kind::Ref:
      case Kind::Special:
        return 1;
      case Kind::Repeat: {
        int64_t copies = std::max<int64_t>(1, n.max < 0 ? n.min + 1 : n.max);
        return std::min(kMaxWeight + 1, copies) * std::min(kMaxWeight + 1, of(n.items[0], depth));
      }
      case Kind::Seq:
      case Kind::Alt:
        for (int32_t item : n.items) {
          sum += of(item, depth);
          if (sum > kMaxWeight) break;
        }
        return sum;
      default:
        return kMaxWeight + 1;
    }
  }

  const IrGrammar& ir_;
  std::unordered_map<int32_t, int64_t> weights_;
};

}  // namespace guided
