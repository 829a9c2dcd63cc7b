// Subtrees of the IR that come in many grammars as the same objects, as the core has them: read once, then copied.
//
// Numbers, formats and patterns are made once and kept by who makes them; a JSON integer is 280 nodes. In: the object
// at the top, and the nodes below it, none of which names a rule, a control token or an encoding. Out: these nodes
// again. Objects are told apart by identity and kept alive; nodes of the IR never change. Bounded in nodes: when there
// are too many, all are forgotten. Used with the GIL held.
// Cost: 20 ns a node, where reading takes ten times that.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "compile/ir.hpp"

namespace guided {

struct KeptSubtree {
  std::vector<nanobind::object> objects;  // each node's, the last one's at the top
  std::vector<IrNode> nodes;              // children first, named by their place here
};

class KeptNodes {
 public:
  static constexpr size_t kLeast = 16;  // nodes and states of a subtree that is worth it
  static constexpr size_t kLargest = 4096;
  static constexpr size_t kMost = 20000;  // of all

  std::shared_ptr<const KeptSubtree> find(PyObject* top) const {
    const auto it = subtrees_.find(top);
    return it == subtrees_.end() ? nullptr : it->second;
  }
  void insert(PyObject* top, std::shared_ptr<const KeptSubtree> subtree, size_t weight) {
    if (weight > kLargest) return;
    if (weight_ + weight > kMost) clear();
    if (subtrees_.emplace(top, std::move(subtree)).second) weight_ += weight;
  }
  size_t size() const { return subtrees_.size(); }
  size_t weight() const { return weight_; }
  void clear() {
    const auto dropped = std::exchange(subtrees_, {});  // objects that go may run code
    weight_ = 0;
  }

 private:
  std::unordered_map<PyObject*, std::shared_ptr<const KeptSubtree>> subtrees_;
  size_t weight_ = 0;
};

}  // namespace guided
