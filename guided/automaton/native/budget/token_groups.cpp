// Groups the tokens that a state allows by the state to which they lead.
//
// In: a state. Out: its groups. How: if characters lead back to the state itself, as inside of a string, the tokens
// that consist of them are one set of the vocabulary (class_token_sets.hpp), and only what follows such characters is
// walked. The same is possible one character later, as after the quote that opens a string.
// Cost: a copy of that set and the tokens with other characters; otherwise the trie nodes that the state reaches.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/whole_characters.hpp"
#include "budget/budgets.hpp"

namespace guided {

namespace {

constexpr int kManyKinds = 16;   // with fewer character classes, walking costs less than building their set
constexpr int kManyTokens = 64;  // below a node: fewer are walked

// Whether each byte of lo..hi, and all bytes that complete a character after it, lead to `goal`.
bool completes(Arena& arena, int32_t from, int lo, int hi, int more, int32_t goal) {
  int32_t last = kDead;
  for (int b = lo; b <= hi; ++b) {
    const int32_t to = arena.step(from, static_cast<uint8_t>(b));
    if (to == kDead || (more == 0 && to != goal)) return false;
    if (more > 0 && to != last && !completes(arena, to, 0x80, 0xBF, more - 1, goal)) return false;
    last = to;
  }
  return true;
}

// The character classes that lead a state back to itself.
CharClasses loops(Arena& arena, int32_t state) {
  CharClasses out = 0, others = 0;
  for (int b = 0; b < 0x80; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    (arena.step(state, byte) == state ? out : others) |= char_class_of_ascii(byte);
  }
  out &= ~others;
  if (std::popcount(out) < kManyKinds) return 0;
  const bool leads = std::ranges::all_of(kCharacterLeads, [&](const CharacterLead& c) {
    int32_t last = kDead;
    for (int b = c.lo; b <= c.hi; ++b) {
      const int32_t to = arena.step(state, static_cast<uint8_t>(b));
      if (to == kDead) return false;
      if (to != last && !completes(arena, to, c.second_lo, c.second_hi, c.more - 1, state)) return false;
      last = to;
    }
    return true;
  });
  const bool all = leads && std::ranges::all_of(kCharacterEnds, [&](const CharacterEnd& c) {
                     const int32_t first = arena.step(state, c.first);
                     const int32_t second = first == kDead ? kDead : arena.step(first, c.second);
                     return second != kDead && completes(arena, second, c.lo, c.hi, 0, state);
                   });
  return all ? out | kWholeCharacters : out;
}

class Grouping {
 public:
  Grouping(MaskBuilder& masks) : masks_(masks), arena_(masks.arena()), trie_(masks.vocabulary().trie) {}

  TokenGroups run(int32_t state) {
    if (!take_loop(0, state, ~CharClasses{0})) take_by_first_character(state);
    TokenGroups out;
    if (whole_.set && at_boundary(arena_, whole_.state))
      if (TokenGroup group = with_others(); group.one >= 0) out.push_back(std::move(group));
    for (auto& [next, tokens] : by_state_) {
      const int32_t one = tokens[0];
      out.push_back({one, make_token_set(std::move(tokens), masks_.vocabulary().words)});
    }
    return out;
  }

 private:
  struct Loop {
    CharClasses char_classes = 0;
    std::shared_ptr<const ClassTokens> set;  // null if there are few such tokens
  };

  const Loop& loop_of(int32_t state) {
    const auto [it, inserted] = loops_.try_emplace(state);
    if (inserted && (it->second.char_classes = loops(arena_, state)) != 0)
      it->second.set = masks_.vocabulary().tokens_of_classes(it->second.char_classes, true);
    return it->second;
  }

  void take(int32_t token, int32_t next) {
    if (next != last_) into_ = &by_state_[next];
    last_ = next;
    into_->push_back(token);
  }
  // Takes the tokens of a node, except those that are `taken`.
  void take_at(const TokenTrie::Node& node, int32_t state, const ClassTokens* taken) {
    if (node.payload_hi == node.payload_lo || !at_boundary(arena_, state)) return;
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i)
      if (!taken || !(taken->members[static_cast<size_t>(i) >> 6] >> (i & 63) & 1)) take(trie_.payloads()[i], state);
  }

