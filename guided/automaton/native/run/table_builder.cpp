#include "run/table_builder.hpp"

#include <algorithm>
#include <iterator>

namespace guided {

int32_t TableBuilder::set_of(Label label) {
  if (!relative_ && !sets_.empty()) return 0;
  auto [it, inserted] = set_numbers_.try_emplace(label, static_cast<int32_t>(sets_.size()));
  if (inserted) sets_.push_back({std::move(label), {}, {}, {}, {}});
  return it->second;
}

void TableBuilder::note_entries(int32_t touched, int32_t from, int32_t to) {
  if (touched == 0 || from == to) return;
  table_->touches_entries = true;
  if (touched > 1)
    table_->unsure.insert(table_->unsure.end(), trie_.payloads().begin() + from, trie_.payloads().begin() + to);
}

void TableBuilder::restart() {
  sets_[0] = {};
  left_.clear();
}

TokenSet TableBuilder::tokens_of(Collected& set) const {
  const auto& payloads = trie_.payloads();
  const int32_t words = task_.vocabulary.words;
  size_t count = set.ids.size();
  for (const auto& [from, to] : set.stretches) count += static_cast<size_t>(to - from);
  for (const std::span<const int32_t> list : set.lists) count += list.size();
  if (set.bits.empty() && (task_.left || count < kDenseFrom)) {
    for (const auto& [from, to] : set.stretches)
      set.ids.insert(set.ids.end(), payloads.begin() + from, payloads.begin() + to);
    auto taken = [&](int32_t id) {
      return dropped_.empty() || !(dropped_[static_cast<size_t>(id) >> 5] >> (id & 31) & 1);
    };
    for (const std::span<const int32_t> list : set.lists)
      std::ranges::copy_if(list, std::back_inserter(set.ids), taken);
    if (!task_.left) return make_token_set(std::move(set.ids), words);
    std::sort(set.ids.begin(), set.ids.end());
    return {{}, std::move(set.ids)};
  }
  set.bits.resize(static_cast<size_t>(words));
  for (const std::span<const int32_t> list : set.lists)
    for (int32_t id : list) set_bit(set.bits.data(), id);
  for (size_t w = 0; w < dropped_.size(); ++w) set.bits[w] &= ~dropped_[w];
  for (const auto& [from, to] : set.stretches)
    for (int32_t i = from; i < to; ++i) set_bit(set.bits.data(), payloads[i]);
  for (int32_t id : set.ids) set_bit(set.bits.data(), id);
  TokenSet out;
  out.dense = std::move(set.bits);
  return out;
}

void TableBuilder::finish_sets() {
  for (Collected& set : sets_) {
    TokenSet tokens = tokens_of(set);
    if (!relative_) {
      table_->all = std::move(tokens);
      continue;
    }
    if (tokens.dense.empty() && tokens.sparse.empty()) continue;
    table_->furthest = std::max(table_->furthest, set.label.stay);
    for (int32_t l : set.label.leave) table_->furthest = std::max(table_->furthest, l);
    table_->labels.emplace_back(std::move(set.label), std::move(tokens));
  }
  auto by_label = [](const auto& x, const auto& y) { return x.first < y.first; };
  std::sort(table_->labels.begin(), table_->labels.end(), by_label);
}

// Of a relative table: fills in how far tokens count, without the numbers of entries. By token that leaves: the index
// of how far it counts if it stays; -1: it does not.
std::vector<int32_t> TableBuilder::group_by_stay() {
  std::vector<uint32_t> leaving(static_cast<size_t>(task_.vocabulary.words));
  for (const Left& l : left_) set_bit(leaving.data(), l.token);
  std::vector<int32_t> group(task_.vocabulary.tokens.size(), -1);
  auto& stays = table_->stays;
  for (auto it = table_->labels.rbegin(); it != table_->labels.rend() && it->first.stay >= 0; ++it) {
    if (stays.empty() || stays.back().first != it->first.stay) stays.emplace_back(it->first.stay, 0);
    const auto number = static_cast<int32_t>(stays.size()) - 1;
    for (size_t w = 0; w < it->second.dense.size(); ++w)
      for (uint32_t x = it->second.dense[w] & leaving[w]; x; x &= x - 1) group[w * 32 + __builtin_ctz(x)] = number;
    for (int32_t token : it->second.sparse) group[static_cast<size_t>(token)] = number;
  }
  return group;
}

void TableBuilder::finish_remainders() {
  std::vector<int32_t> group;
  std::vector<size_t> next;  // by group: the index of its next entry
  if (relative_ && !task_.left && !left_.empty()) {
    group = group_by_stay();
    for (const Left& l : left_)
      if (const int32_t g = group[static_cast<size_t>(l.token)]; g >= 0) ++table_->stays[static_cast<size_t>(g)].second;
    size_t end = 0;
    for (auto& [stay, count] : table_->stays) {
      next.push_back(end);
      count = end += count;
    }
    table_->staying_entries.resize(end);
  }
  for (const Left& l : left_) {
    if (!relative_ && table_->all.has(l.token)) {
      if (!task_.left) table_->both.push_back(l.token);
      continue;
    }
    const Remainder before = task_.left ? task_.left->entries[l.token] : Remainder{l.token, 0, 0, 0};
    const Remainder after{before.token, task_.left ? before.count : l.count, before.touched + l.touched,
                          before.depth + l.depth};
    const int32_t g = group.empty() ? -1 : group[static_cast<size_t>(l.token)];
    if (g >= 0)
      table_->staying_entries[next[static_cast<size_t>(g)]++] = after;
    else
      table_->entries.push_back(after);
    table_->furthest = std::max(table_->furthest, l.count);
  }
  if (task_.left) drop_repeated();
  table_->build_remainders(task_.vocabulary.tokens);
}

// If a token has left an earlier frame in several ways, these may meet again: after `ab`, it does not matter whether
// one frame has read both letters, or two frames one each. Without this, the number of entries would grow
// exponentially.
void TableBuilder::drop_repeated() {
  std::vector<uint32_t> entry_tokens(static_cast<size_t>(task_.vocabulary.words));
  bool repeated = false;
  for (const Remainder& r : table_->entries) {
    repeated |= entry_tokens[static_cast<size_t>(r.token) >> 5] >> (r.token & 31) & 1;
    set_bit(entry_tokens.data(), r.token);
  }
  if (!repeated) return;
  std::ranges::sort(table_->entries);
  const auto rest = std::ranges::unique(table_->entries);
  table_->entries.erase(rest.begin(), rest.end());
}

std::shared_ptr<TokenTable> TableBuilder::finish(bool within_bytes) {
  table_->within_bytes = within_bytes;
  if (!table_->overflow) {
    finish_sets();
    finish_remainders();
  }
  return std::move(table_);
}

}  // namespace guided
