// A priority queue of rules that are about to be entered, each with all of its callers.
//
// In: calls of rules, each with a caller. Out: one entry for each rule and uniqueness state, with all callers. The
// highest rule comes first, because only rules that are higher can add callers to a rule (closure.cpp). Cost: a binary
// heap of the entries; the callers of an entry are a linked list, so adding one does not depend on their number.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "run/thread_set.hpp"

namespace guided {

class RuleEntries {
 public:
  // The position of a caller that stands for a tail call: its `ret` contains the actual callers.
  static constexpr int32_t kTail = -2;
  struct Entry {
    int32_t rule, mem;
    int32_t first, last;  // its first and last caller
    int32_t older;        // an older entry of the same rule, or -1
    bool is_open = true;
    bool is_single() const { return first == last; }
  };
  bool empty() const { return heap_.empty(); }
  void clear() {
    for (const Entry& entry : entries_) latest_entries_[entry.rule] = -1;
    entries_.clear();
    callers_.clear();
    heap_.clear();
  }
  void add(int32_t rule, int32_t height, int32_t mem, const Thread& caller) {
    if (rule >= static_cast<int32_t>(latest_entries_.size())) latest_entries_.resize(rule + 1, -1);
    const int32_t caller_number = static_cast<int32_t>(callers_.size());
    callers_.push_back({caller, -1});
    int32_t entry = latest_entries_[rule];
    while (entry >= 0 && (!entries_[entry].is_open || entries_[entry].mem != mem)) entry = entries_[entry].older;
    if (entry >= 0) {
      callers_[entries_[entry].last].next = caller_number;
      entries_[entry].last = caller_number;
      return;
    }
    entries_.push_back(
        {.rule = rule, .mem = mem, .first = caller_number, .last = caller_number, .older = latest_entries_[rule]});
    latest_entries_[rule] = static_cast<int32_t>(entries_.size()) - 1;
    heap_.emplace_back(height, latest_entries_[rule]);
    std::ranges::push_heap(heap_);
  }
  // Removes and returns the entry of the highest rule.
  Entry pop_highest() {
    std::ranges::pop_heap(heap_);
    Entry& entry = entries_[heap_.back().second];
    heap_.pop_back();
    entry.is_open = false;
    return entry;
  }
  template <class Visit>
  void each_caller(const Entry& entry, Visit&& visit) const {
    for (int32_t i = entry.first; i >= 0; i = callers_[i].next) visit(callers_[i].thread);
  }

 private:
  struct Caller {
    Thread thread;
    int32_t next;
  };
  std::vector<Entry> entries_;
  std::vector<Caller> callers_;
  std::vector<std::pair<int32_t, int32_t>> heap_;  // (height, entry)
  std::vector<int32_t> latest_entries_;            // by rule: its latest entry, or -1
};

}  // namespace guided
