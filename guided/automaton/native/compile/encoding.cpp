#include "compile/encoding.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/int_lists.hpp"

namespace guided {

namespace {

constexpr int32_t kNoResidual = -1;  // Step::residual if the step leads to a boundary
constexpr int32_t kNoBoundary = -1;  // Step::boundary if the step leads to a residual
constexpr int32_t kSeparator = -1;   // in a set: between boundaries and residuals
constexpr int32_t kNoSpelling = -1;  // the number of a character whose spellings cannot be one edge
constexpr Symbol kFirstNonAscii = 128;

class Encoder {
 public:
  Encoder(const Dfa& dfa, const EncodeOptions& options, Meter& meter, bool use_spellings = true)
      : dfa_(dfa),
        options_(options),
        meter_(meter),
        use_spellings_(use_spellings),
        boundary_numbers_(dfa.size(), -1),
        target_numbers_(dfa.size(), -1) {}

  ByteAutomaton run() {
    intern_boundary(0);
    expand_from(0);
    return {trim(std::move(out_)), std::move(spellings_)};
  }

  ByteAutomaton run_in_order() {
    out_.edges.reserve(static_cast<size_t>(dfa_.size()), dfa_.edges.stored_edges());
    first_set_ = dfa_.size();
    for (int32_t s = 0; s < dfa_.size(); ++s) boundary_numbers_[s] = out_.add(dfa_.accept[s] != 0);
    for (int32_t s = 0; s < dfa_.size(); ++s) expand(s, {s}, {});
    expand_from(first_set_);
    return {std::move(out_), std::move(spellings_)};
  }

 private:
  // A byte lo..hi leads to a boundary or to a residual.
  struct Step {
    int lo, hi;
    int32_t boundary, residual;
  };

  // The number of a residual, whose targets are indices into `targets_`.
  int32_t intern_residual(const ResidualShapes::Residual& residual) {
    key_.assign(1, residual.shape);
    for (int32_t target : residual.targets) key_.push_back(targets_[target]);
    meter_.work(static_cast<int64_t>(key_.size()) + kLookup);
    return residuals_.intern(key_).number;
  }

  // Adds the steps that read the first bytes of the characters on a boundary's edges.
  void add_first_steps(int32_t boundary, std::vector<Step>& steps) {
    text_edges_.clear();
    targets_.clear();
    for (const Edge& edge : dfa_.edges[boundary]) {
      if (!is_text(edge.lo)) continue;
      if (target_numbers_[edge.to] < 0) {
        target_numbers_[edge.to] = static_cast<int32_t>(targets_.size());
        targets_.push_back(edge.to);
      }
      text_edges_.push_back({edge.lo, edge.hi, target_numbers_[edge.to]});
    }
    for (int32_t target : targets_) target_numbers_[target] = -1;
    if (text_edges_.empty()) return;
    first_residuals_.clear();
    for (const ResidualShapes::Residual& residual : options_.shapes.first_residuals(text_edges_, meter_))
      first_residuals_.push_back(intern_residual(residual));
    for (int32_t residual : first_residuals_) add_steps_of(residual, steps);
  }

  // Adds the steps that read the next digit of a residual.
  void add_steps_of(int32_t residual, std::vector<Step>& steps) {
    const std::span<const int32_t> shape_and_targets = residuals_[residual];
    const std::vector<ResidualShapes::Step>& shape_steps = options_.shapes.steps_of(shape_and_targets[0], meter_);
    targets_.assign(shape_and_targets.begin() + 1, shape_and_targets.end());
    for (const ResidualShapes::Step& step : shape_steps) {
      if (step.target == ResidualShapes::kInside)
        steps.push_back({step.lo, step.hi, kNoBoundary, intern_residual(step.residual)});
      else
        steps.push_back({step.lo, step.hi, targets_[step.target], kNoResidual});
    }
  }

  // The number of the state that consists of `boundary` alone.
  int32_t intern_boundary(int32_t boundary) {
    int32_t& number = boundary_numbers_[boundary];
    if (number < 0) number = intern({&boundary, 1}, {});
    return number;
  }

  // The number of the state that consists of `boundaries` and `residuals`, which must be sorted.
  int32_t intern(std::span<const int32_t> boundaries, std::span<const int32_t> residuals) {
    key_.assign(boundaries.begin(), boundaries.end());
    key_.push_back(kSeparator);
    key_.insert(key_.end(), residuals.begin(), residuals.end());
    const auto [number, inserted] = sets_.intern(key_);
    meter_.work(static_cast<int64_t>(key_.size()) + kLookup);
    if (inserted) out_.add(std::ranges::any_of(boundaries, [&](int32_t b) { return dfa_.accept[b] != 0; }));
    return first_set_ + number;
  }

