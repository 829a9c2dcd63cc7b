#include "leftmost.hpp"

#include <algorithm>
#include <unordered_map>

namespace guided::lark {
namespace {

constexpr int64_t kMaxPositions = 20'000, kMaxSteps = 20'000'000;
constexpr size_t kMaxStates = 10'000, kMaxEdges = 500'000;

int64_t positions(const Regex& tree, bool is_unrolled) {
  int64_t out = 0;
  for (const Regex& part : tree.parts) out += positions(part, is_unrolled);
  if (tree.kind == Regex::Kind::kChars) return 1;
  if (tree.kind == Regex::Kind::kRepeat)
    out = std::max<int64_t>(1, out) * (is_unrolled ? std::max({1, tree.low, tree.high}) : 1);
  return std::min(out, int64_t{1} << 40);
}

// The positions of a tree: each reads a character, or tries other positions in order, or is the match.
class Program {
 public:
  struct Step {
    const Ranges* chars = nullptr;
    std::vector<int32_t> ways = {};
  };

  explicit Program(const Regex& tree) {
    steps_.push_back({});
    start_ = compile(tree, 0);
  }

  int32_t start() const { return start_; }
  size_t size() const { return steps_.size(); }
  const Step& operator[](int32_t at) const { return steps_[at]; }
  bool is_match(int32_t at) const { return at == 0; }

 private:
  int32_t add(Step step) {
    steps_.push_back(std::move(step));
    return static_cast<int32_t>(steps_.size()) - 1;
  }

  // Adds the positions of `tree`, which continues at `then`; returns the first one.
  int32_t compile(const Regex& tree, int32_t then) {
    switch (tree.kind) {
      case Regex::Kind::kChars:
      case Regex::Kind::kNothing:
        return add({&tree.chars, {then}});
      case Regex::Kind::kSequence:
        for (size_t at = tree.parts.size(); at-- > 0;) then = compile(tree.parts[at], then);
        return then;
      case Regex::Kind::kChoice: {
        Step step;
        for (const Regex& part : tree.parts) step.ways.push_back(compile(part, then));
        return add(std::move(step));
      }
      case Regex::Kind::kRepeat:
        return repeat(tree, then);
    }
    throw Unusual{};
  }

  int32_t repeat(const Regex& tree, int32_t then) {
    const Regex& item = tree.parts[0];
    const auto ways = [&](int32_t again) { return tree.is_lazy ? std::vector{then, again} : std::vector{again, then}; };
    int32_t at = then;
    if (tree.high == kUnbounded) {
      if (may_be_empty(item)) throw Unusual{};
      at = add({});
      auto found = ways(compile(item, at));
      steps_[at].ways = std::move(found);
    } else {
      for (int32_t round = tree.low; round < tree.high; ++round) {
        auto found = ways(compile(item, at));
        at = add({nullptr, std::move(found)});
      }
    }
    for (int32_t round = 0; round < tree.low; ++round) at = compile(item, at);
    return at;
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

  std::vector<Step> steps_;
  int32_t start_ = 0;
};

using List = std::vector<int32_t>;

struct HashOfList {
  size_t operator()(const List& list) const {
    uint64_t out = 0xcbf29ce484222325;
    for (const int32_t each : list) out = (out ^ static_cast<uint64_t>(each)) * 0x100000001b3;
    return out;
  }
};

// The lists of positions that can be reached are the states.
class Subsets {
 public:
  explicit Subsets(const Program& program) : program_(program), seen_(program.size()) {}

  Automaton automaton() {
    Automaton out;
    number({program_.start()});
    for (size_t at = 0; at < lists_.size(); ++at) {
      const List state = *lists_[at];
      std::vector<Edge> edges;
      pieces(state);
      for (size_t piece = 0; piece + 1 < ends_.size(); ++piece) {
        if (following_[piece].empty()) continue;
        const int32_t low = ends_[piece], high = ends_[piece + 1] - 1, to = number(following_[piece]);
        if (!edges.empty() && edges.back().high + 1 == low && edges.back().to == to)
          edges.back().high = high;
        else
          edges.push_back({low, high, to});
      }
      edges_ += edges.size();
      if (edges_ > kMaxEdges) throw Unusual{};
      out.accepts.push_back(!state.empty() && program_.is_match(state.back()));
      out.edges.push_back(std::move(edges));
    }
    return out;
  }

 private:
  int32_t number(const List& starts) {
    const auto [at, is_new] = numbers_.try_emplace(closure(starts), static_cast<int32_t>(lists_.size()));
    if (is_new) lists_.push_back(&at->first);
    if (lists_.size() > kMaxStates) throw Unusual{};
    return at->second;
  }

  // The positions that read a character, in order, up to the match.
  List closure(const List& starts) {
    List out;
    ++round_;
    stack_.assign(starts.rbegin(), starts.rend());
    while (!stack_.empty()) {
      const int32_t at = stack_.back();
      stack_.pop_back();
      if (seen_[at] == round_) continue;
      seen_[at] = round_;
      spend(1);
      const auto& step = program_[at];
      if (step.chars != nullptr || program_.is_match(at)) out.push_back(at);
      if (program_.is_match(at)) break;
      if (step.chars == nullptr) stack_.insert(stack_.end(), step.ways.rbegin(), step.ways.rend());
    }
    return out;
  }

  // Sets `ends_` to the borders of the state's ranges, and `following_` to the positions after each piece between them.
  void pieces(const List& state) {
    ends_.clear();
    const auto each_range = [&](auto visit) {
      for (const int32_t at : state)
        if (program_[at].chars != nullptr)
          for (const auto& [low, high] : *program_[at].chars) visit(at, low, high);
    };
    each_range([&](int32_t, int32_t low, int32_t high) { ends_.insert(ends_.end(), {low, high + 1}); });
    std::sort(ends_.begin(), ends_.end());
    ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
    following_.assign(ends_.size(), {});
    each_range([&](int32_t at, int32_t low, int32_t high) {
      auto piece = std::lower_bound(ends_.begin(), ends_.end(), low) - ends_.begin();
      for (; ends_[piece] <= high; ++piece) {
        spend(1);
        following_[piece].push_back(program_[at].ways[0]);
      }
    });
  }

  void spend(int64_t steps) {
    steps_ += steps;
    if (steps_ > kMaxSteps) throw Unusual{};
  }

  const Program& program_;
  std::vector<int32_t> seen_;
  int32_t round_ = 0;
  int64_t steps_ = 0;
  size_t edges_ = 0;
  std::unordered_map<List, int32_t, HashOfList> numbers_;
  std::vector<const List*> lists_;
  std::vector<int32_t> stack_, ends_;
  std::vector<List> following_;
};

}  // namespace

Automaton leftmost_texts(const Regex& tree, int64_t most_unrolled) {
  const int64_t unrolled = positions(tree, true);
  if (unrolled > kMaxPositions || unrolled - positions(tree, false) > most_unrolled) throw Unusual{};
  const Program program(tree);
  return Subsets(program).automaton();
}

}  // namespace guided::lark
