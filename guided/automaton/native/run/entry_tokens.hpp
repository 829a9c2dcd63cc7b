// What each token that a thread can read does to the entries around it (uniqueness.hpp), whatever has been seen.
//
// Problem: a mask in a uniqueness scope depends on the seen set, which differs after each item. Stepping through all
// tokens for each mask would take milliseconds, but nearly all tokens do not depend on what was seen.
//
// How: the tokens are sorted once per position, by a walk with an unknown seen set that notes the entries that end. In:
// a thread in a scope, and the token table of its position. Out: all tokens that it can read if no value was seen; and
// the few of them that a seen set may forbid:
//   - those that end the current entry, by the text that they read up to its end;
//   - those that write complete entries, with their values;
//   - those that are *unsure*: after them it is not certain that every entry can still end with an unseen value, or
//     they do several of these things. A mask steps through them one by one. If only the current entries are in doubt,
//     this is not necessary once these can no longer become a seen value. If an entry has ended, it is: the next one may
//     have no value left.
// All others lead into the middle of entries that can still have any number of values.
//
// Example, an array of unique integers after `[1, 2`: the token `,` ends the entry with the text ``; `3,` ends it with
// the text `3`; `, 4,` ends it and writes 4, so it is unsure; `7` does nothing that a seen set could forbid.
//
// Inside of an unbounded string (unbounded_strings.hpp), only tokens with a quotation mark are walked. Of the tokens
// that lead to the same state whoever called the frame, and touch no entry in it, only one is examined.
// Cost: one walk of the tokens per position; for each caller and nesting of scopes, some of them again.
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
    std::string text;  // up to the end of the entry
    int32_t around;    // the number of scopes around the entry's scope
    std::vector<int32_t> tokens;
  };
  struct Closing {  // tokens that end the entry with their last byte
    int32_t around;
    std::shared_ptr<const std::vector<int32_t>> tokens;
  };
  struct Whole {
    Uniqueness::Written value;
    int32_t token;
  };
  const TokenSet* staying = nullptr;  // tokens that stay in the frame; the table owns this set
  std::vector<int32_t> leaving;       // sorted
  std::vector<Ending> endings;
  std::vector<Closing> closings;
  std::vector<Whole> whole;
  std::vector<int32_t> refused;  // tokens that stay, but that every seen set forbids
  std::vector<int32_t> unsure;
  std::vector<int32_t> unsure_if_alive;   // unsure only if a current entry may still become a seen value
  std::vector<int32_t> unsure_after_end;  // unsure, and an entry has ended
  bool many = false;  // there are many uncertain tokens, so only `leaving` and `unsure_after_end` are complete
  size_t bytes() const;
  // Calls visit(text up to the end, number of scopes around the entry's, tokens that end the entry with this text).
  template <class Visit>
  void each_ending(const std::vector<std::string>& texts, Visit&& visit) const;
};

// The tokens of a list touch no entry in a frame, and lead to the same state whoever called it and whatever was seen.
struct AlikeTokens {
  std::vector<std::shared_ptr<const std::vector<int32_t>>> lists;
  std::vector<int32_t> others;
};
// By the tokens that stay in the frame, the position and the register.
using KnownAlike = std::map<std::tuple<const TokenSet*, int32_t, int32_t>, AlikeTokens>;

class EntryTokensBuilder {
 public:
  EntryTokensBuilder(Arena& arena, const TokenVocabulary& vocabulary, KnownAlike& alike)
      : arena_(arena), vocabulary_(vocabulary), alike_(alike) {}
  // `thread`: with noting memory; `within_bytes`: from its table; `remainders`: calls its first argument with each
  // token that leaves the frame and the state after the token, and adds the tokens that touch entries before they leave
  // to its second argument.
  template <class Remainders>
  EntryTokens build(const Thread& thread, const TokenSet& staying, bool within_bytes, Remainders&& remainders);

 private:
  static constexpr size_t kMaxWalked = 6000, kMaxUnsure = 300, kFewStaying = 64;
  bool ends_with_quote(const Thread& thread);
  bool is_quiet(const Thread& thread);
  bool goes_on_within(Thread thread, const std::string& text);
  // `count`: of the staying tokens; 0: examine only those with a quotation mark, as the thread is inside of a string.
  const AlikeTokens& alike(const Thread& thread, const TokenSet& staying, size_t count);
  bool look_at_all(const std::shared_ptr<const std::vector<int32_t>>& tokens, EntryTokens& out);
  void look(int32_t token, int32_t after, EntryTokens& out);
  void look_for_ends(const Thread& thread, const TokenSet& staying, EntryTokens& out);
  void end(int32_t token, int32_t around, EntryTokens& out);
  std::string text_to_end(int32_t token, int32_t around);

  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  KnownAlike& alike_;
  int32_t from_ = 0;
};

template <class Visit>
void EntryTokens::each_ending(const std::vector<std::string>& texts, Visit&& visit) const {
  for (const Ending& e : endings) visit(e.text, e.around, e.tokens);
  std::vector<int32_t> one(1);
  for (const Closing& c : closings)
    for (const int32_t token : *c.tokens) {
      one[0] = token;
      visit(texts[static_cast<size_t>(token)], c.around, one);
    }
}

template <class Remainders>
EntryTokens EntryTokensBuilder::build(const Thread& thread, const TokenSet& staying, bool within_bytes,
                                      Remainders&& remainders) {
  EntryTokens out, ignored;
  out.staying = &staying;
  from_ = arena_.lone(thread);
  auto look_at = [&](int32_t token) { look(token, arena_.step_text(from_, vocabulary_.tokens[token]), out); };
  auto look_at_staying = [&](size_t count) {
    const AlikeTokens& tokens = alike(thread, staying, count);
    for (const auto& list : tokens.lists)
      if (!look_at_all(list, out)) std::for_each(list->begin(), list->end(), look_at);
    std::for_each(tokens.others.begin(), tokens.others.end(), look_at);
  };
  if (ends_with_quote(thread)) {
    look_at_staying(0);
  } else if (!is_quiet(thread)) {
    size_t count = staying.sparse.size();
    for (uint32_t w : staying.dense) count += static_cast<size_t>(__builtin_popcount(w));
    out.many = count > kMaxWalked;
    if (count <= kFewStaying)
      staying.each([&](int32_t token) {
        if (!within_bytes || !goes_on_within(thread, vocabulary_.tokens[token])) look_at(token);
      });
    else if (!out.many)
      look_at_staying(count);
    else
      look_for_ends(thread, staying, ignored);
  }
  auto leave = [&](int32_t token, int32_t after) {
    out.leaving.push_back(token);
    look(token, after, out.many ? ignored : out);
  };
  const size_t unsure_before = out.unsure.size();
  remainders(leave, out.unsure);
  out.unsure_after_end.insert(out.unsure_after_end.end(), out.unsure.begin() + static_cast<ptrdiff_t>(unsure_before),
                              out.unsure.end());
  out.unsure_after_end.insert(out.unsure_after_end.end(), ignored.unsure_after_end.begin(),
                              ignored.unsure_after_end.end());
  sort_unique(out.leaving);
  sort_unique(out.unsure);
  out.many |= out.unsure.size() + out.unsure_if_alive.size() > kMaxUnsure;
  return out;
}

}  // namespace guided