  // Adds the edges of all states from `first` on, including states that are created on the way.
  void expand_from(int32_t first) {
    for (int32_t s = first; s < out_.size(); ++s) {
      const std::span<const int32_t> set = sets_[s - first_set_];
      const auto middle = std::ranges::find(set, kSeparator);
      expand(s, {set.begin(), middle}, {middle + 1, set.end()});
    }
  }

  void expand(int32_t s, const std::vector<int32_t>& boundaries, const std::vector<int32_t>& residuals) {
    std::vector<Edge>& list = list_;
    list.clear();
    const bool is_one_boundary = residuals.empty() && boundaries.size() == 1;
    if (!(is_one_boundary && (try_copy_edges(boundaries[0]) || (use_spellings_ && try_add_spelling(boundaries[0]))))) {
      std::vector<Step>& steps = step_buffer_;
      steps.clear();
      for (int32_t b : boundaries) add_first_steps(b, steps);
      for (int32_t r : residuals) add_steps_of(r, steps);
      add_steps(steps, list);
    }
    add_non_text_edges(boundaries, list);
    join_edges(list);
    out_.edges.set(s, list);
    meter_.states(out_.size() + inner_states_);
    meter_.work(1);
  }

  // The simplest case: all characters on the edges of a boundary have the same encoding, and the only spelling of each
  // is the byte of the same value. Then this copies the edges and returns true.
  bool try_copy_edges(int32_t boundary) {
    const Edge* first = nullptr;
    for (const Edge& e : dfa_.edges[boundary]) {
      if (!is_text(e.lo)) continue;
      const Symbol encoding = e.lo >> kEncodingShift, base = encoding << kEncodingShift;
      if (!first) first = &e;
      if (first->lo >> kEncodingShift != encoding || e.hi - base >= kFirstNonAscii) return false;
      for (Symbol c = e.lo - base; c <= e.hi - base; ++c)
        if (!options_.alphabet.is_plain(encoding, static_cast<uint8_t>(c))) return false;
    }
    for (const Edge& e : dfa_.edges[boundary]) {
      if (!is_text(e.lo)) continue;
      const Symbol base = e.lo >> kEncodingShift << kEncodingShift;
      list_.push_back({e.lo - base, e.hi - base, intern_boundary(e.to)});
    }
    return true;
  }

  // The next case: a boundary that reads a single character. Then this adds an edge that represents the spellings of
  // the character, and returns true.
  bool try_add_spelling(int32_t boundary) {
    const Edge* only_edge = nullptr;
    for (const Edge& e : dfa_.edges[boundary]) {
      if (!is_text(e.lo)) continue;
      if (only_edge || e.lo != e.hi) return false;
      only_edge = &e;
    }
    if (!only_edge) return false;
    const auto [number, inserted] =
        spelling_numbers_.try_emplace(only_edge->lo, static_cast<int32_t>(spellings_.size()));
    if (inserted) {
      std::shared_ptr<const Spelling> spelling = find_spelling(only_edge->lo);
      if (spelling)
        spellings_.push_back(std::move(spelling));
      else
        number->second = kNoSpelling;
    }
    if (number->second == kNoSpelling) return false;
    inner_states_ += spellings_[number->second]->inner_states();
    const Symbol symbol = kSpelling + static_cast<Symbol>(number->second);
    list_.push_back({symbol, symbol, intern_boundary(only_edge->to)});
    return true;
  }

  // Returns the automaton of a character's spellings, cached. Null if one spelling is a prefix of another: then there
  // is no single end without edges.
  std::shared_ptr<const Spelling> find_spelling(Symbol character) {
    Digest key = options_.digests[character >> kEncodingShift];
    key.add(0x5BE11ull << 32 | (character & ((Symbol{1} << kEncodingShift) - 1)));
    std::shared_ptr<const Spelling> cached = options_.spellings ? options_.spellings->find(key) : nullptr;
    if (cached) return cached;
    Dfa single;
    const Edge edge{character, character, single.add(false) + 1};
    single.add(true);
    single.edges.set(0, {&edge, 1});
    Dfa bytes = minimise(Encoder(single, options_, meter_, false).run().dfa, meter_);
    const auto end = std::ranges::find(bytes.accept, 1) - bytes.accept.begin();
    if (std::ranges::count(bytes.accept, 1) != 1 || !bytes.edges[static_cast<int32_t>(end)].empty()) return nullptr;
    auto spelling = std::make_shared<Spelling>(Spelling{std::move(bytes), key});
    move_end_last(spelling->dfa);
    if (options_.spellings) options_.spellings->insert(key, spelling);
    return spelling;
  }

  // Swaps the end (the only accepting state, without edges) with the last state.
  static void move_end_last(Dfa& dfa) {
    const int32_t last = dfa.size() - 1;
    const auto end = static_cast<int32_t>(std::ranges::find(dfa.accept, 1) - dfa.accept.begin());
    Dfa out;
    std::vector<Edge> list;
    for (int32_t s = 0; s <= last; ++s) {
      list.clear();
      const int32_t from = s == end ? last : s == last ? end : s;
      for (const Edge& e : dfa.edges[from])
        list.push_back({e.lo, e.hi, e.to == end ? last : e.to == last ? end : e.to});
      out.edges.set(out.add(s == last), list);
    }
    dfa = std::move(out);
  }

