#include "token_table.hpp"

#include <algorithm>
#include <map>

#include "places.hpp"

namespace guided {

namespace {
constexpr size_t kDenseFrom = 600;         // a set of at least so many ids is kept as a bitmask
constexpr size_t kMaxRemainders = 300000;  // past it a table is not worth its memory
constexpr int kManyBytes = 4;              // a position that reads fewer is no loop worth looking for
constexpr int32_t kManyTokens = 2000;      // below a node: worth finding out which consist of some kinds
constexpr int32_t kFewTokens = 16;         // below a node: walked without looking for loops
constexpr int32_t kMostDifferent = 6000;   // lines on which a table that is made of another one may differ from it
constexpr int kMostBytes = 24;             // a position that reads as many may lead through most of the vocabulary
}  // namespace

// Sorted, each once: by comparing few, by bits otherwise.
static void sort_ids(std::vector<int32_t>& ids, int32_t words) {
  constexpr size_t kFew = 64;
  if (ids.size() < kFew) {
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return;
  }
  thread_local std::vector<uint32_t> bits;  // all 0 in between
  if (bits.size() < static_cast<size_t>(words)) bits.resize(static_cast<size_t>(words));
  for (int32_t id : ids) set_bit(bits.data(), id);
  ids.clear();
  for (int32_t w = 0; w < words; ++w) {
    for (uint32_t x = bits[w]; x; x &= x - 1) ids.push_back(w * 32 + __builtin_ctz(x));
    bits[w] = 0;
  }
}

TokenSet make_token_set(std::vector<int32_t> ids, int32_t words) {
  TokenSet out;
  if (ids.size() < std::min<size_t>(kDenseFrom, static_cast<size_t>(words) * 2 + 8)) {
    sort_ids(ids, words);
    out.sparse = std::move(ids);
    return out;
  }
  out.dense.assign(static_cast<size_t>(words), 0);
  for (int32_t id : ids) out.dense[id >> 5] |= 1u << (id & 31);
  return out;
}

TokenSet make_token_set(std::vector<uint32_t> bits) {
  const size_t most = std::min<size_t>(kDenseFrom, bits.size() * 2 + 8);
  size_t count = 0;
  for (size_t w = 0; w < bits.size() && count < most; ++w)
    if (bits[w]) count += static_cast<size_t>(__builtin_popcount(bits[w]));
  TokenSet out;
  if (count >= most) {
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
  TableWalk(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread, const ByteSet& follow,
            const TokenTable* of_remainders = nullptr)
      : arena_(arena),
        vocabulary_(vocabulary),
        inner_(of_remainders),
        trie_(inner_ ? inner_->remainders : vocabulary.trie),
        thread_(thread),
        follow_(follow),
        relative_(thread.ret == kFree),
        counter_(arena.grammar().rules[arena.grammar().positions[thread.pos].rule].kind == RuleKind::Counter),
        places_(arena, vocabulary, thread),
        table_(std::make_shared<TokenTable>()) {
    table_->relative = relative_;
    for (int b = 0; b < 256; ++b)
      if (follow.has(static_cast<uint8_t>(b)))
        follow_kinds_ |= b < 128 ? kind_of_ascii(static_cast<uint8_t>(b)) : kWholeCharacters;
  }

  std::shared_ptr<TokenTable> run(const OtherTable* other) {
    if (other && places_.bytes(0).count() >= kMostBytes && differ(*other)) {
      finish();
      return table_;
    }
    if (inner_ || places_.bytes(0).count() < kManyBytes || !begin_in_loop()) visit({0, 0, 0, 0, 0});
    // What begins at the root's children one after the other: each is read in order, and the queue stays short.
    std::vector<Item> begun;
    begun.swap(queue_);
    for (const Item& first : begun) {
      queue_.assign(1, first);
      for (size_t head = 0; head < queue_.size() && !table_->overflow; ++head) visit(queue_[head]);
    }
    finish();
    return table_;
  }

 private:
  struct Item {
    int32_t node, place, depth;
    int32_t length;  // of the node's string, in characters; kInsideOnly: what ends at their borders is taken care of
    Kinds kinds;     // that the string consists of
  };
  static constexpr int32_t kInsideOnly = -1;
  // Under a counter nothing leads back, but the same place one character further: the sets for tokens that end after 0,
  // 1, 2, ... more characters, and the places.
  struct Chain {
    std::vector<int32_t> sets, places;
    uint8_t byte = 0;  // that leads on
    Kinds kinds = 0;
    bool exits = false;  // along all of it, or nowhere
    bool torn = false;  // a bound is looked at that only some of the characters meet
  };
  // The tokens that consist of the kinds that loop in a place, and the bytes at whose edges something goes on.
  struct Loop {
    std::shared_ptr<const KindSet> set;
    std::vector<uint8_t> edges;
  };
  // What is the same for all nodes that are met in one place.
  struct Met {
    bool known = false, exits = false, looped = false;  // looped: `loops` is known
    int32_t place = 0;
    int32_t touched = 0;   // entries of an untold scope (memory.hpp)
    int32_t set = -1;      // for tokens that end here; -1 where none may
    Kinds loops = 0;       // kinds of characters that all lead back to the place (under a counter: one count further)
    Chain* chain = nullptr;
    const Loop* loop = nullptr;  // what there is to take; null: not looked up, or not known
  };
  // Tokens with one label: stretches of the trie's payloads, or bits.
  struct Collected {
    Label label;
    std::vector<std::pair<int32_t, int32_t>> stretches;
    std::vector<uint32_t> bits;
    std::vector<int32_t> ids;
  };

  // ---- places
  const Met& meet(int32_t place) {
    if (static_cast<size_t>(place) >= met_.size()) met_.resize(static_cast<size_t>(places_.count()) * 2);
    Met& met = met_[place];
    if (met.known) return met;
    met.known = true;
    met.place = place;
    Label label;
    if (const Config* c = places_.config(place)) {
      for (const Thread& t : *c)
        if (t.mem != kOutside) met.touched = std::max(met.touched, arena_.memories().touched(t.mem));
      met.exits = c->count > 0 && c->threads[c->count - 1].pos == kExit;
      if (relative_) label = label_of(*c);
    } else {
      met.touched = arena_.memories().touched(thread_.mem);
      if (relative_) label.stay = thread_.reg;
    }
    if (places_.at_boundary(place)) met.set = set_of(std::move(label));
    return met;
  }

  const Met& with_loops(int32_t place) {
    if (!meet(place).looped) {
      Met met = met_[place];  // looking for loops may meet more places
      met.looped = true;
      if (met.set >= 0 && places_.bytes(place).count() >= kManyBytes) find_loops(met);
      met_[place] = met;
    }
    return met_[place];
  }

  void find_loops(Met& met) {
    int32_t to = met.place;
    met.loops = relative_ ? 0 : places_.leading(met.place, to);
    if (counter_ && met.loops == 0) {
      auto [further, byte] = places_.counted_on(met.place);
      if (further == Places::kNowhere) return;
      to = further;
      met.loops = places_.leading(met.place, to);
      met.chain = &chains_[met.place];
      *met.chain = {{met.set}, {met.place}, byte, met.loops, met.exits};
    }
    if (met.exits) met.loops &= ~follow_kinds_;  // an exit that may be taken must be seen at every node
  }

  struct Link {
    int32_t set, place;
  };
  // So many characters further: in a loop nowhere else, under a counter along the chain.
  Link link(const Met& met, int32_t further) {
    if (!met.chain) return {met.set, met.place};
    Chain& chain = *met.chain;
    while (static_cast<int32_t>(chain.sets.size()) <= further) {
      const int32_t last = chain.places.back();
      const int32_t after = last == Places::kNowhere ? last : places_.next(last, chain.byte);
      // With its bounds on, a counter may end the loop; then it does so for all characters, or it is none.
      if (!relative_ && last != Places::kNowhere && (chain.kinds & ~places_.leading(last, after))) chain.torn = true;
      if (after != Places::kNowhere && meet(after).exits != chain.exits) chain.torn = true;
      chain.places.push_back(after);
      chain.sets.push_back(after == Places::kNowhere ? -1 : meet(after).set);
    }
    return {chain.sets[further], chain.places[further]};
  }

  // Whether the chain holds for all tokens below a node.
  bool holds(const Met& met, const TokenTrie::Node& node, int32_t length) {
    if (!met.chain || relative_) return true;
    int32_t longest = 0;
    for (int32_t i = node.payload_lo; i < node.subtree_hi; ++i)
      longest = std::max<int32_t>(longest, trie_.lengths()[i]);
    link(met, longest - length);
    return !met.chain->torn;
  }

  // ---- the walk
  // Where most characters lead from the start to a place that they loop in (often the start itself).
  bool begin_in_loop() {
    int32_t loop = 0;
    Kinds kinds = with_loops(0).loops, led = kinds;
    for (uint8_t byte : {'e', '0'}) {
      const int32_t after = kinds == 0 ? places_.next(0, byte) : Places::kNowhere;
      if (after == Places::kNowhere) continue;
      loop = after;
      kinds = with_loops(loop).loops;
      led = places_.leading(0, loop);
    }
    if (leads_everywhere(0, 0, kinds)) return sweep({0, 0, 0, 0, 0});
    if (kinds == 0) return false;
    const int32_t length = loop == 0 ? 0 : 1;
    if ((kinds & ~led) == 0) return take_loop({0, 0, 0, length, 0}, loop);
    // Some characters of these kinds lead elsewhere: one child of the root after the other.
    const TokenTrie::Node root = trie_.nodes()[0];
    for (int32_t c = root.first_child; c < root.first_child + root.children; ++c) {
      const uint8_t byte = trie_.nodes()[c].byte;
      const int32_t after = places_.next(0, byte);
      if (after == Places::kNowhere) continue;
      const bool leads = byte < 128 ? after == loop : (led & kWholeCharacters) != 0;
      if (leads && (kinds & kind_of(byte)) && take_loop({c, 0, 0, length, 0}, loop)) continue;
      queue_.push_back({c, after, 1, (byte & 0xC0) != 0x80, kind_of(byte)});
    }
    return true;
  }
  static Kinds kind_of(uint8_t byte) { return byte < 128 ? kind_of_ascii(byte) : kWholeCharacters; }

  // Takes the tokens below a node that consist of the kinds of characters which loop in a place, and goes on where others
  // begin. `at.length` characters lead to the loop; before them, the walk is in `at.place`.
  bool take_loop(const Item at, int32_t place_of_loop) {
    const TokenTrie::Node& node = trie_.nodes()[at.node];
    const Met met = meet(place_of_loop);
    if (met.touched > 1 || !holds(met, node, at.length)) return false;
    const Loop* loop = met.loop ? met.loop : find_loop(at.place, met, node.subtree_hi - node.payload_lo > kManyTokens);
    if (!loop) return false;
    table_->touches_entries |= met.touched > 0;
    if (at.node == 0 && !met.chain) {
      sets_[met.set].bits = loop->set->tokens;
      sets_[met.set].ids = loop->set->ids;
    } else {
      loop->set->each_token(node.payload_lo, node.subtree_hi, [&](int32_t i) {
        const int32_t set = link(met, trie_.lengths()[i] - at.length).set;
        if (set >= 0) sets_[set].ids.push_back(trie_.payloads()[i]);
      });
    }
    for (const uint8_t byte : loop->edges) {
      const bool leaves = met.exits && follow_.has(byte);
      loop->set->each_edge(trie_, node, byte, [&](const KindSet::Edge& edge) {
        if (edge.depth < at.depth) return;
        const bool before = edge.length < at.length;
        const int32_t place = before ? at.place : link(met, edge.length - at.length).place;
        if (place == Places::kNowhere) return;
        if (leaves && !before && edge.depth > 0) leave(edge.node, place, edge.depth);
        const int32_t after = places_.next(place, byte);
        if (after == Places::kNowhere) return;
        const bool inside_only = byte >= 128 && (met.loops & kWholeCharacters);
        queue_.push_back({edge.node, after, edge.depth + 1,
                          inside_only ? kInsideOnly : edge.length + ((byte & 0xC0) != 0x80), met.loops | kind_of(byte)});
      });
    }
    return true;
  }

  const Loop* find_loop(int32_t before, const Met& met, bool build) {
    auto set = vocabulary_.of_kinds(met.loops, build);
    if (!set) return nullptr;
    auto loop = std::make_unique<Loop>();
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      if (!set->edges[b].empty() && (places_.bytes(met.place).has(byte) || places_.bytes(before).has(byte) ||
                                     (met.exits && follow_.has(byte))))
        loop->edges.push_back(byte);
    }
    loop->set = std::move(set);
    loops_.push_back(std::move(loop));
    if (before == met.place) met_[met.place].loop = loops_.back().get();
    return loops_.back().get();
  }

  void visit(const Item item) {
    const TokenTrie::Node& node = trie_.nodes()[item.node];
    const bool inside_only = item.length == kInsideOnly;
    if (!inner_ && item.depth > 0 && !inside_only && !node.inside && node.subtree_hi - node.payload_lo > kFewTokens &&
        take_subtree(item, node))
      return;
    take(meet(item.place), node.payload_lo, node.payload_hi);
    if (node.children == 0) return;
    if (meet(item.place).exits && item.depth > 0)
      trie_.children(item.node, follow_, [&](int32_t child) { leave(child, item.place, item.depth); });
    const ByteSet readable = places_.bytes(item.place);  // a copy: places are added meanwhile
    trie_.children(item.node, readable, [&](int32_t c) {
      const TokenTrie::Node& child = trie_.nodes()[c];
      if (inside_only && !child.inside) return;
      const int32_t after = places_.next(item.place, child.byte);
      if (after == Places::kNowhere) return;
      if (child.children == 0) {  // most are leaves
        take(meet(after), child.payload_lo, child.payload_hi);
        return;
      }
      const int32_t length = inside_only ? kInsideOnly : item.length + ((child.byte & 0xC0) != 0x80);
      queue_.push_back({c, after, item.depth + 1, length, item.kinds | kind_of(child.byte)});
    });
  }

  // The other table, but for where it differs. False where that is nearly everywhere.
  bool differ(const OtherTable& other) {
    const auto& lines = trie_.lines();
    const int32_t end = lines[0].skip;
    int32_t left = kMostDifferent;
    std::vector<Same> same;
    if (sets_.empty()) set_of({});
    sets_[0].bits = other.table->all.dense;
    pairs_.assign(64, {0, places_.position(other.pos)});
    for (int32_t i = 1; i < end;) {
      const TokenTrie::Line line = lines[i];
      const auto [from, from_other] = pairs_[line.depth - 1];
      const int32_t below = lines[line.skip].payload_lo;
      if (line.depth > 1 && from != Places::kNowhere && meet(from).exits && follow_.has(line.byte))
        leave(line.payload_lo, below, from, line.depth - 1);
      const int32_t to = step(from, line.byte), to_other = step(from_other, line.byte);
      if (to == to_other || to == Places::kNowhere) {
        if (to == to_other)
          same.push_back({line.payload_lo, below, line.depth});
        else
          clear(line.payload_lo, below);
        i = line.skip;
        continue;
      }
      if (--left == 0) {
        sets_[0] = {};
        left_.clear();
        return false;
      }
      if (below - line.payload_lo > kFewTokens && agree(to, to_other, trie_.below(i))) {
        same.push_back({line.payload_lo, below, line.depth});
        i = line.skip;
        continue;
      }
      if (line.depth >= pairs_.size()) pairs_.resize(line.depth * 2);
      pairs_[line.depth] = {to, to_other};
      ++i;
      clear(line.payload_lo, lines[i].payload_lo);
      take(meet(to), line.payload_lo, lines[i].payload_lo);
    }
    for (const Remainder& r : other.table->entries) {  // those that leave where both are the same
      const int32_t payload = trie_.place_of(r.token);
      auto it = std::upper_bound(same.begin(), same.end(), payload, [](int32_t p, const Same& s) { return p < s.from; });
      if (it != same.begin() && payload < (--it)->to && it->depth <= r.depth)
        left_.push_back({r.token, r.depth, r.count, r.touched});
    }
    return true;
  }
  // Whether characters of these kinds loop in both places, which do not differ otherwise.
  bool agree(int32_t place, int32_t other, Kinds kinds) {
    if (other == Places::kNowhere || (kinds & ~with_loops(place).loops) || (kinds & ~with_loops(other).loops)) return false;
    const Met &met = meet(place), &met_other = met_[other];
    return !met.chain && !met_other.chain && met.set == met_other.set && met.exits == met_other.exits;
  }
  int32_t step(int32_t place, uint8_t byte) {
    return place != Places::kNowhere && places_.bytes(place).has(byte) ? places_.next(place, byte) : Places::kNowhere;
  }
  void clear(int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i) sets_[0].bits[trie_.payloads()[i] >> 5] &= ~(1u << (trie_.payloads()[i] & 31));
  }

