// The lexer's automaton: determines the terminal of a lexeme while it is read byte by byte.
//
// In: the terminals, in the order in which they are tried, and the keywords. Out: numbered states. Each state has the
// terminal of a lexeme that ends there (`label`) and the next state for each byte.
//
// A state is a list of the terminals that may still match, each with a state of its own automaton. A byte advances all
// of them. The first terminal in the list that matches wins, and the terminals after it are dropped for good. Terminals
// before it may still match more text, and then win instead. So a lexeme ends at the last state that had a label. RE2
// simulates leftmost-first matching in the same way.
//
//     LESS_OR_EQUAL = "<=", LESS = "<"
//     start: both open      after "<": label LESS, LESS_OR_EQUAL open      after "<=": label LESS_OR_EQUAL
//
// Some terminals are tried although the parser cannot accept them. If one of them wins, the parser rejects the lexeme.
// Such a match is not *wanted*. A state from which no wanted lexeme can end is kNoLexeme.
//
// States differ in what can still be read, not in the terminals that were tried at the start of the lexeme. Two sets of
// terminals share the state after "x" if the same terminals of both can begin with "x". So token tables can be shared
// (lexer_tables.hpp).
//
// With indentation, a state inside a possible newline also stores the width of its last line, because the label of a
// newline includes the width. Between brackets, and in the states of competitors (`competitor`), the width does not
// matter and is not *measured*.
//
// Cost: the row of a state is filled on demand, O(terminals) per byte. The automata of the terminals are compiled
// grammars of the core.
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
    const int32_t next = work_->arena.peek(state, byte);
    if (next != kUnknown) return next;
    const StatesLock lock(*work_);
    return work_->arena.step(state, byte);
  }
  bool matches(int32_t state) const { return work_->arena.config(state).accepting; }
  const ByteSet& bytes(int32_t state) const { return work_->arena.config(state).bytes; }
  size_t position_count() const { return work_->arena.grammar().positions.size(); }
  // The same automaton, with fresh states if an exception has left its states broken.
  TerminalAutomaton with_usable_states() const { return TerminalAutomaton(compiled_); }

 private:
  std::shared_ptr<CompiledRules> compiled_;
  std::shared_ptr<Workspace> work_;
};

struct LexerTerminal {
  TerminalAutomaton automaton;
  bool is_ignored;
};
struct LexerKeyword {
  int32_t host, terminal;  // a lexeme of `host` that the automaton matches becomes `terminal`
  bool is_embedded;        // where `host` is tried, `terminal` is not tried separately
  TerminalAutomaton automaton;
};

enum NoLexeme : int32_t { kNoLexeme = -1 };                  // no lexeme begins with this text
enum NoWidth : int32_t { kNoWidth = -1, kUnmeasured = -2 };  // no line feed was read; the width is not measured

struct LexemeState {
  struct Match {
    int32_t number, state;  // the index of a terminal or keyword; the state of its automaton
    bool is_wanted = true;
    auto operator<=>(const Match&) const = default;
  };
  int32_t label = kNoTerminal;  // a wanted terminal, or a line: a newline with its width (indentation.hpp)
  int32_t width = kUnmeasured;
  bool is_ignored = false;             // a lexeme that ends here is ignored
  std::vector<Match> open_matches;     // terminals that may match more text, in order
  std::vector<Match> keywords;         // keywords that may still match
  ByteSet bytes;                       // bytes that continue the lexeme
  int32_t representative = kNoLexeme;  // a representative of all states that differ only in a measured width
  int32_t competitor = kNoLexeme;      // the state of `open_matches` alone: none may match if the lexeme ends here
  std::vector<int32_t> groups;         // see Lexemes::groups(); empty: not computed
  CharClasses loops = 0;               // all characters of these classes lead back to this state
  bool are_loops_known = false;        // whether `loops` has been computed
  std::unique_ptr<std::array<int32_t, 256>> row;  // byte -> state, or kUnknown
  struct Step {
    uint8_t byte;
    int32_t state;
  };
  std::unique_ptr<std::vector<Step>> steps;  // see Lexemes::steps(); null: not computed
};

