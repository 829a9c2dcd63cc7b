// Finds the tokens that would end a string with a seen value, such as the name of a member that the object already has.
//
// In: the tokens of a vocabulary that contain a quotation mark (`QuotingTokens`), the part of a JSON string that has
// been read, and a trie of the strings that it must not become (persistent_trie.hpp). Out: visit(token) is called for
// each token that completes one of these strings, in any spelling, and closes it.
//
// How: the trie of tokens and the trie of strings are walked in parallel. Example: `"na` has been read, `name` is in
// the seen set, and the tokens are `me"`, `me":` and `mes"`:
//     tokens    . - m - e - "           strings   n - a - m - e
//                         - s - "                     ^ the walk starts here, next to the root of the tokens
// It reaches `me"` where a string ends, so this token and all below it (`me":`) are visited. `mes"` is not.
// An escape in a token is decoded before it is looked up. This is slower, but escapes in tokens are rare.
//
// Cost: about 10 ns for each node that both tries contain. Seen strings that no token continues cost nothing, however
// many they are.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/persistent_trie.hpp"
#include "values/syntax.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

// The tokens that contain a quotation mark. Each trie stores the bytes with which they can end a string.
struct QuotingTokens {
  explicit QuotingTokens(const std::vector<std::string>& tokens);
  std::vector<int32_t> all;
  // For a position inside a string: tokens up to their first quotation mark that is not escaped.
  TokenTrie inside_string;
  TokenTrie inside_escape;  // for a position inside an escape: entire tokens
  // For the position before a string: tokens that begin with a quotation mark, from there up to the next one.
  TokenTrie before_string;
};

template <class Visit>
class SeenStrings {
 public:
  SeenStrings(const PersistentTrie& strings, Visit visit) : strings_(strings), visit_(std::move(visit)) {}

  // Inside a string, of which the part before `escape` leads to `node` of the trie of strings (-1: no string begins
  // with it).
  void visit_inside_string(const QuotingTokens& tokens, const StringProgress& escape, int32_t node) {
    if (node < 0) return;
    const bool is_between_characters = escape.between_characters();
    if (is_between_characters && !tokens.inside_string.nodes().empty()) walk_plain(tokens.inside_string, 0, node);
    if (!is_between_characters && !tokens.inside_escape.nodes().empty())
      walk_decoded(tokens.inside_escape, 0, escape, node);
  }
  // Before the opening quotation mark. `node` is the root of the trie of strings, or -1.
  void visit_before_string(const QuotingTokens& tokens, int32_t node) {
    if (node >= 0 && !tokens.before_string.nodes().empty()) walk_plain(tokens.before_string, 0, node);
  }

 private:
  // Walks both tries byte by byte, over the children of whichever node has fewer.
  void walk_plain(const TokenTrie& trie, int32_t token_node, int32_t string_node) {
    const TokenTrie::Node& n = trie.nodes()[token_node];
    auto step = [&](int32_t token_child, int32_t string_child) {
      if (trie.nodes()[token_child].children > 0) walk_plain(trie, token_child, string_child);
    };
    if (n.children > strings_.children(string_node).to - strings_.children(string_node).from) {
      for (const PersistentTrie::Child& c : strings_.children(string_node))
        if (c.byte != StringProgress::kQuote && c.byte != StringProgress::kEscape)
          if (const int32_t token_child = trie.child(token_node, c.byte); token_child >= 0) step(token_child, c.node);
      for (uint8_t byte : {StringProgress::kQuote, StringProgress::kEscape})
        if (const int32_t token_child = trie.child(token_node, byte); token_child >= 0)
          walk_special(trie, token_child, string_node);
      return;
    }
    for (int32_t token_child = n.first_child; token_child < n.first_child + n.children; ++token_child) {
      const uint8_t byte = trie.nodes()[token_child].byte;
      if (byte == StringProgress::kQuote || byte == StringProgress::kEscape)
        walk_special(trie, token_child, string_node);
      else if (const int32_t string_child = strings_.child(string_node, byte); string_child >= 0)
        step(token_child, string_child);
    }
  }

  // Reads a quotation mark or the start of an escape.
  void walk_special(const TokenTrie& trie, int32_t token_node, int32_t string_node) {
    if (trie.nodes()[token_node].byte == StringProgress::kQuote) {
      if (strings_.is_end(string_node)) visit_tokens(trie, token_node);
      return;
    }
    StringProgress escape;
    escape.read(StringProgress::kEscape);
    walk_decoded(trie, token_node, escape, string_node);
  }

  // Continues with a decoder. `progress` is its state, and `string_node` the node of all completely decoded characters.
  void walk_decoded(const TokenTrie& trie, int32_t token_node, const StringProgress& progress, int32_t string_node) {
    const TokenTrie::Node& n = trie.nodes()[token_node];
    for (int32_t token_child = n.first_child; token_child < n.first_child + n.children; ++token_child) {
      StringProgress next_progress = progress;
      if (!next_progress.read(trie.nodes()[token_child].byte)) {
        if (strings_.is_end(string_node) && !next_progress.high) visit_tokens(trie, token_child);
        continue;
      }
      const int32_t string_child = strings_.descend(string_node, next_progress.text);
      next_progress.text.clear();
      if (string_child >= 0) walk_decoded(trie, token_child, next_progress, string_child);
    }
  }

  // Visits the tokens at and below a node: they end the string here, whatever they write afterwards.
  void visit_tokens(const TokenTrie& trie, int32_t token_node) {
    const TokenTrie::Node& n = trie.nodes()[token_node];
    for (int32_t i = n.payload_lo; i < n.subtree_hi; ++i) visit_(trie.payloads()[i]);
  }

  const PersistentTrie& strings_;
  Visit visit_;
};

}  // namespace guided