  // Whether many tokens below a node may lead on from the place, most of which hold characters that do not loop.
  bool leads_everywhere(int32_t node, int32_t place, Kinds loops) {
    const TokenTrie::Node& n = trie_.nodes()[node];
    const int32_t tokens = n.subtree_hi - n.payload_lo;
    if (tokens < kManyTokens || places_.bytes(place).count() < kMostBytes) return false;
    int64_t others = 0;
    for (Kinds k = ~loops; k; k &= k - 1) others += trie_.with_kind()[static_cast<size_t>(__builtin_ctzll(k))];
    return others * 2 > static_cast<int64_t>(trie_.payloads().size());
  }

  // All below a node, line by line.
  bool sweep(const Item& item) {
    struct Frame {  // what a walk needs of a place, by depth
      int32_t place = Places::kNowhere, set = -1;
      const int32_t* row = nullptr;
      bool exits = false;
    };
    const auto& lines = trie_.lines();
    const int32_t first = trie_.line_of(item.node), end = lines[first].skip, top = lines[first].depth;
    auto enter = [&](Frame& frame, int32_t place) {
      const Met& met = meet(place);
      frame = {place, met.set, places_.row(place), met.exits};
      if (met.touched) note_entries(met.touched, 0, 0);
    };
    std::vector<Frame> frames(64);
    enter(frames[0], item.place);
    take(meet(item.place), lines[first].payload_lo, lines[first + 1].payload_lo);
    for (int32_t i = first + 1; i < end;) {
      const TokenTrie::Line& line = lines[i];
      const auto depth = static_cast<size_t>(line.depth - top);
      const Frame& from = frames[depth - 1];
      if (from.exits && item.depth + depth > 1 && follow_.has(line.byte))
        leave(line.payload_lo, lines[line.skip].payload_lo, from.place, item.depth + static_cast<int32_t>(depth) - 1);
      int32_t place = from.row ? from.row[line.byte] : Places::kNotYet;
      if (place == Places::kNotYet) place = step(from.place, line.byte);
      if (place == Places::kNowhere) {
        i = line.skip;
        continue;
      }
      if (depth >= frames.size()) frames.resize(depth * 2);
      if (frames[depth].place != place) enter(frames[depth], place);
      ++i;
      if (lines[i].payload_lo > line.payload_lo && frames[depth].set >= 0)
        take(meet(place), line.payload_lo, lines[i].payload_lo);
    }
    return true;
  }

