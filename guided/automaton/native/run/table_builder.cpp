#include "run/table_builder.hpp"

#include <algorithm>
#include <iterator>

namespace guided {

int32_t TableBuilder::set_number(Label label) {
  if (!is_relative_ && !sets_.empty()) return 0;
  auto [it, inserted] = set_numbers_.try_emplace(label, static_cast<int32_t>(sets_.size()));
  if (inserted) sets_.push_back({std::move(label), {}, {}, {}, {}});
  return it->second;
}

void TableBuilder::note_touched_entries(int32_t touched_entries, int32_t from, int32_t to) {
  if (touched_entries == 0 || from == to) return;
  table_->touches_entries = true;
  if (touched_entries > 1)
    table_->unsure.insert(table_->unsure.end(), trie_.payloads().begin() + from, trie_.payloads().begin() + to);
}

void TableBuilder::restart() {
  sets_[0] = {};
  leaving_.clear();
}

TokenSet TableBuilder::tokens_of(CollectedSet& set) const {
  const auto& payloads = trie_.payloads();
  const int32_t words = task_.vocabulary.words;
  size_t count = set.ids.size();
  for (const auto& [from, to] : set.ranges) count += static_cast<size_t>(to - from);
  for (const std::span<const int32_t> list : set.lists) count += list.size();
  if (set.bits.empty() && (task_.source || count < kMinDense)) {
    for (const auto& [from, to] : set.ranges)
      set.ids.insert(set.ids.end(), payloads.begin() + from, payloads.begin() + to);
    auto is_kept = [&](int32_t id) {
      return dropped_.empty() || !(dropped_[static_cast<size_t>(id) >> 5] >> (id & 31) & 1);
    };
    for (const std::span<const int32_t> list : set.lists)
      std::ranges::copy_if(list, std::back_inserter(set.ids), is_kept);
    if (!task_.source) return make_token_set(std::move(set.ids), words);
    std::sort(set.ids.begin(), set.ids.end());
    return {{}, std::move(set.ids)};
  }
  set.bits.resize(static_cast<size_t>(words));
  for (const std::span<const int32_t> list : set.lists)
    for (int32_t id : list) set_bit(set.bits.data(), id);
  for (size_t w = 0; w < dropped_.size(); ++w) set.bits[w] &= ~dropped_[w];
  for (const auto& [from, to] : set.ranges)
    for (int32_t i = from; i < to; ++i) set_bit(set.bits.data(), payloads[i]);
  for (int32_t id : set.ids) set_bit(set.bits.data(), id);
  TokenSet out;
  out.dense = std::move(set.bits);
  return out;
}

void TableBuilder::finish_sets() {
  for (CollectedSet& set : sets_) {
    TokenSet tokens = tokens_of(set);
    if (!is_relative_) {
      table_->staying = std::move(tokens);
      continue;
    }
    if (tokens.dense.empty() && tokens.sparse.empty()) continue;
    table_->max_count = std::max(table_->max_count, set.label.stay);
    for (int32_t l : set.label.leave) table_->max_count = std::max(table_->max_count, l);
    table_->labels.emplace_back(std::move(set.label), std::move(tokens));
  }
  auto by_label = [](const auto& x, const auto& y) { return x.first < y.first; };
  std::sort(table_->labels.begin(), table_->labels.end(), by_label);
}

// For a relative table: fills `stay_counts`, except for the numbers of entries. Returns for each leaving token the
// index in `stay_counts` of how far it counts if it stays; -1 if it cannot stay.
std::vector<int32_t> TableBuilder::group_by_stay_count() {
  std::vector<uint32_t> leaving(static_cast<size_t>(task_.vocabulary.words));
  for (const LeavingToken& l : leaving_) set_bit(leaving.data(), l.token);
  std::vector<int32_t> group_of_token(task_.vocabulary.tokens.size(), -1);
  auto& stay_counts = table_->stay_counts;
  for (auto it = table_->labels.rbegin(); it != table_->labels.rend() && it->first.stay >= 0; ++it) {
    if (stay_counts.empty() || stay_counts.back().first != it->first.stay) stay_counts.emplace_back(it->first.stay, 0);
    const auto number = static_cast<int32_t>(stay_counts.size()) - 1;
    for (size_t w = 0; w < it->second.dense.size(); ++w)
      for (uint32_t x = it->second.dense[w] & leaving[w]; x; x &= x - 1)
        group_of_token[w * 32 + __builtin_ctz(x)] = number;
    for (int32_t token : it->second.sparse) group_of_token[static_cast<size_t>(token)] = number;
  }
  return group_of_token;
}

void TableBuilder::finish_remainders() {
  std::vector<int32_t> group_of_token;
  std::vector<size_t> next_entry;  // by group: the index of its next entry
  if (is_relative_ && !task_.source && !leaving_.empty()) {
    group_of_token = group_by_stay_count();
    for (const LeavingToken& l : leaving_)
      if (const int32_t group_index = group_of_token[static_cast<size_t>(l.token)]; group_index >= 0)
        ++table_->stay_counts[static_cast<size_t>(group_index)].second;
    size_t end = 0;
    for (auto& [stay, count] : table_->stay_counts) {
      next_entry.push_back(end);
      count = end += count;
    }
    table_->staying_entries.resize(end);
  }
  for (const LeavingToken& l : leaving_) {
    if (!is_relative_ && table_->staying.has(l.token)) {
      if (!task_.source) table_->staying_or_leaving.push_back(l.token);
      continue;
    }
    const Remainder source = task_.source ? task_.source->entries[l.token] : Remainder{l.token, 0, 0, 0};
    const Remainder remainder{source.token, task_.source ? source.count : l.count,
                              source.touched_entries + l.touched_entries, source.depth + l.depth};
    const int32_t group_index = group_of_token.empty() ? -1 : group_of_token[static_cast<size_t>(l.token)];
    if (group_index >= 0)
      table_->staying_entries[next_entry[static_cast<size_t>(group_index)]++] = remainder;
    else
      table_->entries.push_back(remainder);
    table_->max_count = std::max(table_->max_count, l.count);
  }
  if (task_.source) drop_duplicates();
  table_->build_remainders(task_.vocabulary.tokens);
}

// If a token has left an earlier frame in several ways, these ways may meet again: after `ab`, it does not matter
// whether one frame has read both letters or two frames have read one letter each. Without this function, the number of
// entries would grow exponentially.
void TableBuilder::drop_duplicates() {
  std::vector<uint32_t> tokens_so_far(static_cast<size_t>(task_.vocabulary.words));
  bool has_duplicates = false;
  for (const Remainder& r : table_->entries) {
    has_duplicates |= tokens_so_far[static_cast<size_t>(r.token) >> 5] >> (r.token & 31) & 1;
    set_bit(tokens_so_far.data(), r.token);
  }
  if (!has_duplicates) return;
  std::ranges::sort(table_->entries);
  const auto duplicates = std::ranges::unique(table_->entries);
  table_->entries.erase(duplicates.begin(), duplicates.end());
}

std::shared_ptr<TokenTable> TableBuilder::finish(bool reads_only_bytes) {
  table_->reads_only_bytes = reads_only_bytes;
  if (!table_->overflow) {
    finish_sets();
    finish_remainders();
  }
  return std::move(table_);
}

}  // namespace guided
