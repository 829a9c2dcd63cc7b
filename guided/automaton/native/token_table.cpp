#include "token_table.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace guided {

namespace {
constexpr size_t kDenseFrom = 600;         // a set of at least so many ids is kept as a bitmask
constexpr size_t kMaxRemainders = 300000;  // past it a table is not worth its memory
}  // namespace

TokenSet make_token_set(std::vector<int32_t> ids, int32_t words) {
  TokenSet out;
  if (ids.size() < std::min<size_t>(kDenseFrom, static_cast<size_t>(words) * 2 + 8)) {
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    out.sparse = std::move(ids);
    return out;
  }
  out.dense.assign(static_cast<size_t>(words), 0);
  for (int32_t id : ids) out.dense[id >> 5] |= 1u << (id & 31);
  return out;
}

TokenSet make_token_set(std::vector<uint32_t> bits) {
  size_t count = 0;
  for (uint32_t w : bits) count += static_cast<size_t>(__builtin_popcount(w));
  TokenSet out;
  if (count >= std::min<size_t>(kDenseFrom, bits.size() * 2 + 8)) {
    out.dense = std::move(bits);
    return out;
  }
  for (size_t w = 0; w < bits.size(); ++w)
    for (uint32_t x = bits[w]; x; x &= x - 1) out.sparse.push_back(static_cast<int32_t>(w * 32) + __builtin_ctz(x));
  return out;
}

size_t TokenTable::bytes() const {
  size_t n = sizeof(TokenTable) + all.bytes() + remainders.bytes() + entries.size() * sizeof(Remainder) +
             unsure.size() * 4;
  for (const auto& [label, ids] : labels) n += 64 + label.leave.size() * 4 + ids.bytes();
  return n;
}

TokenSet TokenTable::allowed(int64_t room, int64_t missing, int32_t words) const {
  std::vector<uint32_t> bits(static_cast<size_t>(words), 0);
  for (const auto& [label, tokens] : labels) {
    bool ok = label.stay >= 0 && label.stay <= room;
    for (int32_t leave : label.leave) ok |= leave >= missing && leave <= room;
    if (!ok) continue;
    for (size_t w = 0; w < tokens.dense.size(); ++w) bits[w] |= tokens.dense[w];
    for (int32_t id : tokens.sparse) set_bit(bits.data(), id);
  }
  return make_token_set(std::move(bits));
}

namespace {

// One walk of the vocabulary from the thread under an unknown caller.
class TableWalk {
 public:
  TableWalk(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread, const ByteSet& follow)
      : arena_(arena),
        vocabulary_(vocabulary),
        thread_(thread),
        follow_(follow),
        table_(std::make_shared<TokenTable>()) {
    table_->relative = thread.ret == kFree;
    for (int b = 0; b < 256; ++b)
      if (follow.has(static_cast<uint8_t>(b))) follow_kinds_ |= TokenTrie::kind(static_cast<uint8_t>(b));
  }

  std::shared_ptr<TokenTable> run() {
    const TokenTrie& trie = vocabulary_.trie;
    walk_nodes(arena_, trie, arena_.lone(thread_), [&](int32_t n, int32_t state, int32_t depth) {
      const TokenTrie::Node& node = trie.nodes()[n];
      if (state != state_) enter(state);
      if (node.children > 0 && depth > 0 && (node.below & ~loops_) == 0) {
        if (table_->relative)
          take_counting(node.payload_lo, node.subtree_hi, depth, *chain_);
        else
          take(node.payload_lo, node.subtree_hi);
        return false;
      }
      take(node.payload_lo, node.payload_hi);
      if (exits_ && depth > 0 && node.children > 0) leave(n, state, depth);
      return !table_->overflow;
    });
    finish();
    return table_;
  }

 private:
  struct Chain;
  // What is the same for all nodes that are met in one state. Few states are met often: a small direct-mapped cache.
  struct Met {
    int32_t state = -1;
    bool exits = false;
    int32_t touched = 0;       // entries of an untold scope (memory.hpp)
    uint8_t loops = 0;         // kinds of bytes (TokenTrie::kind) that all lead back to the state
    uint32_t* ends = nullptr;  // the row for tokens that end here; null where none may
    Chain* chain = nullptr;
  };
  // Under a counter nothing leads back, but the same state one count further: the rows of tokens that end after 0, 1, 2,
  // ... more bytes of such kinds.
  struct Chain {
    std::vector<uint32_t*> rows;
    int32_t last = 0;
    uint8_t byte = 0;
  };

