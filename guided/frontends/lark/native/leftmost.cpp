#include "leftmost.hpp"

#include <algorithm>
#include <unordered_map>

namespace guided::lark {
namespace {

constexpr int64_t kMaxPositions = 20'000, kMaxSteps = 20'000'000;
constexpr size_t kMaxStates = 10'000, kMaxEdges = 500'000;

int64_t count_positions(const Regex& tree, bool is_unrolled) {
  int64_t out = 0;
  for (const Regex& part : tree.parts) out += count_positions(part, is_unrolled);
  if (tree.kind == Regex::Kind::kChars) return 1;
  if (tree.kind == Regex::Kind::kRepeat)
    out = std::max<int64_t>(1, out) * (is_unrolled ? std::max({1, tree.low, tree.high}) : 1);
  return std::min(out, int64_t{1} << 40);
}

// A tree as a program of Pike's virtual machine. An instruction reads a character and continues at `ways[0]`, tries
// other positions in order (`ways`), or is the match (position 0).
class Program {
 public:
  struct Instruction {
    const Ranges* chars = nullptr;
    std::vector<int32_t> ways = {};
  };

  explicit Program(const Regex& tree) {
    instructions_.push_back({});
    start_ = compile(tree, 0);
  }

  int32_t start() const { return start_; }
  size_t size() const { return instructions_.size(); }
  const Instruction& operator[](int32_t position) const { return instructions_[position]; }
  bool is_match(int32_t position) const { return position == 0; }

 private:
  int32_t add(Instruction instruction) {
    instructions_.push_back(std::move(instruction));
    return static_cast<int32_t>(instructions_.size()) - 1;
  }

  // Adds the instructions of `tree`, after which the program continues at `continuation`. Returns their start.
  int32_t compile(const Regex& tree, int32_t continuation) {
    switch (tree.kind) {
      case Regex::Kind::kChars:
      case Regex::Kind::kNothing:
        return add({&tree.chars, {continuation}});
      case Regex::Kind::kSequence:
        for (size_t i = tree.parts.size(); i-- > 0;) continuation = compile(tree.parts[i], continuation);
        return continuation;
      case Regex::Kind::kChoice: {
        Instruction instruction;
        for (const Regex& part : tree.parts) instruction.ways.push_back(compile(part, continuation));
        return add(std::move(instruction));
      }
      case Regex::Kind::kRepeat:
        return repeat(tree, continuation);
    }
    throw NotHandled{};
  }

  int32_t repeat(const Regex& tree, int32_t continuation) {
    const Regex& item = tree.parts[0];
    const auto ordered_ways = [&](int32_t repetition) {
      return tree.is_lazy ? std::vector{continuation, repetition} : std::vector{repetition, continuation};
    };
    int32_t position = continuation;
    if (tree.high == kUnbounded) {
      if (may_be_empty(item)) throw NotHandled{};
      position = add({});
      auto ways = ordered_ways(compile(item, position));
      instructions_[position].ways = std::move(ways);
    } else {
      for (int32_t round = tree.low; round < tree.high; ++round) {
        auto ways = ordered_ways(compile(item, position));
        position = add({nullptr, std::move(ways)});
      }
    }
    for (int32_t round = 0; round < tree.low; ++round) position = compile(item, position);
    return position;
  }

  static bool may_be_empty(const Regex& tree) {
    switch (tree.kind) {
      case Regex::Kind::kChars:
      case Regex::Kind::kNothing:
        return false;
      case Regex::Kind::kSequence:
        return std::all_of(tree.parts.begin(), tree.parts.end(), may_be_empty);
      case Regex::Kind::kChoice:
        return std::any_of(tree.parts.begin(), tree.parts.end(), may_be_empty);
      case Regex::Kind::kRepeat:
        return tree.low == 0 || may_be_empty(tree.parts[0]);
    }
    return true;
  }

  std::vector<Instruction> instructions_;
  int32_t start_ = 0;
};

using List = std::vector<int32_t>;

struct ListHash {
  size_t operator()(const List& list) const {
    uint64_t out = 0xcbf29ce484222325;
    for (const int32_t each : list) out = (out ^ static_cast<uint64_t>(each)) * 0x100000001b3;
    return out;
  }
};

// Subset construction with lists: the states are the reachable lists of positions.
class Subsets {
 public:
  explicit Subsets(const Program& program) : program_(program), seen_round_(program.size()) {}

