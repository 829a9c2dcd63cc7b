#include "compile/residual_shapes.hpp"

#include <algorithm>

namespace guided {

// Returns the parts of sorted segments that lie within from..to, relative to `from`.
std::vector<ResidualShapes::Segment> ResidualShapes::clip(const std::vector<Segment>& segments, int64_t from,
                                                          int64_t to) {
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

ResidualShapes::Residual ResidualShapes::make_residual(const Form* form, int digit, std::vector<Segment> segments,
                                                       Meter& meter) {
  Residual out{.shape = 0, .targets = {}};
  key_.clear();
  const auto address = reinterpret_cast<uintptr_t>(form);
  key_.push_back(static_cast<int32_t>(address));
  key_.push_back(static_cast<int32_t>(address >> 32));
  key_.push_back(digit);
  for (Segment& p : segments) {
    if (static_cast<size_t>(p.to) >= numbers_.size()) numbers_.resize(p.to + 1, -1);
    if (numbers_[p.to] < 0) {
      numbers_[p.to] = static_cast<int32_t>(out.targets.size());
      out.targets.push_back(p.to);
    }
    p.to = numbers_[p.to];
    key_.push_back(static_cast<int32_t>(p.lo));
    key_.push_back(static_cast<int32_t>(p.hi));
    key_.push_back(p.to);
  }
  for (int32_t target : out.targets) numbers_[target] = -1;
  meter.work(static_cast<int64_t>(key_.size()) + kLookup);
  const auto [number, is_new] = shape_keys_.intern(key_);
  if (is_new)
    shapes_.push_back({.form = form, .digit = digit, .segments = std::move(segments), .steps = {}, .has_steps = false});
  out.shape = number;
  return out;
}

const std::vector<ResidualShapes::Step>& ResidualShapes::steps_of(int32_t shape, Meter& meter) {
  if (!shapes_[shape].has_steps) {
    const std::vector<Segment> segments = std::move(shapes_[shape].segments);  // not needed again
    std::vector<Step> steps = find_steps(*shapes_[shape].form, shapes_[shape].digit, segments, meter);
    shapes_[shape].steps = std::move(steps);
    shapes_[shape].has_steps = true;
  }
  return shapes_[shape].steps;
}

std::vector<ResidualShapes::Step> ResidualShapes::find_steps(const Form& form, int digit,
                                                             const std::vector<Segment>& segments, Meter& meter) {
  std::vector<Step> steps;
  const bool is_last = digit + 1 == static_cast<int>(form.digits.size());
  const int64_t rest = form.rest[digit];
  auto add = [&](int b, int32_t target, Residual residual) {
    if (!steps.empty() && steps.back().hi == b - 1 && steps.back().target == target &&
        steps.back().residual == residual)
      steps.back().hi = b;
    else
      steps.push_back({b, b, target, std::move(residual)});
  };
  for (const DigitSpan& span : form.digits[digit]) {
    // Skip the bytes at both ends whose values are too small or too large for any segment.
    int low = span.low, high = span.high;
    if (span.step > 0) {
      int64_t first = segments.front().lo - rest - span.value, final = segments.back().hi - span.value;
      if (final < 0) continue;
      if (first > 0) low += static_cast<int>(std::min<int64_t>((first + span.step - 1) / span.step, 256));
      high = static_cast<int>(std::min<int64_t>(high, span.low + final / span.step));
    }
    meter.work(kLookup + std::max(0, high - low + 1));
    size_t i = 0;
    for (int b = low; b <= high; ++b) {
      const int64_t value = span.value + (b - span.low) * span.step;
      if (!live_.has(static_cast<uint8_t>(b))) continue;
      if (is_last) {
        while (i < segments.size() && segments[i].hi < value) ++i;
        if (i < segments.size() && segments[i].lo <= value) add(b, segments[i].to, {});
      } else if (std::vector<Segment> clipped = clip(segments, value, value + rest); !clipped.empty()) {
        add(b, kInside, make_residual(&form, digit + 1, std::move(clipped), meter));
      }
    }
  }
  return steps;
}

const std::vector<ResidualShapes::Residual>& ResidualShapes::first_residuals(std::span<const Edge> edges,
                                                                             Meter& meter) {
  key_.clear();
  for (const Edge& edge : edges) {
    key_.push_back(static_cast<int32_t>(edge.lo));
    key_.push_back(static_cast<int32_t>(edge.hi));
    key_.push_back(edge.to);
  }
  meter.work(static_cast<int64_t>(key_.size()) + kLookup);
  const auto [number, is_new] = edge_keys_.intern(key_);
  if (is_new) first_residuals_.push_back(find_first_residuals(edges, meter));
  return first_residuals_[number];
}

std::vector<ResidualShapes::Residual> ResidualShapes::find_first_residuals(std::span<const Edge> edges, Meter& meter) {
  std::vector<Residual> out;
  for (size_t e = 0; e < encodings_.size(); ++e) {
    const Symbol base = static_cast<Symbol>(e) << kEncodingShift;
    std::vector<Segment> all;
    for (const Edge& edge : edges)
      if ((edge.lo >> kEncodingShift) == e) all.push_back({edge.lo - base, int64_t{edge.hi} - base, edge.to});
    if (all.empty()) continue;
    for (const Form& form : encodings_[e]->forms) {
      std::vector<Segment> segments;
      size_t i = 0;
      for (const Range& r : form.ranges) {
        while (i < all.size() && all[i].hi < r.lo) ++i;
        for (size_t j = i; j < all.size() && all[j].lo <= r.hi; ++j)
          segments.push_back({std::max<int64_t>(all[j].lo, r.lo), std::min<int64_t>(all[j].hi, r.hi), all[j].to});
      }
      if (!segments.empty()) out.push_back(make_residual(&form, 0, std::move(segments), meter));
    }
  }
  return out;
}

}  // namespace guided
