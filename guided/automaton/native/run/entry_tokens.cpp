#include "run/entry_tokens.hpp"

#include <algorithm>

#include "run/trie_walk.hpp"

namespace guided {

size_t EntryTokens::bytes() const {
  size_t n = sizeof(EntryTokens) + whole.size() * sizeof(Whole) + closings.size() * sizeof(Closing);
  for (const auto* list : {&leaving, &refused, &unsure, &unsure_if_alive, &unsure_after_end}) n += list->size() * 4;
  for (const Ending& e : endings) n += sizeof(Ending) + e.text.size() + e.tokens.size() * 4;
  return n;
}

// Whether only tokens with a quotation mark can end an entry, because the thread is in an unbounded string.
bool EntryTokensBuilder::ends_with_quote(const Thread& thread) { return arena_.in_unbounded_string(thread.pos); }

// Whether tokens that stay in the frame touch no entry, and can always continue.
bool EntryTokensBuilder::is_quiet(const Thread& thread) {
  if (arena_.uniqueness().in_entry(thread.mem) || arena_.uniqueness().between(thread.mem) < 0) return false;
  const Grammar& g = arena_.grammar();
  return g.all_reachable(g.positions[thread.pos].rule,
                         [](const Rule& rule) { return !rule.keeps && rule.kind != RuleKind::Set; });
}

// Whether a thread can continue after a text, whatever was seen. The text must meet nothing but bytes.
bool EntryTokensBuilder::goes_on_within(Thread thread, const std::string& text) {
  for (char c : text) thread.pos = arena_.grammar().step(thread.pos, static_cast<uint8_t>(c));
  return arena_.goes_on_surely(thread);
}

const AlikeTokens& EntryTokensBuilder::alike(const Thread& thread, const TokenSet& staying, size_t count) {
  auto [it, inserted] = alike_.try_emplace({&staying, thread.pos, thread.reg});
  AlikeTokens& out = it->second;
  if (!inserted) return out;
  std::map<int32_t, std::vector<int32_t>> by_state;
  size_t token_count = 0;
  auto add = [&](int32_t token, int32_t state) {
    if (!staying.has(token)) return;
    ++token_count;
    const bool untouched = state != kDead && std::ranges::all_of(arena_.config(state),
                                                                 [&](const Thread& t) { return t.mem == kUnknownSet; });
    (untouched ? by_state[state] : out.others).push_back(token);
  };
  const int32_t from = arena_.lone({thread.pos, thread.reg, kTop, kUnknownSet});
  const TokenTrie& trie = vocabulary_.trie;
  if (count == 0) {
    for (int32_t token : vocabulary_.quoting().all) add(token, arena_.step_text(from, vocabulary_.tokens[token]));
  } else {
    walk_trie(arena_, trie, from, [&](const TokenTrie::Node& node, int32_t state) {
      if (!at_boundary(arena_, state)) return;
      for (int32_t i = node.payload_lo; i < node.payload_hi; ++i) add(trie.payloads()[i], state);
    });
    if (token_count != count) {
      by_state.clear();
      out.others.clear();
      staying.each([&](int32_t token) { out.others.push_back(token); });
    }
  }
  size_t kept = out.others.size();
  for (auto& [state, tokens] : by_state) {
    kept += tokens.size();
    out.lists.push_back(std::make_shared<const std::vector<int32_t>>(std::move(tokens)));
  }
  arena_.charge(128 + 64 * out.lists.size() + 4 * kept);
  return out;
}

// Examines one of the tokens, and applies the result to all. Returns false, with no result, if one is not enough.
bool EntryTokensBuilder::look_at_all(const std::shared_ptr<const std::vector<int32_t>>& tokens, EntryTokens& out) {
  const int32_t token = tokens->front();
  EntryTokens one;
  look(token, arena_.step_text(from_, vocabulary_.tokens[token]), one);
  const bool at_last = std::ranges::all_of(
      one.endings, [&](const EntryTokens::Ending& e) { return e.text.size() == vocabulary_.tokens[token].size(); });
  if (!one.whole.empty() || !at_last) return false;
  for (const EntryTokens::Ending& e : one.endings) out.closings.push_back({e.around, tokens});
  auto all_to = [&](const std::vector<int32_t>& found, std::vector<int32_t>& list) {
    if (!found.empty()) list.insert(list.end(), tokens->begin(), tokens->end());
  };
  all_to(one.refused, out.refused);
  all_to(one.unsure, out.unsure);
  all_to(one.unsure_if_alive, out.unsure_if_alive);
  all_to(one.unsure_after_end, out.unsure_after_end);
  return true;
}

void EntryTokensBuilder::look(int32_t token, int32_t after, EntryTokens& out) {
  if (after == kDead) {
    out.refused.push_back(token);
    return;
  }
  const Uniqueness& uniqueness = arena_.uniqueness();
  const Config& c = arena_.config(after);
  const int32_t notes = uniqueness.notes(c.threads[0].mem);
  bool sure = false, alike = true, once_new = false, any_ended = false;
  for (const Thread& t : c) {
    const bool goes_on = arena_.goes_on_surely(t);
    const bool clean = t.pos != kExit && uniqueness.noted(uniqueness.notes(t.mem)).empty();
    if (goes_on && clean) return;  // this thread can continue whatever was seen
    once_new |= clean && uniqueness.none_begun(t.mem) && arena_.goes_on_surely(t, true);
    sure |= goes_on;
    any_ended |= !clean;
    alike &= uniqueness.notes(t.mem) == notes;
  }
  const std::vector<Uniqueness::Written> ended = uniqueness.noted(notes);
  auto several = [&](const Uniqueness::Written& one) {  // an unknown value may equal another one
    return std::ranges::count_if(ended, [&](const auto& other) { return other.first == one.first; }) > 1;
  };
  const bool unknown =
      std::ranges::any_of(ended, [&](const auto& one) { return one.second == Uniqueness::kUnknown && several(one); });
  if (!sure || !alike || unknown) {
    (once_new ? out.unsure_if_alive : out.unsure).push_back(token);
    if (any_ended) out.unsure_after_end.push_back(token);
    return;
  }
  for (const Uniqueness::Written& one : ended) {
    if (one.second == Uniqueness::kUnknown)
      end(token, one.first, out);
    else
      out.whole.push_back({one, token});
  }
}

// Looks at the tokens that may end an entry. A string ends with a quotation mark. Of many tokens, nearly all are in one.
void EntryTokensBuilder::look_for_ends(const Thread& thread, const TokenSet& staying, EntryTokens& out) {
  if (!arena_.uniqueness().run_out) return;
  const bool in_string = arena_.in_string(thread.pos);
  staying.each([&](int32_t token) {
    const std::string& text = vocabulary_.tokens[token];
    const auto quotes = std::ranges::count(text, StringProgress::kQuote);
    if (in_string ? quotes > 0 : quotes != 1) look(token, arena_.step_text(from_, text), out);
  });
}

void EntryTokensBuilder::end(int32_t token, int32_t around, EntryTokens& out) {
  std::string text = text_to_end(token, around);
  for (EntryTokens::Ending& e : out.endings) {
    if (e.around != around || e.text != text) continue;
    e.tokens.push_back(token);
    return;
  }
  out.endings.push_back({std::move(text), around, {token}});
}

// The prefix of a token after which all threads have ended the entry.
std::string EntryTokensBuilder::text_to_end(int32_t token, int32_t around) {
  const Uniqueness& uniqueness = arena_.uniqueness();
  const std::string& text = vocabulary_.tokens[token];
  auto ended = [&](const Thread& t) {
    for (const Uniqueness::Written& one : uniqueness.noted(uniqueness.notes(t.mem)))
      if (one.first == around && one.second == Uniqueness::kUnknown) return true;
    return false;
  };
  int32_t state = from_;
  for (size_t i = 0; i < text.size(); ++i) {
    state = arena_.step(state, static_cast<uint8_t>(text[i]));
    const Config& c = arena_.config(state);
    if (std::all_of(c.begin(), c.end(), ended)) return text.substr(0, i + 1);
  }
  return text;
}

}  // namespace guided