  Automaton automaton() {
    Automaton out;
    intern_list({program_.start()});
    for (size_t i = 0; i < lists_.size(); ++i) {
      const List state = *lists_[i];
      std::vector<Edge> edges;
      split_ranges(state);
      for (size_t piece = 0; piece + 1 < boundaries_.size(); ++piece) {
        if (successors_[piece].empty()) continue;
        const int32_t low = boundaries_[piece], high = boundaries_[piece + 1] - 1, to = intern_list(successors_[piece]);
        if (!edges.empty() && edges.back().high + 1 == low && edges.back().to == to)
          edges.back().high = high;
        else
          edges.push_back({low, high, to});
      }
      edges_ += edges.size();
      if (edges_ > kMaxEdges) throw NotHandled{};
      out.accepts.push_back(!state.empty() && program_.is_match(state.back()));
      out.edges.push_back(std::move(edges));
    }
    return out;
  }

 private:
  int32_t intern_list(const List& starts) {
    const auto [it, is_new] = numbers_.try_emplace(closure(starts), static_cast<int32_t>(lists_.size()));
    if (is_new) lists_.push_back(&it->first);
    if (lists_.size() > kMaxStates) throw NotHandled{};
    return it->second;
  }

  // The positions that read a character, in order of preference, up to and including the match.
  List closure(const List& starts) {
    List out;
    ++round_;
    stack_.assign(starts.rbegin(), starts.rend());
    while (!stack_.empty()) {
      const int32_t position = stack_.back();
      stack_.pop_back();
      if (seen_round_[position] == round_) continue;
      seen_round_[position] = round_;
      spend(1);
      const auto& [chars, ways] = program_[position];
      if (chars != nullptr || program_.is_match(position)) out.push_back(position);
      if (program_.is_match(position)) break;
      if (chars == nullptr) stack_.insert(stack_.end(), ways.rbegin(), ways.rend());
    }
    return out;
  }

  // Sets `boundaries_` to the boundaries of the state's ranges, and `successors_` to the positions that follow each
  // piece between two boundaries.
  void split_ranges(const List& state) {
    boundaries_.clear();
    const auto for_each_range = [&](auto visit) {
      for (const int32_t position : state)
        if (program_[position].chars != nullptr)
          for (const auto& [low, high] : *program_[position].chars) visit(position, low, high);
    };
    for_each_range([&](int32_t, int32_t low, int32_t high) { boundaries_.insert(boundaries_.end(), {low, high + 1}); });
    std::sort(boundaries_.begin(), boundaries_.end());
    boundaries_.erase(std::unique(boundaries_.begin(), boundaries_.end()), boundaries_.end());
    successors_.assign(boundaries_.size(), {});
    for_each_range([&](int32_t position, int32_t low, int32_t high) {
      auto piece = std::lower_bound(boundaries_.begin(), boundaries_.end(), low) - boundaries_.begin();
      for (; boundaries_[piece] <= high; ++piece) {
        spend(1);
        successors_[piece].push_back(program_[position].ways[0]);
      }
    });
  }

  void spend(int64_t steps) {
    steps_ += steps;
    if (steps_ > kMaxSteps) throw NotHandled{};
  }

  const Program& program_;
  std::vector<int32_t> seen_round_;
  int32_t round_ = 0;
  int64_t steps_ = 0;
  size_t edges_ = 0;
  std::unordered_map<List, int32_t, ListHash> numbers_;
  std::vector<const List*> lists_;
  std::vector<int32_t> stack_, boundaries_;
  std::vector<List> successors_;
};

}  // namespace

Automaton leftmost_texts(const Regex& tree, int64_t max_unrolled) {
  const int64_t unrolled = count_positions(tree, true);
  if (unrolled > kMaxPositions || unrolled - count_positions(tree, false) > max_unrolled) throw NotHandled{};
  const Program program(tree);
  return Subsets(program).automaton();
}

}  // namespace guided::lark
