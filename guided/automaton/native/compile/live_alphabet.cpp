#include "compile/live_alphabet.hpp"

#include <algorithm>

namespace guided {

namespace {

struct SumRange {  // sums of digits, inclusive; may exceed the largest code point
  int64_t lo, hi;
};

// Sorts the ranges, and joins overlapping and adjacent ranges.
std::vector<SumRange> join_ranges(std::vector<SumRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const SumRange& x, const SumRange& y) { return x.lo < y.lo; });
  std::vector<SumRange> out;
  for (const SumRange& r : ranges) {
    if (!out.empty() && r.lo <= out.back().hi + 1)
      out.back().hi = std::max(out.back().hi, r.hi);
    else
      out.push_back(r);
  }
  return out;
}

// Returns the sums of a form's digits in live bytes, computed from the last digit to the first.
std::vector<SumRange> find_live_sums(const Form& form, const ByteSet& live, Meter& meter) {
  std::vector<SumRange> sums{{0, 0}};
  for (size_t digit = form.digits.size(); digit-- > 0;) {
    std::vector<SumRange> values, next_sums;
    for (const DigitSpan& s : form.digits[digit])
      for (int b = s.low; b <= s.high; ++b)
        if (live.has(static_cast<uint8_t>(b))) {
          const int64_t value = s.value + (b - s.low) * s.step;
          if (value <= static_cast<int64_t>(kMaxCodePoint)) values.push_back({value, value});
        }
    values = join_ranges(std::move(values));
    for (const SumRange& v : values) {  // the sums of two ranges are a range
      for (const SumRange& s : sums)
        if (v.lo + s.lo <= static_cast<int64_t>(kMaxCodePoint)) next_sums.push_back({v.lo + s.lo, v.hi + s.hi});
      meter.work(static_cast<int64_t>(sums.size()));
      meter.states(static_cast<int64_t>(next_sums.size()) / 8);
    }
    sums = join_ranges(std::move(next_sums));
  }
  return sums;
}

std::vector<Range> find_live_ranges(const Encoding& encoding, const ByteSet& live, Meter& meter) {
  std::vector<SumRange> all;
  for (const Form& form : encoding.forms)
    for (const SumRange& s : find_live_sums(form, live, meter))
      for (const Range& r : form.ranges) {
        int64_t lo = std::max<int64_t>(s.lo, r.lo), hi = std::min<int64_t>(s.hi, r.hi);
        if (lo <= hi) all.push_back({lo, hi});
      }
  std::vector<Range> out;
  for (const SumRange& r : join_ranges(std::move(all)))
    out.push_back({static_cast<Symbol>(r.lo), static_cast<Symbol>(r.hi)});
  return out;
}

// Whether the only spelling of a character is the byte of the same value.
bool is_plain(const Encoding& encoding, int64_t c) {
  const Form* only_form = nullptr;
  for (const Form& form : encoding.forms)
    for (const Range& r : form.ranges)
      if (r.lo <= c && c <= r.hi) {
        if (only_form) return false;
        only_form = &form;
      }
  if (!only_form || only_form->digits.size() != 1) return false;
  int spelling_count = 0;
  bool has_own_byte = false;
  for (const DigitSpan& s : only_form->digits[0])
    for (int b = s.low; b <= s.high; ++b)
      if (s.value + (b - s.low) * s.step == c) {
        ++spelling_count;
        has_own_byte |= b == c;
      }
  return spelling_count == 1 && has_own_byte;
}

LiveCharacters find_live_characters(const Encoding& encoding, const ByteSet& live, Meter& meter) {
  LiveCharacters out{find_live_ranges(encoding, live, meter), {}};
  for (int c = 0; c < 128; ++c)
    if (live.has(static_cast<uint8_t>(c)) && is_plain(encoding, c)) out.plain.add(static_cast<uint8_t>(c));
  return out;
}

}  // namespace

LiveAlphabet::LiveAlphabet(const Encodings& encodings, const std::vector<Digest>& digests, const ByteSet& live,
                           ContentCache<LiveCharacters>* cache, Meter& meter) {
  for (size_t e = 0; e < encodings.size(); ++e) {
    std::shared_ptr<const LiveCharacters> characters = cache ? cache->find(digests[e]) : nullptr;
    if (!characters) {
      characters = std::make_shared<const LiveCharacters>(find_live_characters(*encodings[e], live, meter));
      if (cache) cache->insert(digests[e], characters);
    }
    live_.push_back(std::move(characters));
  }
}

bool LiveAlphabet::can_write_all(size_t encoding, const std::vector<Range>& characters) const {
  const std::vector<Range>& live = live_[encoding]->ranges;
  return std::ranges::all_of(characters, [&](const Range& r) {
    const auto it = std::ranges::lower_bound(live, r.hi, {}, &Range::hi);
    return it != live.end() && it->lo <= r.lo;
  });
}

Dfa LiveAlphabet::remove_dead_characters(Dfa dfa) const {
  std::vector<Edge> kept_edges;
  for (int32_t s = 0; s < dfa.size(); ++s) {
    kept_edges.clear();
    for (const Edge& e : dfa.edges[s]) {
      if (!is_text(e.lo)) {
        kept_edges.push_back(e);
        continue;
      }
      Symbol encoding = e.lo >> kEncodingShift, base = encoding << kEncodingShift;
      for (const Range& r : live_[encoding]->ranges) {
        Symbol lo = std::max(e.lo, base + r.lo), hi = std::min(e.hi, base + r.hi);
        if (lo <= hi) kept_edges.push_back({lo, hi, e.to});
      }
    }
    const std::span<const Edge> old_edges = dfa.edges[s];
    if (!std::ranges::equal(old_edges, kept_edges,
                            [](const Edge& x, const Edge& y) { return x.lo == y.lo && x.hi == y.hi; }))
      dfa.edges.set(s, kept_edges);
  }
  return dfa;
}

}  // namespace guided