  void enter(int32_t state) {
    Met& met = recent_[static_cast<size_t>(state) % recent_.size()];
    if (met.state != state) met = look(state);
    state_ = state;
    exits_ = met.exits;
    touched_ = met.touched;
    loops_ = met.loops;
    ends_ = met.ends;
    chain_ = met.chain;
  }

  const Met& look(int32_t state) {
    auto [it, fresh] = met_.try_emplace(state);
    Met& met = it->second;
    if (!fresh) return met;
    const Config& c = arena_.config(state);
    met.state = state;
    for (const Thread& t : c)
      if (t.mem != kOutside) met.touched = std::max(met.touched, arena_.memories().touched(t.mem));
    met.exits = c.count > 0 && c.threads[c.count - 1].pos == kExit;
    met.ends = at_boundary(arena_, state) ? bits_of(state).data() : nullptr;
    if (!met.ends || (met.exits && !table_->relative)) return met;  // an exit must be seen at every node
    uint8_t broken = met.exits ? follow_kinds_ : 0;
    int32_t further = -1;
    for (int b = 0; b < 256; ++b) {
      uint8_t byte = static_cast<uint8_t>(b), kind = TokenTrie::kind(byte);
      if (broken & kind || !vocabulary_.live.has(byte)) continue;
      int32_t next = c.bytes.has(byte) ? arena_.step(state, byte) : kDead;
      if (!table_->relative && next == state) continue;
      if (table_->relative && next != kDead && (next == further || (further < 0 && counts_on(c, arena_.config(next))))) {
        if (further < 0) chains_[state] = {{met.ends}, next, byte};
        further = next;
        continue;
      }
      broken |= kind;
    }
    met.loops = static_cast<uint8_t>(~broken);
    if (further >= 0)
      met.chain = &chains_[state];
    else if (table_->relative)
      met.loops = 0;
    return met;
  }

  // Whether `b` is `a` with every thread of the counter's frame one count further.
  static bool counts_on(const Config& a, const Config& b) {
    if (a.count != b.count) return false;
    for (int32_t i = 0; i < a.count; ++i) {
      const Thread &x = a.threads[i], &y = b.threads[i];
      if (x.ret != kFree || y.ret != kFree || x.pos != y.pos || x.reg + 1 != y.reg || x.mem != y.mem) return false;
    }
    return true;
  }

  void take_counting(int32_t from, int32_t to, int32_t depth, Chain& chain) {
    note_entries(from, to);
    const auto &payloads = vocabulary_.trie.payloads(), &sizes = vocabulary_.trie.sizes();
    for (int32_t i = from; i < to; ++i) {
      size_t more = static_cast<size_t>(sizes[i] - depth);
      while (chain.rows.size() <= more) {
        chain.rows.push_back(look(chain.last).ends);
        chain.last = arena_.step(chain.last, chain.byte);
      }
      set_bit(chain.rows[more], payloads[i]);
    }
  }

  void take(int32_t from, int32_t to) {
    if (!ends_) return;
    note_entries(from, to);
    const auto& payloads = vocabulary_.trie.payloads();
    for (int32_t i = from; i < to; ++i) set_bit(ends_, payloads[i]);
  }

  void note_entries(int32_t from, int32_t to) {
    if (touched_ == 0 || from == to) return;
    table_->touches_entries = true;
    const auto& payloads = vocabulary_.trie.payloads();
    if (touched_ > 1) table_->unsure.insert(table_->unsure.end(), payloads.begin() + from, payloads.begin() + to);
  }

  std::vector<uint32_t>& bits_of(int32_t state) {
    Label label;
    if (table_->relative) {
      for (const Thread& t : arena_.config(state)) {
        if (t.pos == kExit)
          label.leave.push_back(t.reg);
        else
          label.stay = label.stay < 0 ? count_of(t) : std::min(label.stay, count_of(t));
      }
    }
    auto& bits = by_label_[label];
    bits.resize(static_cast<size_t>(vocabulary_.words));
    return bits;
  }

