#include "run/table_builder.hpp"

#include <algorithm>
#include <functional>

namespace guided {

int32_t TableBuilder::set_of(Label label) {
  if (!relative_ && !sets_.empty()) return 0;
  auto [it, inserted] = set_numbers_.try_emplace(label, static_cast<int32_t>(sets_.size()));
  if (inserted) sets_.push_back({std::move(label), {}, {}, {}});
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
  if (set.bits.empty() && (task_.left || count < kDenseFrom)) {
    for (const auto& [from, to] : set.stretches)
      set.ids.insert(set.ids.end(), payloads.begin() + from, payloads.begin() + to);
    if (!task_.left) return make_token_set(std::move(set.ids), words);
    std::sort(set.ids.begin(), set.ids.end());
    return {{}, std::move(set.ids)};
  }
  set.bits.resize(static_cast<size_t>(words));
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

void TableBuilder::finish_remainders() {
  std::vector<int32_t> stays;  // by token of a relative table: how far it counts if it stays; -1: it does not
  if (relative_ && !task_.left) {
    stays.resize(task_.vocabulary.tokens.size(), -1);
    for (const auto& [label, tokens] : table_->labels)
      if (label.stay >= 0)
        tokens.each([&, stay = label.stay](int32_t token) { stays[static_cast<size_t>(token)] = stay; });
  }
  std::map<int32_t, std::vector<Remainder>, std::greater<>> staying;
  for (const Left& l : left_) {
    if (!relative_ && table_->all.has(l.token)) {
      if (!task_.left) table_->both.push_back(l.token);
      continue;
    }
    const Remainder before = task_.left ? task_.left->entries[l.token] : Remainder{l.token, 0, 0, 0};
    const int32_t stay = stays.empty() ? -1 : stays[static_cast<size_t>(l.token)];
    auto& entries = stay >= 0 ? staying[stay] : table_->entries;
    const int32_t count = task_.left ? before.count : l.count;
    entries.push_back({before.token, count, before.touched + l.touched, before.depth + l.depth});
    table_->furthest = std::max(table_->furthest, l.count);
  }
  for (const auto& [stay, entries] : staying) {
    table_->staying_entries.insert(table_->staying_entries.end(), entries.begin(), entries.end());
    table_->stays.emplace_back(stay, table_->staying_entries.size());
  }
  table_->build_remainders(task_.vocabulary.tokens);
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
