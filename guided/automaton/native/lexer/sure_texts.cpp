#include "lexer/sure_texts.hpp"

#include <algorithm>
#include <numeric>

namespace guided {

namespace {
constexpr size_t kMaxTexts = 64;             // the limit on the texts of one terminal that are tried
constexpr size_t kMaxStates = 4096;          // the limit on the states that a search for texts visits
constexpr size_t kMaxStatesAgain = 1 << 18;  // the limit if the search is repeated
constexpr int kMaxTextsPerState = 4;         // the limit on texts that lead to one state
constexpr int64_t kGuess = 2;                // the guessed tokens of a terminal without a sure text
constexpr size_t kMaxSeparators = 6;         // the limit on separators of one ignored terminal
}  // namespace

SureTexts::SureTexts(Lexemes& lexemes, Competitors& competitors, const TokenVocabulary& vocabulary,
                     const std::vector<int32_t>& control_tokens, const LexerContexts& contexts,
                     const std::vector<uint8_t>& is_used, Followers followers, bool are_balanced, size_t symbols)
    : lexemes_(lexemes),
      competitors_(competitors),
      vocabulary_(vocabulary),
      control_tokens_(control_tokens),
      followers_(std::move(followers)),
      tried_(followers_, contexts, lexemes),
      prefixes_(lexemes, control_tokens),
      harmless_(competitors, lexemes.indentation().newline,
                [this](int32_t t, int32_t next) { return follows_directly(t, next); }) {
  const int32_t count = static_cast<int32_t>(lexemes_.terminals().size());
  for (int32_t t = 0; t < count; ++t) {
    texts_.push_back("");
    const bool is_ignored =
        lexemes_.terminals()[t].is_ignored;  // the parser reads an ignored terminal only as a keyword
    if (!is_used[t] || is_ignored || control_tokens_[t] != kNoTerminal || !vocabulary.byte_complete) continue;
    if (t == lexemes_.indentation().newline) {
      if (lines_.are_sure = are_balanced && is_newline_sure(); lines_.are_sure) texts_[t].assign(1, '\n');
      continue;
    }
    for (std::string& text : find_texts(t, 1)) texts_[t] = std::move(text);
  }
  find_separators();
  const std::vector<std::string> all_texts = texts_;
  weigh_texts();
  if (texts_ != all_texts) {
    texts_ = all_texts;
    allow_harmless_separator();
    weigh_texts();
  }
  for (int32_t t = 0; t < count; ++t) {
    all_sure_ = all_sure_ && (!is_used[t] || weights_[t] < kNever);
    guesses_.push_back(weights_[t] < kNever ? weights_[t] : kGuess);
    if (!texts_[t].empty()) harmless_.add_text(t, texts_[t]);
  }
  store_rests();
  weights_.resize(symbols, kNever);
  guesses_.resize(symbols, kNever);
  if (lexemes_.indentation().is_given) find_lines(symbols);
}

void SureTexts::store_rests() {
  auto store = [&](int32_t number, TerminalAutomaton& automaton, const std::string& text) {
    int32_t state = automaton.start();
    for (size_t i = 1; i < text.size(); ++i) {
      if (state = automaton.step(state, static_cast<uint8_t>(text[i - 1])); state == kDead) return;
      Rests& rests = rests_[pair_key(number, state)];
      if (std::string rest = text.substr(i); std::ranges::find(rests, rest) == rests.end())
        rests.push_back(std::move(rest));
    }
  };
  for (int32_t t = 0; t < static_cast<int32_t>(texts_.size()); ++t) {
    TerminalAutomaton& automaton = lexemes_.terminals()[t].automaton;
    store(t, automaton, texts_[t]);
    if (lexemes_.terminals()[t].is_ignored)
      for (const Separator& separator : separators_) store(t, automaton, separator.text);
  }
  for (int32_t k = 0; k < static_cast<int32_t>(lexemes_.keywords().size()); ++k) {
    LexerKeyword& keyword = lexemes_.keywords()[k];
    store(~k, keyword.automaton, texts_[keyword.terminal]);
  }
}

// Computes `weights_`. Drops the texts that need a separator and have none.
void SureTexts::weigh_texts() {
  weights_.clear();
  for (int32_t t = 0; t < static_cast<int32_t>(texts_.size()); ++t) {
    weights_.push_back(control_tokens_[t] != kNoTerminal ? 1 : kNever);
    if (texts_[t].empty()) continue;
    const int64_t separator_tokens = t == lexemes_.indentation().newline ? 0 : separator_tokens_after(t);
    if (separator_tokens < kNever)
      weights_[t] = tokens_of(texts_[t], vocabulary_)[0] + separator_tokens;
    else
      texts_[t].clear();
  }
}

// Whether newlines are sure (see sure_texts.hpp). Sets `open_in_line_`.
bool SureTexts::is_newline_sure() {
  const int32_t newline = lexemes_.indentation().newline;
  open_in_line_ = open_after("\n ");
  if (open_after("\n  ") != open_in_line_) return false;
  for (const std::pair<int32_t, int32_t>& each : open_after("\n"))
    if (std::ranges::find(open_in_line_, each) == open_in_line_.end()) open_in_line_.push_back(each);
  return is_read_as("\n", newline) && is_read_as("\n ", newline) && is_read_as("\n  ", newline);
}

void SureTexts::find_lines(size_t symbols) {
  const Indentation& indentation = lexemes_.indentation();
  for (int32_t symbol : {indentation.indent, indentation.dedent})
    if (symbol >= indentation.terminals) guesses_[symbol] = weights_[symbol] = 0;
  if (!lines_.are_sure) {
    weights_.assign(symbols, kNever);
    all_sure_ = false;
    return;
  }
  lines_.ends_newline.resize(symbols);
  for (size_t t = 0; t < texts_.size(); ++t)
    lines_.ends_newline[t] = !texts_[t].empty() && all_die_in_text(open_in_line_, texts_[t]);
  space_tokens_ = tokens_of(std::string(static_cast<size_t>(indentation.most_width), ' '), vocabulary_);
  std::ranges::reverse(space_tokens_);
  int64_t max_tokens = 0;
  for (int32_t width = 0; width <= indentation.most_width; ++width)
    lines_.tokens.push_back(max_tokens = std::max(max_tokens, tokens_of_line("\n", width)[0]));
}

std::vector<int64_t> SureTexts::tokens_of_line(std::string_view text, int32_t spaces) const {
  std::vector<int64_t> out(text.size() + 1, kNever);
  out[text.size()] = space_tokens_[spaces];
  for (size_t i = text.size(); i-- > 0;) {
    int32_t node = 0;
    for (size_t k = i; k < text.size() + spaces && node >= 0; ++k) {
      node = vocabulary_.trie.child(node, static_cast<uint8_t>(k < text.size() ? text[k] : ' '));
      if (node < 0) break;
      const TokenTrie::Node& n = vocabulary_.trie.nodes()[node];
      if (n.payload_hi == n.payload_lo) continue;
      const int64_t rest = k < text.size() ? out[k + 1] : space_tokens_[spaces - (k + 1 - text.size())];
      out[i] = std::min(out[i], rest + 1);
    }
  }
  return out;
}

bool SureTexts::may_follow_line(int32_t competitors) {
  if (!lines_.are_sure || competitors == 0) return false;
  if (competitors >= static_cast<int32_t>(may_follow_line_.size())) may_follow_line_.resize(competitors + 1, -1);
  if (may_follow_line_[competitors] < 0)
    may_follow_line_[competitors] = std::ranges::all_of(competitors_.members(competitors), [&](int32_t competitor) {
      return std::ranges::all_of(lexemes_.state(competitor).open_matches, [&](const LexemeState::Match& match) {
        return std::ranges::find(open_in_line_, std::pair(match.number, match.state)) != open_in_line_.end();
      });
    });
  return may_follow_line_[competitors] > 0;
}

std::vector<int64_t> SureTexts::tokens_of(std::string_view text, const TokenVocabulary& vocabulary) {
  std::vector<int64_t> out(text.size() + 1, kNever);
  out[text.size()] = 0;
  for (size_t i = text.size(); i-- > 0;) {
    int32_t node = 0;
    for (size_t k = i; k < text.size() && node >= 0; ++k) {
      node = vocabulary.trie.child(node, static_cast<uint8_t>(text[k]));
      if (node < 0) break;
      const TokenTrie::Node& n = vocabulary.trie.nodes()[node];
      if (n.payload_hi > n.payload_lo) out[i] = std::min(out[i], out[k + 1] + 1);
    }
  }
  return out;
}

// Returns the shortest texts of a terminal that are read as this terminal wherever it is tried. For a union of many
// long texts, a search of kMaxStates states may find no text. Then a second search visits up to kMaxStatesAgain states,
// each once.
std::vector<std::string> SureTexts::find_texts(int32_t terminal, size_t max_texts) {
  bool is_cut = false;
  std::vector<std::string> out = find_texts(terminal, max_texts, kMaxStates, kMaxTextsPerState, is_cut);
  return is_cut ? find_texts(terminal, max_texts, kMaxStatesAgain, 1, is_cut) : out;
}

// `is_cut`: whether the search reached `max_states` before any text ended.
std::vector<std::string> SureTexts::find_texts(int32_t terminal, size_t max_texts, size_t max_states, int max_per_state,
                                               bool& is_cut) {
  struct Beginning {
    int32_t state, parent;  // the index of the beginning without its last byte
    uint8_t byte;
  };
  std::vector<std::string> out;
  TerminalAutomaton& automaton = lexemes_.terminals()[terminal].automaton;
  std::vector<Beginning> beginnings{{.state = automaton.start(), .parent = -1, .byte = 0}};  // grows during the loop
  // How often each state was reached. Its visits are limited, because the texts of one state differ only in how they
  // begin.
  std::unordered_map<int32_t, int> visits;
  size_t tried_count = 0;
  const auto is_within_limit = [&](size_t index) { return index < beginnings.size() && index < max_states; };
  for (size_t index = 0; is_within_limit(index) && tried_count < kMaxTexts && out.size() < max_texts; ++index) {
    const int32_t state = beginnings[index].state;
    if (index > 0 && automaton.matches(state)) {
      std::string text;
      for (auto i = static_cast<int32_t>(index); i > 0; i = beginnings[i].parent)
        text += static_cast<char>(beginnings[i].byte);
      std::ranges::reverse(text);
      if (is_read_as(text, terminal)) out.push_back(std::move(text));
      ++tried_count;
    }
    automaton.bytes(state).each([&](uint8_t byte) {
      const int32_t next = automaton.step(state, byte);
      if (next != kDead && ++visits[next] <= max_per_state)
        beginnings.push_back({.state = next, .parent = static_cast<int32_t>(index), .byte = byte});
    });
  }
  is_cut = tried_count == 0 && beginnings.size() > max_states;
  return out;
}

// Whether the lexer reads all of a text as this terminal, whatever other terminals are tried at the same position. For
// an ignored terminal, only ignored terminals are considered.
bool SureTexts::is_read_as(std::string_view text, int32_t terminal) {
  const bool is_ignored = lexemes_.terminals()[terminal].is_ignored;
  auto is_tried = [&](int32_t t) {
    return is_ignored ? lexemes_.terminals()[t].is_ignored : tried_.tried_with(terminal).has(t);
  };
  auto is_keyword_text = [&](LexerKeyword& keyword) {
    int32_t state = keyword.automaton.start();
    for (char c : text)
      if (state = keyword.automaton.step(state, static_cast<uint8_t>(c)); state == kDead) return false;
    return keyword.automaton.matches(state);
  };
  std::vector<uint8_t> is_host(lexemes_.terminals().size());
  for (LexerKeyword& keyword : lexemes_.keywords()) {
    if (is_ignored || (keyword.host != terminal && keyword.terminal != terminal)) continue;
    // A lexeme of an ignored terminal is never a keyword, and an embedded keyword is not tried separately.
    if (keyword.is_embedded && lexemes_.terminals()[keyword.host].is_ignored) return false;
    if (!is_keyword_text(keyword)) continue;
    if (keyword.host == terminal && is_tried(keyword.terminal)) return false;
    is_host[keyword.host] = !lexemes_.terminals()[keyword.host].is_ignored;
  }
  for (const auto& [t, longest] : prefixes_.longest_matches(text)) {
    if (t > terminal) break;
    if (!is_tried(t)) continue;
    if (t == terminal) return longest == text.size();
    if (!(is_host[t] && longest == text.size())) return false;
  }
  return false;
}

// Returns the terminals that can read the whole text and may match more, with their states.
SureTexts::OpenTerminals SureTexts::open_after(std::string_view text, int32_t tried_with) {
  OpenTerminals out;
  for (const auto& [t, state] : prefixes_.live_terminals(text))
    if ((tried_with == kNoTerminal || tried_.tried_with(tried_with).has(t)) &&
        lexemes_.terminals()[t].automaton.bytes(state).count())
      out.emplace_back(t, state);
  return out;
}

// Whether a terminal that continues from `state` never matches while it reads the text, and is dead after the text.
bool SureTexts::dies_in_text(int32_t terminal, int32_t state, std::string_view text) {
  TerminalAutomaton& automaton = lexemes_.terminals()[terminal].automaton;
  for (char c : text) {
    state = automaton.step(state, static_cast<uint8_t>(c));
    if (state == kDead) return true;
    if (automaton.matches(state)) return false;
  }
  return false;
}

bool SureTexts::all_die_in_text(const OpenTerminals& open, std::string_view text) {
  return std::ranges::all_of(open, [&](const auto& each) { return dies_in_text(each.first, each.second, text); });
}

// ---- separators
void SureTexts::find_separators() {
  const int32_t count = static_cast<int32_t>(texts_.size());
  for (int32_t ignored_terminal = 0; ignored_terminal < count; ++ignored_terminal) {
    if (!lexemes_.terminals()[ignored_terminal].is_ignored || control_tokens_[ignored_terminal] != kNoTerminal)
      continue;
    for (std::string& text : find_texts(ignored_terminal, kMaxSeparators)) {
      Separator separator{.tokens = tokens_of(text, vocabulary_)[0],
                          .text = std::move(text),
                          .shadowing = TerminalSet(texts_.size()),
                          .unended = {},
                          .is_valid = {}};
      for (const auto& [t, longest] : prefixes_.longest_matches(separator.text))
        if (t < ignored_terminal && !lexemes_.terminals()[t].is_ignored) separator.shadowing.add(t);
      for (const auto& [terminal, state] : open_after(separator.text)) {
        TerminalSet next_terminals(texts_.size());
        for (int32_t next = 0; next < count; ++next)
          if (!texts_[next].empty() && next != lexemes_.indentation().newline &&
              !dies_in_text(terminal, state, texts_[next]))
            next_terminals.add(next);
        if (!next_terminals.empty()) separator.unended.push_back({terminal, state, std::move(next_terminals)});
      }
      bool is_valid_everywhere = can_separate(separator, tried_.tried_first(), kNoTerminal);
      for (int32_t t = 0; t < count; ++t) {
        separator.is_valid.push_back(can_separate(separator, tried_.tried_after(t), t));
        is_valid_everywhere = is_valid_everywhere && (separator.is_valid[t] || lexemes_.terminals()[t].is_ignored);
      }
      separator.is_valid.push_back(is_valid_everywhere);
      separators_.push_back(std::move(separator));
    }
  }
  std::ranges::stable_sort(separators_, {}, &Separator::tokens);
}

// Whether the separator can be written where the terminals `tried` are tried. `terminal`: the terminal that was read
// last; kNoTerminal: any terminal. `separators_in_use`: null, or the only separators that completions contain. Then a
// terminal that may match more than the separator is harmless if it never matches in these completions.
bool SureTexts::can_separate(const Separator& separator, const TerminalSet& tried, int32_t terminal,
                             const std::vector<std::string>* separators_in_use) {
  if (separator.shadowing.intersects(tried)) return false;
  return std::ranges::none_of(separator.unended, [&](const Separator::Unended& each) {
    return tried.has(each.terminal) && (terminal == kNoTerminal || each.next.intersects(followers_.row(terminal))) &&
           !(separators_in_use && never_matches(each.terminal, each.state, terminal, *separators_in_use));
  });
}

// Whether a separator may be needed after the text of a terminal. `open`: the terminals that may match more.
bool SureTexts::needs_separator(int32_t terminal, const OpenTerminals& open) {
  for (int32_t t = 0; t < static_cast<int32_t>(texts_.size()); ++t)
    if (!texts_[t].empty() && followers_.can_follow(terminal, t) && !all_die_in_text(open, texts_[t])) return true;
  return false;
}

// The first separator that is valid after the text of a terminal; null if none is.
const SureTexts::Separator* SureTexts::find_separator(int32_t terminal, const OpenTerminals& open) {
  const auto it = std::ranges::find_if(
      separators_, [&](const Separator& each) { return each.is_valid[terminal] && all_die_in_text(open, each.text); });
  return it == separators_.end() ? nullptr : &*it;
}

// Returns the number of tokens that may be needed between the text of a terminal and the next text; kNever if no
// separator is known.
int64_t SureTexts::separator_tokens_after(int32_t terminal) {
  const OpenTerminals open = open_after(texts_[terminal], terminal);
  const int32_t newline = lexemes_.indentation().newline;
  if (newline != kNoTerminal && !texts_[newline].empty() && followers_.can_follow(terminal, newline) &&
      !all_die_in_text(open, texts_[newline]))
    return kNever;
  if (!needs_separator(terminal, open)) return 0;
  const Separator* separator = find_separator(terminal, open);
  if (!separator) return kNever;
  harmless_.add_separator(separator->text);
  return separator->tokens;
}

// `is_harmless`: returns whether the competitors that remain after a separator are harmless.
template <class IsHarmless>
Demand SureTexts::demand_of(int32_t competitors, const std::vector<int32_t>& next, IsHarmless&& is_harmless) {
  if (may_follow_line(competitors)) return {.last = kLine};
  const int32_t hindering_set = harmless_.find_hindering(competitors), newline = lexemes_.indentation().newline;
  auto follows = [&](int32_t t) { return texts_[t].empty() || can_follow(hindering_set, t); };
  const bool allows_newline =
      newline == kNoTerminal || std::ranges::find(next, newline) == next.end() || follows(newline);
  Demand out{.last = allows_newline ? kWord : kSpace};
  if (std::ranges::all_of(next, [&](int32_t t) { return t == newline || follows(t); })) return out;
  for (const Separator& separator : separators_)
    if (const int32_t remaining = competitors_.advance(competitors, separator.text);
        remaining != kDropped && is_harmless(separator, remaining))
      return out.tokens = separator.tokens, out;
  return {.tokens = kNever};
}

Demand SureTexts::demand(int32_t competitors, int32_t terminal) {
  if (competitors == 0) return {};
  auto [it, added] = demands_.try_emplace(pair_key(competitors, terminal));
  if (!added) return it->second;
  std::vector<int32_t> next;
  for (int32_t t = 0; t < static_cast<int32_t>(texts_.size()); ++t)
    if (terminal == kNoTerminal || followers_.can_follow(terminal, t)) next.push_back(t);
  const size_t index = terminal == kNoTerminal ? texts_.size() : static_cast<size_t>(terminal);
  return it->second = demand_of(competitors, next, [&](const Separator& separator, int32_t remaining) {
           return separator.is_valid[index] && !harmless_.find_hindering(remaining);
         });
}

Demand SureTexts::demand(int32_t competitors, const std::vector<int32_t>& next, int32_t start) {
  if (competitors == 0) return {};
  return demand_of(competitors, next, [&](const Separator& separator, int32_t remaining) {
    int32_t lexeme = start;
    for (size_t i = 0; i < separator.text.size() && lexeme != kNoLexeme; ++i)
      lexeme = lexemes_.step(lexeme, static_cast<uint8_t>(separator.text[i]));
    if (lexeme == kNoLexeme || lexemes_.state(lexeme).label == kNoTerminal || !lexemes_.state(lexeme).is_ignored)
      return false;
    const int32_t hindering_set = harmless_.find_hindering(competitors_.add(remaining, lexeme));
    return std::ranges::all_of(next, [&](int32_t t) {
      return texts_[t].empty() || t == lexemes_.indentation().newline || can_follow(hindering_set, t);
    });
  });
}

bool SureTexts::can_follow(int32_t competitors, int32_t terminal) {
  const std::string& text = texts_[terminal];
  const int32_t remaining = text.empty() ? static_cast<int32_t>(kDropped) : competitors_.advance(competitors, text);
  return remaining != kDropped && !harmless_.find_hindering(remaining, terminal);
}

// Whether the text of `next` can directly follow the text of `terminal`.
bool SureTexts::follows_directly(int32_t terminal, int32_t next) {
  auto [it, added] = follows_directly_.try_emplace(pair_key(terminal, next), false);
  if (added && followers_.can_follow(terminal, next))
    it->second = all_die_in_text(open_after(texts_[terminal], terminal), texts_[next]);
  return it->second;
}

}  // namespace guided