  // The count of the frame at the bottom; where several frames are possible, the least. Stacks may be deep: no recursion.
  int32_t count_of(const Thread& thread) {
    if (thread.ret == kFree) return thread.reg;
    std::vector<int32_t> open{thread.ret};
    while (!open.empty()) {
      const Config& c = arena_.config(open.back());
      int32_t least = INT32_MAX;
      bool known = true;
      for (const Thread& t : c) {
        auto it = t.ret == kFree ? counts_.end() : counts_.find(t.ret);
        if (t.ret != kFree && it == counts_.end()) {
          known = false;
          open.push_back(t.ret);
        } else {
          least = std::min(least, t.ret == kFree ? t.reg : it->second);
        }
      }
      if (!known) continue;
      counts_[open.back()] = least;
      open.pop_back();
    }
    return counts_[thread.ret];
  }

  // Tokens that leave the frame here and go on: the strings below this node that start with a byte that may follow.
  void leave(int32_t node, int32_t state, int32_t depth) {
    const Config& c = arena_.config(state);
    if (c.count == 0 || c.threads[c.count - 1].pos != kExit) return;
    const TokenTrie& trie = vocabulary_.trie;
    std::vector<int32_t> below;
    trie.children(node, follow_, [&](int32_t child) { below.push_back(child); });
    while (!below.empty()) {
      const TokenTrie::Node& n = trie.nodes()[below.back()];
      below.pop_back();
      for (int32_t i = n.payload_lo; i < n.payload_hi; ++i)
        for (int32_t k = c.count - 1; k >= 0 && c.threads[k].pos == kExit; --k)
          left_.push_back({trie.payloads()[i], depth, table_->relative ? c.threads[k].reg : 0,
                           arena_.memories().touched(c.threads[k].mem)});
      for (int32_t child = n.first_child; child < n.first_child + n.children; ++child) below.push_back(child);
    }
    if (left_.size() > kMaxRemainders) table_->overflow = true;
  }

  void finish() {
    if (table_->overflow) return;
    std::vector<uint32_t> taken;
    if (!table_->relative) {
      taken = std::move(by_label_[Label{}]);
      taken.resize(static_cast<size_t>(vocabulary_.words));
      table_->all = make_token_set(taken);
    } else {
      for (auto& [label, bits] : by_label_) {
        TokenSet set = make_token_set(std::move(bits));
        if (set.dense.empty() && set.sparse.empty()) continue;
        table_->furthest = std::max(table_->furthest, label.stay);
        for (int32_t l : label.leave) table_->furthest = std::max(table_->furthest, l);
        table_->labels.emplace_back(label, std::move(set));
      }
    }
    std::vector<TrieEntry> entries;
    for (const Left& l : left_) {
      if (!taken.empty() && taken[l.token >> 5] >> (l.token & 31) & 1) continue;
      const std::string& text = vocabulary_.tokens[l.token];
      entries.push_back({reinterpret_cast<const uint8_t*>(text.data()) + l.depth,
                         static_cast<int32_t>(text.size()) - l.depth, static_cast<int32_t>(table_->entries.size())});
      table_->entries.push_back({l.token, l.count, l.touched});
      table_->furthest = std::max(table_->furthest, l.count);
    }
    if (!entries.empty()) table_->remainders.build(std::move(entries));
  }

  struct Left {
    int32_t token, depth, count, touched;
  };
  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  Thread thread_;
  ByteSet follow_;
  std::shared_ptr<TokenTable> table_;
  std::map<Label, std::vector<uint32_t>> by_label_;  // mask rows; a plain table has one label
  std::unordered_map<int32_t, Met> met_;
  std::array<Met, 64> recent_;
  std::unordered_map<int32_t, Chain> chains_;
  uint8_t follow_kinds_ = 0;
  Chain* chain_ = nullptr;
  std::unordered_map<int32_t, int32_t> counts_;
  std::vector<Left> left_;
  int32_t state_ = -1;  // the state met last, and what enter() found out about it
  int32_t touched_ = 0;
  bool exits_ = false;
  uint8_t loops_ = 0;
  uint32_t* ends_ = nullptr;
};

}  // namespace

std::shared_ptr<TokenTable> build_token_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                              const ByteSet& follow) {
  return TableWalk(arena, vocabulary, thread, follow).run();
}

}  // namespace guided
