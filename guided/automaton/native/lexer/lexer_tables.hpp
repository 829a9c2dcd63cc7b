// Token tables of the lexer: the results that the lexer alone determines, for many tokens at once.
//
// Problem. A token may contain several lexemes, such as `):` or ` if x`. Whether it is allowed depends on the parser's
// stack. A walk of the trie of tokens with readings (readings.hpp) would have to be repeated for each new parser state,
// and would visit most of the trie.
//
// But the parser does nothing *inside* a lexeme. So there is a table for each lexer state and part of the trie. It
// contains the results that the lexer alone determines for the tokens in that part:
//
//     stay    the tokens that end within the lexeme
//     ends    for each terminal that the lexeme may become: the tokens that end exactly with it, and the *rest*: the
//             spots in the trie at which the lexeme has ended and the token continues
//
// A mask is the union of *stay* and, for each end that the parser can accept, its tokens and the mask of the rest. For
// the rest, the mask reads the table of the lexer state that begins the next lexeme. Tables depend on the lexer alone,
// so all parser states share them. Lexer states depend on what can still be read, not on the set of terminals
// (lexemes.hpp), so nearly all parts of a table for a new set of terminals exist already.
//
// After each allowed token, there must be a completion (lexed_rests.hpp). If all unfinished lexemes of a table provably
// have completions, *stay* is used as it is. Otherwise, and under a budget, its tokens are *grouped* by the lexer state
// in which they end, and each group is checked with the parser state.
//
// Many lexer states soon become equal: `sel`, `set` and `x` all become names. For a state that loops, the results below
// a trie node are cached, and other tables reuse them. The table of a state inside or at the end of a keyword starts as
// a copy of the table of a name. The trie is walked only where the two states differ: along the keyword
// (`add_differences`).
//
// Cost: building a table walks its part of the trie once, and once more for groups. A mask reads one table for each
// sequence of terminals in its tokens.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "lexer/lexed_rests.hpp"

namespace guided {

class LexerTables {
 public:
  using Rest = int32_t;  // the number of a set of spots, whose bytes are read next
  static constexpr Rest kRoot = 0, kNoRest = -1;
  struct Table;
  struct Group {  // tokens that end in the same lexer state, or with the same competitors
    UnfinishedLexeme unfinished;
    TokenSet tokens;
    Demand demand = {};  // what `unfinished.competitors` demands; only for groups of an `End`
  };
  struct End {
    int32_t label;
    bool is_ignored;
    std::vector<Group> tokens;  // by `unfinished.competitors` alone, because the lexeme has ended
    Rest rest = kNoRest;
    mutable int32_t start = kNoLexeme;    // the last `start` passed to `table_after`
    mutable const Table* next = nullptr;  // the table for it
  };
  // A terminal that an unfinished lexeme may become, and what was read last after it, which restricts what may follow.
  struct Label {
    int32_t terminal;
    bool is_ignored;
    LastRead last;
    auto operator<=>(const Label&) const = default;
  };
  // Unfinished lexemes with the same labels. `tokens`: by label, the maximum number of tokens that any of these lexemes
  // needs to become a lexeme with this label.
  struct Profile {
    std::vector<Label> labels;
    std::vector<int64_t> tokens;
    std::vector<UnfinishedLexeme> lines;             // those of the lexemes that may also become lines
    mutable std::map<int32_t, int64_t> line_tokens;  // by width; computed on demand
  };
  struct Table {
    TokenSet stay;
    std::vector<End> ends;
    std::vector<const Table*> group_tables;  // the non-empty tables of the state's groups of terminals
    std::vector<Profile> profiles;
    // Unfinished lexemes whose completion depends on the lexer position, even if the parser accepts all their labels.
    // Example: a comment that ends with a line feed, if some other terminal may begin with one.
    std::vector<UnfinishedLexeme> unproven;
    int32_t lexeme = 0, number = 0;
    Rest rest = 0;
    mutable std::unique_ptr<std::vector<Group>> groups;                         // of `stay`; computed on demand
    mutable std::map<std::vector<UnfinishedLexeme>, TokenSet> staying_without;  // by lexemes
    bool empty() const { return stay.dense.empty() && stay.sparse.empty() && ends.empty() && group_tables.empty(); }
  };

  LexerTables(Lexemes& lexemes, Competitors& competitors, LexemeEnds& ends, const TokenVocabulary& vocabulary)
      : lexemes_(lexemes), competitors_(competitors), ends_(ends), vocabulary_(vocabulary) {
    rests_.emplace_back(nullptr);  // kRoot, whose spots and bytes are never used
    rest_bytes_.emplace_back();
  }
  // The reference is valid until `clear`.
  const Table& table(int32_t lexeme, Rest rest);
  // The table of the rest after `end`, if the next lexeme begins in lexer state `start`.
  const Table& table_after(const End& end, int32_t start) {
    if (end.start != start) end.next = &table(start, end.rest), end.start = start;
    return *end.next;
  }
  const std::vector<Group>& groups(const Table& table);
  // The tokens of `table.stay` that do not end within one of `lexemes`, which are sorted.
  const TokenSet& staying_without(const Table& table, const std::vector<UnfinishedLexeme>& lexemes);
  // The maximum number of tokens that a lexeme of the profile needs to become a line of this width.
  int64_t line_tokens(const Profile& profile, int32_t width);
  // The rest that contains all tokens, if these terminals compete with earlier lexemes.
  Rest all_tokens(int32_t competitors);
  int32_t size() const { return static_cast<int32_t>(tables_.size()); }
  size_t memory() const { return memory_; }
  void clear();
  int64_t clear_count() const { return clear_count_; }

