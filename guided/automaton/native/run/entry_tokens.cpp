#include "run/entry_tokens.hpp"

#include <algorithm>

#include "run/trie_walk.hpp"

namespace guided {

size_t EntryTokens::bytes() const {
  size_t n = sizeof(EntryTokens) + whole_entries.size() * sizeof(WholeEntry) + closings.size() * sizeof(Closing);
  for (const auto* list : {&leaving, &refused, &unsure, &unsure_if_alive, &unsure_after_end}) n += list->size() * 4;
  for (const Ending& e : endings) n += sizeof(Ending) + e.text.size() + e.tokens.size() * 4;
  return n;
}

// Whether only tokens with a quotation mark can end an entry, because the thread is in an unbounded string.
bool EntryTokensBuilder::only_quotes_end_entries(const Thread& thread) {
  return arena_.is_in_unbounded_string(thread.pos);
}

// Whether tokens that stay in the frame touch no entry and can always continue.
bool EntryTokensBuilder::touches_no_entry(const Thread& thread) {
  if (arena_.uniqueness().is_in_entry(thread.mem) || arena_.uniqueness().scope_between_entries(thread.mem) < 0)
    return false;
  const Grammar& g = arena_.grammar();
  return g.all_reachable(g.positions[thread.pos].rule,
                         [](const Rule& rule) { return !rule.keeps && rule.kind != RuleKind::Set; });
}

// Whether a thread can continue after a text, whatever has been seen. The text must lead along byte edges only.
bool EntryTokensBuilder::continues_after(Thread thread, const std::string& text) {
  for (char c : text) thread.pos = arena_.grammar().step(thread.pos, static_cast<uint8_t>(c));
  return arena_.surely_continues(thread);
}

const AlikeTokens& EntryTokensBuilder::alike_tokens(const Thread& thread, const TokenSet& staying, size_t count) {
  auto [it, inserted] = alike_tokens_.try_emplace({&staying, thread.pos, thread.reg});
  AlikeTokens& out = it->second;
  if (!inserted) return out;
  std::map<int32_t, std::vector<int32_t>> by_state;
  size_t token_count = 0;
  auto add = [&](int32_t token, int32_t state) {
    if (!staying.has(token)) return;
    ++token_count;
    const bool touches_nothing = state != kDead && std::ranges::all_of(arena_.config(state), [&](const Thread& t) {
                                   return t.mem == kUnknownSet;
                                 });
    (touches_nothing ? by_state[state] : out.others).push_back(token);
  };
  const int32_t start = arena_.state_of_thread({thread.pos, thread.reg, kTop, kUnknownSet});
  const TokenTrie& trie = vocabulary_.trie;
  if (count == 0) {
    for (int32_t token : vocabulary_.quoting_tokens().all)
      add(token, arena_.step_text(start, vocabulary_.tokens[token]));
  } else {
    walk_trie(arena_, trie, start, [&](const TokenTrie::Node& node, int32_t state) {
      if (!at_boundary(arena_, state)) return;
      for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) add(trie.payloads()[i], state);
    });
    if (token_count != count) {
      by_state.clear();
      out.others.clear();
      staying.each([&](int32_t token) { out.others.push_back(token); });
    }
  }
  size_t stored_count = out.others.size();
  for (auto& [state, tokens] : by_state) {
    stored_count += tokens.size();
    out.lists.push_back(std::make_shared<const std::vector<int32_t>>(std::move(tokens)));
  }
  arena_.charge(128 + 64 * out.lists.size() + 4 * stored_count);
  return out;
}

// Examines one of the tokens and applies the result to all of them. Returns false, without a result, if one token is
// not enough.
bool EntryTokensBuilder::examine_together(const std::shared_ptr<const std::vector<int32_t>>& tokens, EntryTokens& out) {
  const int32_t token = tokens->front();
  EntryTokens result;
  examine(token, arena_.step_text(start_state_, vocabulary_.tokens[token]), result);
  const bool ends_at_last_byte = std::ranges::all_of(
      result.endings, [&](const EntryTokens::Ending& e) { return e.text.size() == vocabulary_.tokens[token].size(); });
  if (!result.whole_entries.empty() || !ends_at_last_byte) return false;
  for (const EntryTokens::Ending& e : result.endings) out.closings.push_back({e.scope_depth, tokens});
  auto append_all_if = [&](const std::vector<int32_t>& found_tokens, std::vector<int32_t>& list) {
    if (!found_tokens.empty()) list.insert(list.end(), tokens->begin(), tokens->end());
  };
  append_all_if(result.refused, out.refused);
  append_all_if(result.unsure, out.unsure);
  append_all_if(result.unsure_if_alive, out.unsure_if_alive);
  append_all_if(result.unsure_after_end, out.unsure_after_end);
  return true;
}

