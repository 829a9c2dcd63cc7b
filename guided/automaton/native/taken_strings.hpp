// The tokens that would end a string with a value that was there.
//
// In: the vocabulary's trie, its node at which tokens go on with a string of JSON (the root, or after the quotation
// mark), what has been read of that string, and strings that it must not become. Calls
// visit(payload) for every token that closes the quotation marks after one of these, in any spelling: with what is
// spelled plainly by a walk along the sorted strings, all at once; where a token writes an escape, one by one.
//
// Cost: a look-up for each byte of the strings as far as tokens hold it, some 10 ns; escapes in tokens are rare.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "json_value.hpp"
#include "token_trie.hpp"

namespace guided {

template <class Visit>
class TakenStrings {
 public:
  // `taken`: sorted, each once, all of which `read` fits.
  TakenStrings(const TokenTrie& trie, int32_t from, const StringProgress& read, const std::vector<std::string>& taken,
               Visit visit)
      : trie_(trie), taken_(taken), visit_(std::move(visit)) {
    if (read.escape < 0 && !read.high)
      plain(from, 0, taken.size(), read.text.size());
    else
      for (const std::string& target : taken) spelled(from, read, target);
  }

 private:
  // At a node that the first `size` bytes of the strings from..to have led to.
  void plain(int32_t node, size_t from, size_t to, size_t size) {
    if (trie_.nodes()[node].children == 0) return;
    size_t i = from;
    if (i < to && taken_[i].size() == size) {  // it is complete
      if (int32_t closed = trie_.child(node, '"'); closed >= 0) close(closed);
      ++i;
    }
    while (i < to) {
      const char byte = taken_[i][size];
      size_t end = i + 1;
      while (end < to && taken_[end][size] == byte) ++end;
      if (byte != '"' && byte != '\\')
        if (int32_t next = trie_.child(node, static_cast<uint8_t>(byte)); next >= 0) plain(next, i, end, size + 1);
      i = end;
    }
    if (int32_t escape = trie_.child(node, '\\'); escape >= 0)
      for (i = from; i < to; ++i) {
        if (taken_[i].size() == size) continue;
        StringProgress read;
        read.text = taken_[i].substr(0, size);
        read.read('\\');
        spelled(escape, read, taken_[i]);
      }
  }

  void spelled(int32_t node, const StringProgress& read, const std::string& target) {
    const TokenTrie::Node& n = trie_.nodes()[node];
    for (int32_t c = n.first_child; c < n.first_child + n.children; ++c) {
      StringProgress next = read;
      if (!next.read(trie_.nodes()[c].byte)) {
        if (next.text == target && !next.high) close(c);
      } else if (next.fits(target)) {
        spelled(c, next, target);
      }
    }
  }

  void close(int32_t node) {
    const TokenTrie::Node& n = trie_.nodes()[node];
    for (int32_t i = n.payload_lo; i < n.subtree_hi; ++i) visit_(trie_.payloads()[i]);
  }

  const TokenTrie& trie_;
  const std::vector<std::string>& taken_;
  Visit visit_;
};

}  // namespace guided
