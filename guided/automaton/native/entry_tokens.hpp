// What the tokens that a thread can read do to the entries around it (memory.hpp), whatever was written before.
//
// In: a thread in a scope, and the table of its position. Out: all tokens that it can read if no value was there; and
// of these, the few that what was written may forbid:
//   - those that end the entry under way, by what they read up to its end;
//   - those that write entries from begin to end, with their values;
//   - those after which it is not certain that every entry can end with a new value, and those that do several of these
//     things: they are stepped through, one by one. Where only the entries that are under way are in doubt, that is no
//     longer needed once these cannot end with a value that was there.
// All the others lead into the midst of entries that can still have any number of values.
//
// How: the tokens are walked with a memory that has no values and takes notes of the entries that end. Inside of
// an endless string (endless_strings.hpp) only tokens with a quotation mark are.
// Cost: a walk of the tokens, once for each position, caller and nesting of scopes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "arena.hpp"
#include "token_table.hpp"
#include "vocabulary.hpp"

namespace guided {

struct EntryTokens {
  struct Ending {
    std::string text;  // up to the end of the entry
    int32_t around;    // scopes around that of the entry
    std::vector<int32_t> tokens;
  };
  struct Whole {
    Memories::Written value;
    int32_t token;
  };
  const TokenSet* staying = nullptr;  // in the frame; of the table
  std::vector<int32_t> leaving;       // sorted
  std::vector<Ending> endings;
  std::vector<Whole> whole;
  std::vector<int32_t> refused;  // that stay: known names, and what leads to nothing else
  std::vector<int32_t> unsure;
  std::vector<int32_t> unsure_if_alive;  // where an entry under way may end with a value that was there
  bool many = false;  // that are not certain: nothing is listed then but `leaving`
  size_t bytes() const;
};

class EntryTokensBuilder {
 public:
  EntryTokensBuilder(Arena& arena, const TokenVocabulary& vocabulary) : arena_(arena), vocabulary_(vocabulary) {}
  // `thread`: with a memory that takes notes; `remainders`: calls its first argument with each token that leaves the
  // frame and the state after it, and adds those to its second that touch entries before they leave it.
  template <class Remainders>
  EntryTokens build(const Thread& thread, const TokenSet& staying, Remainders&& remainders);

 private:
  static constexpr size_t kMostWalked = 6000, kMostUnsure = 300;
  bool ends_with_quote(const Thread& thread);
  bool is_quiet(const Thread& thread);
  void look(int32_t token, int32_t after, EntryTokens& out);
  void end(int32_t token, int32_t around, EntryTokens& out);
  std::string text_to_end(int32_t token, int32_t around);

  Arena& arena_;
  const TokenVocabulary& vocabulary_;
  int32_t from_ = 0;
};

template <class Remainders>
EntryTokens EntryTokensBuilder::build(const Thread& thread, const TokenSet& staying, Remainders&& remainders) {
  EntryTokens out;
  out.staying = &staying;
  from_ = arena_.lone(thread);
  auto look_at = [&](int32_t token) { look(token, arena_.step_text(from_, vocabulary_.tokens[token]), out); };
  if (ends_with_quote(thread)) {
    for (int32_t token : vocabulary_.quoting().all)
      if (staying.has(token)) look_at(token);
  } else if (!is_quiet(thread)) {
    size_t count = staying.sparse.size();
    for (uint32_t w : staying.dense) count += static_cast<size_t>(__builtin_popcount(w));
    out.many = count > kMostWalked;
    if (!out.many) staying.each(look_at);
  }
  auto leave = [&](int32_t token, int32_t after) {
    out.leaving.push_back(token);
    if (!out.many) look(token, after, out);
  };
  remainders(leave, out.unsure);
  std::sort(out.leaving.begin(), out.leaving.end());
  out.leaving.erase(std::unique(out.leaving.begin(), out.leaving.end()), out.leaving.end());
  std::sort(out.unsure.begin(), out.unsure.end());
  out.unsure.erase(std::unique(out.unsure.begin(), out.unsure.end()), out.unsure.end());
  out.many |= out.unsure.size() + out.unsure_if_alive.size() > kMostUnsure;
  return out;
}

}  // namespace guided