  // All at once, where the place loops.
  bool take_subtree(const Item& item, const TokenTrie::Node& node) {
    const Met& met = with_loops(item.place);
    if (node.below & ~met.loops) {
      if (leads_everywhere(item.node, item.place, met.loops)) return sweep(item);
      return (item.kinds & ~met.loops) == 0 && take_loop(item, item.place);
    }
    if (!met.chain)
      take(met, node.payload_lo, node.subtree_hi);
    else if (const Met chained = met; holds(chained, node, item.length))
      take_counting(chained, node.payload_lo, node.subtree_hi, item.length);
    else
      return false;
    return true;
  }

  void take(const Met& met, int32_t from, int32_t to) {
    if (met.set < 0 || from == to) return;
    note_entries(met.touched, from, to);
    auto& stretches = sets_[met.set].stretches;
    if (!stretches.empty() && stretches.back().second == from)
      stretches.back().second = to;
    else
      stretches.push_back({from, to});
  }

  void take_counting(const Met& met, int32_t from, int32_t to, int32_t length) {
    note_entries(met.touched, from, to);
    for (int32_t i = from; i < to; ++i) {
      const int32_t set = link(met, trie_.lengths()[i] - length).set;
      if (set >= 0) sets_[set].ids.push_back(trie_.payloads()[i]);
    }
  }

