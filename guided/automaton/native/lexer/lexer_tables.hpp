// Token tables by lexeme: what the lexer alone decides of many tokens at once.
//
// Problem. A token may hold several lexemes, as `):` or ` if x`. Which of them are allowed depends on the parser's stack,
// so walking the trie of tokens with the readings costs a walk of most of the trie for each new state.
//
// But *inside* of a lexeme the parser does nothing. A table for a state of the lexer says, for all tokens of a part of the
// trie, what the lexer alone decides:
//
//     stay    the tokens that end within the lexeme
//     ends    for each terminal that a lexeme may end as: the tokens that end just there, and the *rest*: the places in the
//             trie where the lexeme has ended and the token goes on
//
// A mask is then stay, and for each end that the parser can take, the mask of the rest: the table of the state of the lexer
// that begins a lexeme after it, over the rest. Tables depend on the lexer alone, so they are shared by all of the
// parser's states; and on what can still be read, not on the set of terminals (lexemes.hpp), so a set of terminals that
// was not met before finds nearly all of its parts made.
//
// Where a token ends within a lexeme, or after one, it must be possible to complete the output (lexed_rests.hpp). A
// table whose ends are all proven for every parser needs nothing more. Of others, and under a budget, tokens are
// *grouped* by the state of the lexeme that they end in, and each group is looked at with the parser's state.
//
// Many states of lexemes soon become the same ones: `sel`, `set` and `x` all become names. What was found below a node of
// the trie in a state that loops is kept, and other tables take it over. And the table of a state that begins a keyword, or
// ends it, is that of a name, but for what lies on the way of the keyword: only there both are walked (`differ`).
//
// Cost: a table walks its part of the trie once, and once more for groups. A mask visits as many tables as its tokens
// hold sequences of terminals.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "lexer/lexed_rests.hpp"

namespace guided {

class LexerTables {
 public:
  using Rest = int32_t;  // a set of spots whose bytes are to be read, by number
  static constexpr Rest kRoot = 0, kNoRest = -1;
  struct Table;
  struct Group {  // tokens that end in the same state of a lexeme, or with the same competing terminals
    Begun begun;
    TokenSet tokens;
    Demand after = {};  // of the competing terminals, where the lexeme has ended
  };
  struct End {
    int32_t label;
    bool ignored;
    std::vector<Group> tokens;  // of the groups only the competing terminals count: the lexeme has ended
    Rest rest = kNoRest;
    mutable int32_t start = kNoLexeme;    // in which the rest was last begun
    mutable const Table* next = nullptr;  // and its table
  };
  // What lexemes in which tokens stay may become, and the most tokens that this takes, up to where any text can follow, or
  // one that can follow a newline.
  struct Label {
    int32_t terminal;
    bool ignored;
    LastRead last;
    auto operator<=>(const Label&) const = default;
  };
  struct Profile {
    std::vector<Label> labels;
    std::vector<int64_t> tokens;
    std::vector<Begun> lines;                        // those that may also become lines
    mutable std::map<int32_t, int64_t> line_tokens;  // by width, when they were first asked for
  };
  struct Table {
    TokenSet stay;
    std::vector<End> ends;
    std::vector<const Table*> parts;  // of the groups of terminals, those that are not empty
    std::vector<Profile> profiles;
    bool unsure = false;  // some tokens are not proven to lead to an end, even if all labels can be taken
    int32_t lexeme = 0, number = 0;
    Rest rest = 0;
    mutable std::unique_ptr<std::vector<Group>> groups;  // of `stay`, when they were first asked for
    bool empty() const { return stay.dense.empty() && stay.sparse.empty() && ends.empty() && parts.empty(); }
  };

  LexerTables(Lexemes& lexemes, CompetingTerminals& competing, LexemeEnds& ends, const TokenVocabulary& vocabulary)
      : lexemes_(lexemes), competing_(competing), ends_(ends), vocabulary_(vocabulary) {
    rests_.emplace_back(nullptr);  // kRoot, whose spots are never asked for
  }
  // Valid until `clear`.
  const Table& table(int32_t lexeme, Rest rest);
  // Of the rest behind an end, where the next lexeme begins in `start`.
  const Table& after(const End& end, int32_t start) {
    if (end.start != start) end.next = &table(start, end.rest), end.start = start;
    return *end.next;
  }
  const std::vector<Group>& groups(const Table& table);
  // The most tokens that it takes to end as a line of a width.
  int64_t line_tokens(const Profile& profile, int32_t width);
  Rest below_root(int32_t competing);
  int32_t size() const { return static_cast<int32_t>(tables_.size()); }
  size_t memory() const { return memory_; }
  void clear();
  int64_t clearings() const { return clearings_; }

