#include "lexer/blocking_competitors.hpp"

#include <set>

namespace guided {

namespace {
constexpr size_t kMaxPairs = 1 << 14;
constexpr size_t kMaxCosts = 16;
}  // namespace

BlockingCompetitors::BlockingCompetitors(Lexemes& lexemes, Competitors& competitors, const Grammar& rules,
                                         const BlockLevels& levels, const std::vector<int32_t>& control_tokens,
                                         size_t symbols)
    : lexemes_(lexemes),
      competitors_(competitors),
      rules_(rules),
      levels_(levels),
      symbols_(symbols),
      is_supported_(!lexemes.indentation().is_given &&
                    std::ranges::all_of(control_tokens, [](int32_t token) { return token == kNoTerminal; })) {}

SequenceCosts* BlockingCompetitors::find_costs(int32_t competitors) {
  if (!is_supported_ || competitors == 0) return nullptr;
  const auto [it, is_new] = costs_by_set_.try_emplace(competitors, nullptr);
  if (!is_new) return it->second;
  std::vector<int64_t> weights = find_weights(competitors);
  if (weights.empty()) return nullptr;
  for (Costs& existing : costs_)
    if (existing.weights == weights) return it->second = existing.costs.get();
  if (costs_.size() == kMaxCosts) return nullptr;
  Costs& new_costs = costs_.emplace_back(Costs{std::move(weights), nullptr});
  new_costs.costs =
      std::make_unique<SequenceCosts>(rules_, lexemes_.indentation(), levels_, new_costs.weights, no_lines_);
  return it->second = new_costs.costs.get();
}

// Returns a weight for each terminal: 1 if it can be written while the competitors last, otherwise kNever. Empty if the
// competitors may end.
std::vector<int64_t> BlockingCompetitors::find_weights(int32_t competitors) {
  struct Reader {
    TerminalAutomaton* automaton;
    int32_t terminal;
  };
  std::vector<Reader> readers;
  for (size_t t = 0; t < lexemes_.terminals().size(); ++t)
    readers.push_back({&lexemes_.terminals()[t].automaton, static_cast<int32_t>(t)});
  for (LexerKeyword& keyword : lexemes_.keywords()) readers.push_back({&keyword.automaton, keyword.terminal});
  struct Pair {
    int32_t reader, state, competitors;
    auto operator<=>(const Pair&) const = default;
  };
  std::vector<int64_t> weights(symbols_, kNever);
  std::vector<Pair> todo;
  std::set<Pair> seen;
  std::set<int32_t> visited_sets;  // sets of competitors with which lexemes have begun
  auto add_pair = [&](const Pair& pair) {
    if (seen.insert(pair).second) todo.push_back(pair);
  };
  auto begin_lexemes = [&](int32_t set) {
    if (!visited_sets.insert(set).second) return;
    for (size_t r = 0; r < readers.size(); ++r) add_pair({static_cast<int32_t>(r), readers[r].automaton->start(), set});
  };
  begin_lexemes(competitors);
  while (!todo.empty()) {
    const Pair pair = todo.back();
    todo.pop_back();
    TerminalAutomaton& automaton = *readers[pair.reader].automaton;
    bool may_end = seen.size() > kMaxPairs;
    const ByteSet bytes = automaton.bytes(pair.state);
    CallMeter::work(kLookup + bytes.count());
    bytes.each([&](uint8_t byte) {
      const int32_t next = may_end ? static_cast<int32_t>(kDropped) : competitors_.advance(pair.competitors, byte);
      may_end = may_end || next == 0;
      if (next > 0) add_pair({pair.reader, automaton.step(pair.state, byte), next});
    });
    if (may_end) return {};
    if (automaton.matches(pair.state)) {
      weights[readers[pair.reader].terminal] = 1;
      begin_lexemes(pair.competitors);
    }
  }
  return weights;
}

}  // namespace guided
