// A vocabulary as the core sees it: the bytes of each token, the end tokens, the trie, and everything that is computed
// once for a vocabulary and shared by all grammars (token tables, sets of tokens by class, lowered rules).
#pragma once

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/rules.hpp"
#include "vocabulary/class_token_sets.hpp"
#include "vocabulary/seen_strings.hpp"
#include "vocabulary/token_trie.hpp"

namespace guided {

struct TokenTable;

// Token tables by the digest of their content. The cache is bounded in bytes: it evicts the least recently used tables.
// Thread-safe.
class TableCache {
 public:
  explicit TableCache(size_t byte_limit) : byte_limit_(byte_limit) {}
  std::shared_ptr<TokenTable> find(const Digest& key);
  void insert(const Digest& key, std::shared_ptr<TokenTable> table, size_t bytes);
  size_t bytes() const;
  size_t size() const;
  void clear();

 private:
  struct Item {
    Digest key;
    std::shared_ptr<TokenTable> table;
    size_t bytes;
  };
  size_t byte_limit_, bytes_ = 0;
  mutable std::mutex mutex_;
  std::list<Item> items_;
  using Index = std::unordered_map<Digest, std::list<Item>::iterator, DigestHash>;
  Index& index_of(const Digest& key) { return index_[key.b % index_.size()]; }
  std::array<Index, 128> index_;  // many small hash tables, so that the rehashing of one never takes long
};

struct TokenVocabulary {
  // `has_text[i]`: false if the id has no text (a gap, padding, a control token). A token whose string is empty has no
  // text, either. `size`: the number of ids, at least the length of `tokens`. `cache_bytes`: the limit of the cache of
  // token tables.
  TokenVocabulary(std::vector<std::string> tokens, std::vector<uint8_t> has_text, std::vector<int32_t> end_tokens,
                  int32_t size, size_t cache_bytes);

  std::vector<std::string> tokens;
  std::vector<int32_t> end_tokens;
  int32_t size;                                   // ids are 0..size-1
  int32_t words;                                  // 32-bit words of a bitmask row
  int32_t max_token_bytes = 0;                    // bytes of the longest token
  ByteSet live;                                   // bytes that occur in some token
  ByteSet single_byte_tokens;                     // bytes that are tokens by themselves
  std::array<int32_t, 256> max_count_in_token{};  // by byte: how often it occurs in one token at most
  bool byte_complete;                             // every live byte is a token by itself
  bool all_text;                                  // every id has text or is an end token
  TokenTrie trie;
  mutable TableCache cache;
  // Caches of lowered rules, spellings and characters.
  mutable ByteCaches bytes;
  // The tokens that consist of these character classes: see ClassTokenSets::find.
  std::shared_ptr<const ClassTokens> tokens_of_classes(CharClasses char_classes, bool build) const {
    return class_token_sets_.find(trie, words, char_classes, build);
  }

  // The tokens that contain a quotation mark.
  const QuotingTokens& quoting_tokens() const {
    std::call_once(quoting_once_, [this] { quoting_tokens_ = std::make_unique<QuotingTokens>(tokens); });
    return *quoting_tokens_;
  }

  bool textual(int32_t id) const { return id >= 0 && id < static_cast<int32_t>(tokens.size()) && !tokens[id].empty(); }
  bool is_end(int32_t id) const;

 private:
  ClassTokenSets class_token_sets_;
  mutable std::once_flag quoting_once_;
  mutable std::unique_ptr<const QuotingTokens> quoting_tokens_;
};

}  // namespace guided
