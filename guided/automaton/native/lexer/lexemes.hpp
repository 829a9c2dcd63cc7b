// The lexer's automaton: which terminal a lexeme is, as it is read byte by byte.
//
// In: the terminals, in the order in which they are tried, and the keywords. Out: states, numbered, with the terminal
// that a lexeme of these bytes would be (`label`) and the state after each byte.
//
// A state is the list of the terminals that may still match, each with the state of its own automaton. Reading a byte
// moves each of them. The first terminal that matches wins, so those behind it are dropped for good; those before it
// may still match more, and then win instead. So the lexeme ends where a state with a label was seen last: the rule of
// the longest match, whatever the order (as RE2 simulates leftmost-first matching).
//
//     LESS_OR_EQUAL = "<=", LESS = "<"     start: both    after "<": label LESS, open LESS_OR_EQUAL    after "<=": its label
//
// Some terminals may be tried where the parser cannot take them: they win, too, but the lexeme then leads nowhere. Such
// a match is not *wanted*, and a state that can end as no wanted lexeme is none.
//
// States differ by what can still be read, not by the terminals that they began with: after "x" there is one state for
// all sets of terminals that have the same names beginning so. That is what lets token tables be shared (lexer_tables.hpp).
//
// With indentation, a state in which a newline may be under way also has the width of its last line, so that the label of
// a newline says how wide it is. Where no width counts, in competing terminals and between brackets, nothing is *measured*.
//
// Cost: a state's row is filled as it is asked for, O(terminals) a byte; their automata are the core's own.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lexer/indentation.hpp"
#include "matching/workspace.hpp"

namespace guided {

// The strings of one regular language, by the states of its automaton.
class TerminalAutomaton {
 public:
  explicit TerminalAutomaton(std::shared_ptr<CompiledRules> compiled)
      : compiled_(std::move(compiled)), work_(compiled_->workspace()) {}
  int32_t start() const { return work_->arena.initial(); }
  int32_t step(int32_t state, uint8_t byte) {
    const int32_t known = work_->arena.peek(state, byte);
    if (known != kUnknown) return known;
    const StatesLock lock(*work_);
    return work_->arena.step(state, byte);
  }
  bool matches(int32_t state) const { return work_->arena.config(state).accepting; }
  const ByteSet& bytes(int32_t state) const { return work_->arena.config(state).bytes; }
  size_t positions() const { return work_->arena.grammar().positions.size(); }
  // The same, over states that are not broken.
  TerminalAutomaton unbroken() const { return TerminalAutomaton(compiled_); }

