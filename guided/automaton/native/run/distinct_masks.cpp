// Computes the mask of a thread in a uniqueness scope (masks.hpp): all tokens that the thread could read if no value
// had been seen, except tokens that end an entry with a seen value, and tokens after which no unseen value is left.
//
// How: the tokens of a position are sorted once by how they affect the entries (entry_tokens.hpp). A mask then examines
//   - in a string: which tokens complete a seen string (seen_strings.hpp);
//   - in another entry that may still become a seen value: each text with which tokens may end it;
//   - whether values that a token writes completely have been seen;
//   - the few unsure tokens, step by step. If there are many, for example because few values are left, a walk of the
//     vocabulary along the seen values finds the refused tokens instead.
// If all entries are unbounded strings, as member names nearly always are, an unseen value is always left. Then, inside
// an entry, only tokens with at least three quotation marks are tried step by step: no other token can also end a
// second entry. Between two entries, if a token contains exactly one complete string and no escapes, this string is
// looked up, and the token is only tried if the string has been seen: it may be a declared name, which is no entry.
//
// Cost: proportional to what the tokens and the seen values have in common, however many seen values there are.
#include <algorithm>
#include <array>
#include <string_view>

#include "run/masks.hpp"
#include "vocabulary/seen_strings.hpp"

namespace guided {

namespace {
// The content of a token's only string, if the string has no escapes and only separators precede it.
std::optional<std::string_view> whole_string(std::string_view token) {
  constexpr char kQuote = StringProgress::kQuote, kEscape = StringProgress::kEscape;
  const size_t from = token.find_first_not_of(ValueSyntax::kSeparators);
  if (from == token.npos || token[from] != kQuote) return std::nullopt;
  const size_t to = token.find_first_of(std::array{kQuote, kEscape}.data(), from + 1, 2);
  if (to == token.npos || token[to] != kQuote || token.find(kQuote, to + 1) != token.npos) return std::nullopt;
  return token.substr(from + 1, to - from - 1);
}

// The offset after the quotation mark that ends the current string; npos if the text does not end it. `progress`: the
// current escape of the string.
size_t end_of_string(std::string_view text, StringProgress progress) {
  for (size_t i = 0; i < text.size(); ++i)
    if (!progress.read(static_cast<uint8_t>(text[i]))) return i + 1;
  return text.npos;
}
}  // namespace

bool MaskBuilder::is_sure(int32_t state) {
  for (const Thread& t : arena_.config(state))
    if (arena_.uniqueness().touched_entries(t.mem) < 2) return true;
  return false;
}

bool MaskBuilder::is_watched(int32_t state, int32_t memory) {
  Uniqueness& uniqueness = arena_.uniqueness();
  const int32_t open_scope = uniqueness.scope_between_entries(memory);
  for (const Thread& t : arena_.config(state))
    if (t.mem != kOutside && (uniqueness.may_become_seen(t.mem) ||
                              (open_scope >= 0 && uniqueness.scope_between_entries(t.mem) == open_scope)))
      return true;
  return false;
}

bool MaskBuilder::may_become_watched(int32_t state, int32_t memory) {
  const Uniqueness& uniqueness = arena_.uniqueness();
  const int32_t open_scope = uniqueness.scope_between_entries(memory);
  const Config& config = arena_.config(state);
  return is_watched(state, memory) ||
         (open_scope >= 0 && std::any_of(config.begin(), config.end(), [&](const Thread& t) {
            return t.pos != kExit && t.mem > kLastUnknownSet && uniqueness.has_scope(t.mem, open_scope);
          }));
}

void MaskBuilder::check_tokens(const Thread& thread, std::vector<int32_t>& tokens, std::vector<int32_t>& refused) {
  sort_unique(tokens);
  const int32_t start = arena_.state_of_thread(thread);
  for (int32_t token : tokens) {
    CallMeter::work(kLookup);
    const int32_t state = arena_.step_text(start, vocabulary_.tokens[token]);
    if (state == kDead || !at_boundary(arena_, state)) refused.push_back(token);
  }
}

void MaskBuilder::find_leaving_if_unknown(Thread t, const TokenTable& table, std::vector<int32_t>& leaving,
                                          std::vector<int32_t>& unsure) {
  t.mem = kUnknownSet;
  each_needed_table(t, table, [&](const TokenTable& needed_table) {
    const size_t unsure_size = unsure.size(), leaving_size = leaving.size();
    if (each_cached_remainder(t, needed_table, [&](int32_t token) { leaving.push_back(token); }, &unsure)) return;
    leaving.resize(leaving_size);
    unsure.resize(unsure_size);
    each_remainder(t, needed_table, [&](int32_t token, int32_t) { leaving.push_back(token); }, &unsure);
  });
}

bool MaskBuilder::compute_string_share(const Thread& t, TokenTable& token_table, Share& share) {
  Uniqueness& uniqueness = arena_.uniqueness();
  std::optional<Uniqueness::StringAhead> ahead;
  if (uniqueness.is_reading(t.mem)) {
    ahead = uniqueness.string_ahead(t.mem);
    if (!ahead || ahead->is_nested) return false;
    if (!(ahead->is_opened ? arena_.unbounded().is_unbounded(t.pos)
                           : arena_.unbounded().begins_unbounded_string(t.pos)))
      return false;
  } else if (uniqueness.scope_between_entries(t.mem) < 0) {
    return false;
  }
  const TokenSet& staying = token_table.is_relative ? within_bounds(token_table, t) : token_table.staying;
  std::vector<int32_t>&leaving = share.own, &refused = share.refused;
  std::vector<int32_t> unsure;
  for (int32_t token : token_table.unsure)
    if (staying.has(token)) unsure.push_back(token);
  find_leaving_if_unknown(t, token_table, leaving, unsure);
  std::sort(leaving.begin(), leaving.end());
  auto refuse = [&](int32_t token) {
    if (staying.has(token) || std::binary_search(leaving.begin(), leaving.end(), token)) refused.push_back(token);
  };
  if (ahead) {
    SeenStrings seen_strings(uniqueness.trie(), refuse);
    if (ahead->is_opened)
      seen_strings.visit_inside_string(vocabulary_.quoting_tokens(), ahead->escape, ahead->node);
    else
      seen_strings.visit_before_string(vocabulary_.quoting_tokens(), ahead->node);
    std::erase_if(unsure, [&](int32_t token) {
      return std::ranges::count(vocabulary_.tokens[token], StringProgress::kQuote) < 3;
    });
  } else {
    std::erase_if(unsure, [&](int32_t token) {
      const std::optional<std::string_view> content = whole_string(vocabulary_.tokens[token]);
      return content && uniqueness.has_seen_string(t.mem, *content) == false;
    });
  }
  check_tokens(t, unsure, refused);
  share.staying = &staying;
  share.leaving = &leaving;
  return true;
}

const EntryTokens& MaskBuilder::entry_tokens(const Thread& thread, TokenTable& token_table) {
  Thread thread_with_unknown_values = thread;
  thread_with_unknown_values.mem = arena_.uniqueness().with_noting(thread.mem);
  ThreadMap<EntryTokens>& cached_tokens = entry_tokens_[&token_table];
  if (const EntryTokens* cached = cached_tokens.find(thread_with_unknown_values)) return *cached;
  const TokenSet& staying = token_table.is_relative ? within_bounds(token_table, thread) : token_table.staying;
  EntryTokens built = EntryTokensBuilder(arena_, vocabulary_, alike_tokens_)
                          .build(thread_with_unknown_values, staying, token_table.reads_only_bytes,
                                 [&](auto&& examine, std::vector<int32_t>& unsure) {
                                   each_needed_table(thread, token_table, [&](const TokenTable& needed_table) {
                                     walk_remainders(thread_with_unknown_values, needed_table,
                                                     [&](const Remainder& r, int32_t next_state) {
                                                       if (!at_boundary(arena_, next_state)) return;
                                                       examine(r.token, next_state);
                                                       if (r.touched_entries > 0) unsure.push_back(r.token);
                                                     });
                                   });
                                 });
  arena_.charge(built.bytes());
  return cached_tokens.add(thread_with_unknown_values, std::move(built));
}

// Appends the tokens that end the current entry, which is a string, with a seen string.
void MaskBuilder::find_repeated(const Thread& t, const EntryTokens& entry_tokens, std::vector<int32_t>& refused) {
  Uniqueness& uniqueness = arena_.uniqueness();
  const std::optional<Uniqueness::StringAhead> ahead = uniqueness.string_ahead(t.mem);
  std::vector<int32_t> repeating;
  SeenStrings walk(uniqueness.trie(), [&](int32_t token) { repeating.push_back(token); });
  walk.visit_inside_string(vocabulary_.quoting_tokens(), ahead->escape, ahead->node);
  std::sort(repeating.begin(), repeating.end());
  entry_tokens.each_ending(vocabulary_.tokens,
                           [&](std::string_view text, int32_t scope_depth, const std::vector<int32_t>& tokens) {
                             if (scope_depth != ahead->scope_depth || end_of_string(text, ahead->escape) != text.size())
                               return;
                             for (int32_t token : tokens)
                               if (std::binary_search(repeating.begin(), repeating.end(), token))
                                 refused.push_back(token);
                           });
}

void MaskBuilder::find_refused(const Thread& t, const EntryTokens& entry_tokens, std::vector<int32_t>& refused) {
  Uniqueness& uniqueness = arena_.uniqueness();
  if (entry_tokens.has_many_unsure) {
    each_watched(t, t.mem, [&](int32_t token, int32_t next_state) {
      if (next_state == kDead || !at_boundary(arena_, next_state)) refused.push_back(token);
    });
    std::vector<int32_t> unsure = entry_tokens.unsure_after_end;
    if (!uniqueness.is_reading(t.mem))
      for (const auto* list : {&entry_tokens.unsure, &entry_tokens.unsure_if_alive})
        unsure.insert(unsure.end(), list->begin(), list->end());
    check_tokens(t, unsure, refused);
    return;
  }
  const std::optional<Uniqueness::StringAhead> ahead = uniqueness.string_ahead(t.mem);
  const bool is_in_string = ahead && ahead->is_opened;
  if (is_in_string) find_repeated(t, entry_tokens, refused);
  entry_tokens.each_ending(
      vocabulary_.tokens, [&](std::string_view text, int32_t scope_depth, const std::vector<int32_t>& tokens) {
        if (is_in_string && scope_depth == ahead->scope_depth && end_of_string(text, ahead->escape) == text.size())
          return;
        if (!uniqueness.may_become_seen_at(t.mem, scope_depth)) return;
        if (arena_.step_text(arena_.state_of_thread(t), text) == kDead)
          refused.insert(refused.end(), tokens.begin(), tokens.end());
      });
  for (const EntryTokens::WholeEntry& whole_entry : entry_tokens.whole_entries)
    if (uniqueness.has_seen(t.mem, whole_entry.value)) refused.push_back(whole_entry.token);
  std::vector<int32_t> unsure = entry_tokens.unsure;
  if (uniqueness.may_become_seen(t.mem))
    unsure.insert(unsure.end(), entry_tokens.unsure_if_alive.begin(), entry_tokens.unsure_if_alive.end());
  check_tokens(t, unsure, refused);
}

const MaskBuilder::Share& MaskBuilder::share_of(const Thread& t, TokenTable& token_table) {
  if (const Share* cached = shares_.find(t)) return *cached;
  Share& share = shares_.add(t, {});
  if (!arena_.unbounded().has_only_unbounded_entries() || !compute_string_share(t, token_table, share)) {
    const EntryTokens& tokens = entry_tokens(t, token_table);
    share.own.clear();
    share.staying = tokens.staying;
    share.leaving = &tokens.leaving;
    share.refused = tokens.refused;
    find_refused(t, tokens, share.refused);
    std::erase_if(share.refused, [&](int32_t token) {
      return !tokens.staying->has(token) && !std::binary_search(tokens.leaving.begin(), tokens.leaving.end(), token);
    });
  }
  std::sort(share.refused.begin(), share.refused.end());
  arena_.charge(sizeof(Share) + 64 + (share.own.size() + share.refused.size()) * 4);
  return share;
}

// A token is refused only if no thread allows it.
void MaskBuilder::add_shares(const std::vector<const Share*>& shares, MaskRecipe& out) const {
  auto is_allowed_by_others = [&](int32_t token, const Share* excluded) {
    return std::any_of(shares.begin(), shares.end(),
                       [&](const Share* s) { return s != excluded && s->allows(token); }) ||
           std::any_of(out.dense.begin(), out.dense.end(),
                       [&](const uint32_t* row) { return row[token >> 5] >> (token & 31) & 1; });
  };
  std::sort(out.sparse.begin(), out.sparse.end());
  for (const Share* s : shares) {
    CallMeter::work(std::ssize(s->refused) * std::ssize(shares));
    for (int32_t token : s->refused)
      if (!std::binary_search(out.sparse.begin(), out.sparse.end(), token) && !is_allowed_by_others(token, s))
        out.refused.push_back(token);
  }
  for (const Share* s : shares) {
    out.add(*s->staying);
    if (!s->leaving->empty()) out.lists.push_back(s->leaving);
  }
}

}  // namespace guided
