// What the terminals of a lexer make of the beginnings of texts.
//
// In: the terminals, but for control tokens, and a text. Out: the terminals that have read all of it, with their states,
// and the longest match of each in it.
//
// How: a trie of the texts that were asked about. A node has the terminals that are alive there, so that a text is read by
// those alone that its beginning has left: of five thousand keywords, few begin like one of them.
// Cost: a step for each terminal that is alive, once for each node; past kMost of them, the trie begins anew.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lexer/lexemes.hpp"

namespace guided {

class TextPrefixes {
 public:
  using Alive = std::vector<std::pair<int32_t, int32_t>>;  // terminals and their states, by terminal
  TextPrefixes(Lexemes& lexemes, const std::vector<int32_t>& control);
  // Both hold until the next question.
  const Alive& alive(std::string_view text) { return nodes_[path(text).back()].alive; }
  // The terminals that match a beginning of a text, and how much of it.
  std::vector<std::pair<int32_t, size_t>> longest_matches(std::string_view text);

 private:
  struct Node {
    Alive alive;
    std::vector<int32_t> matched;  // the terminals of which the text of the node is one
    std::unordered_map<uint8_t, int32_t> after = {};
  };
  const std::vector<int32_t>& path(std::string_view text);
  void begin();

  static constexpr size_t kMost = 1 << 18;
  Lexemes& lexemes_;
  Alive all_;
  std::deque<Node> nodes_;
  size_t count_ = 0;           // of the terminals that are alive in nodes
  std::vector<int32_t> path_;  // the nodes of the beginnings of a text, the empty one first
};

}  // namespace guided