 private:
  struct Spot {
    int32_t node, competing;  // those after the node's byte
    auto operator<=>(const Spot&) const = default;
  };
  // What one walk collects.
  struct Found {
    bool grouped = false;  // tokens that stay are collected by their group
    struct Stay {
      std::vector<int32_t> tokens;
      std::vector<uint32_t> bits;  // more of them, as words of a row; or empty
    };
    Stay stay;
    std::map<Begun, Stay> groups;
    std::unordered_set<uint64_t> begun;  // where tokens stay, besides those of `profiles`
    std::vector<Profile> profiles;
    bool unsure = false;
    struct Part {
      std::map<int32_t, std::vector<int32_t>> tokens;  // by set of competing terminals
      std::vector<Spot> spots;
    };
    std::map<std::pair<int32_t, bool>, Part> ends;  // by label and whether it is ignored
    Begun last = {kNoLexeme, 0};  // where tokens were last found to stay, and their group: most follow one another
    Stay* group = &stay;
    Stay& staying(Begun at) {
      if (at == last) return *group;
      last = at;
      if (grouped)
        group = &groups[at];
      else
        begun.insert(pair_key(at.lexeme, at.competing));
      return *group;
    }
    void add(const Found& other);
    void remove(const Found& other);
    size_t memory() const;
  };
  void walk(int32_t lexeme, Rest rest, Found& found);
  void find_profiles(Table& table, const Found& found);
  std::unique_ptr<Table> build(int32_t lexeme, Rest rest);
  bool begin_with(int32_t like, int32_t lexeme, Rest rest, Found& found);
  void differ(int32_t lexeme, int32_t like, Spot spot, Found& found, Found& gone);
  bool apart(Rest rest);
  TokenSet made(Found::Stay&& stay) const;
  void note(int32_t lexeme, Spot spot, Found& found);
  void reach(int32_t lexeme, Spot spot, Found& found);
  void leave(int32_t lexeme, Spot spot, Found::Part& part);
  void below(int32_t lexeme, Spot spot, Found& found);
  // A state of the lexer that characters of some classes lead back to.
  struct Loop {
    int32_t lexeme;
    CharClasses loops;
    ByteSet bytes, survived = {};  // that lead on; with which a lexeme that has ended here is still ended
    int32_t competing = 0;
    std::vector<Spot>* ends = nullptr;  // where a lexeme may end in the state
  };
  void below_loop(int32_t lexeme, CharClasses loops, int32_t at, Found& found);
  void walk_loop(int32_t lexeme, CharClasses loops, int32_t at, Found& found);
  void cross(const Loop& loop, int32_t node, Found& found, bool has_begun);
  void run(const Loop& loop, int32_t at, Found& found);
  Rest intern(std::vector<Spot>&& spots);

  Lexemes& lexemes_;
  CompetingTerminals& competing_;
  LexemeEnds& ends_;
  const TokenVocabulary& vocabulary_;
  std::vector<std::unique_ptr<std::vector<Spot>>> rests_;  // by byte, then by node
  std::vector<int8_t> apart_;                              // by rest; -1: not known
  struct SpotsHash {
    size_t operator()(const std::vector<Spot>& spots) const {
      uint64_t h = spots.size();
      for (const Spot& spot : spots) h = combine(h, pair_key(spot.node, spot.competing));
      return static_cast<size_t>(h);
    }
  };
  std::unordered_map<std::vector<Spot>, Rest, SpotsHash> rest_ids_;
  std::unordered_map<uint64_t, std::unique_ptr<Table>> tables_;  // by lexeme and rest
  std::unordered_map<uint64_t, std::unique_ptr<Found>> runs_;    // of loops below large nodes, by lexeme and node
  size_t memory_ = 0;
  int64_t clearings_ = 0;
};

}  // namespace guided