  void note_entries(int32_t touched, int32_t from, int32_t to) {
    if (touched == 0 || from == to) return;
    table_->touches_entries = true;
    if (touched > 1)
      table_->unsure.insert(table_->unsure.end(), trie_.payloads().begin() + from, trie_.payloads().begin() + to);
  }

  // Tokens that leave the frame before this node's byte, which may follow, and go on.
  void leave(int32_t node, int32_t place, int32_t depth) {
    leave(trie_.nodes()[node].payload_lo, trie_.nodes()[node].subtree_hi, place, depth);
  }
  void leave(int32_t from, int32_t to, int32_t place, int32_t depth) {
    const Config& c = *places_.config(place);  // a position has no exit
    for (int32_t i = from; i < to; ++i)
      for (int32_t k = c.count - 1; k >= 0 && c.threads[k].pos == kExit; --k)
        left_.push_back({trie_.payloads()[i], depth, relative_ ? c.threads[k].reg : 0,
                         arena_.memories().touched(c.threads[k].mem)});
    if (left_.size() > kMaxRemainders) table_->overflow = true;
  }

  // ---- labels
  int32_t set_of(Label label) {
    if (!relative_ && !sets_.empty()) return 0;
    auto [it, fresh] = set_numbers_.try_emplace(label, static_cast<int32_t>(sets_.size()));
    if (fresh) sets_.push_back({std::move(label), {}, {}, {}});
    return it->second;
  }