  // Turns steps into edges. Where several steps overlap, their bytes lead to the set of all targets.
  void add_steps(std::vector<Step>& steps, std::vector<Edge>& list) {
    auto by_low = [](const Step& x, const Step& y) { return x.lo < y.lo; };
    if (steps.size() > 1) std::sort(steps.begin(), steps.end(), by_low);
    bool is_disjoint = true;
    for (size_t i = 1; i < steps.size(); ++i) is_disjoint &= steps[i].lo > steps[i - 1].hi;
    if (is_disjoint) {
      for (const Step& x : steps) list.push_back(edge_to(x.lo, x.hi, &x, &x + 1));
      return;
    }
    std::vector<int> cuts;
    for (const Step& x : steps) {
      cuts.push_back(x.lo);
      cuts.push_back(x.hi + 1);
    }
    sort_unique(cuts);
    std::vector<Step> overlapping;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      overlapping.clear();
      for (const Step& x : steps)
        if (x.lo <= cuts[i] && cuts[i] <= x.hi) overlapping.push_back(x);
      if (!overlapping.empty())
        list.push_back(edge_to(cuts[i], cuts[i + 1] - 1, overlapping.data(), overlapping.data() + overlapping.size()));
    }
  }

  // Adds the edges of calls, control tokens and actions after the byte edges. They lead from boundaries to boundaries.
  void add_non_text_edges(const std::vector<int32_t>& boundaries, std::vector<Edge>& list) {
    if (boundaries.size() == 1) {
      for (const Edge& e : dfa_.edges[boundaries[0]])
        if (!is_text(e.lo))
          for (uint64_t x = e.lo; x <= e.hi; ++x) {
            list.push_back({static_cast<Symbol>(x), static_cast<Symbol>(x), intern_boundary(e.to)});
          }
      return;
    }
    std::map<Symbol, std::vector<int32_t>> targets_by_symbol;
    for (int32_t b : boundaries)
      for (const Edge& e : dfa_.edges[b])
        if (!is_text(e.lo))
          for (uint64_t x = e.lo; x <= e.hi; ++x) targets_by_symbol[static_cast<Symbol>(x)].push_back(e.to);
    for (auto& [symbol, targets] : targets_by_symbol) {
      sort_unique(targets);
      list.push_back({symbol, symbol, intern(targets, {})});
    }
  }

  // Returns the edge for the bytes lo..hi to the set of all targets of the steps [from, to).
  Edge edge_to(int lo, int hi, const Step* from, const Step* to) {
    if (from + 1 == to && from->residual < 0)
      return {static_cast<Symbol>(lo), static_cast<Symbol>(hi), intern_boundary(from->boundary)};
    std::vector<int32_t>&boundaries = boundaries_, &residuals = residual_set_;
    boundaries.clear();
    residuals.clear();
    for (; from != to; ++from) {
      if (from->residual >= 0)
        residuals.push_back(from->residual);
      else
        boundaries.push_back(from->boundary);
    }
    for (std::vector<int32_t>* list : {&boundaries, &residuals}) {
      if (list->size() < 2) continue;
      sort_unique(*list);
    }
    return {static_cast<Symbol>(lo), static_cast<Symbol>(hi), intern(boundaries, residuals)};
  }

  const Dfa& dfa_;
  const EncodeOptions& options_;
  Meter& meter_;
  bool use_spellings_;
  Dfa out_;
  IntLists sets_;
  IntLists residuals_;  // each a shape and its targets
  // The number of the state for the first set in `sets_`. In run_in_order(), the states of `dfa_` come before it.
  int32_t first_set_ = 0;
  std::unordered_map<Symbol, int32_t> spelling_numbers_;
  std::vector<std::shared_ptr<const Spelling>> spellings_;
  int64_t inner_states_ = 0;               // states that the layout will add for spellings
  std::vector<int32_t> boundary_numbers_;  // by state of `dfa_`: the state of this boundary alone; -1: none yet
  std::vector<int32_t> target_numbers_;    // by state of `dfa_`: its index in `targets_`; otherwise -1
  std::vector<int32_t> targets_;           // of the residual or boundary whose steps are added
  std::vector<int32_t> key_, boundaries_, residual_set_, first_residuals_;
  std::vector<Edge> text_edges_;
  std::vector<Step> step_buffer_;
  std::vector<Edge> list_;
};

}  // namespace

ByteAutomaton encode(const Dfa& dfa, const EncodeOptions& options, Meter& meter, bool in_order) {
  if (dfa.empty()) return {};
  Encoder encoder(dfa, options, meter);
  return in_order ? encoder.run_in_order() : encoder.run();
}

}  // namespace guided
