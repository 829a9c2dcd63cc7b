#include "lexer/safe_witnesses.hpp"

#include <algorithm>
#include <numeric>

namespace guided {

namespace {
constexpr size_t kMaxTexts = 64;     // the most texts of one terminal that are tried
constexpr size_t kMaxStates = 4096;  // the most states that the search for them visits
constexpr size_t kManyStates = 1 << 18;
constexpr int kMaxTextsPerState = 4;  // the most texts that lead to one state
constexpr int64_t kGuess = 2;         // the tokens of a terminal without a sure text
constexpr size_t kSeparators = 6;     // the most separators of one ignored terminal
}  // namespace

SafeWitnesses::SafeWitnesses(Lexemes& lexemes, CompetingTerminals& competing, const TokenVocabulary& vocabulary,
                             const std::vector<int32_t>& control, const LexerContexts& contexts,
                             const std::vector<uint8_t>& used, Followers followers, bool balanced, size_t symbols)
    : lexemes_(lexemes),
      competing_(competing),
      vocabulary_(vocabulary),
      control_(control),
      followers_(std::move(followers)),
      tried_(followers_, contexts, lexemes),
      prefixes_(lexemes, control),
      enduring_(competing, lexemes.indentation().newline,
                [this](int32_t t, int32_t next) { return follows_directly(t, next); }) {
  const int32_t count = static_cast<int32_t>(lexemes_.terminals().size());
  for (int32_t t = 0; t < count; ++t) {
    texts_.push_back("");
    const bool ignored = lexemes_.terminals()[t].ignored;  // the parser gets such a terminal only as a keyword
    if (!used[t] || ignored || control_[t] != kNoTerminal || !vocabulary.byte_complete) continue;
    if (t == lexemes_.indentation().newline) {
      if (lines_.sure = balanced && finds_newline(); lines_.sure) texts_[t].assign(1, '\n');
      continue;
    }
    for (std::string& text : texts_of(t, 1)) texts_[t] = std::move(text);
  }
  find_separators();
  for (int32_t t = 0; t < count; ++t) {
    weights_.push_back(control_[t] != kNoTerminal ? 1 : kNever);
    if (!texts_[t].empty()) {
      const int64_t gap = t == lexemes_.indentation().newline ? 0 : gap_after(t);
      if (gap < kNever)
        weights_[t] = tokens_of(texts_[t], vocabulary_)[0] + gap;
      else
        texts_[t].clear();
    }
    all_ = all_ && (!used[t] || weights_[t] < kNever);
    guesses_.push_back(weights_[t] < kNever ? weights_[t] : kGuess);
    if (!texts_[t].empty()) enduring_.add_text(t, texts_[t]);
  }
  weights_.resize(symbols, kNever);
  guesses_.resize(symbols, kNever);
  if (lexemes_.indentation().given) find_lines(symbols);
}

// Whether newlines are sure: see the head of safe_witnesses.hpp.
bool SafeWitnesses::finds_newline() {
  const int32_t newline = lexemes_.indentation().newline;
  open_in_line_ = open_after("\n ");
  if (open_after("\n  ") != open_in_line_) return false;
  for (const std::pair<int32_t, int32_t>& each : open_after("\n"))
    if (std::ranges::find(open_in_line_, each) == open_in_line_.end()) open_in_line_.push_back(each);
  return is_read_as("\n", newline) && is_read_as("\n ", newline) && is_read_as("\n  ", newline);
}

void SafeWitnesses::find_lines(size_t symbols) {
  const Indentation& indentation = lexemes_.indentation();
  for (int32_t symbol : {indentation.indent, indentation.dedent})
    if (symbol >= indentation.terminals) guesses_[symbol] = weights_[symbol] = 0;
  if (!lines_.sure) {
    weights_.assign(symbols, kNever);
    all_ = false;
    return;
  }
  lines_.follow.resize(symbols);
  for (size_t t = 0; t < texts_.size(); ++t)
    lines_.follow[t] = !texts_[t].empty() && leave_nothing(open_in_line_, texts_[t]);
  spaces_ = tokens_of(std::string(static_cast<size_t>(indentation.most_width), ' '), vocabulary_);
  std::ranges::reverse(spaces_);
  int64_t most = 0;
  for (int32_t width = 0; width <= indentation.most_width; ++width)
    lines_.tokens.push_back(most = std::max(most, tokens_of_line("\n", width)[0]));
}

std::vector<int64_t> SafeWitnesses::tokens_of_line(std::string_view text, int32_t spaces) const {
  std::vector<int64_t> out(text.size() + 1, kNever);
  out[text.size()] = spaces_[spaces];
  for (size_t i = text.size(); i-- > 0;) {
    int32_t node = 0;
    for (size_t k = i; k < text.size() + spaces && node >= 0; ++k) {
      node = vocabulary_.trie.child(node, static_cast<uint8_t>(k < text.size() ? text[k] : ' '));
      if (node < 0) break;
      const TokenTrie::Node& at = vocabulary_.trie.nodes()[node];
      if (at.payload_hi == at.payload_lo) continue;
      const int64_t rest = k < text.size() ? out[k + 1] : spaces_[spaces - (k + 1 - text.size())];
      out[i] = std::min(out[i], rest + 1);
    }
  }
  return out;
}

bool SafeWitnesses::is_line(int32_t competing) {
  if (!lines_.sure || competing == 0) return false;
  if (competing >= static_cast<int32_t>(is_line_.size())) is_line_.resize(competing + 1, -1);
  if (is_line_[competing] < 0)
    is_line_[competing] = std::ranges::all_of(competing_.of(competing), [&](int32_t competitor) {
      return std::ranges::all_of(lexemes_.state(competitor).open, [&](const LexemeState::Match& match) {
        return std::ranges::find(open_in_line_, std::pair(match.of, match.state)) != open_in_line_.end();
      });
    });
  return is_line_[competing] > 0;
}

std::vector<int64_t> SafeWitnesses::tokens_of(std::string_view text, const TokenVocabulary& vocabulary) {
  std::vector<int64_t> out(text.size() + 1, kNever);
  out[text.size()] = 0;
  for (size_t i = text.size(); i-- > 0;) {
    int32_t node = 0;
    for (size_t k = i; k < text.size() && node >= 0; ++k) {
      node = vocabulary.trie.child(node, static_cast<uint8_t>(text[k]));
      if (node < 0) break;
      const TokenTrie::Node& at = vocabulary.trie.nodes()[node];
      if (at.payload_hi > at.payload_lo) out[i] = std::min(out[i], out[k + 1] + 1);
    }
  }
  return out;
}

// The shortest texts of a terminal that are read as this terminal wherever it is tried. In a union of many long texts,
// none may end within kMaxStates. Then the search goes on to kManyStates, and visits each state once.
std::vector<std::string> SafeWitnesses::texts_of(int32_t terminal, size_t most) {
  bool is_cut = false;
  std::vector<std::string> out = texts_of(terminal, most, kMaxStates, kMaxTextsPerState, is_cut);
  return is_cut ? texts_of(terminal, most, kManyStates, 1, is_cut) : out;
}

// `is_cut`: whether the search reached `most_states` before any text ended.
std::vector<std::string> SafeWitnesses::texts_of(int32_t terminal, size_t most, size_t most_states, int most_of_state,
                                                 bool& is_cut) {
  struct Beginning {
    int32_t state, before;  // the index of the beginning without its last byte
    uint8_t byte;
  };
  std::vector<std::string> out;
  TerminalAutomaton& automaton = lexemes_.terminals()[terminal].automaton;
  std::vector<Beginning> beginnings{{.state = automaton.start(), .before = -1, .byte = 0}};  // grows during the loop
  std::unordered_map<int32_t, int> visits;  // visits by state: the texts of one state differ only in how they begin
  size_t tried = 0;
  const auto looks_on = [&](size_t index) { return index < beginnings.size() && index < most_states; };
  for (size_t index = 0; looks_on(index) && tried < kMaxTexts && out.size() < most; ++index) {
    const int32_t state = beginnings[index].state;
    if (index > 0 && automaton.matches(state)) {
      std::string text;
      for (auto at = static_cast<int32_t>(index); at > 0; at = beginnings[at].before)
        text += static_cast<char>(beginnings[at].byte);
      std::ranges::reverse(text);
      if (is_read_as(text, terminal)) out.push_back(std::move(text));
      ++tried;
    }
    automaton.bytes(state).each([&](uint8_t byte) {
      const int32_t after = automaton.step(state, byte);
      if (after != kDead && ++visits[after] <= most_of_state)
        beginnings.push_back({.state = after, .before = static_cast<int32_t>(index), .byte = byte});
    });
  }
  is_cut = tried == 0 && beginnings.size() > most_states;
  return out;
}

// Whether the lexer reads all of a text as this terminal, whatever other terminals are tried at the same position. For
// an ignored terminal, only ignored terminals are considered.
bool SafeWitnesses::is_read_as(std::string_view text, int32_t terminal) {
  const bool ignored = lexemes_.terminals()[terminal].ignored;
  auto is_tried = [&](int32_t t) {
    return ignored ? lexemes_.terminals()[t].ignored : tried_.tried_with(terminal).has(t);
  };
  auto in_keyword = [&](LexerKeyword& keyword) {
    int32_t state = keyword.automaton.start();
    for (char c : text)
      if (state = keyword.automaton.step(state, static_cast<uint8_t>(c)); state == kDead) return false;
    return keyword.automaton.matches(state);
  };
  std::vector<uint8_t> is_host(lexemes_.terminals().size());
  for (LexerKeyword& keyword : lexemes_.keywords()) {
    if (ignored || (keyword.of != terminal && keyword.terminal != terminal)) continue;
    // A lexeme of an ignored terminal is no keyword, and an embedded keyword is not tried by itself.
    if (keyword.embedded && lexemes_.terminals()[keyword.of].ignored) return false;
    if (!in_keyword(keyword)) continue;
    if (keyword.of == terminal && is_tried(keyword.terminal)) return false;
    is_host[keyword.of] = !lexemes_.terminals()[keyword.of].ignored;
  }
  for (const auto& [t, longest] : prefixes_.longest_matches(text)) {
    if (t > terminal) break;
    if (!is_tried(t)) continue;
    if (t == terminal) return longest == text.size();
    if (!(is_host[t] && longest == text.size())) return false;
  }
  return false;
}

// The terminals that can read all of the text and may match more, with their states.
SafeWitnesses::Open SafeWitnesses::open_after(std::string_view text, int32_t tried_with) {
  Open out;
  for (const auto& [t, state] : prefixes_.alive(text))
    if ((tried_with == kNoTerminal || tried_.tried_with(tried_with).has(t)) &&
        lexemes_.terminals()[t].automaton.bytes(state).count())
      out.emplace_back(t, state);
  return out;
}

// Whether a terminal that continues from `state` matches nowhere in the text, and is dead after it.
bool SafeWitnesses::leaves_nothing(int32_t of, int32_t state, std::string_view text) {
  TerminalAutomaton& automaton = lexemes_.terminals()[of].automaton;
  for (char c : text) {
    state = automaton.step(state, static_cast<uint8_t>(c));
    if (state == kDead) return true;
    if (automaton.matches(state)) return false;
  }
  return false;
}

bool SafeWitnesses::leave_nothing(const Open& open, std::string_view text) {
  return std::ranges::all_of(open, [&](const auto& each) { return leaves_nothing(each.first, each.second, text); });
}

// ---- separators
void SafeWitnesses::find_separators() {
  const int32_t count = static_cast<int32_t>(texts_.size());
  for (int32_t of = 0; of < count; ++of) {
    if (!lexemes_.terminals()[of].ignored || control_[of] != kNoTerminal) continue;
    for (std::string& text : texts_of(of, kSeparators)) {
      Separator separator{.tokens = tokens_of(text, vocabulary_)[0],
                          .text = std::move(text),
                          .shadows = TerminalSet(texts_.size()),
                          .hindered = {},
                          .valid = {}};
      for (const auto& [t, longest] : prefixes_.longest_matches(separator.text))
        if (t < of && !lexemes_.terminals()[t].ignored) separator.shadows.add(t);
      for (const auto& [terminal, state] : open_after(separator.text)) {
        TerminalSet by(texts_.size());
        for (int32_t next = 0; next < count; ++next)
          if (!texts_[next].empty() && next != lexemes_.indentation().newline &&
              !leaves_nothing(terminal, state, texts_[next]))
            by.add(next);
        if (!by.empty()) separator.hindered.emplace_back(terminal, std::move(by));
      }
      bool everywhere = can_separate(separator, tried_.in_the_beginning(), kNoTerminal);
      for (int32_t t = 0; t < count; ++t) {
        separator.valid.push_back(can_separate(separator, tried_.behind(t), t));
        everywhere = everywhere && (separator.valid[t] || lexemes_.terminals()[t].ignored);
      }
      separator.valid.push_back(everywhere);
      separators_.push_back(std::move(separator));
    }
  }
  std::ranges::stable_sort(separators_, {}, &Separator::tokens);
}

// Whether the separator works where `tried` are tried. `terminal`: what was read last; kNoTerminal: anything.
bool SafeWitnesses::can_separate(const Separator& separator, const TerminalSet& tried, int32_t terminal) const {
  if (separator.shadows.meets(tried)) return false;
  return std::ranges::none_of(separator.hindered, [&](const auto& each) {
    return tried.has(each.first) && (terminal == kNoTerminal || each.second.meets(followers_.row(terminal)));
  });
}

// The tokens that may be needed between the text of a terminal and the next text; kNever: no separator is known.
int64_t SafeWitnesses::gap_after(int32_t terminal) {
  const Open open = open_after(texts_[terminal], terminal);
  bool needed = false;
  for (int32_t t = 0; t < static_cast<int32_t>(texts_.size()); ++t) {
    if (texts_[t].empty() || !followers_.can_follow(terminal, t) || leave_nothing(open, texts_[t])) continue;
    if (t == lexemes_.indentation().newline) return kNever;
    needed = true;
  }
  if (!needed) return 0;
  for (const Separator& separator : separators_) {
    if (!separator.valid[terminal] || !leave_nothing(open, separator.text)) continue;
    enduring_.add_separator(separator.text);
    return separator.tokens;
  }
  return kNever;
}

// `separate`: whether the competing terminals that are left after a separator are harmless.
template <class Separate>
Demand SafeWitnesses::demand_of(int32_t competing, const std::vector<int32_t>& next, Separate&& separate) {
  if (is_line(competing)) return {.last = kLine};
  const int32_t left = enduring_.hindering(competing), newline = lexemes_.indentation().newline;
  auto follows = [&](int32_t t) { return texts_[t].empty() || can_follow(left, t); };
  const bool lines = newline == kNoTerminal || std::ranges::find(next, newline) == next.end() || follows(newline);
  Demand out{.last = lines ? kWord : kSpace};
  if (std::ranges::all_of(next, [&](int32_t t) { return t == newline || follows(t); })) return out;
  for (const Separator& separator : separators_)
    if (const int32_t after = competing_.advance(competing, separator.text);
        after != kDropped && separate(separator, after))
      return out.tokens = separator.tokens, out;
  return {.tokens = kNever};
}

Demand SafeWitnesses::demand(int32_t competing, int32_t terminal) {
  if (competing == 0) return {};
  auto [known, added] = demands_.try_emplace(pair_key(competing, terminal));
  if (!added) return known->second;
  std::vector<int32_t> next;
  for (int32_t t = 0; t < static_cast<int32_t>(texts_.size()); ++t)
    if (terminal == kNoTerminal || followers_.can_follow(terminal, t)) next.push_back(t);
  const size_t at = terminal == kNoTerminal ? texts_.size() : static_cast<size_t>(terminal);
  return known->second = demand_of(competing, next, [&](const Separator& separator, int32_t after) {
           return separator.valid[at] && !enduring_.hindering(after);
         });
}

Demand SafeWitnesses::demand(int32_t competing, const std::vector<int32_t>& next, int32_t start) {
  if (competing == 0) return {};
  return demand_of(competing, next, [&](const Separator& separator, int32_t after) {
    int32_t lexeme = start;
    for (size_t i = 0; i < separator.text.size() && lexeme != kNoLexeme; ++i)
      lexeme = lexemes_.step(lexeme, static_cast<uint8_t>(separator.text[i]));
    if (lexeme == kNoLexeme || lexemes_.state(lexeme).label == kNoTerminal || !lexemes_.state(lexeme).ignored)
      return false;
    const int32_t left = enduring_.hindering(competing_.add(after, lexeme));
    return std::ranges::all_of(next, [&](int32_t t) {
      return texts_[t].empty() || t == lexemes_.indentation().newline || can_follow(left, t);
    });
  });
}

bool SafeWitnesses::can_follow(int32_t competing, int32_t terminal) {
  const std::string& text = texts_[terminal];
  const int32_t after = text.empty() ? static_cast<int32_t>(kDropped) : competing_.advance(competing, text);
  return after != kDropped && !enduring_.hindering(after, terminal);
}

// Whether the text of `next` can directly follow the text of `terminal`.
bool SafeWitnesses::follows_directly(int32_t terminal, int32_t next) {
  auto [at, added] = follows_directly_.try_emplace(pair_key(terminal, next), false);
  if (added && followers_.can_follow(terminal, next))
    at->second = leave_nothing(open_after(texts_[terminal], terminal), texts_[next]);
  return at->second;
}

}  // namespace guided
