#include "lexer/lexeme_ends.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace guided {

namespace {
constexpr size_t kMostBegun = 2048;  // states of lexemes that one search visits
}

void LexemeEnds::add(std::vector<End>& ends, const End& end) {
  for (End& known : ends)
    if (known.label == end.label && known.ignored == end.ignored && known.competing == end.competing) {
      known.tokens = std::min(known.tokens, end.tokens);
      return;
    }
  ends.push_back(end);
}

namespace {

// The bytes that a search has read up to a node, and the states before and after each of them.
template <class Node>
std::pair<std::string, std::vector<Begun>> way_to(const std::vector<Node>& nodes, int32_t node) {
  std::string text;
  std::vector<Begun> path{nodes[node].begun};
  for (int32_t n = node; nodes[n].before >= 0; n = nodes[n].before) {
    text.push_back(static_cast<char>(nodes[n].byte));
    path.push_back(nodes[nodes[n].before].begun);
  }
  std::ranges::reverse(text);
  std::ranges::reverse(path);
  return {std::move(text), std::move(path)};
}

}  // namespace

// Notes that a lexeme ends at a node; false if no tokens spell it.
bool LexemeEnds::ends_here(const std::vector<Node>& nodes, int32_t node, int32_t pending) {
  const auto [text, path] = way_to(nodes, node);
  const std::vector<int64_t> tokens = SafeWitnesses::tokens_of(text, vocabulary_);
  if (tokens[0] >= kNever) return false;
  const LexemeState& state = lexemes_.state(nodes[node].begun.lexeme);
  for (size_t k = 0; k < path.size(); ++k)
    add(at(path[k]).list, {.label = state.label, .ignored = state.ignored, .tokens = tokens[k], .competing = pending});
  return true;
}

// The same of a line; whether all widths are reached from there.
bool LexemeEnds::begins_line(const std::vector<Node>& nodes, int32_t node, int32_t pending) {
  const auto [text, path] = way_to(nodes, node);
  const int32_t width = lexemes_.indentation().width(lexemes_.state(nodes[node].begun.lexeme).label);
  const bool has_line_feed = text.find('\n') != std::string::npos;
  int64_t& least = at(path[0]).least_width;
  least = std::min<int64_t>(least, has_line_feed ? 0 : std::max(0, lexemes_.state(path[0].lexeme).width));
  const bool is_new = !text.empty() && text.back() == '\n';
  if (!sure_.is_line(pending) || !(text.empty() || is_new)) return false;
  for (size_t k = 0; k < path.size(); ++k) {
    Ends& ends = at(path[k]);
    const std::string rest = text.substr(k);
    if (std::ranges::any_of(ends.lines, [&](const Line& line) { return line.text == rest; })) continue;
    ends.lines.push_back({rest, width});
    ends.line_tokens.clear();
  }
  return is_new;
}

const std::vector<LexemeEnds::End>& LexemeEnds::ends(Begun from) {
  if (const Ends& known = at(from); known.searched) return known.list;
  std::vector<Node> nodes{{from, -1, 0}};
  std::set<std::tuple<int32_t, int32_t, bool>> met{{lexemes_.state(from.lexeme).shape, from.competing, false}};
  const LexemeState& begun = lexemes_.state(from.lexeme);
  auto is_wanted = [](const LexemeState::Match& match) { return match.wanted; };
  const size_t wanted =
      static_cast<size_t>(std::ranges::count_if(begun.open, is_wanted) +
                          std::ranges::count_if(begun.keywords, is_wanted) + (begun.label != kNoTerminal));
  std::vector<std::pair<int32_t, bool>> found;               // labels after which a token at most is needed
  std::map<std::pair<int32_t, bool>, int64_t> least_demand;  // of a label's ends so far; kNever: nothing can follow
  auto has = [](const auto& labels, const auto& label) { return std::ranges::find(labels, label) != labels.end(); };
  std::vector<End> all;
  int32_t i = 0;
  for (; i < static_cast<int32_t>(nodes.size()) && found.size() < wanted && nodes.size() < kMostBegun; ++i) {
    const Begun at = nodes[i].begun;
    const LexemeState& state = lexemes_.state(at.lexeme);
    const bool is_line = lexemes_.indentation().is_line(state.label);
    const std::pair<int32_t, bool> label{is_line ? lexemes_.indentation().newline : state.label, state.ignored};
    const int32_t pending = state.label == kNoTerminal ? 0 : competing_.add(at.competing, at.lexeme);
    if (state.label != kNoTerminal && !is_line) add(all, {state.label, state.ignored, 0, pending});
    const int64_t needed =
        demand({.label = state.label, .ignored = state.ignored, .tokens = 0, .competing = pending}).tokens;
    const auto least = least_demand.find(label);
    if (is_line && !has(found, label)) {
      if (begins_line(nodes, i, pending)) found.push_back(label);
    } else if (state.label != kNoTerminal && !has(found, label) &&
               (least == least_demand.end() || needed < least->second)) {
      // The rest of a separator under way may be less than what would be needed behind it, if it ended here.
      if (ends_here(nodes, i, pending)) {
        least_demand[label] = needed;
        if (needed <= 1) found.push_back(label);
      }
    }
    const ByteSet bytes = state.bytes;
    bytes.each([&](uint8_t byte) {
      const int32_t competing = competing_.advance(at.competing, byte);
      const int32_t lexeme = competing == kDropped ? static_cast<int32_t>(kNoLexeme) : lexemes_.step(at.lexeme, byte);
      if (lexeme == kNoLexeme) return;
      const LexemeState& after = lexemes_.state(lexeme);
      const bool begins_line = byte == '\n' && lexemes_.indentation().is_line(after.label);
      if (met.emplace(after.shape, competing, begins_line).second) nodes.push_back({{lexeme, competing}, i, byte});
    });
  }
  Ends& out = at(from);
  out.searched = true;
  out.has_all = i == static_cast<int32_t>(nodes.size());
  if (out.has_all) out.all = std::move(all);
  out.complete = i == static_cast<int32_t>(nodes.size()) || found.size() >= wanted;
  return out.list;
}

Demand LexemeEnds::demand(const End& end) {
  const Indentation& indentation = lexemes_.indentation();
  const bool is_left_out = end.ignored || end.label == indentation.newline || indentation.is_line(end.label);
  return sure_.demand(end.competing, is_left_out ? static_cast<int32_t>(kNoTerminal) : end.label);
}

int64_t LexemeEnds::least(Begun begun) {
  int64_t out = kNever;
  for (const End& end : ends(begun))
    if (const Demand after = demand(end); after.last == kWord) out = std::min(out, end.tokens + after.tokens);
  return out;
}

int64_t LexemeEnds::line_tokens(Begun begun, int32_t width) {
  ends(begun);
  Ends& found = at(begun);
  auto [known, added] = found.line_tokens.try_emplace(width, kNever);
  if (added)
    for (const Line& line : found.lines)
      if (line.width <= width)
        known->second = std::min(known->second, sure_.tokens_of_line(line.text, width - line.width)[0]);
  return known->second;
}

}  // namespace guided
