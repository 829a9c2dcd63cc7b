// Groups the tokens that a state allows by the state to which they lead.
//
// In: a state. Out: its groups. How: some characters may lead back to the state itself, as inside a string. The tokens
// that consist of them are one set of the vocabulary (class_token_sets.hpp). The walk then only follows other bytes
// that come after such characters. The same is possible one character later, for example after the quotation mark that
// opens a string.
// Cost: a copy of that set, and the tokens with other characters; otherwise the trie nodes that the state reaches.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/whole_characters.hpp"
#include "budget/budgets.hpp"

namespace guided {

namespace {

constexpr int kMinLoopClasses = 16;    // with fewer character classes, walking costs less than building their set
constexpr int kMinSubtreeTokens = 64;  // if fewer tokens are below a node, they are walked

// Whether each byte in lo..hi, followed by any `remaining` continuation bytes, leads from `from` to `goal`.
bool characters_lead_to(Arena& arena, int32_t from, int lo, int hi, int remaining, int32_t goal) {
  int32_t last_state = kDead;
  for (int b = lo; b <= hi; ++b) {
    const int32_t to = arena.step(from, static_cast<uint8_t>(b));
    if (to == kDead || (remaining == 0 && to != goal)) return false;
    if (remaining > 0 && to != last_state && !characters_lead_to(arena, to, 0x80, 0xBF, remaining - 1, goal))
      return false;
    last_state = to;
  }
  return true;
}

// The character classes that lead a state back to itself.
CharClasses find_loop_classes(Arena& arena, int32_t state) {
  CharClasses looping = 0, not_looping = 0;
  for (int b = 0; b < 0x80; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    (arena.step(state, byte) == state ? looping : not_looping) |= char_class_of_ascii(byte);
  }
  looping &= ~not_looping;
  if (std::popcount(looping) < kMinLoopClasses) return 0;
  const bool all_leads_loop = std::ranges::all_of(kCharacterLeads, [&](const CharacterLead& c) {
    int32_t last_state = kDead;
    for (int b = c.lo; b <= c.hi; ++b) {
      const int32_t to = arena.step(state, static_cast<uint8_t>(b));
      if (to == kDead) return false;
      if (to != last_state && !characters_lead_to(arena, to, c.second_lo, c.second_hi, c.continuation_bytes - 1, state))
        return false;
      last_state = to;
    }
    return true;
  });
  const bool all_characters_loop = all_leads_loop && std::ranges::all_of(kCharacterEnds, [&](const CharacterEnd& c) {
                                     const int32_t first = arena.step(state, c.first);
                                     const int32_t second = first == kDead ? kDead : arena.step(first, c.second);
                                     return second != kDead && characters_lead_to(arena, second, c.lo, c.hi, 0, state);
                                   });
  return all_characters_loop ? looping | kNonAscii : looping;
}

class TokenGrouper {
 public:
  TokenGrouper(MaskBuilder& masks) : masks_(masks), arena_(masks.arena()), trie_(masks.vocabulary().trie) {}

  TokenGroups run(int32_t state) {
    if (!add_loop(0, state, ~CharClasses{0})) add_by_first_character(state);
    TokenGroups out;
    if (main_loop_.set && at_boundary(arena_, main_loop_.state))
      if (TokenGroup group = main_loop_group(); group.representative >= 0) out.push_back(std::move(group));
    for (auto& [next, tokens] : by_state_) {
      const int32_t representative = tokens[0];
      out.push_back({representative, make_token_set(std::move(tokens), masks_.vocabulary().words)});
    }
    return out;
  }

 private:
  struct Loop {
    CharClasses char_classes = 0;
    std::shared_ptr<const ClassTokens> set;  // null if few tokens consist of these classes
  };

  const Loop& loop_at(int32_t state) {
    const auto [it, inserted] = loops_.try_emplace(state);
    if (inserted && (it->second.char_classes = find_loop_classes(arena_, state)) != 0)
      it->second.set = masks_.vocabulary().tokens_of_classes(it->second.char_classes, true);
    return it->second;
  }

  void add(int32_t token, int32_t next) {
    if (next != last_state_) last_group_ = &by_state_[next];
    last_state_ = next;
    last_group_->push_back(token);
  }
  // Adds the tokens of a node, except the tokens in `added`.
  void add_at_node(const TokenTrie::Node& node, int32_t state, const ClassTokens* added) {
    if (node.payload_hi == node.payload_lo || !at_boundary(arena_, state)) return;
    for (int32_t i = node.payload_lo; i < node.payload_hi; ++i)
      if (!added || !(added->payload_bits[static_cast<size_t>(i) >> 6] >> (i & 63) & 1))
        add(trie_.payloads()[i], state);
  }

