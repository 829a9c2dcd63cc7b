#include "compile/encoding.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/int_lists.hpp"

namespace guided {

namespace {

// A range of code points, relative to the sum of the digits read so far, and the state that it leads to.
struct Segment {
  int64_t lo, hi;
  int32_t to;
};

// Returns the parts of sorted segments that lie within from..to, relative to `from`.
std::vector<Segment> clip(const std::vector<Segment>& segments, int64_t from, int64_t to) {
  std::vector<Segment> out;
  auto it =
      std::lower_bound(segments.begin(), segments.end(), from, [](const Segment& p, int64_t x) { return p.hi < x; });
  for (; it != segments.end() && it->lo <= to; ++it) {
    Segment p{.lo = std::max(it->lo, from) - from, .hi = std::min(it->hi, to) - from, .to = it->to};
    if (!out.empty() && out.back().to == p.to && out.back().hi + 1 == p.lo)
      out.back().hi = p.hi;  // a normal form: equal residuals must have equal lists
    else
      out.push_back(p);
  }
  return out;
}

constexpr int32_t kNoResidual = -1;  // Step::residual if the step leads to a boundary
constexpr int32_t kNoBoundary = -1;  // Step::boundary if the step leads to a residual
constexpr int32_t kSeparator = -1;   // in a set: between boundaries and residuals
constexpr int32_t kNoSpelling = -1;  // the number of a character whose spellings cannot be one edge
constexpr Symbol kFirstNonAscii = 128;

class Encoder {
 public:
  Encoder(const Dfa& dfa, const EncodeOptions& options, Meter& meter, bool use_spellings = true)
      : dfa_(dfa), options_(options), meter_(meter), use_spellings_(use_spellings), boundary_numbers_(dfa.size(), -1) {}

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
  struct Residual {
    const Form* form;
    int digit;
    std::vector<Segment> segments;
  };
  // A byte lo..hi leads to a boundary or to a residual.
  struct Step {
    int lo, hi;
    int32_t boundary, residual;
  };

  int32_t intern_residual(const Form* form, int digit, std::vector<Segment> segments) {
    std::vector<int32_t>& key = key_;
    key.clear();
    auto address = reinterpret_cast<uintptr_t>(form);
    key.push_back(static_cast<int32_t>(address));
    key.push_back(static_cast<int32_t>(address >> 32));
    key.push_back(digit);
    for (const Segment& p : segments) {
      key.push_back(static_cast<int32_t>(p.lo));
      key.push_back(static_cast<int32_t>(p.hi));
      key.push_back(p.to);
    }
    const auto [number, inserted] = residual_ids_.intern(key);
    meter_.work(static_cast<int64_t>(key.size()) + kLookup);
    if (inserted) {
      residuals_.push_back({.form = form, .digit = digit, .segments = std::move(segments)});
      steps_.emplace_back();
      has_steps_.push_back(0);
    }
    return number;
  }

  // The steps by the next digit of a residual.
  const std::vector<Step>& steps_of(int32_t id) {
    if (has_steps_[id]) return steps_[id];
    std::vector<Step> steps;
    const Form* form = residuals_[id].form;
    int digit = residuals_[id].digit;
    const std::vector<Segment> segments = std::move(residuals_[id].segments);  // not needed again
    bool is_last = digit + 1 == static_cast<int>(form->digits.size());
    int64_t rest = form->rest[digit];
    auto push_step = [&](int b, int32_t boundary, int32_t residual) {
      if (!options_.live.has(static_cast<uint8_t>(b))) return;
      if (!steps.empty() && steps.back().hi == b - 1 && steps.back().boundary == boundary &&
          steps.back().residual == residual)
        steps.back().hi = b;
      else
        steps.push_back({b, b, boundary, residual});
    };
    for (const DigitSpan& span : form->digits[digit]) {
      // Skip the bytes at both ends whose values are too small or too large for any segment.
      int low = span.low, high = span.high;
      if (span.step > 0) {
        int64_t first = segments.front().lo - rest - span.value, final = segments.back().hi - span.value;
        if (final < 0) continue;
        if (first > 0) low += static_cast<int>(std::min<int64_t>((first + span.step - 1) / span.step, 256));
        high = static_cast<int>(std::min<int64_t>(high, span.low + final / span.step));
      }
      meter_.work(kLookup + std::max(0, high - low + 1));
      if (is_last) {
        size_t i = 0;
        for (int b = low; b <= high; ++b) {
          int64_t value = span.value + (b - span.low) * span.step;
          while (i < segments.size() && segments[i].hi < value) ++i;
          if (i < segments.size() && segments[i].lo <= value) push_step(b, segments[i].to, kNoResidual);
        }
        continue;
      }
      for (int b = low; b <= high; ++b) {
        int64_t value = span.value + (b - span.low) * span.step;
        std::vector<Segment> part = clip(segments, value, value + rest);
        if (!part.empty()) push_step(b, kNoBoundary, intern_residual(form, digit + 1, std::move(part)));
      }
    }
    steps_[id] = std::move(steps);
    has_steps_[id] = 1;
    return steps_[id];
  }

