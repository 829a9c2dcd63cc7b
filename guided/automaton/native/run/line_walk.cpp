#include "run/line_walk.hpp"

#include <algorithm>
#include <utility>

namespace guided {

namespace {
// A table is not derived from another one if the two differ in this many lines.
constexpr int32_t kMaxDifferentLines = 6000;
// A sweep may be worthwhile if one token in this many has characters that the point reads but that do not loop.
constexpr int64_t kManyOthers = 8;
constexpr int32_t kLongRun = 8;     // characters
constexpr size_t kUsualDepth = 64;  // bytes of a token; few are longer
}  // namespace

int64_t LineWalk::with_kinds(CharClasses char_classes) const {
  int64_t tokens = 0;
  for (CharClasses k = char_classes; k; k &= k - 1)
    tokens += trie_.with_char_class()[static_cast<size_t>(__builtin_ctzll(k))];
  return tokens;
}

bool LineWalk::leads_everywhere(int32_t node, int32_t point, CharClasses loops) {
  const TokenTrie::Node& n = trie_.nodes()[node];
  const ByteSet& bytes = points_.bytes(point);
  if (n.subtree_hi - n.payload_lo < kManyTokens || bytes.count() < kManyReadBytes) return false;
  const auto all = static_cast<int64_t>(trie_.payloads().size());
  if (with_kinds(~loops) * 2 > all) return true;
  CharClasses read = 0;
  for (int b = 0; b < 256; ++b)
    if (bytes.has(static_cast<uint8_t>(b))) read |= char_class_of(static_cast<uint8_t>(b));
  return with_kinds(read & ~loops) * kManyOthers > all && free_run(point) >= kLongRun;
}

FreeRuns::Runs* LineWalk::runs() {
  if (!looked_for_runs_ && task_.runs && !task_.relative())
    runs_ = task_.runs->find(task_.thread.pos, points_.follow_classes());
  looked_for_runs_ = true;
  return runs_;
}

void LineWalk::sweep(int32_t node, int32_t start, int32_t start_depth) {
  struct PathPoint {  // what the walk needs to know about the point at one depth
    int32_t point = WalkPoints::kNowhere;
    Ending ending;
    const int32_t* row = nullptr;
    bool exits = false;
    int32_t free_run = -1;
  };
  const auto& lines = trie_.lines();
  const int32_t first = trie_.line_of(node), end = lines[first].skip, top = lines[first].depth;
  auto enter = [&](PathPoint& reached, int32_t point) {
    const VisitedPoints::PointInfo& info = points_.look_up(point);
    reached = {point, info, points_.row(point), info.exits, free_run(point)};
  };
  std::vector<PathPoint> path(kUsualDepth);
  enter(path[0], start);
  table_.take(path[0].ending, lines[first].payload_lo, lines[first + 1].payload_lo);
  for (int32_t i = first + 1; i < end;) {
    const TokenTrie::Line& line = lines[i];
    const auto depth = static_cast<size_t>(line.depth - top);
    const PathPoint& from = path[depth - 1];
    const int32_t before = start_depth + static_cast<int32_t>(depth) - 1;
    if (from.exits && before > 0 && follow_.has(line.byte))
      table_.leave(*points_.config(from.point), before, line.payload_lo, lines[line.skip].payload_lo);
    int32_t point = from.row ? from.row[line.byte] : WalkPoints::kNotYet;
    if (point == WalkPoints::kNotYet) point = step(from.point, line.byte);
    if (point == WalkPoints::kNowhere) {
      i = line.skip;
      continue;
    }
    if (depth >= path.size()) path.resize(depth * 2);
    if (path[depth].point != point) enter(path[depth], point);
    if (line.longest <= path[depth].free_run && (trie_.below(i) & ~runs_->char_classes()) == 0)
      i = line.skip;
    else
      ++i;
    table_.take(path[depth].ending, line.payload_lo, lines[i].payload_lo);
  }
}

int32_t LineWalk::free_run(int32_t point) {
  if (!runs()) return -1;
  if (static_cast<size_t>(point) >= free_runs_.size())
    free_runs_.resize(static_cast<size_t>(point) * 2 + 64, kUnknownYet);
  int32_t& known = free_runs_[static_cast<size_t>(point)];
  if (known == kUnknownYet) {
    const int32_t position = points_.position_of(point);
    known = position < 0 ? -1 : runs()->length(position);
  }
  return known;
}

bool LineWalk::differ(const OtherTable& other) {
  const auto& lines = trie_.lines();
  const int32_t end = lines[0].skip;
  int32_t left = kMaxDifferentLines;
  std::vector<Same> same;
  table_.take_all(table_.set_of({}), other.table->all.dense, {});
  std::vector<std::pair<int32_t, int32_t>> pairs(kUsualDepth);  // the points of the two walks, by depth
  pairs[0] = {0, points_.position(other.pos)};
  for (int32_t i = 1; i < end;) {
    const TokenTrie::Line line = lines[i];
    const auto [from, from_other] = pairs[line.depth - 1];
    const int32_t below = lines[line.skip].payload_lo;
    if (line.depth > 1 && from != WalkPoints::kNowhere && points_.look_up(from).exits && follow_.has(line.byte))
      table_.leave(*points_.config(from), line.depth - 1, line.payload_lo, below);
    const int32_t to = step(from, line.byte), to_other = step(from_other, line.byte);
    if (to == to_other || to == WalkPoints::kNowhere) {
      if (to == to_other)
        same.push_back({line.payload_lo, below, line.depth});
      else
        table_.drop(line.payload_lo, below);
      i = line.skip;
      continue;
    }
    if (--left == 0) {
      table_.restart();
      return false;
    }
    if (below - line.payload_lo > kFewTokens && agree(to, to_other, trie_.below(i))) {
      same.push_back({line.payload_lo, below, line.depth});
      i = line.skip;
      continue;
    }
    if (line.depth >= pairs.size()) pairs.resize(line.depth * 2);
    pairs[line.depth] = {to, to_other};
    ++i;
    table_.drop(line.payload_lo, lines[i].payload_lo);
    table_.take(points_.look_up(to), line.payload_lo, lines[i].payload_lo);
  }
  leave_as_other(*other.table, same);
  return true;
}

// Copies the remainders of tokens below lines at which both walks are in the same point.
void LineWalk::leave_as_other(const TokenTable& other, const std::vector<Same>& same) {
  for (const Remainder& r : other.entries) {
    const int32_t payload = trie_.payload_index(r.token);
    auto it = std::upper_bound(same.begin(), same.end(), payload, [](int32_t p, const Same& s) { return p < s.from; });
    if (it != same.begin() && payload < (--it)->to && it->depth <= r.depth) table_.leave_as(r);
  }
}

// Whether all these character classes loop in both points, and the points agree in everything else.
bool LineWalk::agree(int32_t point, int32_t other, CharClasses char_classes) {
  if (other == WalkPoints::kNowhere || (char_classes & ~points_.with_loops(point).loops) ||
      (char_classes & ~points_.with_loops(other).loops))
    return false;
  const VisitedPoints::PointInfo &info = points_.look_up(point), &other_info = points_.look_up(other);
  return !info.chain && !other_info.chain && info.set == other_info.set && info.exits == other_info.exits;
}

}  // namespace guided
