// The tokens that would end a string with a value that was there.
//
// In: the vocabulary's tokens with a quotation mark, what has been read of a string of JSON, and strings that it must
// not become, as a trie (persistent_trie.hpp). Calls visit(token) for every token that closes the quotation marks after
// one of these, in any spelling: the two tries are walked side by side.
//
// Cost: a look-up for each node that both have, some 10 ns; a string that no token ends costs nothing, however many
// there are. Escapes in tokens are rare.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/persistent_trie.hpp"
#include "values/syntax.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

// Tokens with a quotation mark that may end a string, by what they write before it.
struct QuotingTokens {
  explicit QuotingTokens(const std::vector<std::string>& tokens);
  std::vector<int32_t> all;
  TokenTrie inside;  // from inside of a string, up to the mark
  TokenTrie escape;  // all that have a mark: for strings in which an escape is under way
  TokenTrie whole;   // tokens that begin with a mark, from there to the next one
};

template <class Visit>
class SeenStrings {
 public:
  SeenStrings(const PersistentTrie& strings, Visit visit) : strings_(strings), visit_(std::move(visit)) {}

  // From inside of a string that has come to a node of the strings.
  void inside(const QuotingTokens& tokens, const StringProgress& escape, int32_t node) {
    if (node < 0) return;
    const bool plainly = escape.between_characters();
    if (plainly && !tokens.inside.nodes().empty()) plain(tokens.inside, 0, node);
    if (!plainly && !tokens.escape.nodes().empty()) spelled(tokens.escape, 0, escape, node);
  }
  // Before its first quotation mark; `node`: of the empty string.
  void whole(const QuotingTokens& tokens, int32_t node) {
    if (node >= 0 && !tokens.whole.nodes().empty()) plain(tokens.whole, 0, node);
  }

 private:
  void plain(const TokenTrie& trie, int32_t at, int32_t node) {
    const TokenTrie::Node& n = trie.nodes()[at];
    auto step = [&](int32_t next, int32_t after) {
      if (trie.nodes()[next].children > 0) plain(trie, next, after);
    };
    if (n.children > strings_.children(node).to - strings_.children(node).from) {
      for (const PersistentTrie::Child& c : strings_.children(node))
        if (c.byte != StringProgress::kQuote && c.byte != StringProgress::kEscape)
          if (const int32_t next = trie.child(at, c.byte); next >= 0) step(next, c.node);
      for (uint8_t byte : {StringProgress::kQuote, StringProgress::kEscape})
        if (const int32_t next = trie.child(at, byte); next >= 0) special(trie, next, node);
      return;
    }
    for (int32_t next = n.first_child; next < n.first_child + n.children; ++next) {
      const uint8_t byte = trie.nodes()[next].byte;
      if (byte == StringProgress::kQuote || byte == StringProgress::kEscape)
        special(trie, next, node);
      else if (const int32_t after = strings_.child(node, byte); after >= 0)
        step(next, after);
    }
  }

  void special(const TokenTrie& trie, int32_t next, int32_t node) {
    if (trie.nodes()[next].byte == StringProgress::kQuote) {
      if (strings_.ends(node)) close(trie, next);
      return;
    }
    StringProgress escape;
    escape.read(StringProgress::kEscape);
    spelled(trie, next, escape, node);
  }

  void spelled(const TokenTrie& trie, int32_t at, const StringProgress& read, int32_t node) {
    const TokenTrie::Node& n = trie.nodes()[at];
    for (int32_t c = n.first_child; c < n.first_child + n.children; ++c) {
      StringProgress next = read;
      if (!next.read(trie.nodes()[c].byte)) {
        if (strings_.ends(node) && !next.high) close(trie, c);
        continue;
      }
      const int32_t after = strings_.at(node, next.text);
      next.text.clear();
      if (after >= 0) spelled(trie, c, next, after);
    }
  }

  void close(const TokenTrie& trie, int32_t at) {
    const TokenTrie::Node& n = trie.nodes()[at];
    for (int32_t i = n.payload_lo; i < n.subtree_hi; ++i) visit_(trie.payloads()[i]);
  }

  const PersistentTrie& strings_;
  Visit visit_;
};

}  // namespace guided