  // Adds the tokens at and below a node that is reached in `state`, if characters of one of the classes `read` lead the
  // state back to itself. `read`: the class of the character just read; at the root, all classes. Returns false if none
  // of them does.
  bool add_loop(int32_t node_index, int32_t state, CharClasses read) {
    const Loop loop = loop_at(state);
    if (!loop.set || (loop.char_classes & read) == 0) return false;
    const TokenTrie::Node& node = trie_.nodes()[node_index];
    if (node_index == 0)
      main_loop_ = {state, loop.set};
    else if (at_boundary(arena_, state))
      loop.set->each_token(node.payload_lo, node.subtree_hi, [&](int32_t i) { add(trie_.payloads()[i], state); });
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      const int32_t next = loop.set->edges[byte].empty() ? kDead : arena_.step(state, byte);
      if (next == kDead) continue;
      // Of a character that loops, only add the tokens that end inside it: tokens that continue after it are in the
      // set, or below an edge.
      const bool is_inside_only = b >= 0x80 && (loop.char_classes & kNonAscii);
      loop.set->each_edge(trie_, node, byte, [&](const ClassTokens::Edge& edge) {
        // Nodes with smaller numbers are not below this one.
        if (edge.node > node_index) add_subtree(edge.node, next, is_inside_only, loop.set.get());
      });
    }
    return true;
  }

  // Adds the tokens at and below a node. `is_inside_only`: only the tokens that end inside the node's character.
  void add_subtree(int32_t start_node, int32_t state, bool is_inside_only, const ClassTokens* added) {
    walk_trie_from(arena_, trie_, start_node, state, [&](const TokenTrie::Node& node, int32_t node_state) {
      if (is_inside_only && !node.is_inside_character) return false;
      add_at_node(node, node_state, added);
      return true;
    });
  }

  // Adds all tokens. This suits states from which many characters lead to a few states with loops.
  void add_by_first_character(int32_t state) {
    struct FirstCharacter {
      int32_t node, state;
    };
    std::vector<FirstCharacter> first_characters;
    walk_trie_from(arena_, trie_, 0, state, [&](const TokenTrie::Node& node, int32_t node_state) {
      const auto node_index = static_cast<int32_t>(&node - trie_.nodes().data());
      if (node_index == 0 || node.is_inside_character) {
        add_at_node(node, node_state, nullptr);
        return true;
      }
      first_characters.push_back({node_index, node_state});
      return false;
    });
    for (const FirstCharacter& first_character : first_characters) {
      const TokenTrie::Node& node = trie_.nodes()[first_character.node];
      const CharClasses char_class = node.byte < 0x80 ? char_class_of_ascii(node.byte) : kNonAscii;
      if (node.subtree_hi - node.payload_lo > kMinSubtreeTokens &&
          add_loop(first_character.node, first_character.state, char_class))
        continue;
      add_subtree(first_character.node, first_character.state, false, nullptr);
    }
  }

  // The group of the first state's loop: the set of the loop, and the tokens that lead back through other characters.
  // `representative` is -1 if the group is empty.
  TokenGroup main_loop_group() {
    TokenSet all{main_loop_.set->tokens, main_loop_.set->ids};
    for (int32_t token : by_state_[main_loop_.state])
      all.dense.empty() ? all.sparse.push_back(token) : set_bit(all.dense.data(), token);
    by_state_.erase(main_loop_.state);
    std::sort(all.sparse.begin(), all.sparse.end());
    int32_t representative = -1;
    all.each([&](int32_t token) { representative = token; });
    return {representative, std::move(all)};
  }

  MaskBuilder& masks_;
  Arena& arena_;
  const TokenTrie& trie_;
  std::unordered_map<int32_t, Loop> loops_;
  std::unordered_map<int32_t, std::vector<int32_t>> by_state_;
  int32_t last_state_ = kDead;
  std::vector<int32_t>* last_group_ = nullptr;
  struct {
    int32_t state = kDead;
    std::shared_ptr<const ClassTokens> set;
  } main_loop_;
};

}  // namespace

TokenGroups BudgetMasks::group_tokens(int32_t state) { return TokenGrouper(masks_).run(state); }

}  // namespace guided