 private:
  std::shared_ptr<CompiledRules> compiled_;
  std::shared_ptr<Workspace> work_;
};

struct LexerTerminal {
  TerminalAutomaton automaton;
  bool ignored;
};
struct LexerKeyword {
  int32_t of, terminal;  // a lexeme of `of` that the automaton matches is `terminal`
  bool embedded;         // which is then not tried beside `of`
  TerminalAutomaton automaton;
};

enum NoLexeme : int32_t { kNoLexeme = -1 };                  // nothing can be read
enum NoWidth : int32_t { kNoWidth = -1, kUnmeasured = -2 };  // no line feed was read, or none that counts; see the head

struct LexemeState {
  struct Match {
    int32_t of, state;  // of a terminal or keyword
    bool wanted = true;
    auto operator<=>(const Match&) const = default;
  };
  int32_t label = kNoTerminal;  // of a wanted terminal, or a line
  int32_t width = kUnmeasured;
  bool ignored = false;            // the lexeme that ends here is left out
  std::vector<Match> open;         // branches that may match more, in order
  std::vector<Match> keywords;     // that may still be matched
  ByteSet bytes;                   // that lead on
  int32_t shape = kNoLexeme;       // a state that differs in the width alone, which counts there, too
  int32_t competitor = kNoLexeme;  // the state of `open` alone, which another lexeme must not match
  std::vector<int32_t> groups;     // the states of the terminals that share no first byte; of a start that is divisible
  CharClasses loops = 0;           // all characters of these classes lead back to this state; see `loops`
  bool looked_for_loops = false;
  std::unique_ptr<std::array<int32_t, 256>> row;  // byte -> state, kUnknown
};

class Lexemes {
 public:
  Lexemes(std::vector<LexerTerminal> terminals, std::vector<LexerKeyword> keywords, const Indentation& indentation);
  // The state before a lexeme, where these terminals (sorted) are tried, and those of them that can be taken; besides
  // those that are ignored. `measured`: newlines are lines.
  int32_t start(const std::vector<int32_t>& tried, const std::vector<int32_t>& taken, bool measured);
  int32_t step(int32_t state, uint8_t byte);
  // The character classes all of whose characters lead back to the state.
  CharClasses loops(int32_t state);
  // A state that goes on as this one does in most cases, with fewer terminals: that of a name, for the beginning of a
  // keyword. kNoLexeme if there is none.
  int32_t likeness(int32_t state);
  // States that together are this one, for tables: terminals that begin with different bytes never meet, so each group
  // has tables of its own, which other sets of terminals share.
  const std::vector<int32_t>& groups(int32_t state);
  const LexemeState& state(int32_t id) const { return *states_[id]; }
  std::vector<LexerTerminal>& terminals() { return terminals_; }
  const std::vector<LexerTerminal>& terminals() const { return terminals_; }
  std::vector<LexerKeyword>& keywords() { return keywords_; }
  const Indentation& indentation() const { return indentation_; }
  int32_t size() const { return static_cast<int32_t>(states_.size()); }

 private:
  using Match = LexemeState::Match;
  int32_t width_after(int32_t width, uint8_t byte) const;
  int32_t width_that_counts(int32_t width, const std::vector<Match>& open);
  bool ends_in_line(int32_t terminal, int32_t state);
  int32_t made(LexemeState&& state);
  int32_t intern(LexemeState&& state);
  bool whole_characters_loop(int32_t state);
  void find_groups();

  std::vector<LexerTerminal> terminals_;
  std::vector<LexerKeyword> keywords_;
  const Indentation& indentation_;
  std::vector<uint8_t> may_be_newline_;  // by terminal: it is `newline`, or has it as a keyword
  std::map<Match, bool> ends_in_line_;   // by terminal and state
  std::vector<int32_t> group_;           // by terminal
  std::vector<std::unique_ptr<LexemeState>> states_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> ids_, shapes_, starts_;
};

// What the terminals of a lexer make of the beginnings of texts.
//
// In: the terminals, but for control tokens, and a text. Out: the terminals that have read all of it, with their states,
// and the longest match of each in it.
//
// How: a trie of the texts that were asked about. A node has the terminals that are alive there, so that a text is read by
// those alone that its beginning has left: of five thousand keywords, few begin like one of them.
// Cost: a step for each terminal that is alive, once for each node; past kMost of them, the trie begins anew.
class TextPrefixes {
 public:
  using Alive = std::vector<std::pair<int32_t, int32_t>>;  // terminals and their states, by terminal
  TextPrefixes(Lexemes& lexemes, const std::vector<int32_t>& control);
  // Both hold until the next question.
  const Alive& alive(std::string_view text) { return nodes_[path(text).back()].alive; }
  // The terminals that match a beginning of a text, and how much of it.
  std::vector<std::pair<int32_t, size_t>> longest_matches(std::string_view text);

 private:
  struct Node {
    Alive alive;
    std::vector<int32_t> matched;  // the terminals of which the text of the node is one
    std::unordered_map<uint8_t, int32_t> after = {};
  };
  const std::vector<int32_t>& path(std::string_view text);
  void begin();

  static constexpr size_t kMost = 1 << 18;
  Lexemes& lexemes_;
  Alive all_;
  std::deque<Node> nodes_;
  size_t count_ = 0;           // of the terminals that are alive in nodes
  std::vector<int32_t> path_;  // the nodes of the beginnings of a text, the empty one first
};

}  // namespace guided