void EntryTokensBuilder::examine(int32_t token, int32_t state, EntryTokens& out) {
  if (state == kDead) {
    out.refused.push_back(token);
    return;
  }
  const Uniqueness& uniqueness = arena_.uniqueness();
  const Config& c = arena_.config(state);
  const int32_t notes = uniqueness.notes(c.threads[0].mem);
  bool is_any_sure = false, have_equal_notes = true, continues_if_new = false, has_any_ended = false;
  for (const Thread& t : c) {
    const bool continues = arena_.surely_continues(t);
    const bool has_no_ended_entry = t.pos != kExit && uniqueness.noted_values(uniqueness.notes(t.mem)).empty();
    if (continues && has_no_ended_entry) return;  // this thread can continue, whatever has been seen
    continues_if_new |= has_no_ended_entry && uniqueness.has_no_new_entry(t.mem) && arena_.surely_continues(t, true);
    is_any_sure |= continues;
    has_any_ended |= !has_no_ended_entry;
    have_equal_notes &= uniqueness.notes(t.mem) == notes;
  }
  const std::vector<Uniqueness::WrittenValue> ended_values = uniqueness.noted_values(notes);
  // An unknown value may equal another value of its scope.
  auto shares_scope = [&](const Uniqueness::WrittenValue& value) {
    return std::ranges::count_if(ended_values, [&](const auto& other) { return other.first == value.first; }) > 1;
  };
  const bool has_ambiguous_value = std::ranges::any_of(
      ended_values, [&](const auto& value) { return value.second == Uniqueness::kUnknown && shares_scope(value); });
  if (!is_any_sure || !have_equal_notes || has_ambiguous_value) {
    (continues_if_new ? out.unsure_if_alive : out.unsure).push_back(token);
    if (has_any_ended) out.unsure_after_end.push_back(token);
    return;
  }
  for (const Uniqueness::WrittenValue& value : ended_values) {
    if (value.second == Uniqueness::kUnknown)
      add_ending(token, value.first, out);
    else
      out.whole_entries.push_back({value, token});
  }
}

// Examines the tokens that may end an entry. In a string, they contain a quotation mark. Elsewhere, a token with
// exactly one quotation mark is skipped, because it begins a string without ending it. Few tokens are examined: this
// function is called if there are many tokens, and then nearly all of them read a string.
void EntryTokensBuilder::examine_ends(const Thread& thread, const TokenSet& staying, EntryTokens& out) {
  if (!arena_.uniqueness().may_run_out) return;
  const bool is_in_string = arena_.is_in_string(thread.pos);
  staying.each([&](int32_t token) {
    const std::string& text = vocabulary_.tokens[token];
    const auto quote_count = std::ranges::count(text, StringProgress::kQuote);
    if (is_in_string ? quote_count > 0 : quote_count != 1) examine(token, arena_.step_text(start_state_, text), out);
  });
}

void EntryTokensBuilder::add_ending(int32_t token, int32_t scope_depth, EntryTokens& out) {
  std::string text = text_to_entry_end(token, scope_depth);
  for (EntryTokens::Ending& e : out.endings) {
    if (e.scope_depth != scope_depth || e.text != text) continue;
    e.tokens.push_back(token);
    return;
  }
  out.endings.push_back({std::move(text), scope_depth, {token}});
}

// The prefix of a token after which all threads have ended the entry.
std::string EntryTokensBuilder::text_to_entry_end(int32_t token, int32_t scope_depth) {
  const Uniqueness& uniqueness = arena_.uniqueness();
  const std::string& text = vocabulary_.tokens[token];
  auto has_ended = [&](const Thread& t) {
    for (const Uniqueness::WrittenValue& value : uniqueness.noted_values(uniqueness.notes(t.mem)))
      if (value.first == scope_depth && value.second == Uniqueness::kUnknown) return true;
    return false;
  };
  int32_t state = start_state_;
  for (size_t i = 0; i < text.size(); ++i) {
    state = arena_.step(state, static_cast<uint8_t>(text[i]));
    const Config& c = arena_.config(state);
    if (std::all_of(c.begin(), c.end(), has_ended)) return text.substr(0, i + 1);
  }
  return text;
}

}  // namespace guided
