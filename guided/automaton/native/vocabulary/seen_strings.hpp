// The tokens that would end a string with a seen value, such as a member name that the object already has.
//
// In: the tokens of a vocabulary that contain a quotation mark (`QuotingTokens`), how far a JSON string has been read,
// and a trie of the strings that it must not become (persistent_trie.hpp). Out: visit(token) is called for each token
// whose bytes complete one of these strings, in any spelling, and close it.
//
// How: the trie of tokens and the trie of strings are walked in parallel. Example: after `"na` with `name` in the seen
// set, and the tokens `me"`, `me":` and `mes"`:
//     tokens    . - m - e - "           strings   n - a - m - e
//                         - s - "                     ^ the walk starts here, next to the root of the tokens
// It reaches `me"` where a string ends, so this token and all below it (`me":`) are visited. `mes"` is not.
// An escape in a token is decoded before it is looked up, on a slower path; escapes in tokens are rare.
//
// Cost: about 10 ns for each node that both tries have. Seen strings that no token continues cost nothing, however many
// there are.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/persistent_trie.hpp"
#include "values/syntax.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

// The tokens that contain a quotation mark, in tries by the bytes with which they end a string.
struct QuotingTokens {
  explicit QuotingTokens(const std::vector<std::string>& tokens);
  std::vector<int32_t> all;
  TokenTrie inside;  // for a position inside a string: up to the first mark that is not escaped
  TokenTrie escape;  // complete tokens: for a string that stops inside an escape
  TokenTrie whole;   // for the position before a string: tokens that begin with a mark, from there up to the next mark
};

template <class Visit>
class SeenStrings {
 public:
  SeenStrings(const PersistentTrie& strings, Visit visit) : strings_(strings), visit_(std::move(visit)) {}

  // From inside a string that has been read up to `node` of the trie of strings (-1: it is a prefix of none).
  void inside(const QuotingTokens& tokens, const StringProgress& escape, int32_t node) {
    if (node < 0) return;
    const bool plainly = escape.between_characters();
    if (plainly && !tokens.inside.nodes().empty()) plain(tokens.inside, 0, node);
    if (!plainly && !tokens.escape.nodes().empty()) spelled(tokens.escape, 0, escape, node);
  }
  // From the position before the opening quotation mark; `node` is the root of the trie of strings, or -1.
  void whole(const QuotingTokens& tokens, int32_t node) {
    if (node >= 0 && !tokens.whole.nodes().empty()) plain(tokens.whole, 0, node);
  }

 private:
  // Walks both tries byte by byte, over the children of whichever node has fewer.
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

  // A quotation mark or the start of an escape.
  void special(const TokenTrie& trie, int32_t next, int32_t node) {
    if (trie.nodes()[next].byte == StringProgress::kQuote) {
      if (strings_.ends(node)) close(trie, next);
      return;
    }
    StringProgress escape;
    escape.read(StringProgress::kEscape);
    spelled(trie, next, escape, node);
  }

  // Walks on with a decoder: `read` is its state, and `node` what has been decoded completely.
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

  // Visits the tokens of a node and of all below it: the string ends here, whatever they write afterwards.
  void close(const TokenTrie& trie, int32_t at) {
    const TokenTrie::Node& n = trie.nodes()[at];
    for (int32_t i = n.payload_lo; i < n.subtree_hi; ++i) visit_(trie.payloads()[i]);
  }

  const PersistentTrie& strings_;
  Visit visit_;
};

}  // namespace guided