  // Takes the tokens at and below a node that is reached in a state, if the state is a loop for some of the characters
  // before it. `read`: their classes (any, at the root).
  bool take_loop(int32_t at, int32_t state, CharClasses read) {
    const Loop loop = loop_of(state);
    if (!loop.set || (loop.char_classes & read) == 0) return false;
    const TokenTrie::Node& node = trie_.nodes()[at];
    if (at == 0)
      whole_ = {state, loop.set};
    else if (at_boundary(arena_, state))
      loop.set->each_token(node.payload_lo, node.subtree_hi, [&](int32_t i) { take(trie_.payloads()[i], state); });
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      const int32_t next = loop.set->edges[byte].empty() ? kDead : arena_.step(state, byte);
      if (next == kDead) continue;
      // Of a character that loops, only tokens that end inside of it: what follows it is in the set, or at an edge.
      const bool inside_only = b >= 0x80 && (loop.char_classes & kWholeCharacters);
      loop.set->each_edge(trie_, node, byte, [&](const ClassTokens::Edge& edge) {
        if (edge.node > at) take_below(edge.node, next, inside_only, loop.set.get());  // other nodes are above `at`
      });
    }
    return true;
  }

  // Takes the tokens at and below a node; `inside_only`: those that end inside of its character.
  void take_below(int32_t from, int32_t state, bool inside_only, const ClassTokens* taken) {
    walk_trie_from(arena_, trie_, from, state, [&](const TokenTrie::Node& node, int32_t after) {
      if (inside_only && !node.inside) return false;
      take_at(node, after, taken);
      return true;
    });
  }

  // For states in which many characters lead to the same few states, which are loops.
  void take_by_first_character(int32_t state) {
    struct First {
      int32_t node, state;
    };
    std::vector<First> firsts;
    walk_trie_from(arena_, trie_, 0, state, [&](const TokenTrie::Node& node, int32_t at) {
      const auto number = static_cast<int32_t>(&node - trie_.nodes().data());
      if (number == 0 || node.inside) {
        take_at(node, at, nullptr);
        return true;
      }
      firsts.push_back({number, at});
      return false;
    });
    for (const First& first : firsts) {
      const TokenTrie::Node& node = trie_.nodes()[first.node];
      const CharClasses kind = node.byte < 0x80 ? char_class_of_ascii(node.byte) : kWholeCharacters;
      if (node.subtree_hi - node.payload_lo > kManyTokens && take_loop(first.node, first.state, kind)) continue;
      take_below(first.node, first.state, false, nullptr);
    }
  }

  // The set of the loop that begins the walk, and the tokens that lead back through others; `one`: -1 if it is empty.
  TokenGroup with_others() {
    TokenSet all{whole_.set->tokens, whole_.set->ids};
    for (int32_t token : by_state_[whole_.state])
      all.dense.empty() ? all.sparse.push_back(token) : set_bit(all.dense.data(), token);
    by_state_.erase(whole_.state);
    std::sort(all.sparse.begin(), all.sparse.end());
    int32_t one = -1;
    all.each([&](int32_t token) { one = token; });
    return {one, std::move(all)};
  }

  MaskBuilder& masks_;
  Arena& arena_;
  const TokenTrie& trie_;
  std::unordered_map<int32_t, Loop> loops_;
  std::unordered_map<int32_t, std::vector<int32_t>> by_state_;
  int32_t last_ = kDead;
  std::vector<int32_t>* into_ = nullptr;
  struct {
    int32_t state = kDead;
    std::shared_ptr<const ClassTokens> set;
  } whole_;
};

}  // namespace

TokenGroups BudgetMasks::group(int32_t state) { return Grouping(masks_).run(state); }

}  // namespace guided
