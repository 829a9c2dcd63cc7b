// Sorts the tokens that a thread can read by what they do to the current entries (uniqueness.hpp), whatever values have
// been seen.
//
// Problem: a mask in a uniqueness scope depends on the seen set, which differs after each item. Stepping through all
// tokens for each mask would take milliseconds, although nearly all tokens do not depend on the seen set.
//
// How: the tokens are sorted once per position, by a walk with an unknown seen set that notes which entries end. In: a
// thread in a scope, and the token table of its position. Out: all tokens that it can read if no value has been seen,
// and the few of them that a seen set may forbid:
//   - tokens that end the current entry, by the text that they read up to its end;
//   - tokens that write complete entries, with their values;
//   - *unsure* tokens: after them, it is not certain that every entry can still end with an unseen value, or they do
//     several of these things. A mask steps through them one by one. If only the current entries are in doubt, and can
//     no longer become seen values, no step is needed. If an entry has ended, a step is always needed, because no value
//     may be left for the next entry.
// All other tokens lead into the middle of entries that can still have any number of values.
//
// Example, an array of unique integers after `[1, 2`: the token `,` ends the entry with the text ``; `3,` ends it with
// the text `3`; `, 4,` ends it and writes 4, so it is unsure; `7` does nothing that a seen set could forbid.
//
// Inside an unbounded string (unbounded_strings.hpp), only tokens with a quotation mark are walked. If tokens lead to
// the same state regardless of the frame's caller, and touch no entry in the frame, only one of them is examined.
// Cost: one walk of the tokens per position; some of the tokens are examined again for each caller and nesting of
// scopes.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "run/arena.hpp"
#include "run/token_table.hpp"
#include "vocabulary/vocabulary.hpp"

namespace guided {

struct EntryTokens {
  struct Ending {
    std::string text;     // up to the end of the entry
    int32_t scope_depth;  // the number of scopes around the entry's scope
    std::vector<int32_t> tokens;
  };
  struct Closing {  // tokens that end the entry with their last byte
    int32_t scope_depth;
    std::shared_ptr<const std::vector<int32_t>> tokens;
  };
  struct WholeEntry {
    Uniqueness::WrittenValue value;
    int32_t token;
  };
  const TokenSet* staying = nullptr;  // tokens that stay in the frame; the table owns this set
  std::vector<int32_t> leaving;       // sorted
  std::vector<Ending> endings;
  std::vector<Closing> closings;
  std::vector<WholeEntry> whole_entries;
  std::vector<int32_t> refused;  // tokens that stay, but are forbidden whatever has been seen
  std::vector<int32_t> unsure;
  std::vector<int32_t> unsure_if_alive;   // unsure only if a current entry may still become a seen value
  std::vector<int32_t> unsure_after_end;  // unsure, and an entry has ended
  bool has_many_unsure = false;  // there are many unsure tokens, so only `leaving` and `unsure_after_end` are complete
  size_t bytes() const;
  // Calls visit(text up to the end of an entry, number of scopes around the entry's scope, tokens that end the entry
  // with this text).
  template <class Visit>
  void each_ending(const std::vector<std::string>& texts, Visit&& visit) const;
};

// The tokens of each list touch no entry in a frame, and lead to the same state, whoever called the frame and whatever
// has been seen.
struct AlikeTokens {
  std::vector<std::shared_ptr<const std::vector<int32_t>>> lists;
  std::vector<int32_t> others;
};
// The key: the tokens that stay in the frame, the position and the register.
using AlikeTokensMap = std::map<std::tuple<const TokenSet*, int32_t, int32_t>, AlikeTokens>;

class EntryTokensBuilder {
 public:
  EntryTokensBuilder(Arena& arena, const TokenVocabulary& vocabulary, AlikeTokensMap& alike_tokens)
      : arena_(arena), vocabulary_(vocabulary), alike_tokens_(alike_tokens) {}
  // `thread`: its memory comes from Uniqueness::with_noting(). `reads_only_bytes`: from the thread's table.
  // `remainders`: calls its first argument with each token that leaves the frame and the state after this token, and
  // appends the tokens that touch entries before they leave to its second argument.
  template <class Remainders>
  EntryTokens build(const Thread& thread, const TokenSet& staying, bool reads_only_bytes, Remainders&& remainders);