class Lexemes {
 public:
  Lexemes(std::vector<LexerTerminal> terminals, std::vector<LexerKeyword> keywords, const Indentation& indentation);
  // The state before a lexeme. `tried_terminals`: the terminals that the lexer tries. `accepted_terminals`: the
  // terminals among them that the parser accepts. Both are sorted. Ignored terminals are always tried.
  // `measures_width`: whether the label of a newline includes the width of its last line.
  int32_t start(const std::vector<int32_t>& tried_terminals, const std::vector<int32_t>& accepted_terminals,
                bool measures_width);
  int32_t step(int32_t state, uint8_t byte);
  // The successors of a state, each with the first byte that leads there, in the order of the bytes. A line feed always
  // has its own step.
  const std::vector<LexemeState::Step>& steps(int32_t state);
  // The character classes whose characters all lead back to the state.
  CharClasses loops(int32_t state);
  // A state with a loop that usually continues like this one, or kNoLexeme: the state after many more letters or
  // spaces. For the beginning of a keyword, it is the state of a name.
  int32_t find_similar(int32_t state);
  // Splits a state into states, one for each group of terminals: the union of their token tables is the token table of
  // the state. Terminals that begin with different bytes never compete, so each group of terminals has its own tables,
  // which other sets of terminals share.
  const std::vector<int32_t>& groups(int32_t state);
  const LexemeState& state(int32_t id) const { return *states_[id]; }
  std::vector<LexerTerminal>& terminals() { return terminals_; }
  const std::vector<LexerTerminal>& terminals() const { return terminals_; }
  std::vector<LexerKeyword>& keywords() { return keywords_; }
  const Indentation& indentation() const { return indentation_; }
  int32_t size() const { return static_cast<int32_t>(states_.size()); }
  size_t memory() const { return memory_; }

 private:
  using Match = LexemeState::Match;
  void add_memory(size_t bytes);
  int32_t width_after(int32_t width, uint8_t byte) const;
  int32_t relevant_width(int32_t width, const std::vector<Match>& open_matches);
  bool can_end_in_line(int32_t terminal, int32_t state);
  int32_t make_state(LexemeState&& state);
  int32_t intern(LexemeState&& state);
  bool is_loop_over_whole_characters(int32_t state);
  void find_groups();

  std::vector<LexerTerminal> terminals_;
  std::vector<LexerKeyword> keywords_;
  const Indentation& indentation_;
  std::vector<uint8_t> may_be_newline_;    // by terminal: it is `newline`, or has `newline` as a keyword
  std::map<Match, bool> can_end_in_line_;  // by terminal and state
  std::vector<int32_t> group_ids_;         // by terminal
  std::vector<std::unique_ptr<LexemeState>> states_;
  size_t memory_ = 0;  // of `states_`
  std::unordered_map<std::vector<int32_t>, int32_t, IntsHash> ids_, representatives_, starts_;
};

// Runs the terminals of a lexer on texts, and stores the states after each prefix.
//
// In: the terminals, except control tokens, and a text. Out: the terminals that can read the whole text, with their
// states; and the longest prefix of the text that each terminal matches.
//
// How: a trie of all texts so far. A node stores the terminals that are alive there, so only the terminals that can
// read the prefix of a text also read the rest. Of five thousand keywords, few share a prefix. Cost: one step for each
// live terminal of a new node. When the nodes store more than kMaxStoredStates states, the trie is cleared.
class TextPrefixes {
 public:
  using LiveTerminals = std::vector<std::pair<int32_t, int32_t>>;  // pairs of a terminal and its state, sorted
  TextPrefixes(Lexemes& lexemes, const std::vector<int32_t>& control_tokens);
  // The terminals that can read all of `text`. Valid until the next call.
  const LiveTerminals& live_terminals(std::string_view text) { return nodes_[find_path(text).back()].live_terminals; }
  // The terminals that match a prefix of `text`, each with the length of the longest prefix.
  std::vector<std::pair<int32_t, size_t>> longest_matches(std::string_view text);

 private:
  struct Node {
    LiveTerminals live_terminals;
    std::vector<int32_t> matching_terminals;  // the terminals that match the text of the node
    std::unordered_map<uint8_t, int32_t> children = {};
  };
  const std::vector<int32_t>& find_path(std::string_view text);
  void clear();

  static constexpr size_t kMaxStoredStates = 1 << 18;
  Lexemes& lexemes_;
  LiveTerminals initial_;
  std::deque<Node> nodes_;
  size_t stored_states_ = 0;   // the live terminals of all nodes, plus one per node
  std::vector<int32_t> path_;  // the nodes of the prefixes of a text, the empty prefix first
};

}  // namespace guided