  // The residuals before the first byte of the characters on the edges of state `s`, one for each form.
  const std::vector<int32_t>& first_residuals(int32_t s) {
    auto it = first_residuals_.find(s);
    if (it != first_residuals_.end()) return it->second;
    std::vector<int32_t> out;
    for (size_t e = 0; e < options_.encodings.size(); ++e) {
      Symbol base = static_cast<Symbol>(e) << kEncodingShift;
      std::vector<Segment> all;
      for (const Edge& edge : dfa_.edges[s])
        if (is_text(edge.lo) && (edge.lo >> kEncodingShift) == e)
          all.push_back({edge.lo - base, int64_t{edge.hi} - base, edge.to});
      if (all.empty()) continue;
      for (const Form& form : options_.encodings[e]->forms) {
        std::vector<Segment> segments;
        size_t i = 0;
        for (const Range& r : form.ranges) {
          while (i < all.size() && all[i].hi < r.lo) ++i;
          for (size_t j = i; j < all.size() && all[j].lo <= r.hi; ++j)
            segments.push_back({std::max<int64_t>(all[j].lo, r.lo), std::min<int64_t>(all[j].hi, r.hi), all[j].to});
        }
        if (!segments.empty()) out.push_back(intern_residual(&form, 0, std::move(segments)));
      }
    }
    return first_residuals_[s] = std::move(out);
  }

  // The number of the state that consists of this boundary alone.
  int32_t intern_boundary(int32_t boundary) {
    int32_t& number = boundary_numbers_[boundary];
    if (number < 0) number = intern({&boundary, 1}, {});
    return number;
  }

  // The number of the state that consists of these boundaries and residuals, both sorted.
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
      for (int32_t b : boundaries)
        for (int32_t r : first_residuals(b)) {
          const auto& residual_steps = steps_of(r);
          steps.insert(steps.end(), residual_steps.begin(), residual_steps.end());
        }
      for (int32_t r : residuals) {
        const auto& residual_steps = steps_of(r);
        steps.insert(steps.end(), residual_steps.begin(), residual_steps.end());
      }
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
    const Edge* only = nullptr;
    for (const Edge& e : dfa_.edges[boundary]) {
      if (!is_text(e.lo)) continue;
      if (only || e.lo != e.hi) return false;
      only = &e;
    }
    if (!only) return false;
    const auto [number, inserted] = spelling_numbers_.try_emplace(only->lo, static_cast<int32_t>(spellings_.size()));
    if (inserted) {
      std::shared_ptr<const Spelling> spelling = find_spelling(only->lo);
      if (spelling)
        spellings_.push_back(std::move(spelling));
      else
        number->second = kNoSpelling;
    }
    if (number->second == kNoSpelling) return false;
    inner_states_ += spellings_[number->second]->inner_states();
    const Symbol symbol = kSpelling + static_cast<Symbol>(number->second);
    list_.push_back({symbol, symbol, intern_boundary(only->to)});
    return true;
  }

  // Returns the automaton of a character's spellings, cached. Null if one spelling is a prefix of another: then there
  // is no single end without edges.
  std::shared_ptr<const Spelling> find_spelling(Symbol character) {
    Digest key = options_.digests[character >> kEncodingShift];
    key.add(0x5BE11ull << 32 | (character & ((Symbol{1} << kEncodingShift) - 1)));
    std::shared_ptr<const Spelling> known = options_.spellings ? options_.spellings->find(key) : nullptr;
    if (known) return known;
    Dfa one;
    const Edge edge{character, character, one.add(false) + 1};
    one.add(true);
    one.edges.set(0, {&edge, 1});
    Dfa bytes = minimise(Encoder(one, options_, meter_, false).run().dfa, meter_);
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

  // Adds the edges of calls, tokens and actions after the byte edges. They lead from boundaries to boundaries.
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
  IntLists sets_, residual_ids_;
  int32_t first_set_ = 0;  // the state of the first set in `sets_`. In order, the states of `dfa_` come before it
  std::vector<Residual> residuals_;
  std::vector<std::vector<Step>> steps_;
  std::vector<uint8_t> has_steps_;
  std::unordered_map<int32_t, std::vector<int32_t>> first_residuals_;
  std::unordered_map<Symbol, int32_t> spelling_numbers_;
  std::vector<std::shared_ptr<const Spelling>> spellings_;
  int64_t inner_states_ = 0;               // states that the layout will add for spellings
  std::vector<int32_t> boundary_numbers_;  // by state of `dfa_`: the state of this boundary alone; -1: none yet
  std::vector<int32_t> key_, boundaries_, residual_set_;
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