 private:
  // A trie node, its byte, and the competitors after the byte.
  struct Spot {
    uint8_t byte;
    int32_t node, competitors;
    auto operator<=>(const Spot&) const = default;
  };
  Spot spot(int32_t node, int32_t competitors) const {
    return {.byte = vocabulary_.trie.nodes()[node].byte, .node = node, .competitors = competitors};
  }
  // The spot of a child node. `competitors`: the competitors of the parent's spot.
  Spot child_spot(int32_t node, int32_t competitors) const {
    const uint8_t byte = vocabulary_.trie.nodes()[node].byte;
    return {.byte = byte, .node = node, .competitors = competitors_.advance(competitors, byte)};
  }
  // The result of one walk.
  struct WalkResult {
    bool is_grouped = false;  // collect the tokens that stay in `groups`, not in `stay`
    struct Stay {
      std::vector<int32_t> tokens;
      std::vector<uint32_t> bits;  // further tokens, as a bitmask row; or empty
    };
    Stay stay;
    std::map<UnfinishedLexeme, Stay> groups;
    std::unordered_set<uint64_t> unfinished;  // unfinished lexemes in which tokens stay, and that have no profile yet
    std::vector<Profile> profiles;
    std::vector<UnfinishedLexeme> unproven;
    struct EndResult {
      std::map<int32_t, std::vector<int32_t>> tokens;  // by set of competitors
      std::vector<Spot> spots;
    };
    std::map<std::pair<int32_t, bool>, EndResult> ends;  // by label and whether it is ignored
    // The last arguments of `stay_for` and `end_result`, and their results: most calls repeat the arguments.
    UnfinishedLexeme last_unfinished = {kNoLexeme, 0};
    Stay* last_stay = &stay;
    std::pair<int32_t, bool> last_end;
    EndResult* last_end_result = nullptr;
    EndResult& end_result(int32_t label, bool is_ignored) {
      if (const std::pair end{label, is_ignored}; !last_end_result || end != last_end)
        last_end_result = &ends[last_end = end];
      return *last_end_result;
    }
    Stay& stay_for(UnfinishedLexeme each) {
      if (each == last_unfinished) return *last_stay;
      last_unfinished = each;
      if (is_grouped)
        last_stay = &groups[each];
      else
        unfinished.insert(pair_key(each.lexeme, each.competitors));
      return *last_stay;
    }
    void add(const WalkResult& other);
    void remove(const WalkResult& other);
    size_t memory() const;
  };
  ByteSet readable_bytes(int32_t lexeme, Rest rest) const;
  void walk(int32_t lexeme, Rest rest, WalkResult& result);
  void find_profiles(Table& table, const WalkResult& result);
  std::unique_ptr<Table> build(int32_t lexeme, Rest rest);
  bool start_from_similar(int32_t similar, int32_t lexeme, Rest rest, WalkResult& result);
  void add_differences(int32_t lexeme, int32_t similar, Spot spot, WalkResult& to_add, WalkResult& to_remove);
  bool has_disjoint_spots(Rest rest);
  TokenSet make_set(WalkResult::Stay&& stay) const;
  void collect_at(int32_t lexeme, Spot spot, WalkResult& result);
  void collect_from(int32_t lexeme, Spot spot, WalkResult& result);
  void collect_continuations(int32_t lexeme, Spot spot, WalkResult::EndResult& end_result);
  void collect_below(int32_t lexeme, Spot spot, WalkResult& result);
  // A lexer state to which all characters of some classes lead back.
  struct Loop {
    int32_t lexeme;
    CharClasses loops;
    ByteSet bytes, surviving = {};  // bytes that continue the lexeme; bytes that may follow it if it has ended here
    int32_t competitors = 0;
    std::vector<Spot>* ends = nullptr;  // collects the spots after a lexeme that ends in this state; null: none can
  };
  void collect_loop(int32_t lexeme, CharClasses loops, int32_t node, WalkResult& result);
  void walk_loop(int32_t lexeme, CharClasses loops, int32_t node, WalkResult& result);
  void leave_loop(const Loop& loop, int32_t node, WalkResult& result, bool has_begun);
  void walk_loop_below(const Loop& loop, int32_t node, WalkResult& result);
  static void sort_spots(std::vector<Spot>& spots);
  Rest intern(std::vector<Spot>&& spots);

  Lexemes& lexemes_;
  Competitors& competitors_;
  LexemeEnds& ends_;
  const TokenVocabulary& vocabulary_;
  std::vector<std::unique_ptr<std::vector<Spot>>> rests_;  // the spots of each rest, sorted by byte, then by node
  std::vector<ByteSet> rest_bytes_;                        // by rest: the bytes of its spots
  std::vector<int8_t> has_disjoint_spots_;                 // by rest; -1: not computed
  struct SpotsHash {
    size_t operator()(const std::vector<Spot>& spots) const {
      uint64_t h = spots.size();
      for (const Spot& spot : spots) h = combine(h, pair_key(spot.node, spot.competitors));
      return static_cast<size_t>(h);
    }
  };
  std::unordered_map<std::vector<Spot>, Rest, SpotsHash> rest_ids_;
  std::unordered_map<uint64_t, std::unique_ptr<Table>> tables_;  // by lexeme and rest
  // By lexeme and node: the results of loops below large nodes.
  std::unordered_map<uint64_t, std::unique_ptr<WalkResult>> loop_results_;
  size_t memory_ = 0;
  int64_t clear_count_ = 0;
};

}  // namespace guided
