// Finds a text for each terminal that can be written wherever the parser accepts the terminal, whatever precedes it.
//
// Problem. Whether the output can be completed, and with how many tokens, depends on the parser *and* the lexer: the
// name `b` cannot directly follow the name `a`, since `ab` is one name. Searching for completions in every state is
// too expensive.
//
// How: each terminal T gets one text t(T) and, if needed, a separator w(T), which is a text of an ignored terminal.
// They are *sure* if the following holds for all terminals that may be tried where T is tried (followers.hpp):
//
//     (1) the lexer reads t(T) as T, and reads w(T) directly after a T as an ignored terminal;
//     (2) consider the terminals that could still match more than t(T): while the lexer reads the text of any terminal
//         that can follow T, none of them matches, and all are dead after this text. Otherwise, the same holds while
//         the lexer reads w(T), which is then written between the two texts;
//     (3) consider the terminals that could still match more than w(T): while the lexer reads the text of any terminal
//         that can follow T, none of them matches, and all are dead after this text.
//
// For one separator, (3) is replaced by a weaker condition: none of them matches in any sequence of texts that can
// follow (harmless_separators.cpp). Competitors of earlier lexemes may remain if they do not match (competitors.hpp).
//
// Then any sequence of terminals with sure texts that the parser accepts can be written: t(T1) w(T1) t(T2) ... So there
// are no dead ends, and the weights of the terminals bound the number of tokens (sequence_costs.hpp).
//
// With indentation, the text of a newline is a line feed and any number of spaces. It is sure if all automata are in
// the same states after each positive number of spaces, and the rules open and close their blocks in pairs.
// sequence_costs.hpp determines which terminals may follow it. A newline may begin with spaces, so no newline can
// follow an ignored space, and no separator is written before a newline. If newlines are not sure, no terminal is.
//
// If a completion needs a terminal without a sure text, or no separator ends the pending competitors, a search finds
// the completions (lexed_rests.hpp). For example, `=` may be one terminal in assignments, and another terminal, which
// is tried first, among the operators of expressions.
//
// Cost: a search for a shortest text of each terminal; a step for each pair of terminals that begin with the same byte.
#pragma once

#include <string>

#include "lexer/competitors.hpp"
#include "lexer/followers.hpp"
#include "lexer/lexemes.hpp"
#include "lexer/sequence_costs.hpp"

namespace guided {

// What pending competitors demand before the next text. `tokens`: the tokens of a separator that may be needed, or
// kNever if no separator is known to suffice. `last`: what has been read last after the separator.
struct Demand {
  int64_t tokens = 0;
  LastRead last = kWord;
};

class SureTexts {
 public:
  SureTexts(Lexemes& lexemes, Competitors& competitors, const TokenVocabulary& vocabulary,
            const std::vector<int32_t>& control_tokens, const LexerContexts& contexts,
            const std::vector<uint8_t>& is_used, Followers followers, bool are_balanced, size_t symbols);
  // Whether all terminals that rules use have a sure text.
  bool all() const { return all_sure_; }
  // Whether any terminal can have a sure text.
  bool any() const { return !lexemes_.indentation().is_given || lines_.are_sure; }
  const SureLines& lines() const { return lines_; }
  // Whether all these competitors may be pending after the text of a newline.
  bool may_follow_line(int32_t competitors);
  // By offset in `text`: the minimum number of tokens that spell the rest of `text` and `spaces` spaces. The last value
  // is for the spaces alone.
  std::vector<int64_t> tokens_of_line(std::string_view text, int32_t spaces) const;
  // By terminal: the number of tokens of its text and of the separator that may be needed after it; kNever if it has no
  // sure text.
  const std::vector<int64_t>& weights() const { return weights_; }
  // Like `weights`, with a guess for terminals without a sure text.
  const std::vector<int64_t>& guesses() const { return guesses_; }
  // The demand of pending competitors. `terminal`: the terminal that was read last; kNoTerminal: unknown.
  Demand demand(int32_t competitors, int32_t terminal = kNoTerminal);
  // The demand at a lexer position. `next`: the terminals that can come next; `start`: the lexer state before them.
  Demand demand(int32_t competitors, const std::vector<int32_t>& next, int32_t start);
  // Whether a terminal has a sure text that can be written at once, and no competitor remains that could match after
  // it.
  bool can_follow(int32_t competitors, int32_t terminal);
  // The rests of sure texts and separators whose beginnings leave a terminal or keyword in this state.
  using Rests = std::vector<std::string>;
  const Rests* rests_of_terminal(int32_t terminal, int32_t state) const { return find_rests(terminal, state); }
  const Rests* rests_of_keyword(int32_t keyword, int32_t state) const { return find_rests(~keyword, state); }
  // By offset in `text`: the minimum number of tokens that spell the rest of `text`; kNever if no tokens do.
  static std::vector<int64_t> tokens_of(std::string_view text, const TokenVocabulary& vocabulary);

