#include "vocabulary/class_token_sets.hpp"

#include <algorithm>

#include "base/token_set.hpp"

namespace guided {

namespace {

constexpr size_t kMaxSets = 64;  // each takes about 100 KB
constexpr size_t kFew = 600;     // up to this many tokens a list of ids is smaller and faster than a bitmask

std::unique_ptr<ClassTokens> make(const TokenTrie& trie, int32_t words, CharClasses char_classes) {
  auto out = std::make_unique<ClassTokens>();
  out->tokens.assign(static_cast<size_t>(words), 0);
  out->members.assign(trie.payloads().size() / 64 + 1, 0);
  const auto& nodes = trie.nodes();
  auto take = [&](int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i) {
      set_bit(out->tokens.data(), trie.payloads()[i]);
      out->members[static_cast<size_t>(i) >> 6] |= uint64_t{1} << (i & 63);
    }
  };
  struct Open {
    int32_t node, depth, length;
  };
  std::vector<Open> open{{0, 0, 0}};
  while (!open.empty()) {
    const Open at = open.back();
    open.pop_back();
    const TokenTrie::Node& node = nodes[at.node];
    if (!node.inside && (node.below & ~char_classes) == 0) {
      take(node.payload_lo, node.subtree_hi);
      continue;
    }
    if (!node.inside) take(node.payload_lo, node.payload_hi);
    for (int32_t c = node.first_child; c < node.first_child + node.children; ++c) {
      const TokenTrie::Node& child = nodes[c];
      const bool ours = (char_classes & (child.byte < 0x80 ? char_class_of_ascii(child.byte) : kWholeCharacters)) != 0;
      if (node.inside) {  // inside a character: descend to where it is complete
        open.push_back({c, at.depth + 1, at.length});
        continue;
      }
      const bool breaks = child.inside && ((child.below & kBrokenBytes) || child.payload_hi > child.payload_lo);
      if (!ours || breaks) out->edges[child.byte].push_back({c, at.depth, at.length});
      if (ours) open.push_back({c, at.depth + 1, at.length + 1});
    }
  }
  size_t count = 0;
  for (uint64_t w : out->members) count += static_cast<size_t>(__builtin_popcountll(w));
  if (count < kFew) {
    const auto all = static_cast<int32_t>(trie.payloads().size());
    out->each_token(0, all, [&](int32_t i) { out->ids.push_back(trie.payloads()[i]); });
    std::sort(out->ids.begin(), out->ids.end());
    out->tokens.clear();
  }
  for (auto& list : out->edges)
    std::sort(list.begin(), list.end(), [&](const ClassTokens::Edge& x, const ClassTokens::Edge& y) {
      return nodes[x.node].payload_lo < nodes[y.node].payload_lo;
    });
  return out;
}

}  // namespace

void ClassTokens::sort_by_length(const TokenTrie& trie) const {
  const auto all = static_cast<int32_t>(trie.payloads().size());
  const auto& lengths = trie.lengths();
  each_token(0, all, [&](int32_t i) {
    if (lengths_.size() < lengths[i] + size_t{2}) lengths_.resize(lengths[i] + size_t{2}, 0);
    ++lengths_[lengths[i] + size_t{1}];
  });
  for (size_t i = 1; i < lengths_.size(); ++i) lengths_[i] += lengths_[i - 1];
  if (lengths_.empty()) return;
  by_length_.resize(lengths_.back());
  std::vector<size_t> next = lengths_;
  each_token(0, all, [&](int32_t i) { by_length_[next[lengths[i]]++] = trie.payloads()[i]; });
}

std::shared_ptr<const ClassTokens> ClassTokenSets::find(const TokenTrie& trie, int32_t words, CharClasses char_classes,
                                                        bool build) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = sets_.find(char_classes);
  if (it == sets_.end()) {
    if (!build) return nullptr;
    if (sets_.size() >= kMaxSets) sets_.clear();
    it = sets_.emplace(char_classes, make(trie, words, char_classes)).first;
  }
  return it->second;
}

}  // namespace guided
