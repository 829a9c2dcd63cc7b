// A cache of IR subtrees that many grammars share as the same Python objects. They are read once, then copied.
//
// The front ends cache numbers, formats and patterns; a JSON integer is 280 nodes. In: the object at the top, and the
// nodes below it, none of which refers to a rule, a control token or an encoding. Out: these nodes again. Objects are
// distinguished by identity, and kept alive. IR nodes never change. The number of nodes and automaton states is
// bounded: beyond the bound, all subtrees are dropped. The caller holds the GIL; in a Python without a GIL, a mutex
// takes its place. Cost: 20 ns per node; reading takes ten times as long.
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
  std::vector<nanobind::object> objects;  // the object of each node, the top last
  std::vector<IrNode> nodes;              // children first; indices refer to this list
};

class KeptNodes {
 public:
  static constexpr size_t kMinWeight = 16;  // nodes and automaton states; smaller subtrees are not cached
  static constexpr size_t kMaxSubtreeWeight = 4096;
  static constexpr size_t kMaxWeight = 20000;  // of all subtrees together

  std::shared_ptr<const KeptSubtree> find(PyObject* top) const {
    const nanobind::ft_lock_guard lock(mutex_);
    const auto it = subtrees_.find(top);
    return it == subtrees_.end() ? nullptr : it->second;
  }
  void insert(PyObject* top, std::shared_ptr<const KeptSubtree> subtree, size_t weight) {
    if (weight > kMaxSubtreeWeight) return;
    Subtrees dropped;
    const nanobind::ft_lock_guard lock(mutex_);
    if (weight_ + weight > kMaxWeight) dropped = release_all();
    if (subtrees_.try_emplace(top, std::move(subtree)).second) weight_ += weight;
  }
  size_t size() const {
    const nanobind::ft_lock_guard lock(mutex_);
    return subtrees_.size();
  }
  size_t weight() const {
    const nanobind::ft_lock_guard lock(mutex_);
    return weight_;
  }
  void clear() {
    Subtrees dropped;
    const nanobind::ft_lock_guard lock(mutex_);
    dropped = release_all();
  }

 private:
  using Subtrees = std::unordered_map<PyObject*, std::shared_ptr<const KeptSubtree>>;
  // Releases all subtrees. The caller destroys them after it has unlocked the mutex, because this may run Python code.
  Subtrees release_all() {
    weight_ = 0;
    return std::exchange(subtrees_, {});
  }
  Subtrees subtrees_;
  size_t weight_ = 0;
  mutable nanobind::ft_mutex mutex_;
};

}  // namespace guided
