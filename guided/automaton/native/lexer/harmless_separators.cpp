// For terminals without a separator (sure_texts.hpp): finds one after which no competitor ever matches.
//
// Problem. After a separator and the next text, a competitor may still be able to match, so sure_texts.cpp rejects the
// separator. For example, the terminal `LATE` of grammars/javascript.lark is a line break, which may be inside a
// comment, and then `++`, `--` or `=>`. After `a `, the `/` of a division may begin this comment.
//
// In: the texts of all terminals, and the separators that are used between them. Out: at most one more separator. It is
// valid after a terminal if no sequence of these texts and separators lets a competitor match. In `a / b`, neither `/`
// nor `*` follows the `/`, so no comment has begun.
//
// How: a search over the states of the competitor, as in competitors.hpp. It distinguishes the terminal that was read
// last, because the separator is valid only after this terminal. The proof covers only the separators in use and the
// new one. A second new separator would need another proof, so only one is added.
//
// Cost: at most kMaxSteps texts are read for each grammar.
#include <algorithm>
#include <set>
#include <tuple>

#include "lexer/sure_texts.hpp"

namespace guided {

namespace {
constexpr int64_t kMaxSteps = 1 << 20;
}

// Makes one more separator valid: after terminals that have none, if their competitors can then never match.
void SureTexts::allow_harmless_separator() {
  if (lexemes_.indentation().is_given) return;
  std::vector<std::pair<int32_t, OpenTerminals>> unseparated;
  std::vector<std::string> texts_in_use;
  for (int32_t t = 0; t < static_cast<int32_t>(texts_.size()); ++t) {
    if (texts_[t].empty()) continue;
    OpenTerminals open = open_after(texts_[t], t);
    if (!needs_separator(t, open)) continue;
    if (const Separator* separator = find_separator(t, open))
      texts_in_use.push_back(separator->text);
    else
      unseparated.emplace_back(t, std::move(open));
  }
  sort_unique(texts_in_use);
  steps_left_ = kMaxSteps;
  bool is_done = unseparated.empty();
  for (Separator& separator : separators_) {
    if (is_done) return;
    std::vector<std::string> separator_texts = texts_in_use;
    separator_texts.push_back(separator.text);
    for (const auto& [terminal, open] : unseparated) {
      if (!all_die_in_text(open, separator.text) ||
          !can_separate(separator, tried_.tried_after(terminal), terminal, &separator_texts))
        continue;
      separator.is_valid[terminal] = true;
      is_done = true;
    }
  }
}

// Whether a competitor matches in no sequence of texts and separators that can follow terminal `last` and a separator.
// `state`: the competitor's state after this separator. False if the search exceeds its limit.
bool SureTexts::never_matches(int32_t competitor, int32_t state, int32_t last,
                              const std::vector<std::string>& separators) {
  TerminalAutomaton& automaton = lexemes_.terminals()[competitor].automaton;
  using Node = std::tuple<int32_t, bool, int32_t>;  // the last terminal, whether a separator follows it, the state
  std::set<Node> visited{{last, true, state}};
  std::vector<Node> todo(visited.begin(), visited.end());
  auto read_without_match = [&](int32_t terminal, bool is_separated, int32_t from, std::string_view text) {
    if (--steps_left_ < 0) return false;
    for (char c : text) {
      from = automaton.step(from, static_cast<uint8_t>(c));
      if (from == kDead) return true;
      if (automaton.matches(from)) return false;
    }
    const Node node{terminal, is_separated, from};
    if (visited.insert(node).second) todo.push_back(node);
    return true;
  };
  while (!todo.empty()) {
    const auto [terminal, is_separated, from] = todo.back();
    todo.pop_back();
    for (size_t i = 0; !is_separated && i < separators.size(); ++i)
      if (!read_without_match(terminal, true, from, separators[i])) return false;
    for (int32_t t = 0; t < static_cast<int32_t>(texts_.size()); ++t)
      if (!texts_[t].empty() && followers_.can_follow(terminal, t) && (is_separated || follows_directly(terminal, t)) &&
          !read_without_match(t, false, from, texts_[t]))
        return false;
  }
  return true;
}

}  // namespace guided