 private:
  using OpenTerminals = TextPrefixes::LiveTerminals;  // terminals that may match more text, and their states
  struct Separator {
    int64_t tokens;
    std::string text;
    TerminalSet shadowing;  // terminals that match a prefix of `text` and are tried first
    // Terminals that may match more than `text`, their states, and the terminals whose texts do not end them.
    struct Unended {
      int32_t terminal, state;
      TerminalSet next;
    };
    std::vector<Unended> unended;
    std::vector<uint8_t> is_valid;  // by the terminal that was read last; the last element: after any terminal
  };
  const Rests* find_rests(int32_t number, int32_t state) const {
    const auto it = rests_.find(pair_key(number, state));
    return it == rests_.end() ? nullptr : &it->second;
  }
  void store_rests();
  std::vector<std::string> find_texts(int32_t terminal, size_t max_texts);
  std::vector<std::string> find_texts(int32_t terminal, size_t max_texts, size_t max_states, int max_per_state,
                                      bool& is_cut);
  bool is_read_as(std::string_view text, int32_t terminal);
  void find_separators();
  void weigh_texts();
  bool can_separate(const Separator& separator, const TerminalSet& tried, int32_t terminal,
                    const std::vector<std::string>* separators_in_use = nullptr);
  bool needs_separator(int32_t terminal, const OpenTerminals& open);
  const Separator* find_separator(int32_t terminal, const OpenTerminals& open);
  void allow_harmless_separator();
  bool never_matches(int32_t competitor, int32_t state, int32_t last, const std::vector<std::string>& separators);
  int64_t separator_tokens_after(int32_t terminal);
  bool is_newline_sure();
  void find_lines(size_t symbols);
  bool follows_directly(int32_t terminal, int32_t next);
  bool dies_in_text(int32_t terminal, int32_t state, std::string_view text);
  bool all_die_in_text(const OpenTerminals& open, std::string_view text);
  template <class IsHarmless>
  Demand demand_of(int32_t competitors, const std::vector<int32_t>& next, IsHarmless&& is_harmless);
  // `tried_with`: return only terminals that are tried at the same position as this one; kNoTerminal: all terminals.
  OpenTerminals open_after(std::string_view text, int32_t tried_with = kNoTerminal);

  Lexemes& lexemes_;
  Competitors& competitors_;
  const TokenVocabulary& vocabulary_;
  const std::vector<int32_t>& control_tokens_;
  const Followers followers_;
  const TriedTerminals tried_;
  TextPrefixes prefixes_;
  std::unordered_map<uint64_t, bool> follows_directly_;
  HarmlessCompetitors harmless_;
  bool all_sure_ = true;
  std::vector<std::string> texts_;             // by terminal; empty: no sure text, or a control token
  std::vector<Separator> separators_;          // in ascending order of tokens
  std::unordered_map<uint64_t, Rests> rests_;  // by the number of a terminal, or ~ the number of a keyword, and state
  int64_t steps_left_ = 0;                     // of the search for harmless separators
  std::vector<int64_t> weights_, guesses_;
  std::unordered_map<uint64_t, Demand> demands_;
  SureLines lines_;
  OpenTerminals open_in_line_;           // the terminals that may match more after a newline's text
  std::vector<int64_t> space_tokens_;    // by number of spaces: their tokens
  std::vector<int8_t> may_follow_line_;  // by set of competitors; -1: unknown
};

}  // namespace guided
