#include "lexer/sure_texts.hpp"

#include <algorithm>
#include <deque>
#include <numeric>

namespace guided {

namespace {
constexpr size_t kMostTexts = 64;     // of one terminal that are tried
constexpr size_t kMostStates = 4096;  // that are looked at for them
constexpr int kMostOfState = 4;       // of one state
constexpr int64_t kGuess = 2;         // tokens of a terminal without a sure text
constexpr size_t kSeparators = 6;     // of one ignored terminal
}  // namespace

SureTexts::SureTexts(Lexemes& lexemes, Rivals& rivals, const TokenVocabulary& vocabulary,
                     const std::vector<int32_t>& control, const std::vector<uint8_t>& used, Followers followers,
                     bool balanced, size_t symbols)
    : lexemes_(lexemes),
      rivals_(rivals),
      vocabulary_(vocabulary),
      control_(control),
      followers_(std::move(followers)),
      enduring_(rivals, lexemes.indentation().newline, [this](int32_t t, int32_t next) { return meet(t, next); }) {
  const int32_t count = static_cast<int32_t>(lexemes_.terminals().size());
  for (int32_t t = 0; t < count; ++t) {
    texts_.push_back("");
    const bool ignored = lexemes_.terminals()[t].ignored;  // the parser sees such a terminal as a keyword only
    if (!used[t] || ignored || control_[t] != kNoTerminal || !vocabulary.byte_complete) continue;
    if (t == lexemes_.indentation().newline) {
      if (lines_.sure = balanced && finds_newline(); lines_.sure) texts_[t].assign(1, '\n');
      continue;
    }
    for (std::string& text : texts_of(t, 1)) texts_[t] = std::move(text);
  }
  for (int32_t t = 0; t < count; ++t)
    if (lexemes_.terminals()[t].ignored && control_[t] == kNoTerminal)
      for (std::string& text : texts_of(t, kSeparators))
        if (can_separate(text)) separators_.emplace_back(tokens_of(text, vocabulary_)[0], std::move(text));
  std::stable_sort(separators_.begin(), separators_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
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

// ---- lines
// See the head.
bool SureTexts::finds_newline() {
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
  if (!lines_.sure) {
    weights_.assign(symbols, kNever);
    all_ = false;
    return;
  }
  lines_.follow.resize(symbols);
  for (size_t t = 0; t < texts_.size(); ++t)
    lines_.follow[t] = !texts_[t].empty() && std::ranges::all_of(open_in_line_, [&](const auto& each) {
      return leaves_nothing(each.first, each.second, texts_[t]);
    });
  spaces_ = tokens_of(std::string(static_cast<size_t>(indentation.most_width), ' '), vocabulary_);
  std::ranges::reverse(spaces_);
  int64_t most = 0;
  for (int32_t width = 0; width <= indentation.most_width; ++width)
    lines_.tokens.push_back(most = std::max(most, tokens_of_line("\n", width)[0]));
}

std::vector<int64_t> SureTexts::tokens_of_line(std::string_view text, int32_t spaces) const {
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

bool SureTexts::is_line(int32_t rivals) {
  if (!lines_.sure || rivals == 0) return false;
  if (rivals >= static_cast<int32_t>(is_line_.size())) is_line_.resize(rivals + 1, -1);
  if (is_line_[rivals] < 0)
    is_line_[rivals] = std::ranges::all_of(rivals_.of(rivals), [&](int32_t rival) {
      return std::ranges::all_of(lexemes_.state(rival).open, [&](const LexemeState::Match& match) {
        return std::ranges::find(open_in_line_, std::pair(match.of, match.state)) != open_in_line_.end();
      });
    });
  return is_line_[rivals] > 0;
}

std::vector<int64_t> SureTexts::tokens_of(std::string_view text, const TokenVocabulary& vocabulary) {
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

// The first texts of a terminal, by length, that are read as that terminal wherever it is tried.
std::vector<std::string> SureTexts::texts_of(int32_t terminal, size_t most) {
  std::vector<std::string> out;
  TerminalAutomaton& automaton = lexemes_.terminals()[terminal].automaton;
  std::deque<std::pair<int32_t, std::string>> todo{{automaton.start(), ""}};
  std::unordered_map<int32_t, int> met;  // texts of one state say the same of what follows, but for their beginnings
  size_t tried = 0, looked_at = 0;
  while (!todo.empty() && tried < kMostTexts && looked_at < kMostStates && out.size() < most) {
    auto [state, text] = std::move(todo.front());
    todo.pop_front();
    ++looked_at;
    if (!text.empty() && automaton.matches(state)) {
      if (is_read_as(text, terminal)) out.push_back(text);
      ++tried;
    }
    automaton.bytes(state).each([&](uint8_t byte) {
      const int32_t after = automaton.step(state, byte);
      if (after != kDead && ++met[after] <= kMostOfState) todo.emplace_back(after, text + static_cast<char>(byte));
    });
  }
  return out;
}

// Whether the lexer reads the whole of a text as this terminal, or as something that is ignored if the terminal is,
// whatever other terminals are tried.
bool SureTexts::is_read_as(std::string_view text, int32_t terminal) {
  const bool ignored = lexemes_.terminals()[terminal].ignored;
  auto in_keyword = [&](LexerKeyword& keyword) {
    int32_t state = keyword.automaton.start();
    for (char c : text)
      if (state = keyword.automaton.step(state, static_cast<uint8_t>(c)); state == kDead) return false;
    return keyword.automaton.matches(state);
  };
  std::vector<uint8_t> is_host(lexemes_.terminals().size());
  if (!ignored)
    for (LexerKeyword& keyword : lexemes_.keywords()) {
      if (keyword.of != terminal && keyword.terminal != terminal) continue;
      // An ignored lexeme is no keyword, and embedded ones are not tried by themselves.
      if (keyword.embedded && lexemes_.terminals()[keyword.of].ignored) return false;
      if (!in_keyword(keyword)) continue;
      if (keyword.of == terminal) return false;
      is_host[keyword.of] = !lexemes_.terminals()[keyword.of].ignored;
    }
  for (int32_t t = 0; t < static_cast<int32_t>(lexemes_.terminals().size()); ++t) {
    if (control_[t] != kNoTerminal) continue;
    TerminalAutomaton& automaton = lexemes_.terminals()[t].automaton;
    int32_t state = automaton.start();
    size_t longest = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (state = automaton.step(state, static_cast<uint8_t>(text[i])); state == kDead) break;
      if (automaton.matches(state)) longest = i + 1;
    }
    if (t == terminal) return longest == text.size();
    if (longest > 0 && !(is_host[t] && longest == text.size())) return false;
  }
  return false;
}

// Terminals that have read all of the text and may match more, with their states.
std::vector<std::pair<int32_t, int32_t>> SureTexts::open_after(std::string_view text) {
  std::vector<std::pair<int32_t, int32_t>> out;
  for (int32_t t = 0; t < static_cast<int32_t>(lexemes_.terminals().size()); ++t) {
    if (control_[t] != kNoTerminal) continue;
    TerminalAutomaton& automaton = lexemes_.terminals()[t].automaton;
    int32_t state = automaton.start();
    for (size_t i = 0; i < text.size() && state != kDead; ++i)
      state = automaton.step(state, static_cast<uint8_t>(text[i]));
    if (state != kDead && automaton.bytes(state).count()) out.emplace_back(t, state);
  }
  return out;
}

// Whether a terminal matches nowhere in a text that is read on from its state, and is not left after it.
bool SureTexts::leaves_nothing(int32_t of, int32_t state, std::string_view text) {
  TerminalAutomaton& automaton = lexemes_.terminals()[of].automaton;
  for (char c : text) {
    state = automaton.step(state, static_cast<uint8_t>(c));
    if (state == kDead) return true;
    if (automaton.matches(state)) return false;
  }
  return false;
}

bool SureTexts::can_separate(const std::string& text) {
  for (auto [of, state] : open_after(text))
    for (const std::string& next : texts_)
      if (!next.empty() && !leaves_nothing(of, state, next)) return false;
  return true;
}

// The tokens that may be needed between a terminal's text and the next one.
int64_t SureTexts::gap_after(int32_t terminal) {
  const std::vector<std::pair<int32_t, int32_t>> open = open_after(texts_[terminal]);
  auto ends_all = [&](const std::string& next) {
    return std::ranges::all_of(open, [&](const auto& each) { return leaves_nothing(each.first, each.second, next); });
  };
  bool needed = false;
  for (size_t t = 0; t < texts_.size() && !needed; ++t)
    needed = !texts_[t].empty() && followers_.can_follow(terminal, static_cast<int32_t>(t)) && !ends_all(texts_[t]);
  if (!needed) return 0;
  for (const auto& [tokens, separator] : separators_) {
    if (!ends_all(separator)) continue;
    enduring_.add_separator(separator);
    return tokens;
  }
  return kNever;
}

int64_t SureTexts::charge(int32_t rivals) {
  if (rivals == 0) return 0;
  if (rivals >= static_cast<int32_t>(charges_.size())) charges_.resize(rivals + 1, -1);
  if (charges_[rivals] < 0) {
    std::vector<int32_t> all(texts_.size());
    std::iota(all.begin(), all.end(), 0);
    charges_[rivals] = charge(rivals, all);
  }
  return charges_[rivals];
}

int64_t SureTexts::charge(int32_t rivals, const std::vector<int32_t>& next) {
  const int32_t left = enduring_.hindering(rivals);
  if (std::ranges::all_of(next, [&](int32_t t) { return texts_[t].empty() || can_follow(left, t); })) return 0;
  for (const auto& [tokens, separator] : separators_)
    if (const int32_t after = rivals_.advance(rivals, separator); after != kDropped && !enduring_.hindering(after))
      return tokens;
  return kNever;
}

bool SureTexts::can_follow(int32_t rivals, int32_t terminal) {
  const std::string& text = texts_[terminal];
  const int32_t after = text.empty() ? static_cast<int32_t>(kDropped) : rivals_.advance(rivals, text);
  return after != kDropped && !enduring_.hindering(after, terminal);
}

// Whether a terminal's text can stand right behind another one.
bool SureTexts::meet(int32_t terminal, int32_t next) {
  auto [at, added] = meet_.try_emplace(pair_key(terminal, next), false);
  if (added && followers_.can_follow(terminal, next))
    at->second = std::ranges::all_of(open_after(texts_[terminal]), [&](const auto& each) {
      return leaves_nothing(each.first, each.second, texts_[next]);
    });
  return at->second;
}

}  // namespace guided