 private:
  static constexpr size_t kMaxWalked = 6000, kMaxUnsure = 300, kMaxSteppedStaying = 64;
  bool only_quotes_end_entries(const Thread& thread);
  bool touches_no_entry(const Thread& thread);
  bool continues_after(Thread thread, const std::string& text);
  // `count`: the number of staying tokens; 0: examine only tokens with a quotation mark, because the thread is inside a
  // string.
  const AlikeTokens& alike_tokens(const Thread& thread, const TokenSet& staying, size_t count);
  bool examine_together(const std::shared_ptr<const std::vector<int32_t>>& tokens, EntryTokens& out);
  void examine(int32_t token, int32_t state, EntryTokens& out);
  void examine_ends(const Thread& thread, const TokenSet& staying, EntryTokens& out);
  void add_ending(int32_t token, int32_t scope_depth, EntryTokens& out);
  std::string text_to_entry_end(int32_t token, int32_t scope_depth);

  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  AlikeTokensMap& alike_tokens_;
  int32_t start_state_ = 0;
};

template <class Visit>
void EntryTokens::each_ending(const std::vector<std::string>& texts, Visit&& visit) const {
  for (const Ending& e : endings) visit(e.text, e.scope_depth, e.tokens);
  std::vector<int32_t> one(1);
  for (const Closing& c : closings)
    for (const int32_t token : *c.tokens) {
      one[0] = token;
      visit(texts[static_cast<size_t>(token)], c.scope_depth, one);
    }
}

template <class Remainders>
EntryTokens EntryTokensBuilder::build(const Thread& thread, const TokenSet& staying, bool reads_only_bytes,
                                      Remainders&& remainders) {
  EntryTokens out, ignored;
  out.staying = &staying;
  start_state_ = arena_.state_of_thread(thread);
  auto examine_token = [&](int32_t token) {
    examine(token, arena_.step_text(start_state_, vocabulary_.tokens[token]), out);
  };
  auto examine_staying = [&](size_t count) {
    const AlikeTokens& tokens = alike_tokens(thread, staying, count);
    for (const auto& list : tokens.lists)
      if (!examine_together(list, out)) std::for_each(list->begin(), list->end(), examine_token);
    std::for_each(tokens.others.begin(), tokens.others.end(), examine_token);
  };
  if (only_quotes_end_entries(thread)) {
    examine_staying(0);
  } else if (!touches_no_entry(thread)) {
    size_t count = staying.sparse.size();
    for (uint32_t w : staying.dense) count += static_cast<size_t>(__builtin_popcount(w));
    out.has_many_unsure = count > kMaxWalked;
    if (count <= kMaxSteppedStaying)
      staying.each([&](int32_t token) {
        if (!reads_only_bytes || !continues_after(thread, vocabulary_.tokens[token])) examine_token(token);
      });
    else if (!out.has_many_unsure)
      examine_staying(count);
    else
      examine_ends(thread, staying, ignored);
  }
  auto add_leaving = [&](int32_t token, int32_t state) {
    out.leaving.push_back(token);
    examine(token, state, out.has_many_unsure ? ignored : out);
  };
  const size_t unsure_before = out.unsure.size();
  remainders(add_leaving, out.unsure);
  out.unsure_after_end.insert(out.unsure_after_end.end(), out.unsure.begin() + static_cast<ptrdiff_t>(unsure_before),
                              out.unsure.end());
  out.unsure_after_end.insert(out.unsure_after_end.end(), ignored.unsure_after_end.begin(),
                              ignored.unsure_after_end.end());
  sort_unique(out.leaving);
  sort_unique(out.unsure);
  out.has_many_unsure |= out.unsure.size() + out.unsure_if_alive.size() > kMaxUnsure;
  return out;
}

}  // namespace guided
