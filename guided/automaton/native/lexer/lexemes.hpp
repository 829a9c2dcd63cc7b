// The lexer's automaton: determines the terminal of a lexeme while it is read byte by byte.
//
// In: the terminals, in the order in which they are tried, and the keywords. Out: numbered states. Each has the
// terminal of a lexeme that ends there (`label`) and the state after each byte.
//
// A state is the list of the terminals that may still match, each with a state of its own automaton. A byte advances
// all of them. The first terminal that matches wins, and the terminals behind it are dropped for good. Those before it
// may still match more text, and then win instead. So a lexeme ends at the last state that had a label. RE2 simulates
// leftmost-first matching in the same way.
//
//     LESS_OR_EQUAL = "<=", LESS = "<"  start: both  after "<": label LESS, open LESS_OR_EQUAL  after "<=": its label
//
// Some terminals may be tried although the parser cannot accept them. They win, too, but the lexeme then leads nowhere.
// Such a match is not *wanted*. A state from which no wanted lexeme can end is kNoLexeme.
//
// States differ in what can still be read, not in the terminals that were tried at first: after "x" there is one state
// for all sets of terminals in which the same terminals can begin with "x". Therefore token tables can be shared
// (lexer_tables.hpp).
//
// With indentation, a state inside a possible newline also has the width of its last line, so that the label of a
// newline includes its width. In competing terminals and between brackets, the width does not matter and is not
// *measured*.
//
// Cost: the row of a state is filled on demand, O(terminals) per byte. The automata of the terminals are those of the
// core.
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

// The automaton of one regular language.
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
  // The same automaton, with fresh states if an exception has left these ones broken.
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
  bool embedded;         // `terminal` is then not tried by itself where `of` is tried
  TerminalAutomaton automaton;
};

enum NoLexeme : int32_t { kNoLexeme = -1 };                  // no lexeme continues like this
enum NoWidth : int32_t { kNoWidth = -1, kUnmeasured = -2 };  // no line feed was read; not measured, see above

struct LexemeState {
  struct Match {
    int32_t of, state;  // a terminal or keyword, and the state of its automaton
    bool wanted = true;
    auto operator<=>(const Match&) const = default;
  };
  int32_t label = kNoTerminal;  // a wanted terminal, or a line (indentation.hpp)
  int32_t width = kUnmeasured;
  bool ignored = false;            // a lexeme that ends here is ignored
  std::vector<Match> open;         // terminals that may match more, in order
  std::vector<Match> keywords;     // keywords that may still match
  ByteSet bytes;                   // bytes that continue the lexeme
  int32_t shape = kNoLexeme;       // one state for all that differ only in a measured width
  int32_t competitor = kNoLexeme;  // the state with `open` alone; must not match if the lexeme ends here
  std::vector<int32_t> groups;     // see `groups`; empty: not computed
  CharClasses loops = 0;           // all characters of these classes lead back to this state
  bool looked_for_loops = false;
  std::unique_ptr<std::array<int32_t, 256>> row;  // byte -> state, or kUnknown
  struct Step {
    uint8_t byte;
    int32_t state;
  };
  std::unique_ptr<std::vector<Step>> steps;  // see `steps`; null: not computed
};

class Lexemes {
 public:
  Lexemes(std::vector<LexerTerminal> terminals, std::vector<LexerKeyword> keywords, const Indentation& indentation);
  // The state before a lexeme. `tried`: the terminals that the lexer tries; `accepted`: those of them that the parser
  // accepts; both are sorted. Ignored terminals are always tried. `measured`: newlines are lines.
  int32_t start(const std::vector<int32_t>& tried, const std::vector<int32_t>& accepted, bool measured);
  int32_t step(int32_t state, uint8_t byte);
  // The states after a state, each with the first byte that leads there, in the order of the bytes. A line feed has a
  // step of its own.
  const std::vector<LexemeState::Step>& steps(int32_t state);
  // The character classes whose characters all lead back to the state.
  CharClasses loops(int32_t state);
  // A state with fewer terminals that continues like this one in most cases, or kNoLexeme. For the beginning of a
  // keyword, it is the state of a name.
  int32_t likeness(int32_t state);
  // Divides a state into states with separate tables, whose union is its table. Terminals that begin with different
  // bytes never compete, so each group of terminals has its own tables, and other sets of terminals share them.
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
  int32_t make_state(LexemeState&& state);
  int32_t intern(LexemeState&& state);
  bool whole_characters_loop(int32_t state);
  void find_groups();

  std::vector<LexerTerminal> terminals_;
  std::vector<LexerKeyword> keywords_;
  const Indentation& indentation_;
  std::vector<uint8_t> may_be_newline_;  // by terminal: it is `newline`, or has `newline` as a keyword
  std::map<Match, bool> ends_in_line_;   // by terminal and state
  std::vector<int32_t> group_;           // by terminal
  std::vector<std::unique_ptr<LexemeState>> states_;
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> ids_, shapes_, starts_;
};

// Runs the terminals of a lexer on texts, and remembers the states after each prefix.
//
// In: the terminals, except control tokens, and a text. Out: the terminals that can read all of it, with their states;
// and the longest prefix of it that each terminal matches.
//
// How: a trie of the texts so far. A node has the terminals that are alive there, so a text is read only by the
// terminals that its prefix has left. Of five thousand keywords, few share a prefix. Cost: one step for each live
// terminal of a new node. When the nodes have more than kMaxStoredStates of them, the trie starts anew.
class TextPrefixes {
 public:
  using Alive = std::vector<std::pair<int32_t, int32_t>>;  // pairs of a terminal and its state, sorted
  TextPrefixes(Lexemes& lexemes, const std::vector<int32_t>& control);
  // Valid until the next call.
  const Alive& alive(std::string_view text) { return nodes_[path(text).back()].alive; }
  // The terminals that match a prefix of `text`, and the length of the longest one.
  std::vector<std::pair<int32_t, size_t>> longest_matches(std::string_view text);

 private:
  struct Node {
    Alive alive;
    std::vector<int32_t> matched;  // the terminals that match the text of the node
    std::unordered_map<uint8_t, int32_t> after = {};
  };
  const std::vector<int32_t>& path(std::string_view text);
  void begin();

  static constexpr size_t kMaxStoredStates = 1 << 18;
  Lexemes& lexemes_;
  Alive all_;
  std::deque<Node> nodes_;
  size_t count_ = 0;           // the live terminals of all nodes, and one per node
  std::vector<int32_t> path_;  // the nodes of the prefixes of a text, the empty prefix first
};

}  // namespace guided
