#include "matching/output_masks.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace guided {

namespace {

bool accept_id(Matcher& matcher, int64_t id) {
  if (id < 0 || id >= matcher.compiled().vocabulary->size) return false;
  const std::optional<bool> accepted = matcher.accept_known(static_cast<int32_t>(id));
  return accepted ? *accepted : matcher.accept_token(static_cast<int32_t>(id));
}

// The budget at a position; -1: no budget. After an end token, it may be 0.
int64_t budget_at(int64_t budget, size_t position) {
  return budget < 0 ? -1 : std::max<int64_t>(budget - static_cast<int64_t>(position), 0);
}

bool allows(const uint32_t* row, const TokenVocabulary& vocabulary, int64_t id) {
  return id >= 0 && id < vocabulary.size && (row[id >> 5] >> (id & 31) & 1) != 0;
}

// The distinct rows of one output, recognised by their digests.
class DistinctRows {
 public:
  DistinctRows(size_t words, int64_t memory) : row_(words), memory_(memory) {}
  // The number of the row of the matcher's next token.
  int32_t row_of_next(Matcher& matcher, int64_t budget) {
    if (!matcher.may_bind(budget))
      if (const Digest* digest = unbudgeted_digest(matcher))
        if (const auto it = numbers_.find(*digest); it != numbers_.end()) return it->second;
    std::fill(row_.begin(), row_.end(), 0);
    matcher.fill(row_.data(), budget);  // may replace the states
    if (matcher.budget_bound()) return add(digest_of_row());
    const Digest* stored = unbudgeted_digest(matcher);
    const Digest digest = stored ? *stored : digest_of_row();
    if (!stored && !matcher.terminated()) matcher.states().mask_digests.set(matcher.state(), digest);
    return add(digest);
  }
  int32_t empty_row() {
    std::fill(row_.begin(), row_.end(), 0);
    return add(digest_of_row());
  }
  const uint32_t* row(int32_t number) const { return rows.data() + row_.size() * static_cast<size_t>(number); }

  std::vector<uint32_t> rows;

 private:
  // The digest of the mask without a budget; null if it is not known yet.
  static const Digest* unbudgeted_digest(Matcher& matcher) {
    return matcher.terminated() ? nullptr : matcher.states().mask_digests.known(matcher.state());
  }
  Digest digest_of_row() const {
    Digest digest;
    size_t i = 0;
    for (; i + 1 < row_.size(); i += 2) digest.add(uint64_t{row_[i]} << 32 | row_[i + 1]);
    if (i < row_.size()) digest.add(row_[i]);
    return digest;
  }
  int32_t add(const Digest& digest) {
    const auto [it, added] = numbers_.try_emplace(digest, static_cast<int32_t>(numbers_.size()));
    if (!added) return it->second;
    if (const auto bytes = static_cast<int64_t>((rows.size() + row_.size()) * 4); bytes > memory_)
      throw LimitFailure("memory", static_cast<double>(bytes), static_cast<double>(memory_));
    rows.insert(rows.end(), row_.begin(), row_.end());
    return it->second;
  }

  std::vector<uint32_t> row_;
  const int64_t memory_;
  std::unordered_map<Digest, int32_t, DigestHash> numbers_;
};

}  // namespace

size_t accept_output(Matcher& matcher, std::span<const int64_t> ids, int64_t budget) {
  const TokenVocabulary& vocabulary = *matcher.compiled().vocabulary;
  std::vector<uint32_t> row(static_cast<size_t>(vocabulary.words));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (const int64_t current_budget = budget_at(budget, i); matcher.may_bind(current_budget)) {
      matcher.fill(row.data(), current_budget);
      if (!allows(row.data(), vocabulary, ids[i])) return i;
    }
    if (!accept_id(matcher, ids[i])) return i;
  }
  return ids.size();
}

OutputMasks output_masks(Matcher& matcher, std::span<const int64_t> ids, int64_t budget) {
  const TokenVocabulary& vocabulary = *matcher.compiled().vocabulary;
  DistinctRows distinct(static_cast<size_t>(vocabulary.words), matcher.states().limits().max_added_memory());
  std::vector<int32_t> numbers;
  numbers.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    numbers.push_back(distinct.row_of_next(matcher, budget_at(budget, i)));
    if (!allows(distinct.row(numbers.back()), vocabulary, ids[i]) || !accept_id(matcher, ids[i])) break;
  }
  if (numbers.size() < ids.size()) numbers.resize(ids.size(), distinct.empty_row());
  return {std::move(distinct.rows), std::move(numbers)};
}

}  // namespace guided