  Label label_of(const Config& config) {
    Label label;
    for (const Thread& t : config) {
      if (t.pos == kExit)
        label.leave.push_back(t.reg);
      else
        label.stay = label.stay < 0 ? count_of(t) : std::min(label.stay, count_of(t));
    }
    return label;
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

  // ---- the result
  TokenSet collected(Collected& set) {
    const auto& payloads = trie_.payloads();
    size_t count = set.ids.size();
    for (const auto& [from, to] : set.stretches) count += static_cast<size_t>(to - from);
    if (set.bits.empty() && (inner_ || count < kDenseFrom)) {
      for (const auto& [from, to] : set.stretches) set.ids.insert(set.ids.end(), payloads.begin() + from, payloads.begin() + to);
      if (!inner_) return make_token_set(std::move(set.ids), vocabulary_.words);
      std::sort(set.ids.begin(), set.ids.end());
      return {{}, std::move(set.ids)};
    }
    set.bits.resize(static_cast<size_t>(vocabulary_.words));
    for (const auto& [from, to] : set.stretches)
      for (int32_t i = from; i < to; ++i) set_bit(set.bits.data(), payloads[i]);
    for (int32_t id : set.ids) set_bit(set.bits.data(), id);
    TokenSet out;
    out.dense = std::move(set.bits);
    return out;
  }

  void finish() {
    if (table_->overflow) return;
    for (Collected& set : sets_) {
      TokenSet tokens = collected(set);
      if (!relative_) {
        table_->all = std::move(tokens);
        continue;
      }
      if (tokens.dense.empty() && tokens.sparse.empty()) continue;
      table_->furthest = std::max(table_->furthest, set.label.stay);
      for (int32_t l : set.label.leave) table_->furthest = std::max(table_->furthest, l);
      table_->labels.emplace_back(std::move(set.label), std::move(tokens));
    }
    std::sort(table_->labels.begin(), table_->labels.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    std::vector<TrieEntry> entries;
    for (const Left& l : left_) {
      if (!relative_ && table_->all.has(l.token)) continue;
      const Remainder before = inner_ ? inner_->entries[l.token] : Remainder{l.token, 0, 0, 0};
      const std::string& text = vocabulary_.tokens[before.token];
      const int32_t depth = before.depth + l.depth;
      entries.push_back({reinterpret_cast<const uint8_t*>(text.data()) + depth, static_cast<int32_t>(text.size()) - depth,
                         static_cast<int32_t>(table_->entries.size())});
      table_->entries.push_back({before.token, inner_ ? before.count : l.count, before.touched + l.touched, depth});
      table_->furthest = std::max(table_->furthest, l.count);
    }
    if (!entries.empty()) table_->remainders.build(std::move(entries));
  }

  struct Left {
    int32_t token, depth, count, touched;
  };
  // Payloads below a line from which two walks are in the same place, after so many bytes.
  struct Same {
    int32_t from, to, depth;
  };
  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  const TokenTable* inner_;  // whose remainders are walked; null: the vocabulary is
  const TokenTrie& trie_;
  Thread thread_;
  ByteSet follow_;
  bool relative_, counter_;
  Places places_;
  std::shared_ptr<TokenTable> table_;
  Kinds follow_kinds_ = 0;
  std::vector<Item> queue_;
  std::vector<Collected> sets_;  // a plain table has one
  std::map<Label, int32_t> set_numbers_;
  std::vector<Met> met_;  // by place
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unordered_map<int32_t, Chain> chains_;
  std::unordered_map<int32_t, int32_t> counts_;
  std::vector<Left> left_;
  std::vector<std::pair<int32_t, int32_t>> pairs_;  // places of two walks, by depth
};

}  // namespace

std::shared_ptr<TokenTable> build_token_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                              const ByteSet& follow, const OtherTable* other) {
  return TableWalk(arena, vocabulary, thread, follow).run(other);
}

std::shared_ptr<TokenTable> build_remainder_table(Arena& arena, const TokenVocabulary& vocabulary, const Thread& thread,
                                                  const ByteSet& follow, const TokenTable& left) {
  return TableWalk(arena, vocabulary, thread, follow, &left).run(nullptr);
}

}  // namespace guided
