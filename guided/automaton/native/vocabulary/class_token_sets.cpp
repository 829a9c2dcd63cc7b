#include "vocabulary/class_token_sets.hpp"

#include <algorithm>

#include "base/token_set.hpp"

namespace guided {

namespace {

constexpr size_t kMaxSets = 64;      // each takes about 100 KB
constexpr size_t kMinBitmask = 600;  // with fewer tokens, a list of ids is smaller and faster than a bitmask

std::unique_ptr<ClassTokens> build_class_tokens(const TokenTrie& trie, int32_t words, CharClasses char_classes) {
  auto out = std::make_unique<ClassTokens>();
  out->tokens.assign(static_cast<size_t>(words), 0);
  out->payload_bits.assign(trie.payloads().size() / 64 + 1, 0);
  const auto& nodes = trie.nodes();
  auto add_tokens = [&](int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; ++i) {
      set_bit(out->tokens.data(), trie.payloads()[i]);
      out->payload_bits[static_cast<size_t>(i) >> 6] |= uint64_t{1} << (i & 63);
    }
  };
  struct Visit {
    int32_t node, depth, length;
  };
  std::vector<Visit> stack{{0, 0, 0}};
  while (!stack.empty()) {
    const Visit current = stack.back();
    stack.pop_back();
    const TokenTrie::Node& node = nodes[current.node];
    if (!node.is_inside_character && (node.classes_below & ~char_classes) == 0) {
      add_tokens(node.payload_lo, node.subtree_hi);
      continue;
    }
    if (!node.is_inside_character) add_tokens(node.payload_lo, node.payload_hi);
    for (int32_t c = node.first_child; c < node.first_child + node.children; ++c) {
      const TokenTrie::Node& child = nodes[c];
      const bool is_in_classes =
          (char_classes & (child.byte < 0x80 ? char_class_of_ascii(child.byte) : kNonAscii)) != 0;
      if (node.is_inside_character) {  // inside a character: descend to its end
        stack.push_back({c, current.depth + 1, current.length});
        continue;
      }
      const bool has_incomplete_character =
          child.is_inside_character && ((child.classes_below & kBrokenBytes) || child.payload_hi > child.payload_lo);
      if (!is_in_classes || has_incomplete_character)
        out->edges[child.byte].push_back({c, current.depth, current.length});
      if (is_in_classes) stack.push_back({c, current.depth + 1, current.length + 1});
    }
  }
  size_t count = 0;
  for (uint64_t w : out->payload_bits) count += static_cast<size_t>(__builtin_popcountll(w));
  if (count < kMinBitmask) {
    const auto payload_count = static_cast<int32_t>(trie.payloads().size());
    out->each_token(0, payload_count, [&](int32_t i) { out->ids.push_back(trie.payloads()[i]); });
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
  const auto payload_count = static_cast<int32_t>(trie.payloads().size());
  const auto& lengths = trie.lengths();
  each_token(0, payload_count, [&](int32_t i) {
    if (length_starts_.size() < lengths[i] + size_t{2}) length_starts_.resize(lengths[i] + size_t{2}, 0);
    ++length_starts_[lengths[i] + size_t{1}];
  });
  for (size_t i = 1; i < length_starts_.size(); ++i) length_starts_[i] += length_starts_[i - 1];
  if (length_starts_.empty()) return;
  ids_by_length_.resize(length_starts_.back());
  std::vector<size_t> next = length_starts_;
  each_token(0, payload_count, [&](int32_t i) { ids_by_length_[next[lengths[i]]++] = trie.payloads()[i]; });
}

std::shared_ptr<const ClassTokens> ClassTokenSets::find(const TokenTrie& trie, int32_t words, CharClasses char_classes,
                                                        bool build) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = sets_.find(char_classes);
  if (it == sets_.end()) {
    if (!build) return nullptr;
    if (sets_.size() >= kMaxSets) sets_.clear();
    it = sets_.emplace(char_classes, build_class_tokens(trie, words, char_classes)).first;
  }
  return it->second;
}

}  // namespace guided
