// The mask of a thread in a uniqueness scope (masks.hpp): all tokens that it could read if no value had been seen,
// except those that end an entry with a seen value, or after which no unseen value is left.
//
// How: the tokens of a position are sorted once by what they do to the entries (entry_tokens.hpp). A mask then examines
//   - in a string: which tokens end it with a seen string (seen_strings.hpp);
//   - in another entry that may still become a seen value: each text with which tokens may end it;
//   - whether the values that tokens write completely have been seen;
//   - the few unsure tokens, step by step. If there are many, for example because few values are left, a walk of the
//     vocabulary along the seen values finds the refused ones instead.
// If all entries are unbounded strings, as member names nearly always are, an unseen value is always left. Then only
// tokens with at least three quotation marks can end a second entry. Between two entries, a token that contains one
// complete string without escapes is looked up.
//
// Cost: proportional to what the tokens and the seen values have in common, however many there are.
#include <algorithm>
#include <array>
#include <string_view>

#include "run/masks.hpp"
#include "vocabulary/seen_strings.hpp"

namespace guided {

namespace {
// The content of a token's only string, if it has no escapes and only separators precede it.
std::optional<std::string_view> whole_string(std::string_view token) {
  constexpr char kQuote = StringProgress::kQuote, kEscape = StringProgress::kEscape;
  const size_t from = token.find_first_not_of(ValueSyntax::kSeparators);
  if (from == token.npos || token[from] != kQuote) return std::nullopt;
  const size_t to = token.find_first_of(std::array{kQuote, kEscape}.data(), from + 1, 2);
  if (to == token.npos || token[to] != kQuote || token.find(kQuote, to + 1) != token.npos) return std::nullopt;
  return token.substr(from + 1, to - from - 1);
}

// The offset after the quotation mark that ends the current string; npos: the text does not end it. `read`: its escape.
size_t end_of_string(std::string_view text, StringProgress read) {
  for (size_t i = 0; i < text.size(); ++i)
    if (!read.read(static_cast<uint8_t>(text[i]))) return i + 1;
  return text.npos;
}
}  // namespace

bool MaskBuilder::is_sure(int32_t state) {
  for (const Thread& t : arena_.config(state))
    if (arena_.uniqueness().touched(t.mem) < 2) return true;
  return false;
}

bool MaskBuilder::is_watched(int32_t state, int32_t memory) {
  Uniqueness& uniqueness = arena_.uniqueness();
  const int32_t between = uniqueness.between(memory);
  for (const Thread& t : arena_.config(state))
    if (t.mem != kOutside && (uniqueness.alive(t.mem) || (between >= 0 && uniqueness.between(t.mem) == between)))
      return true;
  return false;
}

void MaskBuilder::verify(const Thread& thread, std::vector<int32_t>& tokens, std::vector<int32_t>& refused) {
  sort_unique(tokens);
  const int32_t from = arena_.lone(thread);
  for (int32_t token : tokens) {
    CallMeter::work(kLookup);
    const int32_t state = arena_.step_text(from, vocabulary_.tokens[token]);
    if (state == kDead || !at_boundary(arena_, state)) refused.push_back(token);
  }
}

void MaskBuilder::remainders_of_unknown(Thread t, const TokenTable& table, std::vector<int32_t>& leaving,
                                        std::vector<int32_t>& unsure) {
  t.mem = kUnknownSet;
  each_needed(t, table, [&](const TokenTable& tokens) {
    const size_t sure = unsure.size(), before = leaving.size();
    if (each_kept_remainder(t, tokens, [&](int32_t token) { leaving.push_back(token); }, &unsure)) return;
    leaving.resize(before);
    unsure.resize(sure);
    each_remainder(t, tokens, [&](int32_t token, int32_t) { leaving.push_back(token); }, &unsure);
  });
}

bool MaskBuilder::find_strings(const Thread& t, TokenTable& tokens, Share& share) {
  Uniqueness& uniqueness = arena_.uniqueness();
  std::optional<Uniqueness::StringAhead> ahead;
  if (uniqueness.reading(t.mem)) {
    ahead = uniqueness.string_ahead(t.mem);
    if (!ahead || ahead->inside) return false;
    if (!(ahead->opened ? arena_.unbounded().goes_on(t.pos) : arena_.unbounded().begins_string(t.pos))) return false;
  } else if (uniqueness.between(t.mem) < 0) {
    return false;
  }
  const TokenSet& staying = tokens.relative ? within_bounds(tokens, t) : tokens.all;
  std::vector<int32_t>&leaving = share.own, &refused = share.refused;
  std::vector<int32_t> unsure;
  for (int32_t token : tokens.unsure)
    if (staying.has(token)) unsure.push_back(token);
  remainders_of_unknown(t, tokens, leaving, unsure);
  std::sort(leaving.begin(), leaving.end());
  auto refuse = [&](int32_t token) {
    if (staying.has(token) || std::binary_search(leaving.begin(), leaving.end(), token)) refused.push_back(token);
  };
  if (ahead) {
    SeenStrings taken(uniqueness.trie(), refuse);
    if (ahead->opened)
      taken.inside(vocabulary_.quoting(), ahead->escape, ahead->node);
    else
      taken.whole(vocabulary_.quoting(), ahead->node);
    std::erase_if(unsure, [&](int32_t token) {
      return std::ranges::count(vocabulary_.tokens[token], StringProgress::kQuote) < 3;
    });
  } else {
    std::erase_if(unsure, [&](int32_t token) {
      const std::optional<std::string_view> whole = whole_string(vocabulary_.tokens[token]);
      const std::optional<bool> taken = whole ? uniqueness.string_was_there(t.mem, *whole) : std::nullopt;
      if (taken.value_or(false)) refused.push_back(token);
      return taken.has_value();
    });
  }
  verify(t, unsure, refused);
  share.staying = &staying;
  share.leaving = &leaving;
  return true;
}

const EntryTokens& MaskBuilder::entry_tokens(const Thread& thread, TokenTable& tokens) {
  Thread noting = thread;
  noting.mem = arena_.uniqueness().noting(thread.mem);
  if (const EntryTokens* known = entry_tokens_.find(noting)) return *known;
  const TokenSet& staying = tokens.relative ? within_bounds(tokens, thread) : tokens.all;
  EntryTokens found = EntryTokensBuilder(arena_, vocabulary_, alike_)
                          .build(noting, staying, tokens.within_bytes, [&](auto&& look, std::vector<int32_t>& unsure) {
                            each_needed(thread, tokens, [&](const TokenTable& needed) {
                              walk_remainders(noting, needed, [&](const Remainder& r, int32_t after) {
                                if (!at_boundary(arena_, after)) return;
                                look(r.token, after);
                                if (r.touched > 0) unsure.push_back(r.token);
                              });
                            });
                          });
  arena_.charge(found.bytes());
  return entry_tokens_.add(noting, std::move(found));
}

// For a string that is an entry: the tokens that end it with a seen string.
void MaskBuilder::find_repeated(const Thread& t, const EntryTokens& known, std::vector<int32_t>& refused) {
  Uniqueness& uniqueness = arena_.uniqueness();
  const std::optional<Uniqueness::StringAhead> ahead = uniqueness.string_ahead(t.mem);
  std::vector<int32_t> taken;
  SeenStrings walk(uniqueness.trie(), [&](int32_t token) { taken.push_back(token); });
  walk.inside(vocabulary_.quoting(), ahead->escape, ahead->node);
  std::sort(taken.begin(), taken.end());
  known.each_ending(vocabulary_.tokens, [&](std::string_view text, int32_t around, const std::vector<int32_t>& tokens) {
    if (around != ahead->around || end_of_string(text, ahead->escape) != text.size()) return;
    for (int32_t token : tokens)
      if (std::binary_search(taken.begin(), taken.end(), token)) refused.push_back(token);
  });
}

void MaskBuilder::find_refused(const Thread& t, const EntryTokens& known, std::vector<int32_t>& refused) {
  Uniqueness& uniqueness = arena_.uniqueness();
  if (known.many) {
    each_watched(t, t.mem, [&](int32_t token, int32_t after) {
      if (after == kDead || !at_boundary(arena_, after)) refused.push_back(token);
    });
    std::vector<int32_t> unsure = known.unsure_after_end;
    if (!uniqueness.reading(t.mem))
      for (const auto* list : {&known.unsure, &known.unsure_if_alive})
        unsure.insert(unsure.end(), list->begin(), list->end());
    verify(t, unsure, refused);
    return;
  }
  const std::optional<Uniqueness::StringAhead> ahead = uniqueness.string_ahead(t.mem);
  const bool in_string = ahead && ahead->opened;
  if (in_string) find_repeated(t, known, refused);
  known.each_ending(vocabulary_.tokens, [&](std::string_view text, int32_t around, const std::vector<int32_t>& tokens) {
    if (in_string && around == ahead->around && end_of_string(text, ahead->escape) == text.size()) return;
    if (!uniqueness.may_end(t.mem, around)) return;
    if (arena_.step_text(arena_.lone(t), text) == kDead) refused.insert(refused.end(), tokens.begin(), tokens.end());
  });
  for (const EntryTokens::Whole& w : known.whole)
    if (uniqueness.was_written(t.mem, w.value)) refused.push_back(w.token);
  std::vector<int32_t> unsure = known.unsure;
  if (uniqueness.alive(t.mem)) unsure.insert(unsure.end(), known.unsure_if_alive.begin(), known.unsure_if_alive.end());
  verify(t, unsure, refused);
}

const MaskBuilder::Share& MaskBuilder::share(const Thread& t, TokenTable& tokens) {
  if (const Share* known = shares_.find(t)) return *known;
  Share& share = shares_.add(t, {});
  if (!arena_.unbounded().all_entries() || !find_strings(t, tokens, share)) {
    const EntryTokens& known = entry_tokens(t, tokens);
    share.own.clear();
    share.staying = known.staying;
    share.leaving = &known.leaving;
    share.refused = known.refused;
    find_refused(t, known, share.refused);
    std::erase_if(share.refused, [&](int32_t token) {
      return !known.staying->has(token) && !std::binary_search(known.leaving.begin(), known.leaving.end(), token);
    });
  }
  std::sort(share.refused.begin(), share.refused.end());
  arena_.charge(sizeof(Share) + 64 + (share.own.size() + share.refused.size()) * 4);
  return share;
}

// A token is refused only if no thread allows it.
void MaskBuilder::add_shares(const std::vector<const Share*>& shares, MaskRecipe& out) const {
  auto allowed = [&](int32_t token, const Share* but) {
    return std::any_of(shares.begin(), shares.end(), [&](const Share* s) { return s != but && s->allows(token); }) ||
           std::any_of(out.dense.begin(), out.dense.end(),
                       [&](const uint32_t* row) { return row[token >> 5] >> (token & 31) & 1; });
  };
  std::sort(out.sparse.begin(), out.sparse.end());
  for (const Share* s : shares) {
    CallMeter::work(std::ssize(s->refused) * std::ssize(shares));
    for (int32_t token : s->refused)
      if (!std::binary_search(out.sparse.begin(), out.sparse.end(), token) && !allowed(token, s))
        out.refused.push_back(token);
  }
  for (const Share* s : shares) {
    out.add(*s->staying);
    if (!s->leaving->empty()) out.lists.push_back(s->leaving);
  }
}

}  // namespace guided
